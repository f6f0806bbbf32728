//! Arithmetic of f16 and bf16 with one rounding (PTX ISA 9.7.5).
//!
//! All take `ftz` (subnormal operands and results become zero), `sat` (the result is clamped to [0, 1], NaN becomes +0)
//! and `relu`. With `relu`, a negative result becomes +0 and NaN stays the canonical NaN, as the ISA says.

use super::float::saturate;
use super::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// Values below this are below the least normal f16, 2^-14, when rounded to 11 bits with unbounded exponents.
const TINY16: f32 = 1.0 / 16384.0 - 1.0 / 67_108_864.0;

/// Adds with one rounding (PTX ISA 9.7.5.1).
#[inline(always)]
pub fn f16_add(a: u32, b: u32, ftz: bool, sat: bool, relu: bool) -> u32 {
    // An f32 has 24 >= 2 * 11 + 2 bits, so rounding to f32 first is harmless for add, sub and mul.
    f16_result(f16_operand(a, ftz) + f16_operand(b, ftz), ftz, sat, relu)
}

/// Subtracts with one rounding (PTX ISA 9.7.5.2).
#[inline(always)]
pub fn f16_sub(a: u32, b: u32, ftz: bool, sat: bool, relu: bool) -> u32 {
    f16_result(f16_operand(a, ftz) - f16_operand(b, ftz), ftz, sat, relu)
}

/// Multiplies with one rounding (PTX ISA 9.7.5.3).
#[inline(always)]
pub fn f16_mul(a: u32, b: u32, ftz: bool, sat: bool, relu: bool) -> u32 {
    f16_result(f16_operand(a, ftz) * f16_operand(b, ftz), ftz, sat, relu)
}

/// Returns `a * b + c` with one rounding (PTX ISA 9.7.5.4).
#[inline(always)]
pub fn f16_fma(a: u32, b: u32, c: u32, ftz: bool, sat: bool, relu: bool) -> u32 {
    // The product is exact in f32 and cannot overflow or underflow, so the sum's error is known exactly.
    let product = f16_operand(a, ftz) * f16_operand(b, ftz);
    f16_result(sum_to_odd_f32(product, f16_operand(c, ftz)), ftz, sat, relu)
}

/// Adds with one rounding (PTX ISA 9.7.5.1).
#[inline(always)]
pub fn bf16_add(a: u32, b: u32, ftz: bool, sat: bool, relu: bool) -> u32 {
    bf16_result(bf16_operand(a, ftz) + bf16_operand(b, ftz), ftz, sat, relu)
}

/// Subtracts with one rounding (PTX ISA 9.7.5.2).
#[inline(always)]
pub fn bf16_sub(a: u32, b: u32, ftz: bool, sat: bool, relu: bool) -> u32 {
    bf16_result(bf16_operand(a, ftz) - bf16_operand(b, ftz), ftz, sat, relu)
}

/// Multiplies with one rounding (PTX ISA 9.7.5.3).
#[inline(always)]
pub fn bf16_mul(a: u32, b: u32, ftz: bool, sat: bool, relu: bool) -> u32 {
    // A product of 16 bits that reaches the unit of bf16 subnormals fits an f32 subnormal, so double rounding cannot
    // occur.
    bf16_result(bf16_operand(a, ftz) * bf16_operand(b, ftz), ftz, sat, relu)
}

/// Returns `a * b + c` with one rounding (PTX ISA 9.7.5.4).
#[inline(always)]
pub fn bf16_fma(a: u32, b: u32, c: u32, ftz: bool, sat: bool, relu: bool) -> u32 {
    let product = f64::from(bf16_operand(a, ftz)) * f64::from(bf16_operand(b, ftz));
    let sum = sum_to_odd_f64(product, f64::from(bf16_operand(c, ftz)));
    bf16_result(f64_to_f32_odd(sum), ftz, sat, relu)
}

/// Applies a function of two halves to both halves of packed operands.
#[inline(always)]
pub fn both(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    f(a & 0xffff, b & 0xffff) | (f(a >> 16, b >> 16) << 16)
}

/// Applies a function of one half to both halves of a packed operand.
#[inline(always)]
pub fn both1(a: u32, f: impl Fn(u32) -> u32) -> u32 {
    f(a & 0xffff) | (f(a >> 16) << 16)
}

/// Applies a function of three halves to both halves of packed operands.
#[inline(always)]
pub fn both3(a: u32, b: u32, c: u32, f: impl Fn(u32, u32, u32) -> u32) -> u32 {
    f(a & 0xffff, b & 0xffff, c & 0xffff) | (f(a >> 16, b >> 16, c >> 16) << 16)
}

#[inline(always)]
fn f16_operand(h: u32, ftz: bool) -> f32 {
    f16_to_f32(flush16(h, ftz, 0x7c00))
}

#[inline(always)]
fn bf16_operand(h: u32, ftz: bool) -> f32 {
    bf16_to_f32(flush16(h, ftz, 0x7f80))
}

/// Flushes a subnormal (zero exponent bits) to zero, if asked.
#[inline(always)]
fn flush16(h: u32, ftz: bool, exponent: u32) -> u32 {
    if ftz & (h & exponent == 0) { h & 0x8000 } else { h }
}

#[inline(always)]
fn f16_result(x: f32, ftz: bool, sat: bool, relu: bool) -> u32 {
    // The machine decides this way what to flush. Rounding in the range of f16 could lift a value to the least normal
    // number.
    let x = if ftz & (x.abs() < TINY16) { 0.0_f32.copysign(x) } else { x };
    f32_to_f16(clamp(x, sat, relu))
}

#[inline(always)]
fn bf16_result(x: f32, ftz: bool, sat: bool, relu: bool) -> u32 {
    flush16(f32_to_bf16(clamp(x, sat, relu)), ftz, 0x7f80)
}

/// Clamps before rounding. Rounding is monotonic and keeps 0 and 1, so the result is the same.
#[inline(always)]
fn clamp(x: f32, sat: bool, relu: bool) -> f32 {
    let saturated = if sat { saturate(x) } else { x };
    if relu & (saturated <= 0.0) { 0.0 } else { saturated }
}

/// Returns `a + b` rounded to odd: of the two neighbours of an inexact sum, the one with an odd last bit. Rounding the
/// result again to two bits fewer is then exact.
#[inline(always)]
fn sum_to_odd_f32(a: f32, b: f32) -> f32 {
    let sum = a + b;
    let from_b = sum - a;
    let error = (a - (sum - from_b)) + (b - from_b);
    let bits = sum.to_bits();
    let away = (error > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    // `error` is NaN when the sum is not finite; the comparison is then false.
    if (error.abs() > 0.0) & (bits & 1 == 0) { f32::from_bits(odd) } else { sum }
}

/// Returns `a + b` rounded to odd.
#[inline(always)]
pub(super) fn sum_to_odd_f64(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let from_b = sum - a;
    let error = (a - (sum - from_b)) + (b - from_b);
    let bits = sum.to_bits();
    let away = (error > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    if (error.abs() > 0.0) & (bits & 1 == 0) { f64::from_bits(odd) } else { sum }
}

/// Narrows by rounding to odd.
#[inline(always)]
fn f64_to_f32_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    let odd = if back.abs() < x.abs() { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let inexact = (back < x) | (back > x);
    if inexact & (bits & 1 == 0) { f32::from_bits(odd) } else { near }
}
