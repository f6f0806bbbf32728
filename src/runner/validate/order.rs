//! How far outputs differ whose sums may be added in any order.
//!
//! An order of n terms has an error of at most (n - 1) eps / 2 Σ|x| (Higham, Accuracy and Stability of Numerical Algorithms,
//! 2002, section 4.2), so two of them differ by at most n eps Σ|x|.

use super::Expectation;
use crate::domain::measurement::check::Check;
use crate::domain::op::atomic_sums::magnitudes;
use crate::domain::op::{AtomicSums, Dims, Dtype, Op, TensorSpec};
use crate::error::Result;
use crate::runner::outputs::{Outputs, Refusal};

/// How far the elements of compared rows may differ from one execution to the next, in the order of the oracle's answer.
/// Infinite where nothing but the tolerance says it; empty if it says nothing else anywhere.
pub(super) struct Spread(Vec<f64>);

impl Spread {
    /// Asks the oracle for Σ|x|, if the terms of an output are products of inputs.
    pub fn of(
        (op, dims, dtype): (&dyn Op, &Dims, Dtype),
        inputs: &[Vec<f32>],
        outputs: &Outputs,
        rows: &[usize],
    ) -> Result<Self> {
        if !outputs.iter().any(|output| output.atomic_sums == Some(AtomicSums::Products)) {
            return Ok(Self(Vec::new()));
        }
        let tensors = op.inputs(dims, dtype);
        let sums = op.oracle(dims, &magnitudes(inputs, tensors.iter().map(|tensor| tensor.dtype)), rows)?;
        // Each term has another element of an input.
        let terms = tensors.iter().map(TensorSpec::elements).max().unwrap_or(1) as f64;
        let mut sums = sums.into_iter();
        let of_row = |row: &usize| {
            let output = outputs.of_row(*row).1;
            let factor = match output.atomic_sums {
                Some(AtomicSums::Products) => terms * output.dtype.epsilon(),
                _ => f64::INFINITY,
            };
            let bound = move |sum: f64| if sum.is_finite() && sum > 0.0 { factor * sum } else { f64::INFINITY };
            sums.by_ref().take(output.row_len).map(bound).collect::<Vec<f64>>()
        };
        Ok(Self(rows.iter().flat_map(of_row).collect()))
    }
}

impl Expectation {
    /// Returns which outputs may differ from one execution to the next, in order.
    pub fn may_differ(&self) -> impl Iterator<Item = bool> {
        self.outputs.iter().map(|output| output.atomic_sums.is_some())
    }

    /// Returns the elements of an execution that another one is compared with: those of compared rows, if there is a bound.
    pub fn sums(&self, bytes: &[u8]) -> Vec<f64> {
        if self.spread.0.is_empty() {
            return Vec::new();
        }
        let of_row = |at: usize| self.output_of(at).values_of(self.rows[at].row, bytes);
        (0..self.rows.len()).flat_map(of_row).collect()
    }

    /// Refuses two executions that differ by more than the order of their sums explains.
    pub fn check_order(&self, sums: &[f64], others: &[f64]) -> Result<(), Refusal> {
        let pairs = || sums.iter().zip(others).map(|(a, b)| (a - b).abs());
        let Some(place) = pairs().zip(&self.spread.0).position(|(difference, most)| difference > *most) else {
            return Ok(());
        };
        let found = self.rows.iter().find(|row| row.oracle.contains(&place));
        let (at, row) = found.map(|row| (place - row.oracle.start, row.row)).unwrap_or_default();
        let message = format!(
            "the same inputs gave {} and {} in two executions, in element {at} of row {row}: the order of its sum explains \
             {:.1e} (atomic_sums)",
            sums[place] as f32, others[place] as f32, self.spread.0[place]
        );
        Err(Refusal { check: Check::Repeatable, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::DeclaredSource;
    use crate::domain::op::oracle::{Oracle, OracleCall};
    use crate::ops::Declared;

    /// The sum of all products, and the inputs.
    struct Dot;

    impl Oracle for Dot {
        fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, crate::error::Error> {
            let [(_, x), (_, w)] = &call.inputs[..] else { return Err(crate::error::Error::new("two inputs")) };
            let sum = x.iter().zip(*w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
            Ok(std::iter::once(sum).chain(x.iter().map(|x| f64::from(*x))).collect())
        }
    }

    #[test]
    fn two_orders_of_a_sum_differ_by_as_much_as_its_terms_explain() {
        let tensor = |name: &str, keys: &str| format!("[tensors.{name}]\nshape = [\"N\"]\nrole = \"{keys}\n");
        let (x, w, z) = (tensor("x", "input\""), tensor("w", "input\""), tensor("z", "output\""));
        let y = tensor("y", "output\"\natomic_sums = \"products\"").replace("N", "1");
        let manifest = format!(
            "name = \"dot\"\nabout = \"\"\noracle = \"oracle.py\"\nflop = \"0\"\ndims.N.about = \"\"\n{x}{w}{y}{z}"
        );
        let source = DeclaredSource { manifest, oracle: String::new(), python: String::new(), files: Vec::new() };
        let op = Declared::parse(source, Box::new(Dot)).map_err(|mistakes| mistakes.join("; ")).unwrap();
        let dims: Dims = [("N".to_owned(), 4)].into();
        let inputs = [vec![1.0, -1.0, 2.0, -2.0], vec![8.0; 4]];
        let expectation = Expectation::new(&op, &dims, Dtype::F32, &inputs, 1e9, 0).unwrap();
        assert_eq!(expectation.may_differ().collect::<Vec<_>>(), [true, false]);
        // n eps Σ|x|
        let most = 4.0 * 2.0_f32.powi(-23) * 48.0;
        let bytes = |y: f32| -> Vec<u8> { [y, 1.0, -1.0, 2.0, -2.0].iter().flat_map(|it| it.to_le_bytes()).collect() };
        let sums = [0.0, most, most * 1.01].map(|y| expectation.sums(&bytes(y)));
        assert_eq!(expectation.check_order(&sums[0], &sums[1]), Ok(()));
        let refusal = expectation.check_order(&sums[0], &sums[2]).unwrap_err();
        assert_eq!(refusal.check, Check::Repeatable);
        insta::assert_snapshot!(refusal.message, @"the same inputs gave 0 and 0.000023117065 in two executions, in element 0 of row 0: the order of its sum explains 2.3e-5 (atomic_sums)");
    }
}
