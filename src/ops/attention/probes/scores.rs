//! Probes whose scores are unlike those of ordinary inputs.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::shape::{Place, Shape};
use super::{Head, change_in_order, each_head, query_that_sees, rows_of};
use crate::domain::op::{Dims, Dtype, Probed};
use crate::ops::draw::{direction, log_uniform_count, normal, places, power_of_two, sign};

/// The share of heads, or of rows, that get a property.
const FREQUENT: f64 = 0.5;
const OCCASIONAL: f64 = 0.25;

/// Every head has its own scale of queries, keys and values. Some have dimensions of very different scales, an offset
/// in all scores, scores that rise or fall along the keys, values with a mean, or outlier rows.
pub fn mixture(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each_head(dims, dtype, inputs, seed, |shape, mut head, rng| {
        let of_scores = power_of_two(rng, -5.0..4.0);
        let of_queries = power_of_two(rng, -3.0..3.0);
        scale(head.q, of_queries);
        scale(head.k, of_scores / of_queries);
        scale(head.v, power_of_two(rng, -8.0..8.0));
        let offset = if rng.random_bool(FREQUENT) { sign(rng) * power_of_two(rng, 1.0..7.0) } else { 0.0 };
        let slope = if rng.random_bool(FREQUENT) { sign(rng) * power_of_two(rng, 1.0..6.0) } else { 0.0 };
        shift(shape, &mut head, rng, |j| offset + slope * (j as f32 / shape.length as f32 - 0.5));
        if rng.random_bool(OCCASIONAL) {
            let mean = power_of_two(rng, -4.0..4.0) * sign(rng);
            head.v.iter_mut().for_each(|x| *x += mean);
        }
        if rng.random_bool(FREQUENT) {
            rescale_dimensions(shape, &mut head, dtype, rng);
        }
        outliers(shape, &mut head, rng);
    })
}

/// All scores of a head lie around a number far from zero, or rise or fall along the keys, where queries and keys are
/// more or less parallel. Values are of any size. An exponential without the right maximum overflows or underflows, and
/// so does its product with a value.
pub fn shifted(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each_head(dims, dtype, inputs, seed, |shape, mut head, rng| {
        let near_overflow: bool = rng.random();
        let size = if near_overflow { rng.random_range(60.0..105.0) } else { power_of_two(rng, 6.5..9.0) };
        let (offset, slope) = match rng.random_range(0..3) {
            0 => (sign(rng) * size, 0.0),
            1 => (0.0, sign(rng) * size),
            _ => (sign(rng) * size, sign(rng) * rng.random_range(0.0..20.0)),
        };
        let noise = if rng.random() { -12.0..-6.0 } else { -6.0..0.0 };
        scale(head.q, power_of_two(rng, noise.clone()));
        scale(head.k, power_of_two(rng, noise));
        let of_values = if rng.random() { 12.0..15.0 } else { -8.0..8.0 };
        scale(head.v, power_of_two(rng, of_values));
        shift(shape, &mut head, rng, |j| offset + slope * j as f32 / shape.length as f32);
    })
}

/// Every query points at a random key that it sees, with a score drawn for it. Some heads have large values. A kernel
/// that drops this key, or reaches it with a wrong maximum, returns other values.
pub fn needles(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each_head(dims, dtype, inputs, seed, |shape, head, rng| {
        let length = (shape.d as f32).sqrt();
        if rng.random_bool(OCCASIONAL) {
            scale(head.v, power_of_two(rng, 8.0..15.0));
        }
        // All keys get the same length. Then no key has a larger product with another key than with itself.
        head.k.chunks_exact_mut(shape.d).for_each(|key| {
            let norm = key.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            scale(key, length / norm);
        });
        for (i, query) in head.q.chunks_exact_mut(shape.d).enumerate() {
            let score = rng.random_range(16.0..100.0_f32);
            let at = rng.random_range(shape.visible(i)) * shape.d;
            query.iter_mut().zip(&head.k[at..]).for_each(|(q, k)| *q = k * score / length);
        }
    })
}

