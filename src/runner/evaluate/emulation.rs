//! Software attention kernels, honest and not, run against every probe.

use half::{bf16, f16};

use super::acceptance::{Around, probed, probes_of};
use crate::domain::compute::Compute;
use crate::domain::op::{Dims, Dtype};
use crate::domain::statistics::synthetic::repeats;
use crate::domain::workload::Tolerance;
use crate::ops;
use crate::runner::device::Problem;
use crate::runner::inputs::{draw, encode};
use crate::runner::outputs::Refusal;
use crate::runner::validate::Expectation;

/// Number of draws of each probe.
const SEEDS: u64 = 2;

/// What the probes of attention do not depend on.
const AROUND: Around<'_> = Around { magnitude: 0.0, constants: &[] };

/// The arithmetic of a kernel.
#[derive(Clone, Copy)]
struct Arithmetic {
    /// Rounds the factors of both products.
    factor: fn(f32) -> f32,
    /// Rounds a sum after each addition.
    sum: fn(f32) -> f32,
    /// Whether queries are first multiplied by the scale and rounded.
    scales_queries: bool,
    /// Rounds the probabilities.
    probability: fn(f32) -> f32,
    /// The key to omit; `None` for an honest kernel.
    drops: Option<usize>,
}

fn exact(x: f32) -> f32 {
    x
}

