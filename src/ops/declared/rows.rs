//! Probes of rows: all numbers of a row in a narrow band, and the extremes of a row: near its end, zeros of either sign, or infinite.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Dtype, TensorSpec, Values};
use crate::ops::draw::{limit, log_uniform_count, power_of_two, sign};

/// The part of a band's middle that lies on either side of it.
const HALF_WIDTH: f32 = 1.0 / 16.0;

/// Magnitudes of bands near zero, as powers of two: up to 2.5. Between 3 and 13, PyTorch's own GELU, 0.5 x (1 + erf(x / sqrt(2))),
/// loses most digits of its result beside the 1. Beyond, the exact result is no normal number, either.
const NEAR_ZERO: std::ops::Range<f32> = -5.0..1.3;

/// Magnitudes of the others, from 14.4 to 64: an exponential still is a normal number, but is lost beside 1.
const FAR_FROM_ZERO: std::ops::Range<f32> = 3.85..6.0;

/// One of so many bands is near zero, where other probes look, too.
const NEAR: u32 = 4;

/// Rows that each lie in a band of their own. The errors of numbers of one size are hidden by larger numbers of the same row.
pub(super) fn bands(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for row in values.chunks_mut(tensor.row_len().max(1)) {
        let exponents = if rng.random_range(0..NEAR) == 0 { NEAR_ZERO } else { FAR_FROM_ZERO };
        let middle = sign(&mut rng) * power_of_two(&mut rng, exponents);
        fill_band(row, middle, &mut rng);
    }
}

/// Fills a row with numbers near `middle`.
fn fill_band(row: &mut [f32], middle: f32, rng: &mut SmallRng) {
    row.iter_mut().for_each(|x| *x = middle * (1.0 + HALF_WIDTH * rng.random_range(-1.0..1.0_f32)));
}

/// Rows whose numbers are all far from zero, each on a side of its own: beyond a start value such as 1e4 of a minimum or maximum.
pub(super) fn far(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    // Fifth powers stay finite in FP32, as in the probe of very large numbers.
    let exponents = match tensor.dtype {
        Dtype::F16 => 9.0..15.8,
        dtype if dtype.is_float8() => 6.0..8.0,
        _ => 9.0..24.9,
    };
    for row in values.chunks_mut(tensor.row_len().max(1)) {
        let middle = sign(&mut rng) * power_of_two(&mut rng, exponents.clone());
        fill_band(row, middle, &mut rng);
    }
    limit(values, tensor.dtype);
}

/// One of so many numbers of a row is zero.
const ZEROS: u32 = 8;

/// Rows on one side of zero, with zeros of either sign. They are equal, so the first of them is the first extreme, but their bits differ.
pub(super) fn zeros_at_end(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for row in values.chunks_mut(tensor.row_len().max(1)) {
        let side = sign(&mut rng);
        for x in row {
            let is_zero = rng.random_range(0..ZEROS) == 0;
            *x = if is_zero { 0.0 * sign(&mut rng) } else { side * x.abs() };
        }
    }
}

/// One of so many rows is infinite everywhere, and one in part.
const INFINITE: u32 = 4;

/// Returns whether whole rows may be infinite.
pub(super) fn may_be_infinite(tensor: &TensorSpec) -> bool {
    tensor.is_free() && tensor.dtype.has_infinity()
}

/// Rows that are infinite everywhere, as padding is: no number is above what the search of a maximum begins with. In others, every
/// second number is, so that many threads begin with one.
pub(super) fn infinite(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for row in values.chunks_mut(tensor.row_len().max(1)) {
        let side = sign(&mut rng);
        match rng.random_range(0..INFINITE) {
            0 => row.fill(side * f32::INFINITY),
            1 => row.iter_mut().filter(|_| rng.random()).for_each(|x| *x = f32::NEG_INFINITY),
            _ => {}
        }
    }
}

/// Returns whether a row has a largest and a smallest element that may be at any place.
pub(super) fn has_extremes(tensor: &TensorSpec) -> bool {
    match tensor.values {
        Values::Normal | Values::Scaled(_) => tensor.is_free(),
        Values::Uniform(..) | Values::Integers(..) | Values::Mask(_) => true,
        Values::Sorted(..) | Values::Spread(..) | Values::Borders(..) | Values::Given(_) => false,
    }
}

