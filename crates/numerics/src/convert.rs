//! Conversions between numbers and the bytes of elements, little-endian.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Elements that are converted at once. They fit the first-level cache.
const BLOCK: usize = 256;

/// Rounds values to F16.
pub fn round_f16(values: &mut [f32]) {
    let mut block = [f16::ZERO; BLOCK];
    for values in values.chunks_mut(BLOCK) {
        let block = &mut block[..values.len()];
        block.convert_from_f32_slice(values);
        block.convert_to_f32_slice(values);
    }
}

/// Rounds values to BF16.
pub fn round_bf16(values: &mut [f32]) {
    values.iter_mut().for_each(|value| *value = bf16::from_f32(*value).to_f32());
}

/// Writes values as F16, with the processor's instructions for many elements at once.
pub fn encode_f16(values: &[f32], bytes: &mut [u8]) {
    let mut block = [f16::ZERO; BLOCK];
    for (values, bytes) in values.chunks(BLOCK).zip(bytes.chunks_mut(2 * BLOCK)) {
        let block = &mut block[..values.len()];
        block.convert_from_f32_slice(values);
        bytes.chunks_exact_mut(2).zip(block).for_each(|(bytes, half)| bytes.copy_from_slice(&half.to_le_bytes()));
    }
}

/// Reads F16 elements, with the processor's instructions for many elements at once.
pub fn decode_f16(bytes: &[u8], values: &mut [f32]) {
    let mut block = [f16::ZERO; BLOCK];
    for (bytes, values) in bytes.chunks(2 * BLOCK).zip(values.chunks_mut(BLOCK)) {
        let block = &mut block[..values.len()];
        decode(bytes, block, f16::from_le_bytes);
        block.convert_to_f32_slice(values);
    }
}

/// Writes values as BF16.
pub fn encode_bf16(values: &[f32], bytes: &mut [u8]) {
    encode(values, bytes, |value| bf16::from_f32(value).to_le_bytes());
}

/// Reads BF16 elements.
pub fn decode_bf16(bytes: &[u8], values: &mut [f32]) {
    decode(bytes, values, |bytes| bf16::from_le_bytes(bytes).to_f32());
}

/// Writes values as F32.
pub fn encode_f32(values: &[f32], bytes: &mut [u8]) {
    encode(values, bytes, f32::to_le_bytes);
}

/// Reads F32 elements.
pub fn decode_f32(bytes: &[u8], values: &mut [f32]) {
    decode(bytes, values, f32::from_le_bytes);
}

/// Writes values as F64.
pub fn encode_f64(values: &[f32], bytes: &mut [u8]) {
    encode(values, bytes, |value| f64::from(value).to_le_bytes());
}

/// Reads F64 elements.
pub fn decode_f64(bytes: &[u8], values: &mut [f64]) {
    decode(bytes, values, f64::from_le_bytes);
}

/// Reads signed integers of 32 bits as F64.
pub fn decode_i32(bytes: &[u8], values: &mut [f64]) {
    decode(bytes, values, |bytes| f64::from(i32::from_le_bytes(bytes)));
}

/// Reads unsigned integers of 32 bits as F64.
pub fn decode_u32(bytes: &[u8], values: &mut [f64]) {
    decode(bytes, values, |bytes| f64::from(u32::from_le_bytes(bytes)));
}

/// Reads bytes as numbers.
pub fn decode_u8(bytes: &[u8], values: &mut [f32]) {
    decode(bytes, values, |[byte]| f32::from(byte));
}

/// Writes the bits of values.
pub fn encode_bits(values: &[f32], bytes: &mut [u8]) {
    encode(values, bytes, |value| value.to_bits().to_le_bytes());
}

/// Reads the bits of values.
pub fn decode_bits(bytes: &[u8], values: &mut [f32]) {
    decode(bytes, values, |bytes| f32::from_bits(u32::from_le_bytes(bytes)));
}

/// Turns F32 elements into F64 ones.
pub fn widen_f32(bytes: &[u8], widened: &mut [u8]) {
    let elements = widened.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks().0);
    elements.for_each(|(widened, bytes)| *widened = f64::from(f32::from_le_bytes(*bytes)).to_le_bytes());
}

/// Returns values as F64.
pub fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// Tells whether any of the 2-byte elements has all of these bits. Every element is read, so that the loop has no branch.
pub fn any_u16_has(bytes: &[u8], bits: u16) -> bool {
    let elements = bytes.as_chunks().0.iter().map(|element| u16::from_le_bytes(*element) & bits == bits);
    elements.fold(false, |any, one| any | one)
}

/// Tells whether any F32 element is NaN or infinite.
pub fn any_f32_is_not_finite(bytes: &[u8]) -> bool {
    let elements = bytes.as_chunks().0.iter().map(|element| !f32::from_le_bytes(*element).is_finite());
    elements.fold(false, |any, one| any | one)
}

fn encode<const N: usize>(values: &[f32], bytes: &mut [u8], encode: impl Fn(f32) -> [u8; N]) {
    bytes.as_chunks_mut().0.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = encode(*value));
}

fn decode<const N: usize, T>(bytes: &[u8], values: &mut [T], decode: impl Fn([u8; N]) -> T) {
    values.iter_mut().zip(bytes.as_chunks().0).for_each(|(value, bytes)| *value = decode(*bytes));
}
