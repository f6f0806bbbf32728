//! Inputs of matrix products that ordinary random inputs never resemble.
//!
//! Rows and columns get their own numbers and places, drawn from wide continuous distributions, so that a kernel cannot
//! recognise a probe by a sample. Only the last two overflow FP16: the largest sums of 2^20 random products are 5,000.
//! The contract that they test is docs/correctness.md.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Product;
use crate::domain::op::{Change, Dims, Dtype, Probe, Probed};
use crate::ops::draw::{limit, log_uniform_count, normal, places, power_of_two, sign};

/// Returns every probe of a product.
pub const fn probes<P: Product>() -> [Probe; 9] {
    [
        Probe { name: "rows and columns of different scales", change: Change::Numbers(scales::<P>) },
        Probe { name: "a selection", change: Change::Numbers(selection::<P>) },
        Probe { name: "sums that do not average out", change: Change::Numbers(coherent::<P>) },
        Probe { name: "a huge product", change: Change::Numbers(huge_product::<P>) },
        Probe { name: "an exception in a regular matrix", change: Change::Numbers(exception::<P>) },
        Probe { name: "mostly zeros", change: Change::Numbers(sparse::<P>) },
        Probe { name: "small numbers", change: Change::Numbers(small::<P>) },
        Probe { name: "sums beyond the largest number", change: Change::Numbers(overflow::<P>) },
        Probe { name: "NaN and infinity", change: Change::Numbers(not_finite::<P>) },
    ]
}

/// Output rows that are always compared.
const ROWS: usize = 16;

/// The largest sum that a probe aims at, where none is to overflow FP16.
const LARGEST_SUM: f32 = 20_000.0;

/// The matrices of a product, as `a[M,K]` and `b[K,N]`.
pub struct Matrices<'a> {
    pub a: &'a mut [f32],
    pub b: &'a mut [f32],
    /// Columns of `a`, and rows of `b`.
    pub k: usize,
    /// Columns of `b`.
    pub n: usize,
    /// Rows of `a`.
    pub m: usize,
}

/// Changes both matrices, limits them to finite values of the dtype, and adds random rows to those that are named.
fn change<P: Product>(
    dims: &Dims,
    dtype: Dtype,
    inputs: &mut [Vec<f32>],
    seed: u64,
    change: impl FnOnce(&mut Matrices<'_>, &mut SmallRng) -> Vec<usize>,
) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    P::change(dims, inputs, |it| {
        let mut rows = change(it, &mut rng);
        limit(it.a, dtype);
        limit(it.b, dtype);
        rows.extend(places(&mut rng, it.m, ROWS));
        Probed { rows, ..Probed::default() }
    })
}

/// Every row of `a` has its own scale, and all of `b` another. The terms of a sum, or runs of them, have factors of
/// very different scales, whose products have the same weight.
fn scales<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change::<P>(dims, dtype, inputs, seed, |it, rng| {
        let of_b = power_of_two(rng, -3.0..3.0);
        it.a.chunks_exact_mut(it.k).for_each(|row| scale(row, power_of_two(rng, -4.0..1.0) / of_b));
        scale(it.b, of_b);
        let run = log_uniform_count(rng, it.k);
        let factors: Vec<f32> = (0..it.k.div_ceil(run)).map(|_| power_of_two(rng, -8.0..8.0)).collect();
        it.a.chunks_exact_mut(it.k)
            .for_each(|row| row.iter_mut().enumerate().for_each(|(k, x)| *x *= factors[k / run]));
        it.b.chunks_exact_mut(it.n).enumerate().for_each(|(k, row)| scale(row, 1.0 / factors[k / run]));
        Vec::new()
    })
}

/// Every row of `a` is zero except for a number at a random place, which selects a row of `b`. A kernel that drops this
/// row, or takes another, returns a completely different output.
fn selection<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change::<P>(dims, dtype, inputs, seed, |it, rng| {
        for row in it.a.chunks_exact_mut(it.k) {
            row.fill(0.0);
            row[rng.random_range(0..it.k)] = sign(rng) * power_of_two(rng, -3.0..6.0);
        }
        Vec::new()
    })
}

/// All factors have a non-zero mean, so that nothing averages out. Sums with few bits stop growing. A missing product
/// affects every element.
fn coherent<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change::<P>(dims, dtype, inputs, seed, |it, rng| {
        let noise = if rng.random() { 0.0 } else { power_of_two(rng, -6.0..-1.0) };
        let sum = power_of_two(rng, 2.0..LARGEST_SUM.log2() - 1.0);
        let of_a = power_of_two(rng, -4.0..4.0);
        let of_b = sum / it.k as f32 / of_a;
        it.a.iter_mut().for_each(|x| *x = of_a * (1.0 + noise * *x));
        it.b.iter_mut().for_each(|x| *x = of_b * (1.0 + noise * *x));
        Vec::new()
    })
}

