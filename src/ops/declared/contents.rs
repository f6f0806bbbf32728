//! Probes of inputs by what they contain: whole numbers of a range, masks, sorted numbers, numbers between two bounds, and rows
//! that end with padding.
//!
//! Random ones are spread evenly. So a counter of a few bits, a maximum that begins at zero, a mask that is empty for a whole row or
//! a long segment would not be noticed.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{TensorSpec, Values};
use crate::ops::draw::log_uniform_count;

/// The part of the range beside a bound that is near it.
const NEAR: f32 = 0.01;

/// The most different numbers of a row that is sorted.
const DIFFERENT: usize = 8;

pub(super) fn is_whole(tensor: &TensorSpec) -> bool {
    matches!(tensor.values, Values::Integers(..))
}

pub(super) fn is_mask(tensor: &TensorSpec) -> bool {
    matches!(tensor.values, Values::Mask(_))
}

pub(super) fn is_sorted(tensor: &TensorSpec) -> bool {
    matches!(tensor.values, Values::Sorted(..))
}

pub(super) fn is_bounded(tensor: &TensorSpec) -> bool {
    matches!(tensor.values, Values::Uniform(..))
}

/// Runs of the smallest, of the largest, of a small and of some other number of the range.
pub(super) fn whole(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let Values::Integers(from, to) = tensor.values else { return };
    in_runs(tensor, values, seed, |run, rng| {
        let number = match rng.random_range(0..4) {
            0 => from,
            1 => to,
            2 => rng.random_range(-1..=1).clamp(from, to),
            _ => rng.random_range(from..=to),
        };
        run.chunks_exact_mut(tensor.dtype.slots()).for_each(|element| tensor.dtype.keep(number, element));
    });
}

/// Runs without a one, with ones only, and with few.
pub(super) fn mask(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    in_runs(tensor, values, seed, |run, rng| {
        let share = match rng.random_range(0..3) {
            0 => 0.0,
            1 => 1.0,
            _ => rng.random_range(-10.0..-3.0_f32).exp2(),
        };
        let elements = run.chunks_exact_mut(tensor.dtype.slots());
        elements.for_each(|element| tensor.dtype.keep(i64::from(rng.random::<f32>() < share), element));
    });
}

/// Rows of a few different numbers in rising order, so that some segments are empty and some are long.
pub(super) fn sorted(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let Values::Sorted(from, to) = tensor.values else { return };
    let mut rng = SmallRng::seed_from_u64(seed);
    for row in values.chunks_mut((tensor.row_len() * tensor.dtype.slots()).max(1)) {
        let different: Vec<i64> = (0..rng.random_range(1..=DIFFERENT)).map(|_| rng.random_range(from..=to)).collect();
        let elements = row.len() / tensor.dtype.slots();
        let mut drawn: Vec<i64> = (0..elements).map(|_| different[rng.random_range(0..different.len())]).collect();
        drawn.sort_unstable();
        let kept = row.chunks_exact_mut(tensor.dtype.slots()).zip(drawn);
        kept.for_each(|(element, number)| tensor.dtype.keep(number, element));
    }
}

/// Runs near the lower bound, near the upper one, and of equal numbers.
pub(super) fn bounded(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let Values::Uniform(from, to) = tensor.values else { return };
    let near = (to - from) * NEAR;
    in_runs(tensor, values, seed, |run, rng| {
        let (least, most) = match rng.random_range(0..4) {
            0 => (from, from + near),
            1 => (to - near, to),
            2 => {
                let one = rng.random_range(from..=to);
                (one, one)
            }
            _ => (from, to),
        };
        run.iter_mut().for_each(|x| *x = rng.random_range(least..=most));
    });
}

/// Rows of which only the beginning is not zero, as in a batch of sequences of different lengths.
pub(super) fn padded(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for row in values.chunks_mut(tensor.row_len().max(1)) {
        let kept = log_uniform_count(&mut rng, row.len());
        row[kept..].fill(0.0);
    }
}

/// Changes runs of elements. Their lengths are log-uniform, so most elements are in runs that are longer than a row.
fn in_runs(tensor: &TensorSpec, values: &mut [f32], seed: u64, mut change: impl FnMut(&mut [f32], &mut SmallRng)) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut rest = values;
    while !rest.is_empty() {
        let length = log_uniform_count(&mut rng, tensor.elements().max(1)) * tensor.dtype.slots();
        let (run, after) = rest.split_at_mut(length.min(rest.len()));
        change(run, &mut rng);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::{Dtype, TensorRole};

    #[test]
    fn rows_often_have_only_the_smallest_or_the_largest_number() {
        let of = |dtype: Dtype, values: Values, fill: fn(&TensorSpec, &mut [f32], u64), least: f32, most: f32| {
            let tensor =
                TensorSpec { name: "x".to_owned(), dtype, shape: vec![100, 512], role: TensorRole::Input, values };
            let mut found = [0; 2];
            for seed in 0..20 {
                let mut drawn = vec![0.0; tensor.elements()];
                fill(&tensor, &mut drawn, seed);
                assert!(drawn.iter().all(|x| (least..=most).contains(x)));
                let is_all = |number: f32| drawn.chunks(512).any(|row| row.iter().all(|x| *x == number));
                found = [found[0] + u32::from(is_all(least)), found[1] + u32::from(is_all(most))];
            }
            assert!(found.iter().all(|count| *count > 8), "{values:?}: {found:?}");
        };
        of(Dtype::I8, Values::Integers(-128, 127), whole, -128.0, 127.0);
        of(Dtype::Bool, Values::Mask(0.5), mask, 0.0, 1.0);
    }

    #[test]
    fn other_contents_keep_to_what_they_mean_and_are_uneven() {
        let of = |dtype: Dtype, values: Values, fill: fn(&TensorSpec, &mut [f32], u64)| -> Vec<f32> {
            let tensor =
                TensorSpec { name: "x".to_owned(), dtype, shape: vec![100, 512], role: TensorRole::Input, values };
            let mut drawn = vec![0.5; tensor.elements()];
            fill(&tensor, &mut drawn, 3);
            drawn
        };
        let rows = of(Dtype::F32, Values::Sorted(0, 1000), sorted);
        let longest = |row: &[f32]| row.chunk_by(|a, b| a == b).map(<[f32]>::len).max();
        assert!(rows.chunks(512).all(|row| row.is_sorted() && longest(row) >= Some(512 / DIFFERENT)));
        assert!(rows.iter().all(|x| (0.0..=1000.0).contains(x)));
        let between = of(Dtype::F32, Values::Uniform(-1.0, 1.0), bounded);
        assert!(between.iter().all(|x| (-1.0..=1.0).contains(x)));
        assert!(between.chunks(512).any(|row| row.iter().all(|x| x.abs() > 0.98)), "some row is near a bound");
        let padded = of(Dtype::F32, Values::Normal, padded);
        assert!(padded.chunks(512).all(|row| row[0] != 0.0) && padded.chunks(512).any(|row| row[32..] == [0.0; 480]));
    }
}
