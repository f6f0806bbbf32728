//! Probes of whole inputs at a scale of their own: far from zero beside their spread, or so near to zero that what a kernel adds to
//! a norm or a variance decides.

use std::ops::Range;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Dtype, TensorSpec, Values};
use crate::ops::draw::{power_of_two, sign};

/// A common mean, as a power of two. E[x^2] - E[x]^2 loses all digits of a variance of one. A kernel that subtracts the mean first
/// loses less than rounding the inputs by what the contract allows.
const MEAN: Range<f32> = 12.5..13.5;

/// The magnitude of the first row, and those of the last one, as powers of two. Products of two numbers and of the low parts of a
/// split are normal in FP32 at the least of them. An op with products of more gets the others.
const FIRST: f32 = -8.0;
const LAST: [f32; 4] = [-54.0, -40.0, -24.0, FIRST];

/// The least magnitude in FP16, whose smallest normal number is 2^-14.
const LAST_F16: f32 = -12.0;

/// Returns whether some input may have any mean.
pub(super) fn have_means(tensors: &[TensorSpec]) -> bool {
    tensors.iter().any(has_mean)
}

fn has_mean(tensor: &TensorSpec) -> bool {
    // FP16 and BF16 would round the differences away.
    tensor.is_free() && tensor.dtype == Dtype::F32
}

/// A large mean for all of the largest input. The others stay, because what is added to the result would hide its errors.
pub(super) fn far_from_zero(tensors: &[TensorSpec], values: &mut [Vec<f32>], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let most = tensors.iter().filter(|tensor| has_mean(tensor)).map(TensorSpec::elements).max();
    let is_largest = |tensor: &TensorSpec| has_mean(tensor) && Some(tensor.elements()) == most;
    if let Some((_, values)) = tensors.iter().zip(values).find(|(tensor, _)| is_largest(tensor)) {
        let mean = sign(&mut rng) * power_of_two(&mut rng, MEAN);
        values.iter_mut().for_each(|x| *x += mean);
    }
}

/// Returns the magnitudes of the smallest numbers, the smallest first.
pub(super) fn magnitudes(_: &[TensorSpec]) -> Vec<f32> {
    LAST.to_vec()
}

/// Returns whether some input may be near zero everywhere.
pub(super) fn have_scales(tensors: &[TensorSpec]) -> bool {
    tensors.iter().any(has_scale)
}

fn has_scale(tensor: &TensorSpec) -> bool {
    let is_wide = !tensor.dtype.is_integer() && !tensor.dtype.is_float8();
    match tensor.values {
        Values::Uniform(from, to) => is_wide && (from..=to).contains(&0.0),
        _ => is_wide && tensor.is_free(),
    }
}

/// Rows whose scales fall evenly, down to a magnitude.
pub(super) fn tiny_rows(tensors: &[TensorSpec], values: &mut [Vec<f32>], magnitude: f32, seed: u64) {
    scale(tensors, values, magnitude, seed, |row, rows| if rows > 1 { row as f32 / (rows - 1) as f32 } else { 1.0 });
}

/// Numbers that are all of a magnitude, so that sums over rows are, too.
pub(super) fn tiny(tensors: &[TensorSpec], values: &mut [Vec<f32>], magnitude: f32, seed: u64) {
    scale(tensors, values, magnitude, seed, |_, _| 1.0);
}

/// Scales the rows of the largest inputs. `part` says how far a row is from the first magnitude to the last one.
fn scale(
    tensors: &[TensorSpec],
    values: &mut [Vec<f32>],
    magnitude: f32,
    seed: u64,
    part: impl Fn(usize, usize) -> f32,
) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let most = tensors.iter().filter(|tensor| has_scale(tensor)).map(TensorSpec::elements).max();
    let is_largest = |tensor: &TensorSpec| has_scale(tensor) && Some(tensor.elements()) == most;
    for (tensor, values) in tensors.iter().zip(values).filter(|(tensor, _)| is_largest(tensor)) {
        let last = if tensor.dtype == Dtype::F16 { magnitude.max(LAST_F16) } else { magnitude };
        for (row, values) in values.chunks_mut(tensor.row_len().max(1)).enumerate() {
            let scale = (FIRST + part(row, tensor.rows()) * (last - FIRST) - rng.random_range(0.0..1.0_f32)).exp2();
            values.iter_mut().for_each(|x| *x *= scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::TensorRole;

    fn tensor(dtype: Dtype, rows: usize, values: Values) -> TensorSpec {
        TensorSpec { name: "x".to_owned(), dtype, shape: vec![rows, 64], role: TensorRole::Input, values }
    }

    #[test]
    fn only_the_largest_input_gets_a_mean_that_hides_a_variance() {
        let tensors = [tensor(Dtype::F32, 1, Values::Normal), tensor(Dtype::F32, 8, Values::Normal)];
        let mut values = vec![vec![0.5; 64], vec![0.5; 512]];
        far_from_zero(&tensors, &mut values, 1);
        assert!(values[0] == [0.5; 64] && values[1].iter().all(|x| x.abs() > 5000.0), "{values:?}");
        assert!(!have_means(&[tensor(Dtype::F16, 8, Values::Normal)]));
    }

    #[test]
    fn scales_fall_row_by_row_and_stay_normal() {
        let tensors = [
            tensor(Dtype::F32, 8, Values::Normal),
            tensor(Dtype::F16, 8, Values::Normal),
            tensor(Dtype::F32, 8, Values::Uniform(0.0, 1.0)),
            tensor(Dtype::F32, 8, Values::Uniform(1.0, 2.0)),
            tensor(Dtype::F32, 1, Values::Normal),
        ];
        let ones = || vec![vec![1.0; 512], vec![1.0; 512], vec![1.0; 512], vec![1.0; 512], vec![1.0; 64]];
        let mut values = ones();
        tiny_rows(&tensors, &mut values, LAST[0], 1);
        let log = |values: &[f32], row: usize| values[64 * row].log2();
        assert!(log(&values[0], 0) <= FIRST && log(&values[0], 7) > -56.0 && log(&values[0], 7) <= LAST[0]);
        assert!(log(&values[1], 7) >= -13.0 && log(&values[2], 7) <= LAST[0]);
        assert!(values[3].iter().chain(&values[4]).all(|x| *x == 1.0));
        let mut values = ones();
        tiny(&tensors, &mut values, LAST[0], 1);
        assert!((0..8).all(|row| log(&values[0], row) <= LAST[0]));
    }
}
