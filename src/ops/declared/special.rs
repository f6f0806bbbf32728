//! Probes of numbers that a kernel may treat in another way than those beside them: zero, one, whole numbers, what it compares with,
//! and numbers that are equal.
//!
//! Random ones never are any of these. Where the result jumps, an exact answer shows on which side of a comparison a kernel is.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Dtype, TensorSpec, Values};
use crate::ops::draw::{normal, power_of_two, sign};

/// The distance of the numbers of the grid, and how many there are on either side of zero.
const STEP: f32 = 0.25;
const STEPS: i32 = 8;

/// One of so many numbers is one of the kernel's.
const OF_KERNEL: u32 = 3;

/// Different numbers of a row with many equal ones.
const DIFFERENT: usize = 8;

/// The largest numbers of a row are no special ones, so that what is divided by them, or by a mean, is none either: where a product
/// ends on a tie is a matter of rounding.
const BEYOND: std::ops::Range<f32> = 1.05..1.6;

pub(super) fn are_numbers(tensors: &[TensorSpec]) -> bool {
    tensors.iter().any(is_number)
}

fn is_number(tensor: &TensorSpec) -> bool {
    match tensor.values {
        Values::Uniform(..) => !tensor.dtype.is_integer(),
        _ => tensor.is_free(),
    }
}

/// Numbers of a grid around zero, with zeros of either sign and the constants of the kernel.
pub(super) fn of_both_signs(tensors: &[TensorSpec], values: &mut [Vec<f32>], constants: &[f32], seed: u64) {
    let grid: Vec<f32> = (-STEPS..=STEPS).map(|step| STEP * step as f32).chain([-0.0]).collect();
    let mut all = constants.to_vec();
    all.extend(constants.iter().map(|constant| -constant));
    fill(tensors, values, &grid, &all, seed);
}

/// The same above zero: a logarithm of others would leave nothing to compare.
pub(super) fn above_zero(tensors: &[TensorSpec], values: &mut [Vec<f32>], constants: &[f32], seed: u64) {
    let grid: Vec<f32> = (1..=STEPS).map(|step| STEP * step as f32).collect();
    let all: Vec<f32> = constants.iter().map(|constant| constant.abs()).filter(|constant| *constant > 0.0).collect();
    fill(tensors, values, &grid, &all, seed);
}

fn fill(tensors: &[TensorSpec], values: &mut [Vec<f32>], grid: &[f32], constants: &[f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for (tensor, values) in tensors.iter().zip(values).filter(|(tensor, _)| is_number(tensor)) {
        let is_within = |number: &f32| match tensor.values {
            Values::Uniform(from, to) => (from..=to).contains(number),
            _ => f64::from(number.abs()) <= tensor.dtype.largest(),
        };
        let bounds = if let Values::Uniform(from, to) = tensor.values { vec![from, to] } else { Vec::new() };
        let grid: Vec<f32> = grid.iter().copied().chain(bounds).filter(is_within).collect();
        let constants: Vec<f32> = constants.iter().copied().filter(is_within).collect();
        let is_signed = grid.iter().any(|number| *number < 0.0);
        for row in values.chunks_mut(tensor.row_len().max(1)) {
            for x in &mut *row {
                let is_of_kernel = rng.random_range(0..OF_KERNEL) == 0;
                let found = constants.choose(&mut rng).filter(|_| is_of_kernel).or_else(|| grid.choose(&mut rng));
                *x = found.copied().unwrap_or(*x);
            }
            if tensor.is_free() && row.len() > 2 {
                put_extremes(row, is_signed, tensor.dtype, &mut rng);
            }
        }
    }
}

/// Puts a largest number into a row, and a smallest one if there are any below zero.
fn put_extremes(row: &mut [f32], is_signed: bool, dtype: Dtype, rng: &mut SmallRng) {
    let most = row.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
    let mut put = |side: f32| {
        let beyond = most * rng.random_range(BEYOND);
        let at = rng.random_range(0..row.len());
        row[at] = side * beyond.min(dtype.largest() as f32);
    };
    put(1.0);
    if is_signed {
        put(-1.0);
    }
}

/// Rows of a few different numbers: neighbours are often equal, and so are the largest ones.
pub(super) fn few(tensors: &[TensorSpec], values: &mut [Vec<f32>], _: &[f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for (tensor, values) in tensors.iter().zip(values).filter(|(tensor, _)| is_number(tensor)) {
        for row in values.chunks_mut(tensor.row_len().max(1)) {
            let different: Vec<f32> = match tensor.values {
                Values::Uniform(from, to) => (0..DIFFERENT).map(|_| rng.random_range(from..=to)).collect(),
                _ => {
                    let scale = power_of_two(&mut rng, -1.0..1.5);
                    (0..DIFFERENT).map(|_| scale * sign(&mut rng) * normal(&mut rng)).collect()
                }
            };
            row.iter_mut().for_each(|x| *x = *different.choose(&mut rng).unwrap_or(x));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::TensorRole;

    #[test]
    fn every_special_number_is_in_some_row_and_every_row_has_equal_neighbours() {
        let tensor = |values: Values| {
            let (name, shape) = ("x".to_owned(), vec![20, 200]);
            TensorSpec { name, dtype: Dtype::F32, shape, role: TensorRole::Input, values }
        };
        let tensors = [tensor(Values::Normal), tensor(Values::Uniform(0.0, 1.0))];
        let mut values = vec![vec![0.5; 4000]; 2];
        of_both_signs(&tensors, &mut values, &[6.0], 1);
        for special in [0.0_f32, -0.0, 1.0, -0.25, 6.0, -6.0] {
            assert!(values[0].iter().any(|x| x.to_bits() == special.to_bits()), "{special}");
        }
        assert!(values[1].iter().all(|x| [0.0, 0.25, 0.5, 0.75, 1.0].contains(x)));
        above_zero(&tensors, &mut values, &[-6.0], 2);
        assert!(values[0].iter().all(|x| *x > 0.0) && values[0].contains(&6.0));
        few(&tensors, &mut values, &[], 3);
        assert!(values[0].chunks(200).all(|row| row.windows(2).filter(|two| two[0] == two[1]).count() > 5));
    }
}
