//! Results that need not be finite.

use std::ops::Range;

use numerics::compare::{self, Limits};
use rayon::prelude::*;

use super::{ComparedRow, Expectation};
use crate::domain::measurement::check::Check;
use crate::domain::op::{Dtype, TensorSpec};
use crate::runner::outputs::{Output, Outputs, POISON, Refusal, unwritten_elements};

/// How near to the largest value of its dtype, relative to it, a result may be either finite or infinite.
const NEAR_LARGEST: f64 = 0.01;

impl Expectation {
    /// Checks an output whose elements need not all be finite. Compared elements must be finite where the oracle is,
    /// and infinite or NaN where it is not. Elements of other rows must be written.
    pub(super) fn scan_around(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let specified = |row: usize| !self.unspecified.iter().any(|rows| rows.contains(&row));
        for output in self.outputs.iter().filter(|output| !output.dtype.is_integer()) {
            let rows = output.rows.clone().into_par_iter().filter(|row| specified(*row));
            let unwritten_of = |row| compare::filled(output.bytes_of(row, bytes), output.dtype.bytes(), POISON);
            let unwritten = rows.map(unwritten_of).sum::<usize>();
            if unwritten > 0 {
                return Err(unwritten_elements(unwritten, output.rows.len() * output.row_len));
            }
        }
        let (mut hidden, mut leaked, mut lost) = (0, 0, 0);
        for (at, ComparedRow { row, .. }) in self.rows.iter().enumerate() {
            let output = self.output_of(at);
            if output.dtype.is_integer() {
                continue;
            }
            let (values, oracle) = (output.values_of(*row, bytes), self.oracle_of(at));
            let limits = Limits {
                may_be_infinite: least_large(output.dtype),
                must_be_infinite: least_infinite(output.dtype),
                // Beyond its domain, an op may compute with numbers that exceed FP32. A result that FP32 holds is specified.
                is_specified: self.is_beyond_domain.then(|| least_large(Dtype::F32)),
            };
            let found = compare::misplaced(&values, oracle, limits);
            hidden += found.0;
            if specified(*row) {
                leaked += found.1;
                let is_lost = |(out, r): (&f64, &f64)| *r == f64::NEG_INFINITY && out != r;
                lost +=
                    if output.is_logarithm { values.iter().zip(oracle).filter(|it| is_lost(*it)).count() } else { 0 };
            }
        }
        if lost > 0 {
            let message = format!("{lost} of the elements are logarithms of nothing, but not minus infinity");
            return Err(Refusal { check: Check::Finite, message });
        }
        let message = match (hidden, leaked) {
            (0, 0) => return Ok(()),
            (0, leaked) if self.is_beyond_domain => {
                format!(
                    "{leaked} of the elements are NaN or infinite, but the oracle's are finite. If an input is never infinite, say so \
                     with its `values`, such as {{ uniform = [-4.0, 4.0] }}"
                )
            }
            (0, leaked) => format!("{leaked} of the elements are NaN or infinite, but depend on finite inputs only"),
            (hidden, _) => format!("{hidden} of the elements are finite, but the exact result is NaN or infinite"),
        };
        Err(Refusal { check: Check::Finite, message })
    }
}

/// Returns inputs with the largest numbers of their types in place of infinite ones.
pub(super) fn without_infinities(inputs: &[Vec<f32>], tensors: &[TensorSpec]) -> Vec<Vec<f32>> {
    let of_one = |(values, tensor): (&Vec<f32>, &TensorSpec)| {
        let most = tensor.dtype.largest().min(f64::from(f32::MAX)) as f32;
        let is_free = tensor.is_free();
        values.iter().map(|x| if is_free && x.is_infinite() { most.copysign(*x) } else { *x }).collect()
    };
    inputs.iter().zip(tensors).map(of_one).collect()
}

/// Returns the rows of whole numbers in which two answers of the oracle differ.
pub(super) fn computed(outputs: &Outputs, rows: &[usize], oracle: &[f64], other: &[f64]) -> Vec<Range<usize>> {
    let mut end = 0;
    let differs = |row: &&usize| {
        let Output { row_len, dtype, .. } = *outputs.of_row(**row).1;
        end += row_len;
        let of_row = end - row_len..end;
        let mut pairs = oracle[of_row.clone()].iter().zip(&other[of_row]);
        dtype.is_integer() && !pairs.all(|(a, b)| a.to_bits() == b.to_bits())
    };
    rows.iter().filter(differs).map(|row| *row..*row + 1).collect()
}

/// Returns above which magnitude an exact result is too large for a dtype, by more than an honest kernel's error. An 8-bit type may
/// hold its largest number instead.
fn least_infinite(dtype: Dtype) -> f64 {
    if dtype.is_float8() { f64::INFINITY } else { dtype.largest() * (1.0 + NEAR_LARGEST) }
}

/// Returns above which magnitude an honest kernel may return infinity for an exact result. Whole numbers have none.
pub(super) fn least_large(dtype: Dtype) -> f64 {
    if dtype.is_integer() { f64::INFINITY } else { dtype.largest() * (1.0 - NEAR_LARGEST) }
}
