//! Conversions of the 16-bit formats and tf32 (PTX ISA 5.2.2 and 5.2.3, alternate floating-point formats).
//!
//! Half values are the low 16 bits of a `u32`. The upper bits are ignored in operands and zero in results.

use super::soft::{BF16, F16, F32, F64, Format, TF32};
use crate::program::Round;

/// PTX's canonical NaN of both 16-bit formats.
pub(super) const NAN16: u32 = 0x7fff;

/// Widens an f16 exactly. A NaN keeps its payload, whereas `cvt` returns the canonical NaN (PTX ISA 5.2.2).
#[inline(always)]
pub fn f16_to_f32(h: u32) -> f32 {
    let sign = (h & 0x8000) << 16;
    let magnitude = (h & 0x7fff) << 13;
    let normal = magnitude + (112 << 23);
    let special = magnitude | 0x7f80_0000;
    // A subnormal's fraction gets the exponent of 2^-14; then 2^-14 is subtracted. This is exact and creates no f32
    // subnormals, which are slow on many machines.
    let subnormal = (f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23)).to_bits();
    let finite = if magnitude < 0x0080_0000 { subnormal } else { normal };
    let bits = if magnitude >= 0x0f80_0000 { special } else { finite };
    f32::from_bits(sign | bits)
}

/// Widens a bf16 exactly. A NaN keeps its payload, as in `cvt` (PTX ISA 5.2.3).
#[inline(always)]
pub fn bf16_to_f32(h: u32) -> f32 {
    f32::from_bits(h << 16)
}

/// Rounds to f16, to nearest even. NaN becomes `0x7fff` (PTX ISA, `cvt.rn.f16.f32`).
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u32 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let odd = (magnitude >> 13) & 1;
    let normal = (magnitude.wrapping_add(0xfff + odd).wrapping_sub(112 << 23) >> 13).min(0x7c00);
    // One ulp of 0.5 is 2^-24, the unit of f16 subnormals, so the addition does the rounding.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let number = sign | if magnitude < 0x3880_0000 { subnormal } else { normal };
    if magnitude > 0x7f80_0000 { NAN16 } else { number }
}

/// Rounds to bf16, to nearest even. NaN becomes `0x7fff` (PTX ISA, `cvt.rn.bf16.f32`).
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if bits & 0x7fff_ffff > 0x7f80_0000 { NAN16 } else { rounded }
}

/// Rounds to f16 in any mode; NaN becomes `0x7fff` (PTX ISA, `cvt`).
pub fn f32_to_f16_round(x: f32, round: Round) -> u32 {
    if x.is_nan() { NAN16 } else { narrow(&F16, &F32, x.to_bits().into(), x.is_infinite(), round) as u32 }
}

/// Rounds to bf16 in any mode; NaN becomes `0x7fff` (PTX ISA, `cvt`).
pub fn f32_to_bf16_round(x: f32, round: Round) -> u32 {
    if x.is_nan() { NAN16 } else { narrow(&BF16, &F32, x.to_bits().into(), x.is_infinite(), round) as u32 }
}

/// Rounds to f16 in any mode, only once. NaN becomes `0x7fff` (PTX ISA, `cvt.f16.f64`).
pub fn f64_to_f16(x: f64, round: Round) -> u32 {
    if x.is_nan() { NAN16 } else { narrow(&F16, &F64, x.to_bits(), x.is_infinite(), round) as u32 }
}

/// Rounds to tf32 and returns an f32's bits with 13 low zeros. A NaN keeps its sign and the upper part of its payload
/// (PTX ISA, `cvt.rna.tf32.f32`).
pub fn f32_to_tf32(x: f32, round: Round) -> u32 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits | 0x0040_0000) & 0xffff_e000;
    }
    (narrow(&TF32, &F32, bits.into(), x.is_infinite(), round) as u32) << 13
}

/// Rounds a value that is not NaN from one format to another.
pub(super) fn narrow(to: &Format, from: &Format, bits: u64, infinite: bool, round: Round) -> u64 {
    if infinite {
        let negative = (bits >> from.sign) & 1;
        return (negative << to.sign) | (to.max_finite + 1);
    }
    to.encode(from.decode(bits), round)
}
