//! Random inputs: fresh for every check, and the same for the same seed on every machine.

use numerics::random::fill_normal;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

use super::threads;
use crate::domain::op::{Dtype, TensorSpec, Values, runs, spread};

/// Elements per random stream. It is the unit of parallel generation. A change would change the inputs of every seed.
const CHUNK: usize = 1 << 14;

/// Draws a tensor's values, each rounded to its dtype.
pub fn draw(tensor: &TensorSpec, seed: u64) -> Vec<f32> {
    if let Values::Given(values) = tensor.values {
        return values.to_vec();
    }
    let mut values = vec![0.0_f32; tensor.elements() * tensor.dtype.slots()];
    let stream_seed = seed ^ hash(tensor.name.as_bytes());
    values.par_chunks_mut(CHUNK * tensor.dtype.slots()).enumerate().for_each(|(chunk, values)| {
        let mut rng = SmallRng::seed_from_u64(stream_seed.wrapping_add(chunk as u64));
        fill(values, tensor, &mut rng);
    });
    if let Values::Spread(from, to) = tensor.values {
        let mut numbers: Vec<i64> = spread(from, to, tensor.elements()).collect();
        numbers.shuffle(&mut SmallRng::seed_from_u64(stream_seed));
        let elements = values.chunks_exact_mut(tensor.dtype.slots());
        elements.zip(numbers).for_each(|(value, number)| tensor.dtype.keep(number, value));
    }
    if let Values::Borders(shortest, total) = tensor.values {
        let mut runs = runs(shortest, total, tensor.elements().saturating_sub(1));
        runs.shuffle(&mut SmallRng::seed_from_u64(stream_seed));
        let mut elements = values.chunks_exact_mut(tensor.dtype.slots());
        let borders = std::iter::once(0).chain(runs).scan(0, |border, run| {
            *border += run;
            Some(*border)
        });
        borders.zip(&mut elements).for_each(|(border, value)| tensor.dtype.keep(border, value));
    }
    if let Values::Sorted(..) = tensor.values {
        values.par_chunks_mut((tensor.row_len() * tensor.dtype.slots()).max(1)).for_each(|row| sort(row, tensor.dtype));
    }
    values
}

fn fill(values: &mut [f32], tensor: &TensorSpec, rng: &mut SmallRng) {
    let dtype = tensor.dtype;
    match tensor.values {
        Values::Normal => {
            fill_normal(values, rng);
            dtype.round(values);
        }
        Values::Scaled(deviation) => {
            fill_normal(values, rng);
            values.iter_mut().for_each(|value| *value *= deviation);
            dtype.round(values);
        }
        Values::Uniform(from, to) => {
            values.iter_mut().for_each(|value| *value = dtype.rounded(rng.random_range(from..=to)));
        }
        Values::Integers(from, to) | Values::Sorted(from, to) => {
            let elements = values.chunks_exact_mut(dtype.slots());
            match (i32::try_from(from), i32::try_from(to)) {
                // With these bounds, a seed names the same numbers as it did before there were larger ones.
                (Ok(from), Ok(to)) => {
                    elements.for_each(|value| dtype.keep(i64::from(rng.random_range(from..=to)), value));
                }
                _ => elements.for_each(|value| dtype.keep(rng.random_range(from..=to), value)),
            }
        }
        // Nothing is drawn here.
        Values::Given(_) | Values::Spread(..) | Values::Borders(..) => {}
        Values::Mask(share) => {
            let elements = values.chunks_exact_mut(dtype.slots());
            elements.for_each(|value| dtype.keep(i64::from(rng.random::<f32>() < share), value));
        }
    }
}

/// Sorts the numbers of a row.
fn sort(row: &mut [f32], dtype: Dtype) {
    if !dtype.is_kept_as_bits() {
        return row.sort_unstable_by(f32::total_cmp);
    }
    let mut numbers: Vec<i64> = row.chunks_exact(dtype.slots()).map(|element| dtype.kept(element)).collect();
    numbers.sort_unstable();
    row.chunks_exact_mut(dtype.slots()).zip(numbers).for_each(|(value, number)| dtype.keep(number, value));
}

/// Rounds values to a dtype.
pub fn round(values: &mut [f32], dtype: Dtype) {
    if !matches!(dtype, Dtype::F32 | Dtype::F64) && !dtype.is_kept_as_bits() {
        let chunks = values.par_chunks_mut(CHUNK);
        chunks.for_each(|values| dtype.round(values));
    }
}

/// Fills `moved` with the values, each changed by the fraction `part` of itself, up or down at random.
pub fn move_into(moved: &mut [f32], values: &[f32], part: f32, seed: u64) {
    let chunks = moved.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).enumerate();
    chunks.for_each(|(chunk, (moved, values))| {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(chunk as u64));
        for (moved, values) in moved.chunks_mut(64).zip(values.chunks(64)) {
            let ups: u64 = rng.random();
            for (bit, (moved, value)) in moved.iter_mut().zip(values).enumerate() {
                *moved = value * if ups >> bit & 1 == 1 { 1.0 + part } else { 1.0 - part };
            }
        }
    });
}

/// Mixes strings into a seed, so that every check of a session gets its own inputs.
pub fn mix(seed: u64, parts: &[&str]) -> u64 {
    parts.iter().fold(seed, |seed, part| hash(&[&seed.to_le_bytes(), part.as_bytes()].concat()))
}

fn hash(bytes: &[u8]) -> u64 {
    let digest = blake3::hash(bytes);
    u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("a digest has 32 bytes"))
}

/// Encodes values as the bytes of a tensor on the device.
pub fn encode(values: &[f32], dtype: Dtype) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * dtype.slot_bytes()];
    encode_into(&mut bytes, values, dtype);
    bytes
}

/// Encodes values into `bytes`, which must have exactly their size.
pub fn encode_into(bytes: &mut [u8], values: &[f32], dtype: Dtype) {
    threads::fill(bytes, CHUNK * dtype.slot_bytes(), |place, bytes| {
        dtype.encode(&values[CHUNK * place..][..bytes.len() / dtype.slot_bytes()], bytes);
    });
}

/// Decodes the bytes of an input on the device.
pub fn decode(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / dtype.slot_bytes()];
    threads::fill(&mut values, CHUNK, |place, values| {
        let start = CHUNK * place * dtype.slot_bytes();
        dtype.decode(&bytes[start..][..values.len() * dtype.slot_bytes()], values);
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::TensorRole;

    #[test]
    fn a_seed_names_its_values_and_another_seed_names_others() {
        let tensor = TensorSpec {
            name: "q".to_owned(),
            dtype: Dtype::F16,
            shape: vec![3, 20_000],
            role: TensorRole::Input,
            values: Values::Normal,
        };
        let values = draw(&tensor, 1);
        assert_eq!(values, draw(&tensor, 1));
        assert_ne!(values, draw(&tensor, 2));
        assert_ne!(values, draw(&TensorSpec { name: "k".to_owned(), ..tensor.clone() }, 1));
        assert_eq!(decode(&encode(&values, Dtype::F16), Dtype::F16), values);
        let of_bf16 = draw(&TensorSpec { dtype: Dtype::Bf16, ..tensor.clone() }, 1);
        assert_ne!(of_bf16, values, "each dtype rounds");
        assert_eq!(decode(&encode(&of_bf16, Dtype::Bf16), Dtype::Bf16), of_bf16);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.02, "mean {mean}");
    }
}
