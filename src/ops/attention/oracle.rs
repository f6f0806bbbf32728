//! The exact results, and how far a right kernel may be from them.

use rayon::prelude::*;

use super::cache::Inputs;
use super::shape::Shape;
use crate::domain::op::{Dims, Dtype};

/// A kernel on tensor cores rounds its weights to FP16, relative to the row's largest weight. Half of the smallest
/// subnormal is lost at most, or gained. In FP32, weights below the smallest normal number may be lost.
/// The sum of a score loses bits, and the exponential turns its absolute error into a relative one.
pub fn intermediate_rounding(dims: &Dims, dtype: Dtype, inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
    let shape = Shape::of(dims);
    let inputs = Inputs::of(dims, inputs);
    let of_score = (shape.d as f64).sqrt() / f64::from(1 << 24);
    let rounding = |weight: f64, score: f64, typical: f64| match dtype {
        Dtype::F16 => 2.0_f64.powi(-25),
        _ => weight * (score.abs() + typical) * of_score + f64::from(f32::MIN_POSITIVE),
    };
    let of_row = |&row: &usize| {
        if row >= inputs.rows() {
            return of_logarithm(&inputs, row - inputs.rows(), rounding);
        }
        let (scores, values) = inputs.scores_and_values(row);
        let (weights, total) = numerics::attention::weights(&scores, inputs.sink(row));
        // An error in the largest scores changes the sum of weights, and so every weight.
        let typical = weights.iter().zip(&scores).map(|(weight, score)| weight * score.abs()).sum::<f64>() / total;
        let off: Vec<f64> =
            weights.iter().zip(&scores).map(|(weight, score)| rounding(*weight, *score, typical)).collect();
        let sums = numerics::attention::absolute_sums(&off, &values, shape.d);
        // Products of weights and values may be lost, too, if they are that small.
        let lost = f64::from(f32::MIN_POSITIVE) * weights.len() as f64 * (shape.d as f64).sqrt();
        let off = (sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt() + lost) / total;
        // Nothing is allowed where NaN or infinity is expected.
        if off.is_finite() { off } else { 0.0 }
    };
    rows.par_iter().map(of_row).collect()
}

/// Returns how far the logarithm of a row's sum may be off: what each weight may be off by, relative to the sum.
fn of_logarithm(inputs: &Inputs<'_>, row: usize, rounding: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let scores = inputs.scores(row);
    let (weights, total) = numerics::attention::weights(&scores, inputs.sink(row));
    let off = weights.iter().zip(&scores).map(|(weight, score)| rounding(*weight, *score, 0.0)).sum::<f64>() / total;
    if off.is_finite() { off } else { 0.0 }
}

/// Computes rows of the outputs in float64. Those of the second output, one number each, come after all others.
pub fn oracle(dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
    let inputs = Inputs::of(dims, inputs);
    let (d, count) = (inputs.shape.d, inputs.rows());
    let of_output = rows.iter().take_while(|row| **row < count).count();
    let (rows, of_logarithm) = rows.split_at(of_output);
    let mut all = vec![0.0; rows.len() * d + of_logarithm.len()];
    let (out, logarithms) = all.split_at_mut(rows.len() * d);
    out.par_chunks_mut(d).zip(rows).for_each(|(out, &row)| {
        let (scores, values) = inputs.scores_and_values(row);
        let (weights, total) = numerics::attention::weights(&scores, inputs.sink(row));
        numerics::attention::add_values(&weights, total, &values, out);
    });
    logarithms.par_iter_mut().zip(of_logarithm).for_each(|(logarithm, row)| {
        let row = row - count;
        *logarithm = numerics::attention::log_sum(&inputs.scores(row), inputs.sink(row));
    });
    all
}
