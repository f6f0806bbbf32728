//! The outputs of a case as one run of bytes, one tensor after the other, and their rows.

use std::ops::Range;

use rayon::prelude::*;

use super::threads;
use crate::domain::measurement::check::Check;
use crate::domain::op::{AtomicSums, Dims, Dtype, Op, TensorSpec};

/// The byte that fills outputs before a check. All bits set make a NaN that no arithmetic of any floating-point dtype
/// produces, so any poison that is left was not overwritten.
pub const POISON: u8 = 0xff;

/// Elements that a thread looks at, at least.
const MIN_ELEMENTS: usize = 4096;

/// The reason why an output is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The check that found it.
    pub check: Check,
    /// One sentence.
    pub message: String,
}

/// Where each output of a case is, and which rows it has. Rows are numbered through all outputs.
#[derive(Debug, Clone)]
pub struct Outputs {
    tensors: Vec<Output>,
}

/// An output.
#[derive(Debug, Clone)]
pub struct Output {
    /// Element type.
    pub dtype: Dtype,
    /// How far two executions may differ. None if they must give the same bytes.
    pub atomic_sums: Option<AtomicSums>,
    /// Whether it holds logarithms: errors count as they are, and minus infinity is a value.
    pub is_logarithm: bool,
    /// Whether it holds elements of inputs, or their indices: they must be equal.
    pub is_copied: bool,
    /// Elements of a row.
    pub row_len: usize,
    /// Its rows.
    pub rows: Range<usize>,
    /// Its bytes.
    pub bytes: Range<usize>,
}

impl Outputs {
    /// Returns the outputs of a case.
    pub fn of(op: &dyn Op, dims: &Dims, dtype: Dtype) -> Self {
        let (mut row, mut byte) = (0, 0);
        let place = |tensor: TensorSpec| {
            let is_logarithm = op.is_logarithm(&tensor.name);
            let (row_len, rows) = if is_logarithm { (1, tensor.elements()) } else { (tensor.row_len(), tensor.rows()) };
            let output = Output {
                dtype: tensor.dtype,
                atomic_sums: op.atomic_sums(&tensor.name),
                is_logarithm,
                is_copied: op.is_copied(&tensor.name),
                row_len,
                rows: row..row + rows,
                bytes: byte..byte + tensor.bytes(),
            };
            (row, byte) = (output.rows.end, output.bytes.end);
            output
        };
        Self { tensors: op.outputs(dims, dtype).into_iter().map(place).collect() }
    }

    /// Returns the outputs in order.
    pub fn iter(&self) -> impl Iterator<Item = &Output> {
        self.tensors.iter()
    }

    /// Returns the bytes of all outputs together.
    pub fn bytes(&self) -> usize {
        self.tensors.last().map_or(0, |output| output.bytes.end)
    }

    /// Returns the rows of all outputs together.
    pub fn rows(&self) -> usize {
        self.tensors.last().map_or(0, |output| output.rows.end)
    }

    /// Returns the number of elements of all outputs.
    pub fn elements(&self) -> usize {
        self.tensors.iter().map(|output| output.rows.len() * output.row_len).sum()
    }

    /// Returns the output that a row belongs to, and the output's place.
    pub fn of_row(&self, row: usize) -> (usize, &Output) {
        let at = self.tensors.partition_point(|output| output.rows.end <= row);
        (at, &self.tensors[at])
    }

    /// Checks that every element is written and finite. Whole numbers have no value that says that they were not written.
    pub fn scan(&self, bytes: &[u8]) -> Result<(), Refusal> {
        for output in self.tensors.iter().filter(|output| !output.dtype.is_integer()) {
            output.scan(&bytes[output.bytes.clone()])?;
        }
        Ok(())
    }
}

impl Output {
    /// Returns where the bytes of a row are.
    pub fn range_of(&self, row: usize) -> Range<usize> {
        let size = self.row_len * self.dtype.bytes();
        let start = self.bytes.start + (row - self.rows.start) * size;
        start..start + size
    }

    /// Returns the bytes of a row.
    pub fn bytes_of<'a>(&self, row: usize, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.range_of(row)]
    }

    /// Returns the values of a row.
    pub fn values_of(&self, row: usize, bytes: &[u8]) -> Vec<f64> {
        self.dtype.decode_exactly(self.bytes_of(row, bytes))
    }

    /// Returns exact values as numbers. Those of 64 bits are kept as bits.
    pub fn numbers(&self, exact: &[f64]) -> Vec<f64> {
        exact.iter().map(|value| self.dtype.number(*value)).collect()
    }

    /// Returns the square of the scale that errors in a row are relative to, given the exact values of its numbers.
    pub fn squared_scale(&self, exact: impl Iterator<Item = f64>) -> f64 {
        exact.map(|value| if self.is_logarithm { 1.0 } else { value * value }).sum()
    }

    fn scan(&self, bytes: &[u8]) -> Result<(), Refusal> {
        // Poison is not finite, either.
        let chunks: Vec<&[u8]> = bytes.chunks(MIN_ELEMENTS * self.dtype.bytes()).collect();
        if threads::all(chunks.len(), bytes.len() / self.dtype.bytes(), |place| self.dtype.are_finite(chunks[place])) {
            return Ok(());
        }
        let elements = || bytes.par_chunks_exact(self.dtype.bytes()).with_min_len(MIN_ELEMENTS);
        let count = bytes.len() / self.dtype.bytes();
        let unwritten = elements().filter(|element| is_poison(element)).count();
        if unwritten > 0 {
            return Err(unwritten_elements(unwritten, count));
        }
        let is_allowed = |element: &[u8]| {
            let of_nothing = || self.is_logarithm && self.dtype.decode_exactly(element) == [f64::NEG_INFINITY];
            self.dtype.is_finite(element) || of_nothing()
        };
        match elements().filter(|element| !is_allowed(element)).count() {
            0 => Ok(()),
            bad => {
                Err(Refusal { check: Check::Finite, message: format!("{bad} of {count} elements are NaN or infinite") })
            }
        }
    }
}

/// Tells whether an element still has the bytes that it had before the check.
pub fn is_poison(element: &[u8]) -> bool {
    element.iter().all(|&byte| byte == POISON)
}

/// Returns the refusal of an output with elements that were not written.
pub fn unwritten_elements(unwritten: usize, elements: usize) -> Refusal {
    let hint = if unwritten < elements { ": does the grid cover the output?" } else { "" };
    Refusal { check: Check::Written, message: format!("{unwritten} of {elements} elements were not written{hint}") }
}