/// Some random columns of `a` and the matching rows of `b` are huge.
fn huge_product<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change::<P>(dims, dtype, inputs, seed, |it, rng| {
        for at in places(rng, it.k, 1) {
            let (of_a, of_b) = (power_of_two(rng, 2.0..6.0), power_of_two(rng, 2.0..6.0));
            it.a.iter_mut().skip(at).step_by(it.k).for_each(|x| *x *= of_a);
            scale(&mut it.b[at * it.n..(at + 1) * it.n], of_b);
        }
        Vec::new()
    })
}

/// One matrix is regular: constant, zero, equal rows, equal columns, periodic, diagonal, or whole numbers. A few
/// numbers at random places are exceptions, each large enough to change its rows or columns.
fn exception<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change::<P>(dims, dtype, inputs, seed, |it, rng| {
        let in_a: bool = rng.random();
        let kind = rng.random_range(0..7);
        let columns = if in_a { it.k } else { it.n };
        if kind == 5 {
            it.a.iter_mut().chain(it.b.iter_mut()).for_each(|x| *x = (*x * 4.0).round());
        }
        let matrix = if in_a { &mut *it.a } else { &mut *it.b };
        let period = log_uniform_count(rng, columns.min(64));
        let pattern: Vec<f32> = (0..columns).map(|_| normal(rng)).collect();
        for (i, row) in matrix.chunks_exact_mut(columns).enumerate() {
            for (j, x) in row.iter_mut().enumerate() {
                *x = match kind {
                    0 => pattern[0],
                    1 => 0.0,
                    2 => pattern[j],
                    3 => pattern[i % columns],
                    4 => pattern[(i + j) % period],
                    5 => *x,
                    _ if i == j => 1.0,
                    _ => 0.0,
                };
            }
        }
        let mut rows = Vec::new();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..matrix.len());
            let size = (columns as f32).sqrt() * power_of_two(rng, 0.0..3.0);
            matrix[at] = if rng.random() { 0.4 } else { matrix[at] + sign(rng) * size };
            if in_a {
                rows.push(at / columns);
            }
        }
        rows
    })
}

/// Most elements of one matrix are zero: single ones, whole rows, or whole tiles.
fn sparse<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change::<P>(dims, dtype, inputs, seed, |it, rng| {
        let in_a: bool = rng.random();
        let columns = if in_a { it.k } else { it.n };
        let matrix = if in_a { &mut *it.a } else { &mut *it.b };
        let kept = power_of_two(rng, -9.0..-1.0);
        let (tall, wide) =
            *[(1, 1), (1, 32), (32, 1), (16, 16), (64, 64)].get(rng.random_range(0..5)).unwrap_or(&(1, 1));
        let salt: u64 = rng.random();
        for (i, row) in matrix.chunks_exact_mut(columns).enumerate() {
            for (j, x) in row.iter_mut().enumerate() {
                let tile =
                    SmallRng::seed_from_u64(salt ^ (((i / tall) as u64) << 32 | (j / wide) as u64)).random::<f32>();
                *x = if tile < kept { *x } else { 0.0 };
            }
        }
        // At least one element stays non-zero.
        let at = rng.random_range(0..matrix.len());
        matrix[at] = 1.0;
        if in_a { vec![at / columns] } else { Vec::new() }
    })
}

/// One matrix has subnormal numbers, and the other large ones.
fn small<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change::<P>(dims, dtype, inputs, seed, |it, rng| {
        let (tiny, large) = match dtype {
            Dtype::F16 => (power_of_two(rng, -19.0..-14.0), power_of_two(rng, 6.0..10.0)),
            _ if dtype.is_float8() => (power_of_two(rng, -8.0..-5.0), power_of_two(rng, 3.0..6.0)),
            _ => (power_of_two(rng, -100.0..-60.0), power_of_two(rng, 6.0..30.0)),
        };
        let (of_a, of_b) = match rng.random_range(0..4) {
            0 => (tiny, large),
            1 => (large, tiny),
            // Each product is subnormal in FP16, though no factor is.
            _ => (power_of_two(rng, -10.0..-7.0), power_of_two(rng, -10.0..-7.0)),
        };
        scale(it.a, of_a);
        scale(it.b, of_b);
        Vec::new()
    })
}

