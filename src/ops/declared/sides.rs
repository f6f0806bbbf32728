//! Probes of whole inputs far from zero, on one side: beyond whatever a minimum or a maximum begins at, of a row, of a column or of
//! everything.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Dtype, TensorSpec, Values};
use crate::ops::draw::{limit, sign};

/// The magnitude that every op gets, as a power of two. Fifth powers stay finite in FP32, as in the probe of very large numbers.
const FOR_ALL: f32 = 24.9;

/// The exponents of FP32, and how many of them are kept for constant factors.
const EXPONENTS: f32 = 127.0;
const KEPT: f32 = 3.0;

/// The powers of an input that may be computed at the other magnitudes. Sums of as many terms as there are inputs stay finite.
const POWERS: [f32; 3] = [1.0, 2.0, 3.0];

/// How much smaller some numbers are than others, as a power of two.
const BAND: f32 = 0.25;

/// The part of a range of whole numbers, or between two bounds, that is on one side.
const SIDE: f64 = 1.0 / 16.0;

/// Returns the magnitudes, the largest first.
pub(super) fn magnitudes(tensors: &[TensorSpec]) -> Vec<f32> {
    let is_wide = |tensor: &TensorSpec| tensor.is_free() && !is_narrow(tensor.dtype);
    let Some(elements) = tensors.iter().filter(|tensor| is_wide(tensor)).map(TensorSpec::elements).max() else {
        return vec![FOR_ALL];
    };
    let exponents = EXPONENTS - KEPT - (elements.max(1) as f32).log2();
    let larger = POWERS.map(|power| exponents / power).into_iter().filter(|magnitude| *magnitude > FOR_ALL);
    larger.chain([FOR_ALL]).collect()
}

fn is_narrow(dtype: Dtype) -> bool {
    dtype == Dtype::F16 || dtype.is_float8()
}

/// Returns whether some input has sides.
pub(super) fn have_sides(tensors: &[TensorSpec]) -> bool {
    tensors.iter().any(has_sides)
}

/// Returns whether products of inputs may lie on either side.
pub(super) fn have_two_sides(tensors: &[TensorSpec]) -> bool {
    tensors.iter().filter(|tensor| tensor.is_free()).count() > 1
}

fn has_sides(tensor: &TensorSpec) -> bool {
    match tensor.values {
        Values::Normal | Values::Scaled(_) => tensor.is_free(),
        Values::Uniform(..) | Values::Integers(..) => true,
        Values::Sorted(..) | Values::Spread(..) | Values::Borders(..) | Values::Mask(_) | Values::Given(_) => false,
    }
}

/// All numbers far below zero, or near the least that they may be.
pub(super) fn below(tensors: &[TensorSpec], values: &mut [Vec<f32>], magnitude: f32, seed: u64) {
    fill_sides(tensors, values, magnitude, seed, |_| -1.0);
}

/// All numbers far above zero, or near the largest that they may be.
pub(super) fn above(tensors: &[TensorSpec], values: &mut [Vec<f32>], magnitude: f32, seed: u64) {
    fill_sides(tensors, values, magnitude, seed, |_| 1.0);
}

/// Inputs on the one side and on the other by turns.
pub(super) fn opposite(tensors: &[TensorSpec], values: &mut [Vec<f32>], magnitude: f32, seed: u64) {
    let first = sign(&mut SmallRng::seed_from_u64(seed));
    fill_sides(tensors, values, magnitude, seed, |place| if place % 2 == 0 { first } else { -first });
}

fn fill_sides(tensors: &[TensorSpec], values: &mut [Vec<f32>], magnitude: f32, seed: u64, side: impl Fn(usize) -> f32) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let with_sides = tensors.iter().zip(values).filter(|(tensor, _)| has_sides(tensor));
    for (place, (tensor, values)) in with_sides.enumerate() {
        fill(tensor, values, side(place), magnitude, &mut rng);
    }
}

fn fill(tensor: &TensorSpec, values: &mut [f32], side: f32, magnitude: f32, rng: &mut SmallRng) {
    let dtype = tensor.dtype;
    match tensor.values {
        Values::Integers(from, to) => {
            let width = ((to as f64 - from as f64) * SIDE) as i64;
            let (least, most) = if side < 0.0 { (from, from + width) } else { (to - width, to) };
            let elements = values.chunks_exact_mut(dtype.slots());
            elements.for_each(|element| dtype.keep(rng.random_range(least..=most), element));
        }
        Values::Uniform(from, to) => {
            let width = (to - from) * SIDE as f32;
            let (least, most) = if side < 0.0 { (from, from + width) } else { (to - width, to) };
            values.iter_mut().for_each(|x| *x = rng.random_range(least..=most));
        }
        _ => {
            let magnitude = match dtype {
                Dtype::F16 => 15.8,
                _ if dtype.is_float8() => 8.0,
                _ => magnitude,
            };
            values.iter_mut().for_each(|x| *x = side * (magnitude - rng.random_range(0.0..BAND)).exp2());
            limit(values, dtype);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::TensorRole;

    fn tensor(name: &str, dtype: Dtype, values: Values) -> TensorSpec {
        TensorSpec { name: name.to_owned(), dtype, shape: vec![8, 128], role: TensorRole::Input, values }
    }

    #[test]
    fn a_whole_input_is_on_one_side_and_as_large_as_its_type_allows() {
        let tensors = [
            tensor("x", Dtype::F32, Values::Normal),
            tensor("h", Dtype::F16, Values::Normal),
            tensor("i", Dtype::I8, Values::Integers(-128, 127)),
            tensor("u", Dtype::F32, Values::Uniform(-1.0, 3.0)),
            tensor("m", Dtype::Bool, Values::Mask(0.5)),
        ];
        let magnitudes = magnitudes(&tensors);
        assert!(magnitudes.is_sorted_by(|a, b| a > b) && magnitudes[0] > 113.0 && magnitudes.len() == 4);
        let mut values = vec![vec![0.5; 1024]; 5];
        below(&tensors, &mut values, magnitudes[0], 1);
        let highest = |values: &[f32]| values.iter().copied().fold(f32::MIN, f32::max);
        assert!(highest(&values[0]) < -1e33 && highest(&values[1]) < -4e4 && highest(&values[2]) < -100.0);
        assert!(highest(&values[3]) < -0.7 && values[4] == [0.5; 1024]);
        opposite(&tensors, &mut values, magnitudes[0], 1);
        assert!(values[0][0] * values[1][0] < 0.0 && values[1][0] * values[2][0] < 0.0);
        let narrow = [tensors[1].clone(), tensors[2].clone()];
        assert_eq!(super::magnitudes(&narrow), [FOR_ALL]);
    }
}
