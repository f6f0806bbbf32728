//! Inputs unlike ordinary random ones that any op should bear.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{compared, contents, rows, scales, sides, special};
use crate::domain::op::{Change, Dims, Dtype, FillAround, Probe, Probed, TensorSpec};
use crate::ops::draw::{limit, log_uniform_count, normal, power_of_two, sign};

/// The most infinite elements of an input.
const MOST_INFINITE: usize = 8;

/// The most very large elements of an input.
const MOST_VERY_LARGE: usize = 256;

/// The most rows or columns of an input that are zero.
const MOST_ZERO_RUNS: usize = 4;

/// One of so many numbers is zero.
const ZEROS: u32 = 32;

/// Every probe. None of them is zero everywhere: many ops divide by a norm, so the result would not be specified.
pub const PROBES: [Probe; 30] = [
    Probe { name: "large numbers", change: Change::Numbers(large) },
    Probe { name: "very large numbers", change: Change::Numbers(very_large) },
    Probe { name: "small numbers", change: Change::Numbers(small) },
    Probe { name: "outliers", change: Change::Numbers(outliers) },
    Probe { name: "numbers with a common mean", change: Change::Numbers(offset) },
    Probe { name: "runs of equal numbers", change: Change::Numbers(runs) },
    Probe { name: "subnormal numbers of FP16", change: Change::Numbers(subnormal) },
    Probe { name: "infinite numbers", change: Change::Numbers(infinite) },
    Probe { name: "runs of zeros", change: Change::Numbers(zeros) },
    Probe { name: "some zeros", change: Change::Numbers(some_zeros) },
    of_contents("rows that end with zeros", TensorSpec::is_free, contents::padded),
    of_contents("runs of equal whole numbers", contents::is_whole, contents::whole),
    of_contents("masks with long runs", contents::is_mask, contents::mask),
    of_contents("sorted numbers with long runs", contents::is_sorted, contents::sorted),
    of_contents("runs near the bounds", contents::is_bounded, contents::bounded),
    of_contents("rows in narrow bands", TensorSpec::is_free, rows::bands),
    of_contents("rows far from zero", TensorSpec::is_free, rows::far),
    of_contents("rows with zeros of either sign at one end", TensorSpec::is_free, rows::zeros_at_end),
    of_contents("rows of infinite numbers", rows::may_be_infinite, rows::infinite),
    Probe {
        name: "an input with a large mean",
        change: Change::Together { is_of: scales::have_means, fill: scales::far_from_zero },
    },
    of_scales("rows of tiny numbers", scales::tiny_rows),
    of_scales("tiny numbers", scales::tiny),
    EXTREMES,
    Probe {
        name: "values of other inputs",
        change: Change::Together { is_of: compared::are_compared, fill: compared::shared },
    },
    on_sides("inputs far below zero", sides::have_sides, sides::below),
    on_sides("inputs far above zero", sides::have_sides, sides::above),
    on_sides("inputs far from zero on either side", sides::have_two_sides, sides::opposite),
    of_special("special numbers", special::of_both_signs),
    of_special("special numbers above zero", special::above_zero),
    of_special("rows of few different numbers", special::few),
];

/// An index of an extreme may be kept in too few bits, so that only rows longer than 65,536 show it.
pub const EXTREMES: Probe = of_contents("rows with their extremes near the end", rows::has_extremes, rows::extremes);

const fn of_contents(
    name: &'static str,
    is_of: fn(&TensorSpec) -> bool,
    fill: fn(&TensorSpec, &mut [f32], u64),
) -> Probe {
    Probe { name, change: Change::Contents { is_of, fill } }
}

const fn on_sides(
    name: &'static str,
    is_of: fn(&[TensorSpec]) -> bool,
    fill: fn(&[TensorSpec], &mut [Vec<f32>], f32, u64),
) -> Probe {
    Probe { name, change: Change::Magnitudes { is_of, magnitudes: sides::magnitudes, fill } }
}

const fn of_scales(name: &'static str, fill: fn(&[TensorSpec], &mut [Vec<f32>], f32, u64)) -> Probe {
    Probe { name, change: Change::Magnitudes { is_of: scales::have_scales, magnitudes: scales::magnitudes, fill } }
}

const fn of_special(name: &'static str, fill: FillAround) -> Probe {
    Probe { name, change: Change::Special { is_of: special::are_numbers, fill } }
}

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

