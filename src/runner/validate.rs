//! Compares an output with the float64 oracle.

mod deviation;
mod finite;
mod order;
mod parts;
mod rounding;
mod rows;
mod selected;

use std::ops::Range;

use numerics::compare::any_is_beyond;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use self::finite::least_large;
use self::order::Spread;
use self::rounding::least_of_row;
use self::rows::{FEW_ELEMENTS, FEW_ROWS, MIN_ROWS, SOME_ELEMENTS, choose_rows};
use self::selected::Selections;
use super::outputs::{Output, Outputs, Refusal};
use crate::domain::measurement::correctness::Correctness;
use crate::domain::op::{Dims, Dtype, Op, Probed};
use crate::domain::workload::Tolerance;
use crate::error::Result;

/// The expected output for given inputs: the oracle's answer for all rows, or for a random sample if all rows would be
/// too much work.
pub struct Expectation {
    outputs: Outputs,
    rows: Vec<ComparedRow>,
    oracle: Vec<f64>,
    selections: Selections,
    /// How far two executions may differ.
    spread: Spread,
    /// Deviation from the oracle that each row may have beyond any tolerance; empty for none.
    allowances: Vec<f64>,
    /// Output rows with NaN or infinity among their inputs.
    unspecified: Vec<Range<usize>>,
    /// Whether a kernel may return anything where the oracle's answer is not finite.
    is_beyond_domain: bool,
    /// Whether the oracle's answer has values that are infinite or nearly so in the output's dtype.
    has_large: bool,
    /// Whether each row is measured against its own scale, because the scales of rows differ on purpose.
    own_scale: bool,
    /// Whether rounding the inputs does not excuse a jump of the result: they lie exactly where it may be.
    is_at_jumps: bool,
    /// Whether whole numbers must be equal: where all inputs are whole numbers, no kernel has anything to round.
    is_exact: bool,
    dtype: Dtype,
}

/// How many of the rows that the oracle can afford are compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of them, before a variant wins.
    All,
    /// About 1,000 rows of a large output, in a screening run: enough to tell whether a variant is worth a time.
    Sample,
    /// Some hundred at most: enough to tell this output from that of other inputs.
    Few,
}

/// Which rows of an output are compared with the oracle.
#[derive(Clone, Copy)]
struct SampledRows {
    /// The work that the oracle may take.
    oracle_flop: f64,
    /// The fewest rows, whatever they take.
    least: usize,
    /// The most elements, unless the fewest rows have more.
    most_elements: usize,
    seed: u64,
}

/// An output row that is compared with the oracle.
struct ComparedRow {
    row: usize,
    /// The output that it belongs to.
    output: usize,
    /// Its values in the oracle's answer.
    oracle: Range<usize>,
}

impl Expectation {
    /// Computes the oracle's answer for as many rows as `oracle_flop` floating-point operations allow. At least 64 rows
    /// are computed, including the first and the last.
    ///
    /// The error is that of an oracle outside of optloop.
    pub fn new(
        op: &dyn Op,
        dims: &Dims,
        dtype: Dtype,
        inputs: &[Vec<f32>],
        oracle_flop: f64,
        seed: u64,
    ) -> Result<Self> {
        Self::of_part(Part::All, (op, dims, dtype), inputs, oracle_flop, seed)
    }

    /// Does the same for a part of these rows.
    pub fn of_part(
        part: Part,
        (op, dims, dtype): (&dyn Op, &Dims, Dtype),
        inputs: &[Vec<f32>],
        oracle_flop: f64,
        seed: u64,
    ) -> Result<Self> {
        let (least, most_elements) = match part {
            Part::All => (MIN_ROWS, usize::MAX),
            Part::Sample => (MIN_ROWS, SOME_ELEMENTS),
            Part::Few => (FEW_ROWS, FEW_ELEMENTS),
        };
        let rows = SampledRows { oracle_flop, least, most_elements, seed };
        Self::of(op, dims, dtype, inputs, rows, &Probed::default())
    }

    /// Does the same for the inputs of a probe. Each row is measured against its own scale.
    pub fn of_probe(
        op: &dyn Op,
        dims: &Dims,
        dtype: Dtype,
        inputs: &[Vec<f32>],
        oracle_flop: f64,
        seed: u64,
        probed: &Probed,
    ) -> Result<Self> {
        let rows = SampledRows { oracle_flop, least: MIN_ROWS, most_elements: usize::MAX, seed };
        Ok(Self { own_scale: true, ..Self::of(op, dims, dtype, inputs, rows, probed)? })
    }

