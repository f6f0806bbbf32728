//! Outputs that are indices of an input's elements. Where elements are equal, several answers are right: what counts is what the
//! indices select, and that none is there twice.

use std::collections::HashSet;

use super::Expectation;
use crate::domain::op::{Dims, Dtype, Op};
use crate::runner::outputs::Outputs;

/// The rows from which the indices of compared rows select. Empty where no output has such indices.
#[derive(Default)]
pub(super) struct Selections(Vec<Option<Selection>>);

/// What a wrong index selects. No element is this large.
const NOTHING: f64 = f64::MAX;

/// A row of an input from which a row of indices selects.
pub(super) struct Selection {
    row: Vec<f32>,
    /// The element type of the input.
    dtype: Dtype,
}

impl Selections {
    /// Finds the rows from which `rows` of the outputs select.
    pub fn of(
        (op, dims, dtype): (&dyn Op, &Dims, Dtype),
        inputs: &[Vec<f32>],
        outputs: &Outputs,
        rows: &[usize],
    ) -> Self {
        let (tensors, written) = (op.inputs(dims, dtype), op.outputs(dims, dtype));
        let source = |name: &str| tensors.iter().position(|tensor| op.selects(name) == Some(tensor.name.as_str()));
        let sources: Vec<Option<usize>> = written.iter().map(|tensor| source(&tensor.name)).collect();
        if sources.iter().all(Option::is_none) {
            return Self::default();
        }
        let of_row = |row: &usize| {
            let (place, output) = outputs.of_row(*row);
            let (tensor, values) = (&tensors[sources[place]?], &inputs[sources[place]?]);
            if tensor.dtype.is_kept_as_bits() || values.len() != tensor.elements() {
                return None;
            }
            let start = (row - output.rows.start) * tensor.row_len();
            Some(Selection { row: values.get(start..start + tensor.row_len())?.to_vec(), dtype: tensor.dtype })
        };
        Self(rows.iter().map(of_row).collect())
    }

    /// Returns the selection of the compared row at a place in the list, if it has one.
    pub fn at(&self, at: usize) -> Option<&Selection> {
        self.0.get(at)?.as_ref()
    }
}

impl Selection {
    /// Returns what indices select. An index that is out of bounds, or that was there before, selects nothing.
    fn values(&self, indices: &[f64]) -> Vec<f64> {
        let mut seen = HashSet::new();
        let value = |index: &f64| {
            let is_new = seen.insert(index.to_bits());
            if is_new && self.has(*index) { f64::from(self.row[*index as usize]) } else { NOTHING }
        };
        indices.iter().map(value).collect()
    }

    fn has(&self, index: f64) -> bool {
        index >= 0.0 && index.fract() == 0.0 && index < self.row.len() as f64
    }
}

impl Expectation {
    /// Returns the values of the compared row at a place in the list: those of the bytes, or what these select.
    pub(super) fn found(&self, at: usize, bytes: &[u8]) -> Vec<f64> {
        let output = self.output_of(at);
        let values = output.values_of(self.rows[at].row, bytes);
        self.selections.at(at).map_or_else(|| values.clone(), |selection| selection.values(&output.numbers(&values)))
    }

    /// Returns the element type of these values.
    pub(super) fn found_dtype(&self, at: usize) -> Dtype {
        self.selections.at(at).map_or_else(|| self.output_of(at).dtype, |selection| selection.dtype)
    }

    /// Replaces the indices of the oracle by what they select.
    pub(super) fn select(&mut self) {
        for at in 0..self.rows.len() {
            let Some(selection) = self.selections.at(at) else { continue };
            let indices = self.output_of(at).numbers(self.oracle_of(at));
            let range = self.rows[at].oracle.clone();
            let values = selection.values(&indices);
            self.oracle[range].copy_from_slice(&values);
        }
    }

