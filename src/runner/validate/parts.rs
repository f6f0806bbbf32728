//! The parts of an output that are compared with the oracle.

use std::ops::Range;

use super::{ComparedRow, Expectation};
use crate::domain::measurement::correctness::Correctness;
use crate::domain::workload::Tolerance;
use crate::runner::outputs::Refusal;

/// The most parts of an output to read, if it is not read as a whole. Each part takes about 20 us.
const MOST_PARTS: usize = 1024;

/// The least bytes of an output for each byte that is compared, if it is not read as a whole.
const LEAST_BYTES_FOR_ONE: usize = 4;

impl Expectation {
    /// Returns the bytes that are compared with the oracle, if these are a small part of outputs whose elements must all be
    /// finite.
    pub fn compared_parts(&self) -> Option<Vec<Range<usize>>> {
        if !self.unspecified.is_empty() || self.has_large {
            return None;
        }
        let mut parts: Vec<Range<usize>> = Vec::new();
        for (at, ComparedRow { row, .. }) in self.rows.iter().enumerate() {
            let output = self.output_of(at);
            let bytes = output.range_of(*row);
            // Each output is read from a buffer of its own, so no part reaches from one into the next.
            let begins = bytes.start == output.bytes.start;
            match parts.last_mut() {
                Some(last) if last.end == bytes.start && !begins => last.end = bytes.end,
                _ => parts.push(bytes),
            }
        }
        let compared: usize = parts.iter().map(ExactSizeIterator::len).sum();
        let is_small = parts.len() <= MOST_PARTS && compared * LEAST_BYTES_FOR_ONE <= self.outputs.bytes();
        is_small.then_some(parts)
    }

    /// Checks the bytes of all outputs, of which only those that are compared matter. The others were found to be finite.
    pub fn check_parts(&self, bytes: &[u8], tolerance: &Tolerance) -> Result<Correctness, Refusal> {
        self.judge(&self.row_errors(bytes), bytes, tolerance)
    }
}
