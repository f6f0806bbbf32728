//! `mma.sync` of 8-bit floats on fragments as the lanes hold them (PTX ISA 9.7.14.5.8 and 9.7.14.5.9).
//!
//! As for the other floats, each element is a chain of fused multiply-adds from C in the order of k, and an f16
//! accumulator is rounded once. The products are exact. `wgmma` is less accurate: see [`super::mma_fp8_hopper`], except
//! with f16 accumulators. NaN results are canonical. All functions use `mul_add`.

use super::fp8::{Fp8, e4m3_to_f32, e5m2_to_f32};
use super::mma::{Lanes, accumulators, half_sums, packed, registers};
use super::mma_block::{Operand, Sums, each, multiply, rows};

/// Multiplies 16 x 32 by 32 x 8, with A and B of these formats, and adds to f32.
#[inline(always)]
pub fn mma_m16n8k32_f8(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4], formats: [Fp8; 2]) -> [Lanes; 4] {
    registers(&bytes_k32(a, b, accumulators(c), formats))
}

/// Multiplies 16 x 32 by 32 x 8, with A and B of these formats, and adds to f16.
#[inline(always)]
pub fn mma_m16n8k32_f8_f16(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 2], formats: [Fp8; 2]) -> [Lanes; 2] {
    bytes_k32(a, b, [half_sums(&c[0]), half_sums(&c[1])], formats).map(|sums| packed(&sums))
}

/// Multiplies 16 x 16 by 16 x 8, with A and B of these formats, and adds to f32.
#[inline(always)]
pub fn mma_m16n8k16_f8(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 4], formats: [Fp8; 2]) -> [Lanes; 4] {
    registers(&bytes_k16(a, b, accumulators(c), formats))
}

/// Multiplies 16 x 16 by 16 x 8, with A and B of these formats, and adds to f16.
#[inline(always)]
pub fn mma_m16n8k16_f8_f16(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 2], formats: [Fp8; 2]) -> [Lanes; 2] {
    bytes_k16(a, b, [half_sums(&c[0]), half_sums(&c[1])], formats).map(|sums| packed(&sums))
}

#[inline(always)]
fn bytes_k32(a: &[Lanes; 4], b: &[Lanes; 2], c: [Sums<f32>; 2], formats: [Fp8; 2]) -> [Sums<f32>; 2] {
    let first = bytes_k16(&[a[0], a[1]], &[b[0]], c, formats);
    bytes_k16(&[a[2], a[3]], &[b[1]], first, formats)
}

#[inline(always)]
fn bytes_k16(a: &[Lanes; 2], b: &[Lanes; 1], c: [Sums<f32>; 2], [a_format, b_format]: [Fp8; 2]) -> [Sums<f32>; 2] {
    let [mut upper, mut lower] = c;
    let b = rows(&bytes(&b[0], b_format));
    multiply(&bytes(&a[0], a_format), &b, &mut upper);
    multiply(&bytes(&a[1], a_format), &b, &mut lower);
    [upper, lower]
}

/// Widens a register of four bytes.
#[inline(always)]
pub(super) fn bytes(register: &Lanes, format: Fp8) -> Operand<f32, 4> {
    let widen = |shift: u32| match format {
        Fp8::E4m3 => each(register, |word| e4m3_to_f32(word >> shift)),
        Fp8::E5m2 => each(register, |word| e5m2_to_f32(word >> shift)),
    };
    [widen(0), widen(8), widen(16), widen(24)]
}
