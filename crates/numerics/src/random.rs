//! Draws of many random numbers.

use rand::rngs::SmallRng;
use rand_distr::{Distribution, StandardNormal};

/// Draws from the standard normal distribution.
pub fn fill_normal(values: &mut [f32], rng: &mut SmallRng) {
    values.iter_mut().for_each(|value| *value = StandardNormal.sample(rng));
}