    fn of(
        op: &dyn Op,
        dims: &Dims,
        dtype: Dtype,
        inputs: &[Vec<f32>],
        SampledRows { oracle_flop, least, most_elements, seed }: SampledRows,
        probed: &Probed,
    ) -> Result<Self> {
        let outputs = Outputs::of(op, dims, dtype);
        let mut rows = probed.rows.clone();
        for output in outputs.iter() {
            let count = output.rows.len();
            let affordable = (count as f64 * oracle_flop / op.oracle_flop(dims)) as usize;
            let affordable = affordable.min(most_elements / output.row_len.max(1));
            // The same seed, because outputs with as many rows often share the work for each.
            let chosen = choose_rows(count, affordable.max(least), &mut SmallRng::seed_from_u64(seed));
            rows.extend(chosen.into_iter().map(|row| output.rows.start + row));
        }
        rows.sort_unstable();
        rows.dedup();
        let oracle = op.oracle(dims, inputs, &rows)?;
        let spread = Spread::of((op, dims, dtype), inputs, &outputs, &rows)?;
        let mut unspecified = probed.unspecified.clone();
        if probed.frees_computed_integers && outputs.iter().any(|output| output.dtype.is_integer()) {
            let finite = finite::without_infinities(inputs, &op.inputs(dims, dtype));
            unspecified.extend(finite::computed(&outputs, &rows, &oracle, &op.oracle(dims, &finite, &rows)?));
        }
        let selections = Selections::of((op, dims, dtype), inputs, &outputs, &rows);
        let mut end = 0;
        let compared = |row| {
            let (output, Output { row_len, .. }) = outputs.of_row(row);
            end += row_len;
            ComparedRow { row, output, oracle: end - row_len..end }
        };
        let rows: Vec<ComparedRow> = rows.into_iter().map(compared).collect();
        let beside_one = if probed.is_beside_one { rounding::BESIDE_ONE } else { 0.0 };
        let least = |row: &ComparedRow| {
            let of_dtype = least_of_row(outputs.of_row(row.row).1.dtype, row.oracle.len());
            of_dtype.max(beside_one * (row.oracle.len() as f64).sqrt())
        };
        let allowances = rows.iter().map(least).collect();
        let is_beyond_domain = probed.is_beyond_domain;
        let mut expectation = Self {
            outputs,
            rows,
            oracle,
            selections,
            spread,
            allowances,
            unspecified,
            is_beyond_domain,
            has_large: false,
            own_scale: false,
            is_at_jumps: probed.is_at_jumps,
            is_exact: op.inputs(dims, dtype).iter().all(|input| input.dtype.is_integer()),
            dtype,
        };
        expectation.select();
        let is_large =
            |at: usize| any_is_beyond(expectation.oracle_of(at), least_large(expectation.output_of(at).dtype));
        let has_large = (0..expectation.rows.len()).any(is_large);
        Ok(Self { has_large, ..expectation })
    }

    /// Returns whether an FP32 kernel may be expected to bear the inputs.
    pub fn is_borne_by(&self, op: &dyn Op, dims: &Dims, inputs: &[Vec<f32>]) -> bool {
        let rows: Vec<usize> = self.rows.iter().map(|compared| compared.row).collect();
        op.bears(dims, self.dtype, inputs, (&rows, &self.oracle))
    }

    /// Returns the oracle's values of the compared row at a place in the list.
    fn oracle_of(&self, at: usize) -> &[f64] {
        &self.oracle[self.rows[at].oracle.clone()]
    }

    /// Returns the output of the compared row at a place in the list.
    fn output_of(&self, at: usize) -> &Output {
        self.outputs.of_row(self.rows[at].row).1
    }

