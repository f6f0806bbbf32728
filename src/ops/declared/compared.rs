//! A probe of inputs that are compared with each other, such as a set and what is looked up in it.
//!
//! Numbers of a wide range that are drawn apart from each other are never equal, and never nearly so. A kernel that compares only
//! some of their bits, or never finds anything, would not be noticed.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{TensorSpec, Values};
use crate::ops::draw::power_of_two;

/// One of so many numbers stays as it is.
const KEPT: u32 = 4;

/// What a tensor's elements are, for comparisons.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Whole numbers between two bounds.
    Whole(i64, i64),
    /// Numbers of any size.
    Free,
}

fn kind(tensor: &TensorSpec) -> Option<Kind> {
    match tensor.values {
        Values::Integers(from, to) | Values::Sorted(from, to) => Some(Kind::Whole(from, to)),
        Values::Normal | Values::Scaled(_) if tensor.is_free() => Some(Kind::Free),
        _ => None,
    }
}

/// Returns whether inputs may be compared: whole numbers with each other, also those of one input, or numbers of two inputs.
pub(super) fn are_compared(inputs: &[TensorSpec]) -> bool {
    let is_whole = |input: &TensorSpec| matches!(kind(input), Some(Kind::Whole(..)));
    inputs.iter().any(is_whole) || inputs.iter().filter(|input| kind(input) == Some(Kind::Free)).count() > 1
}

/// Replaces most numbers of each input by some of another one or of itself, or by neighbours of those.
pub(super) fn shared(tensors: &[TensorSpec], values: &mut [Vec<f32>], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let before = values.to_vec();
    let same = |a: Kind, b: Kind| matches!((a, b), (Kind::Whole(..), Kind::Whole(..)) | (Kind::Free, Kind::Free));
    for (at, tensor) in tensors.iter().enumerate() {
        let Some(own) = kind(tensor) else { continue };
        let is_source = |other: &usize| {
            let is_other = *other != at || own != Kind::Free;
            is_other && kind(&tensors[*other]).is_some_and(|kind| same(kind, own)) && !before[*other].is_empty()
        };
        let sources: Vec<usize> = (0..tensors.len()).filter(is_source).collect();
        if sources.is_empty() {
            continue;
        }
        let from = |rng: &mut SmallRng, place: usize| -> (&TensorSpec, &[f32]) {
            let source = sources[rng.random_range(0..sources.len())];
            let slots = tensors[source].dtype.slots();
            let count = before[source].len() / slots;
            // Where two inputs are as long, elements of the same place may be compared.
            let place = if place < count && rng.random() { place } else { rng.random_range(0..count) };
            (&tensors[source], &before[source][place * slots..][..slots])
        };
        // The distance of two equal rows is zero, and what is computed of nearly equal ones may be negative.
        let row_len = tensor.row_len().max(1);
        let as_long: Vec<usize> =
            sources.iter().copied().filter(|other| tensors[*other].row_len() == row_len).collect();
        if own == Kind::Free && !as_long.is_empty() && rng.random() {
            for row in values[at].chunks_exact_mut(row_len) {
                if rng.random_range(0..KEPT) == 0 {
                    continue;
                }
                let source = &before[as_long[rng.random_range(0..as_long.len())]];
                row.copy_from_slice(&source[rng.random_range(0..source.len() / row_len) * row_len..][..row_len]);
                if rng.random() {
                    row[rng.random_range(0..row_len)] *= 1.0 + power_of_two(&mut rng, -10.0..-1.0);
                }
            }
            continue;
        }
        for (place, element) in values[at].chunks_exact_mut(tensor.dtype.slots()).enumerate() {
            if rng.random_range(0..KEPT) == 0 {
                continue;
            }
            let (source, found) = from(&mut rng, place);
            match own {
                Kind::Free => element.copy_from_slice(found),
                Kind::Whole(least, most) => {
                    let found = source.dtype.kept(found);
                    let near = neighbour(found, (least, most), &mut rng);
                    tensor.dtype.keep(near.clamp(least, most), element);
                }
            }
        }
        if matches!(tensor.values, Values::Sorted(..)) {
            sort(tensor, &mut values[at]);
        }
    }
}

/// Returns a number, or one beside it, or one that differs from it in a single bit.
fn neighbour(number: i64, (least, most): (i64, i64), rng: &mut SmallRng) -> i64 {
    let bits = 64 - most.wrapping_sub(least).leading_zeros();
    let near = match rng.random_range(0..4) {
        0 => number.saturating_add(if rng.random() { 1 } else { -1 }),
        1 => number ^ 1_i64.wrapping_shl(rng.random_range(0..bits.max(1))),
        _ => number,
    };
    if (least..=most).contains(&near) { near } else { number }
}

fn sort(tensor: &TensorSpec, values: &mut [f32]) {
    let slots = tensor.dtype.slots();
    for row in values.chunks_mut((tensor.row_len() * slots).max(1)) {
        let mut numbers: Vec<i64> = row.chunks_exact(slots).map(|element| tensor.dtype.kept(element)).collect();
        numbers.sort_unstable();
        row.chunks_exact_mut(slots).zip(numbers).for_each(|(element, number)| tensor.dtype.keep(number, element));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::domain::op::{Dtype, TensorRole};

    fn tensor(name: &str, dtype: Dtype, values: Values) -> TensorSpec {
        TensorSpec { name: name.to_owned(), dtype, shape: vec![1000], role: TensorRole::Input, values }
    }

    #[test]
    fn a_set_holds_what_is_looked_up_and_its_neighbours() {
        let most = (1 << 40) - 1;
        let tensors = [
            tensor("keys", Dtype::I64, Values::Integers(0, most)),
            tensor("set", Dtype::I64, Values::Sorted(0, most)),
            tensor("weights", Dtype::F32, Values::Normal),
        ];
        let mut rng = SmallRng::seed_from_u64(1);
        let mut drawn = |dtype: Dtype| -> Vec<f32> {
            let mut values = vec![0.5; 1000 * dtype.slots()];
            if dtype == Dtype::I64 {
                values.chunks_exact_mut(2).for_each(|element| dtype.keep(rng.random_range(0..=most), element));
            }
            values
        };
        let mut values: Vec<Vec<f32>> = tensors.iter().map(|tensor| drawn(tensor.dtype)).collect();
        shared(&tensors, &mut values, 7);
        let numbers = |values: &[f32]| -> Vec<i64> { values.chunks_exact(2).map(|it| Dtype::I64.kept(it)).collect() };
        let (keys, set) = (numbers(&values[0]), numbers(&values[1]));
        assert!(keys.iter().chain(&set).all(|number| (0..=most).contains(number)) && set.is_sorted());
        let of = |bits: u32| -> HashSet<i64> { set.iter().map(|number| number & ((1 << bits) - 1)).collect() };
        let held = |bits: u32| keys.iter().filter(|key| of(bits).contains(&(*key & ((1 << bits) - 1)))).count();
        let (found, by_low_bits) = (held(40), held(32));
        assert!((100..900).contains(&found) && by_low_bits > found + 5, "{found}, {by_low_bits}");
        assert_eq!(values[2], [0.5; 1000], "a single input of numbers is compared with nothing");
    }

    #[test]
    fn one_input_of_numbers_is_not_compared() {
        let [x, y] = ["x", "y"].map(|name| tensor(name, Dtype::F32, Values::Normal));
        let ids = tensor("ids", Dtype::I32, Values::Integers(0, 9));
        let alone = std::slice::from_ref(&x);
        assert!(!are_compared(alone) && are_compared(&[x.clone(), y]) && are_compared(&[x.clone(), ids]));
    }
}