/// Some rows have sums beyond the largest FP16 number, which must be infinite.
fn overflow<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change::<P>(dims, dtype, inputs, seed, |it, rng| {
        let rows = places(rng, it.m, ROWS);
        if dtype == Dtype::F16 {
            let typical = (it.k as f32).sqrt();
            for &row in &rows {
                let factor = (65_504.0 / typical) * power_of_two(rng, -2.0..2.0);
                let of_row = &mut it.a[row * it.k..(row + 1) * it.k];
                scale(of_row, factor.min(10_000.0));
            }
            scale(it.b, 1.0 / power_of_two(rng, 0.0..1.0));
        }
        rows
    })
}

/// Some elements are NaN or infinite. Outputs that depend on them must not be finite, and no others may be affected.
fn not_finite<P: Product>(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut probed = change::<P>(dims, dtype, inputs, seed, |_, _| Vec::new());
    let number = |rng: &mut SmallRng| {
        if rng.random() || !dtype.has_infinity() { f32::NAN } else { sign(rng) * f32::INFINITY }
    };
    let rows = P::change(dims, inputs, |it| {
        let mut rows = Vec::new();
        for _ in 0..rng.random_range(1..3) {
            let at = rng.random_range(0..it.a.len());
            it.a[at] = number(&mut rng);
            rows.push(at / it.k);
        }
        if it.n > 1 {
            let at = rng.random_range(0..it.b.len());
            it.b[at] = number(&mut rng);
        }
        Probed { rows, ..Probed::default() }
    });
    probed.rows.extend(rows.rows);
    probed
}

fn scale(values: &mut [f32], factor: f32) {
    values.iter_mut().for_each(|x| *x *= factor);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::Op;
    use crate::ops::gemm::Gemm;
    use rand_distr::{Distribution, StandardNormal};

    const PROBES: [Probe; 9] = probes::<Gemm>();

    fn dims() -> Dims {
        [("M", 20), ("N", 30), ("K", 40)].map(|(name, size)| (name.to_owned(), size)).into()
    }

    /// Returns the inputs of a probe, the rows that it names, and the expected output.
    fn probed(name: &str, seed: u64) -> (Vec<Vec<f32>>, Probed, Vec<f64>) {
        let mut rng = SmallRng::seed_from_u64(3);
        let tensors = Gemm.tensors(&dims(), Dtype::F32);
        let mut inputs: Vec<Vec<f32>> = tensors[..2]
            .iter()
            .map(|tensor| (0..tensor.elements()).map(|_| StandardNormal.sample(&mut rng)).collect())
            .collect();
        let probe = PROBES.iter().find(|probe| probe.name == name).unwrap();
        let Change::Numbers(change) = probe.change else { unreachable!("{name}") };
        let told = change(&dims(), Dtype::F16, &mut inputs, seed);
        let out = Gemm.oracle(&dims(), &inputs, &(0..20).collect::<Vec<_>>()).unwrap();
        (inputs, told, out)
    }

    #[test]
    fn a_selection_returns_rows_of_b_from_all_over_the_place() {
        let (inputs, _, out) = probed("a selection", 5);
        let mut met = std::collections::BTreeSet::new();
        for row in out.chunks_exact(30) {
            let found = inputs[1].chunks_exact(30).position(|of_b| {
                let factor = row[0] / f64::from(of_b[0]);
                of_b.iter().zip(row).all(|(b, c)| (f64::from(*b) * factor - *c).abs() < 1e-6)
            });
            met.insert(found.expect("it is a multiple of a row of b"));
        }
        assert!(met.len() > 8, "{met:?}");
    }

    #[test]
    fn only_two_probes_leave_the_range_of_fp16() {
        for probe in PROBES {
            let mut left = 0;
            for seed in 0..20 {
                let (inputs, told, out) = probed(probe.name, seed);
                assert!(told.rows.iter().all(|row| *row < 20), "{}: {told:?}", probe.name);
                left += usize::from(out.iter().any(|c| !c.is_finite() || c.abs() > 65_504.0));
                let finite = inputs.concat().iter().all(|x| x.abs() <= 65_504.0);
                assert_eq!(finite, probe.name != "NaN and infinity", "{}", probe.name);
            }
            let leaves = ["sums beyond the largest number", "NaN and infinity"].contains(&probe.name);
            assert_eq!(left > 0, leaves, "{}: {left} of 20", probe.name);
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_probe_and_another_seed_another_one() {
        for probe in PROBES {
            let bits =
                |seed: u64| -> Vec<u32> { probed(probe.name, seed).0.concat().iter().map(|x| x.to_bits()).collect() };
            assert_eq!(bits(5), bits(5), "{}", probe.name);
            assert_ne!(bits(5), bits(6), "{}", probe.name);
        }
    }
}