    /// Checks the bytes of all outputs, one after the other.
    pub fn check(&self, bytes: &[u8], tolerance: &Tolerance) -> Result<Correctness, Refusal> {
        // What the oracle makes of rows that are not compared is not known.
        if self.unspecified.is_empty() && !self.has_large && !self.is_beyond_domain {
            self.outputs.scan(bytes)?;
        } else {
            self.scan_around(bytes)?;
        }
        self.judge(&self.row_errors(bytes), bytes, tolerance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;
    use crate::runner::inputs::{draw, encode};
    use crate::runner::outputs::POISON;

    const TOLERANCE: Tolerance = Tolerance { relative_l2: 1e-3, worst_row: 4e-3 };

    fn dims(s: i64) -> Dims {
        [("B", 1), ("H", 2), ("Sq", s), ("Sk", s), ("D", 64), ("CAUSAL", 1)]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }

    /// A correct answer with its inputs, for tests to corrupt.
    fn attention(s: i64) -> (Expectation, Vec<f32>, Vec<Vec<f32>>) {
        let op = ops::find("attention").unwrap();
        let inputs: Vec<_> = op.inputs(&dims(s), Dtype::F16).iter().map(|tensor| draw(tensor, 3)).collect();
        let expectation = Expectation::new(op, &dims(s), Dtype::F16, &inputs, 1e12, 0).unwrap();
        let right = expectation.oracle.iter().map(|value| *value as f32).collect();
        (expectation, right, inputs)
    }

    fn check(expectation: &Expectation, values: &[f32]) -> Result<Correctness, Refusal> {
        expectation.check(&encode(values, Dtype::F16), &TOLERANCE)
    }

    #[test]
    fn the_oracle_rounded_to_its_dtype_passes() {
        let (expectation, right, _) = attention(64);
        let found = check(&expectation, &right).unwrap();
        assert!(found.relative_l2 < 3e-4 && found.rows_checked == 128 && found.rows == 128, "{found:?}");
    }

    #[test]
    fn faults_that_other_checks_miss_are_caught() {
        let (expectation, right, _) = attention(256);
        assert!(check(&expectation, &vec![0.0; right.len()]).is_err(), "zeros");
        let mut one_row = right.clone();
        one_row[64 * 200..64 * 201].iter_mut().for_each(|value| *value *= 1.01);
        insta::assert_snapshot!(check(&expectation, &one_row).unwrap_err(), @"relative error 3.12e-4 over the output (tolerance 1e-3), 1.00e-2 in its worst row 200 (tolerance 4e-3); element 0 of row 200 is -0.06100464 by the kernel and -0.060400087 by the oracle");
        let mut not_a_number = right.clone();
        not_a_number[5] = f32::NAN;
        insta::assert_snapshot!(check(&expectation, &not_a_number).unwrap_err(), @"1 of 32768 elements are NaN or infinite");
        let mut bytes = encode(&right, Dtype::F16);
        bytes[100..104].fill(POISON);
        insta::assert_snapshot!(expectation.check(&bytes, &TOLERANCE).unwrap_err(), @"2 of 32768 elements were not written: does the grid cover the output?");
    }

    /// The error of a logarithm counts as it is, also of one near zero, and minus infinity is a value like others.
    #[test]
    fn logarithms_are_compared_in_absolute_terms() {
        let op = ops::find("attention").unwrap();
        let dims: Dims =
            dims(64).into_iter().chain([("LENGTHS", 1), ("LSE", 1)].map(|(n, x)| (n.to_owned(), x))).collect();
        let mut inputs: Vec<_> = op.inputs(&dims, Dtype::F16).iter().map(|tensor| draw(tensor, 3)).collect();
        let outcome = |inputs: &[Vec<f32>], change: fn(&mut f32)| {
            let expectation = Expectation::new(op, &dims, Dtype::F16, inputs, 1e12, 0).unwrap();
            let values: Vec<f32> = expectation.oracle.iter().map(|value| *value as f32).collect();
            let (output, logarithms) = values.split_at(128 * 64);
            let mut logarithms = logarithms.to_vec();
            change(&mut logarithms[5]);
            let bytes = [encode(output, Dtype::F16), encode(&logarithms, Dtype::F32)].concat();
            expectation.check(&bytes, &TOLERANCE).map_err(|refusal| refusal.message)
        };
        assert!(outcome(&inputs, |_| {}).is_ok());
        assert!(outcome(&inputs, |it| *it += 0.003).is_ok(), "the worst row may be off by 0.004");
        insta::assert_snapshot!(outcome(&inputs, |it| *it += 0.005).unwrap_err(), @"relative error 4.42e-4 over the output (tolerance 1e-3), 5.00e-3 in its worst row 133 (tolerance 4e-3); element 0 of row 133 is 2.3964572 by the kernel and 2.391457 by the oracle");
        Dtype::I32.keep(0, &mut inputs[3]);
        assert!(outcome(&inputs, |_| {}).is_ok());
        insta::assert_snapshot!(outcome(&inputs, |it| *it = f32::NAN).unwrap_err(), @"1 of the elements are logarithms of nothing, but not minus infinity");
        assert!(outcome(&inputs, |it| *it = -1e30).is_err());
    }

    /// The last 5% of the keys dropped: an absolute tolerance of 1e-2 passes 99.8% of the elements.
    #[test]
    fn dropped_keys_are_caught() {
        let op = ops::find("attention").unwrap();
        let full = |keys: usize| -> Dims {
            let mut dims = dims(256);
            dims.extend([("Sk".to_owned(), keys as i64), ("CAUSAL".to_owned(), 0)]);
            dims
        };
        let inputs: Vec<_> = op.tensors(&full(256), Dtype::F16)[..3].iter().map(|tensor| draw(tensor, 3)).collect();
        let expectation = Expectation::new(op, &full(256), Dtype::F16, &inputs, 1e12, 0).unwrap();
        let first_243 = |tensor: &[f32]| tensor.chunks(256 * 64).flat_map(|head| head[..243 * 64].to_vec()).collect();
        let fewer = [inputs[0].clone(), first_243(&inputs[1]), first_243(&inputs[2])];
        let rows: Vec<_> = (0..512).collect();
        let spoilt: Vec<f32> =
            op.oracle(&full(243), &fewer, &rows).unwrap().iter().map(|value| *value as f32).collect();
        assert!(check(&expectation, &spoilt).is_err());
    }
}
