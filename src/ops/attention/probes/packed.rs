//! A probe of packed sequences: those without tokens, with few and with many, and what lies beside their borders.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Dtype, TensorSpec};

/// The share of sequences that are NaN.
const NOT_NUMBERS: f64 = 0.2;

/// Scales of values. Powers of two round nothing.
const SCALES: [f32; 4] = [1.0, 8.0, 64.0, 512.0];

/// Returns whether sequences are packed.
pub fn has_borders(inputs: &[TensorSpec]) -> bool {
    place(inputs, "cu_seqlens").is_some()
}

/// Draws lengths: none, one, and any number, often beside the end of a tile. Each sequence has its own scale of values, and some are NaN:
/// what a kernel reads beyond a border shows, also if its weight is zero.
pub fn fill(tensors: &[TensorSpec], values: &mut [Vec<f32>], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let [Some(k), Some(v), Some(of_borders)] = ["k", "v", "cu_seqlens"].map(|name| place(tensors, name)) else {
        return;
    };
    let row: usize = tensors[k].shape[1..].iter().product();
    let drawn = lengths(tensors[k].shape[0], tensors[of_borders].elements() - 1, &mut rng);
    let mut begin = 0;
    for (sequence, length) in drawn.into_iter().enumerate() {
        let end = begin + length;
        keep(end as i64, &mut values[of_borders][sequence + 1]);
        let scale = SCALES[rng.random_range(0..SCALES.len())];
        let is_nan = rng.random_bool(NOT_NUMBERS);
        values[v][begin * row..end * row].iter_mut().for_each(|value| *value *= scale);
        if is_nan {
            for tensor in [k, v] {
                values[tensor][begin * row..end * row].fill(f32::NAN);
            }
        }
        begin = end;
    }
}

/// Divides tokens among sequences, in any order.
fn lengths(tokens: usize, sequences: usize, rng: &mut SmallRng) -> Vec<usize> {
    let (mut drawn, mut left) = (Vec::new(), tokens);
    for _ in 1..sequences {
        let most = left.min(2 * tokens / sequences + 1);
        let length = match rng.random_range(0..5) {
            0 => 0,
            1 => 1,
            // One more or less than whole tiles, or none of these.
            2 => rng.random_range(0..=most / 64) * 64 + 1,
            3 => (rng.random_range(0..=most / 64) * 64).saturating_sub(1),
            _ => rng.random_range(0..=most),
        };
        drawn.push(length.min(most));
        left -= length.min(most);
    }
    drawn.push(left);
    drawn.shuffle(rng);
    drawn
}

fn keep(number: i64, kept: &mut f32) {
    Dtype::I32.keep(number, std::slice::from_mut(kept));
}

fn place(tensors: &[TensorSpec], name: &str) -> Option<usize> {
    tensors.iter().position(|tensor| tensor.name == name)
}
