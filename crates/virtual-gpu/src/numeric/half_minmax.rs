//! Minimum, maximum, negation and magnitude of f16 and bf16 (PTX ISA 9.7.5.5 to 9.7.5.8).
//!
//! Both formats order their bits alike; only the first NaN differs.

use super::half::NAN16;

const F16_INFINITY: u32 = 0x7c00;
const BF16_INFINITY: u32 = 0x7f80;

/// Returns the lesser; -0 is less than +0. A number beats NaN unless `nan`; a NaN result is `0x7fff`.
#[inline(always)]
pub fn f16_min(a: u32, b: u32, nan: bool) -> u32 {
    select(a, b, nan, F16_INFINITY, false)
}

/// Returns the greater; +0 is greater than -0. A number beats NaN unless `nan`; a NaN result is `0x7fff`.
#[inline(always)]
pub fn f16_max(a: u32, b: u32, nan: bool) -> u32 {
    select(a, b, nan, F16_INFINITY, true)
}

/// Returns the lesser; -0 is less than +0. A number beats NaN unless `nan`; a NaN result is `0x7fff`.
#[inline(always)]
pub fn bf16_min(a: u32, b: u32, nan: bool) -> u32 {
    select(a, b, nan, BF16_INFINITY, false)
}

/// Returns the greater; +0 is greater than -0. A number beats NaN unless `nan`; a NaN result is `0x7fff`.
#[inline(always)]
pub fn bf16_max(a: u32, b: u32, nan: bool) -> u32 {
    select(a, b, nan, BF16_INFINITY, true)
}

/// Flips the sign; NaN becomes `0x7fff` (PTX ISA 9.7.5.5).
#[inline(always)]
pub fn f16_neg(a: u32) -> u32 {
    unless_nan(a, (a & 0xffff) ^ 0x8000, F16_INFINITY)
}

/// Clears the sign; NaN becomes `0x7fff` (PTX ISA 9.7.5.6).
#[inline(always)]
pub fn f16_abs(a: u32) -> u32 {
    unless_nan(a, a & 0x7fff, F16_INFINITY)
}

/// Flips the sign; NaN becomes `0x7fff` (PTX ISA 9.7.5.5).
#[inline(always)]
pub fn bf16_neg(a: u32) -> u32 {
    unless_nan(a, (a & 0xffff) ^ 0x8000, BF16_INFINITY)
}

/// Clears the sign; NaN becomes `0x7fff` (PTX ISA 9.7.5.6).
#[inline(always)]
pub fn bf16_abs(a: u32) -> u32 {
    unless_nan(a, a & 0x7fff, BF16_INFINITY)
}

#[inline(always)]
fn unless_nan(a: u32, result: u32, infinity: u32) -> u32 {
    if a & 0x7fff > infinity { NAN16 } else { result }
}

#[inline(always)]
fn select(a: u32, b: u32, nan: bool, infinity: u32, greater: bool) -> u32 {
    let (a_nan, b_nan) = (a & 0x7fff > infinity, b & 0x7fff > infinity);
    let a_first = (key(a) < key(b)) ^ greater;
    let number = if (a_first & !a_nan) | b_nan { a } else { b } & 0xffff;
    let invalid = (a_nan & b_nan) | (nan & (a_nan | b_nan));
    if invalid { NAN16 } else { number }
}

/// Maps sign and magnitude to an integer of the same order, with -0 below +0.
#[inline(always)]
fn key(h: u32) -> i32 {
    let signed = (h << 16) as i32;
    signed ^ ((signed >> 31) & 0x7fff_ffff)
}
