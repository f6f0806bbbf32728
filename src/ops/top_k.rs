//! The largest elements of each row, with their indices.

mod probes;

use std::cmp::Ordering;

use rayon::prelude::*;

use super::sizes::{self, PERIODS};
use crate::domain::op::{
    Axis, CheckLimits, DimSpec, Dims, Dtype, FarShape, Op, Probe, TensorRole, TensorSpec, Values, multiplied,
};
use crate::error::{Error, error};

/// The `K` largest elements of each row of `x[B,N]`, as `torch.topk` returns them: `values[B,K]` in descending order, and their places
/// in the row, `indices[B,K]` (I64).
///
/// Of equal elements, any may be chosen, in any order. Zeros of either sign are equal. NaN is greater than any number.
pub struct TopK;

const DIMS: [DimSpec; 3] = [
    DimSpec { name: "B", about: "the rows", range: (1, 1 << 20) },
    DimSpec { name: "N", about: "the elements of a row", range: (1, 1 << 28) },
    DimSpec { name: "K", about: "the elements of a row that are selected: at most N", range: (1, 128) },
];

/// Scaled cases shorten rows by whole multiples of this: blocks take a row in parts of a power of two.
const PERIOD: i64 = 4096;

/// The shortest and longest rows of a far shape.
const FAR_ROW: (i64, i64) = (2048, 1 << 14);

/// Returns whether the first number goes before the second one, as an order. NaN goes before all numbers.
fn descending(a: f32, b: f32) -> Ordering {
    b.is_nan().cmp(&a.is_nan()).then_with(|| b.partial_cmp(&a).unwrap_or(Ordering::Equal))
}

/// Returns the places of the largest elements of a row, in order. Of equal elements, the first ones are chosen.
fn largest(row: &[f32], count: usize) -> Vec<usize> {
    let order = |a: &usize, b: &usize| descending(row[*a], row[*b]).then(a.cmp(b));
    let mut places: Vec<usize> = (0..row.len()).collect();
    if count < row.len() {
        places.select_nth_unstable_by(count, order);
        places.truncate(count);
    }
    places.sort_unstable_by(order);
    places
}

impl Op for TopK {
    fn name(&self) -> &'static str {
        "top-k"
    }

    fn dims(&self) -> &'static [DimSpec] {
        &DIMS
    }

    fn check(&self, dims: &Dims) -> Result<(), Error> {
        let (n, k) = (dims["N"], dims["K"]);
        if k > n {
            return Err(error!("K = {k} elements cannot be selected from rows of N = {n}; reduce K"));
        }
        if dims["B"].saturating_mul(n) > i64::from(i32::MAX) {
            return Err(Error::new("x has more than 2^31 elements; reduce B or N"));
        }
        Ok(())
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        let [b, n, k] = ["B", "N", "K"].map(|name| usize::try_from(dims[name]).expect("validated with the workload"));
        let tensor = |name: &str, dtype: Dtype, row: usize, role: TensorRole| TensorSpec {
            name: name.to_owned(),
            dtype,
            shape: vec![b, row],
            role,
            values: Values::Normal,
        };
        vec![
            tensor("x", dtype, n, TensorRole::Input),
            tensor("values", dtype, k, TensorRole::Output),
            tensor("indices", Dtype::I64, k, TensorRole::Output),
        ]
    }

    fn torch(&self, _optional: &[&str]) -> Option<String> {
        Some("torch.topk(x, K, dim=-1)".to_owned())
    }

    fn scalars(&self, _dims: &Dims) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Counts a comparison of each element.
    fn flop(&self, dims: &Dims) -> f64 {
        dims["B"] as f64 * dims["N"] as f64
    }

    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        let scaled = |periods: i64| {
            let mut scaled = dims.clone();
            scaled["B"] = dims["B"].min(2 * periods);
            scaled["N"] = dims["N"].min(dims["N"] % PERIOD + periods * PERIOD);
            scaled
        };
        sizes::scaled(dims, PERIODS, scaled)
    }

    fn resized(&self, dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
        match axis {
            Axis::Independent => multiplied(dims, "B", factor),
            Axis::Sequential => multiplied(dims, "N", factor),
        }
    }

    fn probes(&self) -> &'static [Probe] {
        &probes::PROBES
    }

    fn hidden(&self, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
        sizes::within_limits(self, dims, least, probes::hidden(dims, seed))
    }

    fn far(&self, dims: &Dims, dtype: Dtype) -> Option<FarShape> {
        let mut far = dims.clone();
        far["N"] = dims["N"].clamp(FAR_ROW.0, FAR_ROW.1);
        FarShape::along(self, &far, "B", dtype)
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        let [b, n, k] = ["B", "N", "K"].map(|name| usize::try_from(dims[name]).expect("validated with the workload"));
        let of_row = |row: &usize| -> Vec<f64> {
            let x = &inputs[0][row % b * n..][..n];
            let value = |at: usize| if *row < b { f64::from(x[at]) } else { f64::from_bits(at as u64) };
            largest(x, k).into_iter().map(value).collect()
        };
        Ok(rows.par_iter().flat_map_iter(of_row).collect())
    }

    fn selects(&self, output: &str) -> Option<&str> {
        (output == "indices").then_some("x")
    }

    fn is_copied(&self, _output: &str) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