/// One key of each head has a weight near 1, and values near zero. The output is the sum of the other keys' small
/// weights, whose logarithms lie 6 to 15 below (FP16) or up to 64 (FP32). A kernel that skips small weights loses it.
pub fn tail(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    each_head(dims, dtype, inputs, seed, |shape, mut head, rng| {
        let gaps = match dtype {
            Dtype::F16 => 6.0..15.0_f32,
            _ => 6.0..64.0,
        };
        let along = direction(rng, shape.d);
        let strength = power_of_two(rng, 0.0..3.0);
        let spread = rng.random_range(0.0..0.1_f32);
        scale(head.k, spread);
        // A kernel may skip a whole tile if the weights of all its rows are small, so that rows of a head are alike.
        let (least, more) = (rng.random_range(gaps), if rng.random_bool(FREQUENT) { 0.01 } else { 6.0 });
        for query in head.q.chunks_exact_mut(shape.d) {
            scale(query, 0.25 * spread);
            let gap = rng.random_range(least..least + more);
            query.iter_mut().zip(&along).for_each(|(q, e)| *q += e * gap / strength);
        }
        // Early, so that most queries of a causal case see it.
        let at = rng.random_range(shape.visible(0));
        let score = strength * (shape.d as f32).sqrt();
        head.key(shape, at).iter_mut().zip(&along).for_each(|(k, e)| *k = e * score);
        let size = power_of_two(rng, 0.0..10.0);
        head.v.iter_mut().for_each(|x| *x = (*x + 1.0) * size);
        let tiny = if rng.random_bool(FREQUENT) { 0.0 } else { power_of_two(rng, -24.0..-20.0) };
        scale(head.value(shape, at), tiny);
    })
}

/// Ordinary inputs with one exception at a random place in some of the heads: a large key, query or value, a key that
/// one query points at, or a few neighbouring keys with large scores.
pub fn exception(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change_in_order(dims, Some(dtype), inputs, |inputs, places| {
        let shape = Shape::of(dims);
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut rows = Vec::new();
        let [q, k, v, ..] = inputs else { return Probed::default() };
        let heads = (shape.heads / 3).max(1);
        for head in rand::seq::index::sample(&mut rng, shape.heads, heads.min(MAX_EXCEPTIONS)) {
            let Place { shape, queries, keys } = places[head];
            if shape.sq == 0 {
                continue;
            }
            let mut inputs = Head {
                q: &mut q[queries * shape.d..][..shape.sq * shape.d],
                k: &mut k[keys * shape.d..][..shape.length * shape.d],
                v: &mut v[keys * shape.d..][..shape.length * shape.d],
            };
            rows.extend(add_exception(&shape, &mut inputs, &mut rng).into_iter().map(|i| queries + i));
            rows.extend(rows_of(&places[head], 1, &mut rng));
        }
        Probed { rows, ..Probed::default() }
    })
}

/// The most heads with an exception.
const MAX_EXCEPTIONS: usize = 32;

/// Makes one exception in a head, and returns queries whose output depends on it.
fn add_exception(shape: &Shape, head: &mut Head<'_>, rng: &mut SmallRng) -> Vec<usize> {
    let j = rng.random_range(shape.seen());
    let i = query_that_sees(shape, j, rng);
    let affected = vec![i, query_that_sees(shape, j, rng), shape.sq - 1];
    match rng.random_range(0..5) {
        0 => scale(head.key(shape, j), power_of_two(rng, 2.0..8.0)),
        1 => scale(head.value(shape, j), sign(rng) * power_of_two(rng, 4.0..12.0)),
        2 => scale(head.query(shape, i), power_of_two(rng, 2.0..8.0)),
        3 => point(shape, head, i, j, rng.random_range(16.0..200.0)),
        _ => {
            let last = shape.length.min(j + rng.random_range(2..40));
            let factor = power_of_two(rng, 2.0..6.0);
            (j..last).for_each(|j| scale(head.key(shape, j), factor));
        }
    }
    affected
}

