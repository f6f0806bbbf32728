//! Random numbers and places for probes.

use rand::Rng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, StandardNormal};

use crate::domain::op::Dtype;

/// Draws 2 to the power of a uniform exponent.
pub fn power_of_two(rng: &mut SmallRng, exponents: std::ops::Range<f32>) -> f32 {
    rng.random_range(exponents).exp2()
}

/// Draws 1 or -1.
pub fn sign(rng: &mut SmallRng) -> f32 {
    if rng.random() { 1.0 } else { -1.0 }
}

/// Draws from the standard normal distribution.
pub fn normal(rng: &mut SmallRng) -> f32 {
    StandardNormal.sample(rng)
}

/// Draws a vector of unit length. No element is near zero.
pub fn direction(rng: &mut SmallRng, length: usize) -> Vec<f32> {
    let mut direction: Vec<f32> = (0..length).map(|_| sign(rng) * rng.random_range(0.5..1.0_f32)).collect();
    let norm = direction.iter().map(|x| x * x).sum::<f32>().sqrt();
    direction.iter_mut().for_each(|x| *x /= norm);
    direction
}

/// Draws a count from 1 to `most`, log-uniformly.
pub fn log_uniform_count(rng: &mut SmallRng, most: usize) -> usize {
    (power_of_two(rng, 0.0..(most as f32).log2().max(0.01)) as usize).clamp(1, most)
}

/// Draws up to `wanted` places of `0..count`, including the last one. The last row of an output often depends on more
/// than the others.
pub fn places(rng: &mut SmallRng, count: usize, wanted: usize) -> Vec<usize> {
    let mut places = rand::seq::index::sample(rng, count, wanted.min(count)).into_vec();
    places.push(count - 1);
    places
}

/// Limits values to the finite range of a dtype.
pub fn limit(values: &mut [f32], dtype: Dtype) {
    let largest = dtype.largest() as f32;
    values.iter_mut().for_each(|x| *x = x.clamp(-largest, largest));
}