/// A few numbers far beyond what a kernel may clamp its inputs to. Fifth powers of FP32 numbers stay below 2^126, beyond which a
/// fast division gives zero.
fn very_large(_: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let exponents = match dtype {
        Dtype::F16 => 11.0..15.9,
        _ if dtype.is_float8() => 6.0..9.0,
        _ => 20.0..25.0,
    };
    let mut rng = SmallRng::seed_from_u64(seed);
    for values in inputs.iter_mut().filter(|values| !values.is_empty()) {
        for _ in 0..log_uniform_count(&mut rng, values.len().min(MOST_VERY_LARGE)) {
            let at = rng.random_range(0..values.len());
            values[at] = sign(&mut rng) * power_of_two(&mut rng, exponents.clone());
        }
        limit(values, dtype);
    }
    Probed { is_beyond_domain: true, frees_integers: true, ..Probed::default() }
}

/// Sums that do not average out, and differences of nearly equal numbers.
fn offset(_: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    change(dtype, inputs, seed, |values, rng| {
        // The square of such a mean leaves few digits of FP32 for a variance. FP16 would round the differences away.
        let is_large = dtype == Dtype::F32 && rng.random();
        let exponents = if is_large { 8.0..10.0 } else { 0.0..4.5 };
        let mean = sign(rng) * power_of_two(rng, exponents);
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

/// Numbers that are subnormal in FP16, or whose products are. They keep their values.
fn subnormal(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    if dtype.is_float8() {
        // They would be zero.
        return small(dims, dtype, inputs, seed);
    }
    let mut rng = SmallRng::seed_from_u64(seed);
    let of_one = rng.random_range(0..=inputs.len());
    let mut place = 0;
    change(dtype, inputs, seed, |values, rng| {
        let exponents = match of_one {
            0 => -10.0..-7.0,
            one if one == place + 1 => -20.0..-15.0,
            _ => 0.0..3.0,
        };
        let factor = power_of_two(rng, exponents);
        values.iter_mut().for_each(|x| *x *= factor);
        place += 1;
    })
}

/// A few elements of an input are infinite, often at the end of a row, a window or a tile, where a kernel may multiply a number
/// that is not part of the sum by zero.
fn infinite(dims: &Dims, dtype: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    let largest = (0..inputs.len()).max_by_key(|at| inputs[*at].len());
    if let Some(largest) = largest.filter(|at| dtype.has_infinity() && !inputs[*at].is_empty()) {
        let is_any = rng.random_range(0..4) == 0;
        let values = &mut inputs[if is_any { rng.random_range(0..inputs.len()) } else { largest }];
        for _ in 0..rng.random_range(1..=MOST_INFINITE) {
            let at = end_of_some_side(dims, values.len(), &mut rng);
            values[at] = sign(&mut rng) * f32::INFINITY;
        }
    }
    Probed { is_beyond_domain: true, frees_integers: true, ..Probed::default() }
}

/// Some rows or columns are zero, of either sign, as padding is. A kernel that divides by a row's norm or maximum must do as the
/// oracle does.
fn zeros(dims: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    for values in inputs.iter_mut().filter(|values| !values.is_empty()) {
        for _ in 0..rng.random_range(1..=MOST_ZERO_RUNS) {
            let side = some_side(dims, values.len(), &mut rng);
            let run = rng.random_range(0..values.len() / side);
            values[run * side..(run + 1) * side].fill(sign(&mut rng) * 0.0);
        }
    }
    Probed { is_beyond_domain: true, frees_integers: true, ..Probed::default() }
}

/// Some numbers are zero, of either sign: a comparison may take them for positive or negative. An op may divide by one.
fn some_zeros(_: &Dims, _: Dtype, inputs: &mut [Vec<f32>], seed: u64) -> Probed {
    let mut rng = SmallRng::seed_from_u64(seed);
    for x in inputs.iter_mut().flatten() {
        if rng.random_range(0..ZEROS) == 0 {
            *x = sign(&mut rng) * 0.0;
        }
    }
    Probed { is_beyond_domain: true, ..Probed::default() }
}

/// Returns the size of some dimension, at most the length of a tensor.
fn some_side(dims: &Dims, length: usize, rng: &mut SmallRng) -> usize {
    let side = dims.get_index(rng.random_range(0..dims.len().max(1))).map_or(1, |(_, size)| *size as usize);
    side.clamp(1, length)
}

/// Returns a place of a tensor: often the first or the last of a run that is as long as some dimension.
fn end_of_some_side(dims: &Dims, length: usize, rng: &mut SmallRng) -> usize {
    let side = some_side(dims, length, rng);
    let run = rng.random_range(0..length / side);
    match rng.random_range(0..3) {
        0 => run * side,
        1 => (run + 1) * side - 1,
        _ => rng.random_range(0..length),
    }
}
