//! Inputs unlike ordinary random ones that any op should bear.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Dims, Dtype, Probe, Probed};
use crate::ops::draw::{limit, log_uniform_count, normal, power_of_two, sign};

/// Every probe. None of them is zero everywhere, because many ops divide by a norm.
pub const PROBES: [Probe; 5] = [
    Probe { name: "large numbers", apply: large },
    Probe { name: "small numbers", apply: small },
    Probe { name: "outliers", apply: outliers },
    Probe { name: "numbers with a common mean", apply: offset },
    Probe { name: "runs of equal numbers", apply: runs },
];

fn change(
    dtype: Dtype,
    inputs: &mut [Vec<f32>],
    seed: u64,
    mut change: impl FnMut(&mut [f32], &mut SmallRng),
) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    for values in inputs {
        change(values, &mut rng);
        limit(values, dtype);
    }
    Probed::default()
}

/// Numbers of up to a hundred or so: an exponential overflows unless the largest number is subtracted first.
fn large(_: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dtype, inputs, seed, |values, rng| {
        let factor = power_of_two(rng, 2.0..6.0);
        values.iter_mut().for_each(|x| *x *= factor);
    })
}

fn small(_: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dtype, inputs, seed, |values, rng| {
        let factor = power_of_two(rng, -6.0..-2.0);
        values.iter_mut().for_each(|x| *x *= factor);
    })
}

/// A few numbers dominate a sum, a maximum or a norm.
fn outliers(_: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dtype, inputs, seed, |values, rng| {
        for _ in 0..log_uniform_count(rng, values.len().min(4096)) {
            let at = rng.random_range(0..values.len());
            values[at] = sign(rng) * power_of_two(rng, 3.0..8.0);
        }
    })
}

/// Sums that do not average out, and differences of nearly equal numbers.
fn offset(_: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dtype, inputs, seed, |values, rng| {
        let mean = sign(rng) * power_of_two(rng, 0.0..3.0);
        values.iter_mut().for_each(|x| *x += mean);
    })
}

/// Ties, and neighbours that a kernel could mistake for each other only at the ends of a run.
fn runs(_: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dtype, inputs, seed, |values, rng| {
        let longest = log_uniform_count(rng, 512);
        let mut rest = values;
        while !rest.is_empty() {
            let (run, after) = rest.split_at_mut(rng.random_range(1..=longest).min(rest.len()));
            run.fill(normal(rng));
            rest = after;
        }
    })
}