    /// Says what is wrong with an index. `value` is what it selects, and `exact` what the oracle's does. None for other outputs.
    pub(super) fn wrong_index(
        &self,
        at: usize,
        place: usize,
        bytes: &[u8],
        (value, exact): (f32, f32),
    ) -> Option<String> {
        let selection = self.selections.at(at)?;
        let (output, row) = (self.output_of(at), self.rows[at].row);
        let indices = output.numbers(&output.values_of(row, bytes));
        let index = indices[place];
        let why = match (indices[..place].contains(&index), selection.has(index)) {
            (true, _) => "is there twice".to_owned(),
            (false, false) => "is none of its row".to_owned(),
            (false, true) => format!("selects {value}, and that of the oracle {exact}"),
        };
        Some(format!("; element {place} of row {row} is the index {index}, which {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::DeclaredSource;
    use crate::domain::op::oracle::{Oracle, OracleCall};
    use crate::domain::workload::Tolerance;
    use crate::ops::Declared;

    /// The two largest elements of each row of four, with their indices: the first of equal ones.
    struct Top;

    impl Oracle for Top {
        fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, crate::error::Error> {
            let [(_, x)] = &call.inputs[..] else { return Err(crate::error::Error::new("one input")) };
            let order = |row: &[f32]| -> Vec<usize> {
                let mut order: Vec<usize> = (0..row.len()).collect();
                order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
                order.truncate(2);
                order
            };
            let rows = || x.chunks(4).map(|row| (row, order(row)));
            let values = rows().flat_map(|(row, order)| order.into_iter().map(|at| f64::from(row[at])));
            let bits = rows().flat_map(|(_, order)| order.into_iter().map(|at| f64::from_bits(at as u64)));
            Ok(values.chain(bits).collect())
        }
    }

    #[test]
    fn indices_are_judged_by_what_they_select_and_none_may_be_there_twice() {
        let manifest = "name = \"top\"\nabout = \"\"\noracle = \"oracle.py\"\nflop = \"0\"\ndims.R.about = \"\"\n\
                        [tensors.x]\nrole = \"input\"\nshape = [\"R\", \"4\"]\n\
                        [tensors.values]\nrole = \"output\"\nshape = [\"R\", \"2\"]\n\
                        [tensors.at]\nrole = \"output\"\nshape = [\"R\", \"2\"]\ndtype = \"i64\"\nselects = \"x\"\n";
        let source = DeclaredSource {
            manifest: manifest.to_owned(),
            oracle: String::new(),
            python: String::new(),
            files: vec![],
        };
        let op = Declared::parse(source, Box::new(Top)).map_err(|mistakes| mistakes.join("; ")).unwrap();
        let dims: Dims = [("R".to_owned(), 2)].into();
        let inputs = [vec![1.0, 5.0, 5.0, 2.0, 7.0, 0.0, 7.0, 7.0]];
        let expectation = Expectation::new(&op, &dims, Dtype::F32, &inputs, 1e9, 0).unwrap();
        let check = |indices: [i64; 4]| {
            let values = [5.0_f32, 5.0, 7.0, 7.0].into_iter().flat_map(f32::to_le_bytes);
            let bytes: Vec<u8> = values.chain(indices.into_iter().flat_map(i64::to_le_bytes)).collect();
            expectation.check(&bytes, &Tolerance { relative_l2: 1e-5, worst_row: 1e-5 }).map_err(|it| it.message)
        };
        for right in [[1, 2, 0, 2], [2, 1, 3, 0], [1, 2, 2, 3]] {
            assert!(check(right).is_ok(), "{right:?}: {:?}", check(right));
        }
        let wrong = |indices| check(indices).unwrap_err().split_once("; ").unwrap().1.to_owned();
        insta::assert_snapshot!(wrong([1, 1, 0, 2]), @"element 1 of row 2 is the index 1, which is there twice");
        insta::assert_snapshot!(wrong([1, 3, 0, 2]), @"element 1 of row 2 is the index 3, which selects 2, and that of the oracle 5");
        insta::assert_snapshot!(wrong([1, 2, 0, 4]), @"element 1 of row 3 is the index 4, which is none of its row");
    }

    /// Checks the answer of a kernel that selects the two largest elements.
    fn top_k_of(x: &[f32], values: [f32; 2], indices: [i64; 2]) -> Result<(), String> {
        let op = crate::ops::find("top-k").unwrap();
        let dims: Dims = [("B", 1), ("N", x.len() as i64), ("K", 2)].map(|(name, size)| (name.to_owned(), size)).into();
        let expectation = Expectation::new(op, &dims, Dtype::F32, &[x.to_vec()], 1e9, 0).unwrap();
        let values = values.into_iter().flat_map(f32::to_le_bytes);
        let bytes: Vec<u8> = values.chain(indices.into_iter().flat_map(i64::to_le_bytes)).collect();
        let tolerance = Tolerance { relative_l2: 1e-5, worst_row: 1e-5 };
        expectation.check(&bytes, &tolerance).map(|_| ()).map_err(|it| it.message)
    }

    #[test]
    fn infinite_elements_and_nan_must_be_selected_like_others() {
        let low = f32::NEG_INFINITY;
        let rows = [low, low, low, 1.0];
        assert_eq!(top_k_of(&rows, [1.0, low], [3, 1]), Ok(()));
        let wrong = |x: &[f32], values, indices| top_k_of(x, values, indices).unwrap_err();
        insta::assert_snapshot!(wrong(&rows, [1.0, low], [3, 3]), @"what is selected must be equal; element 1 of row 1 is the index 3, which is there twice");
        insta::assert_snapshot!(wrong(&rows, [1.0, low], [3, 4]), @"what is selected must be equal; element 1 of row 1 is the index 4, which is none of its row");
        insta::assert_snapshot!(wrong(&rows, [1.0, -low], [3, 1]), @"what is selected must be equal; element 1 of row 0 is inf by the kernel and -inf by the oracle");
        let high = [-low, low, 5.0, f32::NAN];
        assert_eq!(top_k_of(&high, [f32::NAN, -low], [3, 0]), Ok(()));
        insta::assert_snapshot!(wrong(&high, [f32::NAN, -low], [3, 1]), @"what is selected must be equal; element 1 of row 1 is the index 1, which selects -inf, and that of the oracle inf");
        insta::assert_snapshot!(wrong(&high, [-low, 5.0], [0, 2]), @"1 of the elements are finite, but the exact result is NaN or infinite");
    }

    #[test]
    fn what_is_selected_must_be_equal_whatever_the_tolerance() {
        let x = [1.0, 1.000_001, -0.0, 1.000_002];
        assert_eq!(top_k_of(&x, [1.000_002, 1.000_001], [3, 1]), Ok(()));
        assert_eq!(top_k_of(&x[..3], [1.000_001, 1.0], [1, 0]), Ok(()));
        assert_eq!(top_k_of(&[-1.0, 0.0, -0.0], [0.0, 0.0], [2, 1]), Ok(()));
        let wrong = |values, indices| top_k_of(&x, values, indices).unwrap_err();
        insta::assert_snapshot!(wrong([1.000_002, 1.0], [3, 0]), @"what is selected must be equal; element 1 of row 0 is 1 by the kernel and 1.0000009536743164 by the oracle");
        insta::assert_snapshot!(wrong([1.000_002, 1.000_001], [3, 0]), @"what is selected must be equal; element 1 of row 1 is the index 0, which selects 1, and that of the oracle 1.000001");
        insta::assert_snapshot!(wrong([1.000_002, 1.000_001], [1, 3]), @"what is selected must be equal; element 0 of row 1 is the index 1, which selects 1.000001, and that of the oracle 1.000002");
    }
}