/// Makes a query point at a key with a score.
fn point(shape: &Shape, head: &mut Head<'_>, i: usize, j: usize, score: f32) {
    let key = head.key(shape, j).to_vec();
    let squares = key.iter().map(|x| x * x).sum::<f32>().max(1e-3);
    let factor = score * (shape.d as f32).sqrt() / squares;
    head.query(shape, i).iter_mut().zip(key).for_each(|(q, k)| *q = k * factor);
}

/// Adds `score(j)` to the score of key `j` with every query, or subtracts it for some of them.
fn shift(shape: &Shape, head: &mut Head<'_>, rng: &mut SmallRng, score: impl Fn(usize) -> f32) {
    let along = direction(rng, shape.d);
    // The larger the part in the queries, the more the keys' noise counts, and vice versa.
    let of_queries = power_of_two(rng, 0.0..3.0);
    let turned = if rng.random() { 0.0 } else { rng.random_range(0.0..1.0) };
    for query in head.q.chunks_exact_mut(shape.d) {
        let of_query = if rng.random_bool(turned) { -of_queries } else { of_queries };
        query.iter_mut().zip(&along).for_each(|(q, e)| *q += e * of_query);
    }
    let length = (shape.d as f32).sqrt();
    for (j, key) in head.k.chunks_exact_mut(shape.d).enumerate() {
        let of_key = score(j) * length / of_queries;
        key.iter_mut().zip(&along).for_each(|(k, e)| *k += e * of_key);
    }
}

/// Gives dimensions, or runs of them, their own scales. Queries and keys get inverse ones, so that all products have
/// the same weight. Rounding relative to a row's largest number loses the small ones.
fn rescale_dimensions(shape: &Shape, head: &mut Head<'_>, dtype: Dtype, rng: &mut SmallRng) {
    let run = log_uniform_count(rng, shape.d);
    let most = if dtype == Dtype::F16 { 6.0 } else { 14.0 };
    let factors: Vec<f32> = (0..shape.d.div_ceil(run)).map(|_| power_of_two(rng, -most..most)).collect();
    head.q
        .chunks_exact_mut(shape.d)
        .for_each(|row| row.iter_mut().enumerate().for_each(|(d, q)| *q *= factors[d / run]));
    head.k
        .chunks_exact_mut(shape.d)
        .for_each(|row| row.iter_mut().enumerate().for_each(|(d, k)| *k /= factors[d / run]));
}

/// Enlarges some keys, values and queries, and sets some values to zero.
fn outliers(shape: &Shape, head: &mut Head<'_>, rng: &mut SmallRng) {
    for j in places(rng, shape.length, 2) {
        if rng.random_bool(OCCASIONAL) {
            scale(head.key(shape, j), power_of_two(rng, 1.0..5.0));
        }
        if rng.random_bool(OCCASIONAL) {
            scale(head.value(shape, j), power_of_two(rng, 1.0..6.0));
        }
    }
    for i in places(rng, shape.sq, 1) {
        if rng.random_bool(OCCASIONAL) {
            scale(head.query(shape, i), power_of_two(rng, 1.0..4.0));
        }
    }
    if rng.random_bool(OCCASIONAL) {
        let share = rng.random_range(0.05..0.95);
        head.v.chunks_exact_mut(shape.d).for_each(|value| {
            if rng.random_bool(share) {
                scale(value, 0.0);
            }
        });
    }
    if rng.random_bool(OCCASIONAL) {
        let noise = power_of_two(rng, -6.0..0.0);
        head.q.iter_mut().for_each(|q| *q += noise * normal(rng));
    }
}

pub(super) fn scale(values: &mut [f32], factor: f32) {
    values.iter_mut().for_each(|x| *x *= factor);
}