fn half(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

fn brain(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

/// TF32 has 10 bits after the point.
fn tf32(x: f32) -> f32 {
    f32::from_bits((x.to_bits() + 0x0fff + (x.to_bits() >> 13 & 1)) & !0x1fff)
}

/// What a tensor core makes of a number that was not rounded to TF32 before.
fn truncated(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & !0x1fff)
}

const HONEST_F32: Arithmetic =
    Arithmetic { factor: exact, sum: exact, scales_queries: false, probability: exact, drops: None };
const HONEST_F16: Arithmetic = Arithmetic { probability: half, ..HONEST_F32 };
const HONEST_TF32: Arithmetic = Arithmetic { factor: tf32, ..HONEST_F32 };

/// Computes attention with the online softmax in tiles of 16 keys, as FlashAttention does.
fn attention(dims: &Dims, inputs: &[Vec<f32>], dtype: Dtype, how: &Arithmetic) -> Vec<f32> {
    const TILE: usize = 16;
    let at = |name: &str| dims[name] as usize;
    let (heads, sq, sk, d) = (at("B") * at("H"), at("Sq"), at("Sk"), at("D"));
    let scale = std::f32::consts::LOG2_E / (d as f32).sqrt();
    let mut out = Vec::with_capacity(heads * sq * d);
    for row in 0..heads * sq {
        let (head, i) = (row / sq, row % sq);
        let visible = if at("CAUSAL") == 1 { i + 1 + sk - sq } else { sk };
        let mut query = inputs[0][row * d..(row + 1) * d].to_vec();
        if how.scales_queries {
            query.iter_mut().for_each(|q| *q = half(*q * scale));
        }
        let key = |j: usize| (head * sk + j) * d..(head * sk + j + 1) * d;
        let (mut top, mut total, mut sums) = (-1e30_f32, 0.0_f32, vec![0.0_f32; d]);
        for first in (0..visible).step_by(TILE) {
            let keys = first..visible.min(first + TILE);
            let scores: Vec<f32> = keys
                .clone()
                .map(|j| {
                    let products = query.iter().zip(&inputs[1][key(j)]);
                    let sum = products.fold(0.0, |sum, (q, k)| (how.sum)(sum + (how.factor)(*q) * (how.factor)(*k)));
                    if how.scales_queries { sum } else { sum * scale }
                })
                .collect();
            let higher = scores.iter().copied().fold(top, f32::max);
            let keep = (top - higher).exp2();
            top = higher;
            total *= keep;
            sums.iter_mut().for_each(|sum| *sum *= keep);
            for (j, score) in keys.zip(scores).filter(|(j, _)| how.drops != Some(*j)) {
                let weight = (score - top).exp2();
                total += weight;
                let weight = (how.factor)((how.probability)(weight));
                for (sum, value) in sums.iter_mut().zip(&inputs[2][key(j)]) {
                    *sum = (how.sum)(*sum + weight * (how.factor)(*value));
                }
            }
        }
        out.extend(sums.iter().map(|sum| if dtype == Dtype::F16 { half(sum / total) } else { sum / total }));
    }
    out
}

/// Returns the acceptance checks' result for a kernel on each probe.
fn judge(
    dims: &Dims,
    (dtype, compute): (Dtype, Compute),
    tolerance: &Tolerance,
    how: &Arithmetic,
) -> Vec<(&'static str, Result<(), Refusal>)> {
    let op = ops::find("attention").unwrap();
    let problem = Problem { op, dims, dtype, compute };
    let judged = probes_of(&problem).into_iter().flat_map(|probe| {
        (0..SEEDS).map(move |seed| {
            let (values, told) = probed(&problem, (&probe, AROUND), seed);
            let output = encode(&attention(dims, &values, dtype, how), dtype);
            let mut expectation = Expectation::of_probe(op, dims, dtype, &values, 1e12, seed, &told).unwrap();
            let checked = expectation.check(&output, tolerance).or_else(|_| {
                expectation.allow_for_rounding((op, compute), dims, &values, seed, (&output, tolerance)).unwrap();
                expectation.check(&output, tolerance)
            });
            (probe.name, checked.map(drop))
        })
    });
    judged.collect()
}

/// Returns all shapes, or in the gate those that take little time and differ most.
fn shapes() -> Vec<Dims> {
    let shape = |b: i64, h: i64, sq: i64, sk: i64, d: i64, causal: i64| -> Dims {
        let sizes = [("B", b), ("H", h), ("Sq", sq), ("Sk", sk), ("D", d), ("CAUSAL", causal)];
        sizes.map(|(name, size)| (name.to_owned(), size)).into()
    };
    let few = vec![shape(1, 1, 4, 4, 4, 1), shape(1, 1, 33, 33, 16, 1), shape(2, 1, 1, 60, 64, 0)];
    let all = vec![
        shape(1, 1, 4, 4, 4, 1),
        shape(2, 2, 65, 65, 16, 1),
        shape(1, 2, 192, 192, 64, 1),
        shape(1, 2, 100, 150, 64, 0),
        shape(4, 2, 1, 300, 128, 0),
        shape(1, 1, 64, 64, 128, 1),
        // A mean of 8192 values / 64 is so small that an FP16 number has few bits for it, and 8192 products lose many.
        shape(1, 1, 1, 8192, 64, 0),
        shape(1, 1, 3, 33, 8192, 1),
    ];
    repeats(few, all)
}

const F16: Tolerance = Tolerance { relative_l2: 1e-3, worst_row: 4e-3 };
/// Rounding all factors gives 3e-4 to 7e-4, and truncating them up to 1.5e-3. BF16 factors give 2e-3 and more.
const TF32: Tolerance = Tolerance { relative_l2: 1.5e-3, worst_row: 4e-3 };
const F32: Tolerance = Tolerance { relative_l2: 1e-5, worst_row: 3e-5 };

#[test]
fn honest_kernels_pass_every_probe() {
    let scales_queries = Arithmetic { scales_queries: true, ..HONEST_F16 };
    let truncates = Arithmetic { factor: truncated, ..HONEST_F32 };
    for (dtype, compute, tolerance, how) in [
        (Dtype::F16, Compute::Dtype, F16, HONEST_F16),
        (Dtype::F16, Compute::Dtype, F16, scales_queries),
        (Dtype::F32, Compute::Dtype, F32, HONEST_F32),
        (Dtype::F32, Compute::Tf32, TF32, HONEST_TF32),
        (Dtype::F32, Compute::Tf32, TF32, truncates),
    ] {
        for dims in shapes() {
            for (probe, judged) in judge(&dims, (dtype, compute), &tolerance, &how) {
                let precision = compute.of(dtype);
                assert!(judged.is_ok(), "{probe} on {dims:?} in {precision}: {}", judged.unwrap_err());
            }
        }
    }
}

#[test]
fn less_precise_arithmetic_than_required_fails_a_probe() {
    let with_half_sums = Arithmetic { sum: half, ..HONEST_F32 };
    for dims in shapes() {
        for (what, how) in [("TF32 factors", HONEST_TF32), ("FP16 sums", with_half_sums)] {
            let judged = judge(&dims, (Dtype::F32, Compute::Dtype), &F32, &how);
            let failed = judged.into_iter().filter(|(_, judged)| judged.is_err()).count();
            assert!(failed > 0, "{what} on {dims:?}");
        }
    }
}

/// FP16 factors have the bits of TF32 ones, but not the range.
#[test]
fn half_precision_fails_where_tf32_is_allowed() {
    let with_half = Arithmetic { factor: half, ..HONEST_F32 };
    for dims in shapes() {
        let judged = judge(&dims, (Dtype::F32, Compute::Tf32), &TF32, &with_half);
        let failed = |name: &str| judged.iter().any(|(probe, judged)| *probe == name && judged.is_err());
        assert!(failed("numbers below the range of FP16"), "FP16 factors on {dims:?}");
    }
    let op = ops::find("attention").unwrap();
    // Among few numbers, an error may be small by chance.
    for dims in shapes().into_iter().filter(|dims| dims["D"] > 4) {
        let inputs: Vec<_> = op.inputs(&dims, Dtype::F32).iter().map(|tensor| draw(tensor, 5)).collect();
        let expectation = Expectation::new(op, &dims, Dtype::F32, &inputs, 1e12, 5).unwrap();
        let passes = |factor: fn(f32) -> f32| {
            let how = Arithmetic { factor, ..HONEST_F32 };
            expectation.check(&encode(&attention(&dims, &inputs, Dtype::F32, &how), Dtype::F32), &TF32).is_ok()
        };
        assert!(passes(tf32) && passes(truncated), "TF32 factors on {dims:?}");
        assert!(!passes(brain), "BF16 factors on {dims:?}");
    }
}

/// Whichever key is dropped, several probes of every seed show it.
#[test]
fn a_dropped_key_fails_several_probes() {
    for dims in shapes() {
        for drops in [0, 1, dims["Sk"] as usize / 2] {
            let how = Arithmetic { drops: Some(drops), ..HONEST_F16 };
            let judged = judge(&dims, (Dtype::F16, Compute::Dtype), &F16, &how);
            let failed: Vec<&str> =
                judged.iter().filter_map(|(probe, judged)| judged.is_err().then_some(*probe)).collect();
            assert!(failed.len() >= SEEDS as usize, "key {drops} of {dims:?}: {failed:?}");
        }
    }
}