/// Rows with one largest and one smallest number, at distances from the end that are log-uniform.
pub(super) fn extremes(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (dtype, slots) = (tensor.dtype, tensor.dtype.slots());
    for row in values.chunks_mut((tensor.row_len() * slots).max(1)) {
        let length = row.len() / slots;
        let mut place = || length - log_uniform_count(&mut rng, length);
        let (smallest, largest) = (place(), place());
        match tensor.values {
            Values::Integers(from, to) => {
                if to.saturating_sub(from) > 1 {
                    // Another extreme could come first.
                    let inner = |element: &mut [f32]| dtype.keep(dtype.kept(element).clamp(from + 1, to - 1), element);
                    row.chunks_exact_mut(slots).for_each(inner);
                }
                let mut put = |number, place: usize| dtype.keep(number, &mut row[place * slots..][..slots]);
                put(from, smallest);
                put(to, largest);
            }
            Values::Mask(_) => {
                row.fill(0.0);
                dtype.keep(1, &mut row[largest * slots..][..slots]);
            }
            Values::Uniform(from, to) => (row[smallest], row[largest]) = (from, to),
            _ => {
                let beyond = row.iter().fold(1.0_f32, |most, x| most.max(x.abs())) * rng.random_range(1.25..4.0_f32);
                (row[smallest], row[largest]) = (-beyond, beyond);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::TensorRole;

    fn filled(dtype: Dtype, values: Values, length: usize, fill: fn(&TensorSpec, &mut [f32], u64)) -> Vec<f32> {
        let (name, shape) = ("x".to_owned(), vec![100, length]);
        let tensor = TensorSpec { name, dtype, shape, role: TensorRole::Input, values };
        let mut drawn = vec![0.0; tensor.elements() * dtype.slots()];
        fill(&tensor, &mut drawn, 3);
        drawn
    }

    #[test]
    fn each_row_is_in_a_band_of_one_sign_and_many_are_far_below_zero() {
        let drawn = filled(Dtype::F32, Values::Normal, 64, bands);
        let ends = |row: &[f32]| row.iter().fold((f32::MAX, f32::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
        let bands: Vec<(f32, f32)> = drawn.chunks(64).map(ends).collect();
        assert!(bands.iter().all(|(a, b)| a * b > 0.0 && (b - a) < 0.13 * a.abs().max(b.abs())), "{bands:?}");
        assert!(bands.iter().filter(|(a, b)| *a > -72.0 && *b < -13.0).count() > 20, "{bands:?}");
    }

    #[test]
    fn rows_are_beyond_what_a_kernel_may_begin_a_maximum_with() {
        let beyond = |dtype, most: f32| {
            let drawn = |seed| {
                let (name, shape) = ("x".to_owned(), vec![8, 16]);
                let tensor = TensorSpec { name, dtype, shape, role: TensorRole::Input, values: Values::Normal };
                let mut drawn = vec![0.0; 128];
                far(&tensor, &mut drawn, seed);
                assert!(drawn.iter().all(|x| x.abs() > 400.0 && x.is_finite()), "{drawn:?}");
                drawn
            };
            (0..20).filter(|seed| drawn(*seed).chunks(16).any(|row| row.iter().all(|x| *x < -most))).count()
        };
        let found = [(Dtype::F16, 1e4), (Dtype::F32, 65504.0), (Dtype::F32, 1e6)];
        let found = found.map(|(dtype, most)| beyond(dtype, most));
        assert!(found.iter().all(|seeds| *seeds >= 4), "{found:?} of 20 probes");
    }

    #[test]
    fn rows_end_with_zeros_of_either_sign_or_are_infinite() {
        let drawn = filled(Dtype::F32, Values::Normal, 64, |tensor, values, seed| {
            values.iter_mut().enumerate().for_each(|(at, x)| *x = at as f32 - 3000.5);
            zeros_at_end(tensor, values, seed);
        });
        let is_one_sided = |row: &[f32]| row.iter().all(|x| *x <= 0.0) || row.iter().all(|x| *x >= 0.0);
        assert!(drawn.chunks(64).all(is_one_sided));
        let zeros = |bits: u32| drawn.iter().filter(|x| x.to_bits() == bits).count();
        assert!(zeros(0) > 200 && zeros(1 << 31) > 200);
        let drawn = filled(Dtype::F16, Values::Normal, 64, infinite);
        let all = |number: f32| drawn.chunks(64).filter(|row| row.iter().all(|x| *x == number)).count();
        assert!(all(f32::INFINITY) > 5 && all(f32::NEG_INFINITY) > 5 && all(0.0) > 30);
        assert!(drawn.chunks(64).any(|row| row.contains(&0.0) && row.contains(&f32::NEG_INFINITY)));
    }

    #[test]
    fn the_largest_is_alone_and_often_near_the_end() {
        for (dtype, values) in [
            (Dtype::F16, Values::Normal),
            (Dtype::F32, Values::Uniform(-1.0, 1.0)),
            (Dtype::I64, Values::Integers(-5, 1 << 40)),
            (Dtype::I8, Values::Integers(0, 1)),
            (Dtype::Bool, Values::Mask(0.5)),
        ] {
            let drawn = filled(dtype, values, 70_000, extremes);
            let place = |row: &[f32]| -> usize {
                let numbers = dtype.numbers(row);
                let most = numbers.iter().copied().fold(f64::MIN, f64::max);
                assert_eq!(numbers.iter().filter(|x| **x == most).count(), 1);
                numbers.iter().position(|x| *x == most).unwrap()
            };
            let beyond = drawn.chunks(70_000 * dtype.slots()).filter(|row| place(row) > 1 << 16).count();
            assert!((50..95).contains(&beyond), "{dtype:?}: {beyond}");
        }
    }
}
