//! Inputs of attention that ordinary random ones never look like.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Shape;
use crate::domain::op::{Dims, Probe};

/// Every probe.
pub const PROBES: [Probe; 6] = [
    Probe { name: "a needle", apply: needle },
    Probe { name: "equal keys", apply: equal_keys },
    Probe { name: "equal rows", apply: equal_rows },
    Probe { name: "a huge row", apply: huge_row },
    Probe { name: "inputs / 64", apply: |_, inputs, _| scale(inputs, 1.0 / 64.0) },
    Probe { name: "inputs * 64", apply: |_, inputs, _| scale(inputs, 64.0) },
];

/// The score of a needle. What the other keys weigh beside it vanishes in FP32, and it is far inside the range of FP16.
const NEEDLE_SCORE: f32 = 40.0;

/// How many times as large a huge row is: its scores are larger than any other by as much.
const HUGE: f32 = 32.0;

/// Every query points at one of the keys that it sees, at a random place: who drops that key, or comes to it with a wrong maximum,
/// returns another row of values.
fn needle(dims: &Dims, inputs: &mut [Vec<f32>], seed: u64) {
    let shape = Shape::of(dims);
    let mut rng = SmallRng::seed_from_u64(seed);
    let [q, k, _] = inputs else { return };
    let length = (shape.d as f32).sqrt();
    // Keys of the same length: then none has a larger product with a key than it has with itself.
    for key in k.chunks_exact_mut(shape.d) {
        let norm = key.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        key.iter_mut().for_each(|x| *x *= length / norm);
    }
    for (row, query) in q.chunks_exact_mut(shape.d).enumerate() {
        let (head, i) = (row / shape.sq, row % shape.sq);
        let at = head * shape.sk + rng.random_range(0..shape.visible(i));
        let key = &k[at * shape.d..(at + 1) * shape.d];
        query.iter_mut().zip(key).for_each(|(q, k)| *q = k * NEEDLE_SCORE / length);
    }
}

/// Every key of a head is the same, so the output is the mean of the values that a query sees: one that is missing, or that should
/// be hidden, shows in every query.
fn equal_keys(dims: &Dims, inputs: &mut [Vec<f32>], _seed: u64) {
    let shape = Shape::of(dims);
    if let [_, k, _] = inputs {
        k.chunks_exact_mut(shape.sk * shape.d).for_each(|head| repeat_first(head, shape.d));
    }
}

/// Every row of a tensor is the same, so the output is that row of values: its weights must sum to one.
fn equal_rows(dims: &Dims, inputs: &mut [Vec<f32>], _seed: u64) {
    let shape = Shape::of(dims);
    inputs.iter_mut().for_each(|tensor| repeat_first(tensor, shape.d));
}

/// One key and its values are huge in every head, at a random place: where the maximum grows late, and where it must stay hidden.
fn huge_row(dims: &Dims, inputs: &mut [Vec<f32>], seed: u64) {
    let shape = Shape::of(dims);
    let mut rng = SmallRng::seed_from_u64(seed);
    let [_, k, v] = inputs else { return };
    for head in 0..shape.heads {
        let at = (head * shape.sk + rng.random_range(0..shape.sk)) * shape.d;
        for tensor in [&mut *k, &mut *v] {
            tensor[at..at + shape.d].iter_mut().for_each(|x| *x *= HUGE);
        }
    }
}

fn scale(inputs: &mut [Vec<f32>], factor: f32) {
    inputs.iter_mut().flatten().for_each(|x| *x *= factor);
}

fn repeat_first(rows: &mut [f32], row_len: usize) {
    let (first, rest) = rows.split_at_mut(row_len);
    rest.chunks_exact_mut(row_len).for_each(|row| row.copy_from_slice(first));
}
