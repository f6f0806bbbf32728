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

/// Computes rows of the outputs in float64.
pub fn oracle(dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
    let inputs = Inputs::of(dims, inputs);
    let d = inputs.shape.d;
    let mut out = vec![0.0; rows.len() * d];
    out.par_chunks_mut(d).zip(rows).for_each(|(out, &row)| {
        let (scores, values) = inputs.scores_and_values(row);
        let (weights, total) = numerics::attention::weights(&scores, inputs.sink(row));
        numerics::attention::add_values(&weights, total, &values, out);
    });
    out
}
