//! Random inputs: fresh for every check, and the same for the same seed on every machine.

use half::{bf16, f16};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::domain::op::{Dtype, TensorSpec};

/// Elements per random stream. It is the unit of parallel generation. A change would change the inputs of every seed.
const CHUNK: usize = 1 << 14;

/// Draws a tensor from the standard normal distribution, each element rounded to the tensor's dtype.
pub fn normal(tensor: &TensorSpec, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0_f32; tensor.elements()];
    normal_into(&mut values, tensor, seed);
    values
}

/// Draws a tensor into existing values, because allocating takes longer than drawing.
pub fn normal_into(values: &mut [f32], tensor: &TensorSpec, seed: u64) {
    let stream_seed = seed ^ hash(tensor.name.as_bytes());
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
        let mut rng = SmallRng::seed_from_u64(stream_seed.wrapping_add(chunk as u64));
        for value in values {
            let drawn: f32 = StandardNormal.sample(&mut rng);
            *value = rounded(drawn, tensor.dtype);
        }
    });
}

/// Rounds values to a dtype.
pub fn round(values: &mut [f32], dtype: Dtype) {
    if dtype != Dtype::F32 {
        let chunks = values.par_chunks_mut(CHUNK);
        chunks.for_each(|values| values.iter_mut().for_each(|value| *value = rounded(*value, dtype)));
    }
}

/// Rounds a value to a dtype.
pub fn rounded(value: f32, dtype: Dtype) -> f32 {
    match dtype {
        Dtype::F16 => f16::from_f32(value).to_f32(),
        Dtype::Bf16 => bf16::from_f32(value).to_f32(),
        Dtype::F32 => value,
    }
}

/// Changes every value by the fraction `part` of itself, up or down at random.
pub fn moved(values: &[f32], part: f32, seed: u64) -> Vec<f32> {
    let mut moved = values.to_vec();
    moved.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(chunk as u64));
        for values in values.chunks_mut(64) {
            let ups: u64 = rng.random();
            for (bit, value) in values.iter_mut().enumerate() {
                *value *= if ups >> bit & 1 == 1 { 1.0 + part } else { 1.0 - part };
            }
        }
    });
    moved
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
    let mut bytes = vec![0; values.len() * dtype.bytes()];
    encode_into(&mut bytes, values, dtype);
    bytes
}

/// Encodes values into `bytes`, which must have exactly their size.
pub fn encode_into(bytes: &mut [u8], values: &[f32], dtype: Dtype) {
    let chunks = bytes.par_chunks_mut(CHUNK * dtype.bytes()).zip(values.par_chunks(CHUNK));
    chunks.for_each(|(bytes, values)| match dtype {
        Dtype::F16 => encode_with(bytes, values, |value| f16::from_f32(value).to_le_bytes()),
        Dtype::Bf16 => encode_with(bytes, values, |value| bf16::from_f32(value).to_le_bytes()),
        Dtype::F32 => encode_with(bytes, values, f32::to_le_bytes),
    });
}

fn encode_with<const N: usize>(bytes: &mut [u8], values: &[f32], encode: impl Fn(f32) -> [u8; N]) {
    bytes.chunks_exact_mut(N).zip(values).for_each(|(bytes, value)| bytes.copy_from_slice(&encode(*value)));
}

/// Decodes the bytes of a tensor on the device.
pub fn decode(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / dtype.bytes()];
    let chunks = values.par_chunks_mut(CHUNK).zip(bytes.par_chunks(CHUNK * dtype.bytes()));
    chunks.for_each(|(values, bytes)| match dtype {
        Dtype::F16 => decode_with(values, bytes, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Dtype::Bf16 => decode_with(values, bytes, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        Dtype::F32 => decode_with(values, bytes, f32::from_le_bytes),
    });
    values
}

fn decode_with<const N: usize>(values: &mut [f32], bytes: &[u8], decode: impl Fn([u8; N]) -> f32) {
    let elements = bytes.chunks_exact(N).map(|bytes| decode(bytes.try_into().expect("a chunk has N bytes")));
    values.iter_mut().zip(elements).for_each(|(value, decoded)| *value = decoded);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::TensorRole;

    #[test]
    fn a_seed_names_its_values_and_another_seed_names_others() {
        let tensor =
            TensorSpec { name: "q".to_owned(), dtype: Dtype::F16, shape: vec![3, 20_000], role: TensorRole::Input };
        let values = normal(&tensor, 1);
        assert_eq!(values, normal(&tensor, 1));
        assert_ne!(values, normal(&tensor, 2));
        assert_ne!(values, normal(&TensorSpec { name: "k".to_owned(), ..tensor.clone() }, 1));
        assert_eq!(decode(&encode(&values, Dtype::F16), Dtype::F16), values);
        let of_bf16 = normal(&TensorSpec { dtype: Dtype::Bf16, ..tensor.clone() }, 1);
        assert_ne!(of_bf16, values, "each dtype rounds");
        assert_eq!(decode(&encode(&of_bf16, Dtype::Bf16), Dtype::Bf16), of_bf16);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.02, "mean {mean}");
    }
}
