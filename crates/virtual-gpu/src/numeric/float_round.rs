//! f32 arithmetic in the directed rounding modes (PTX ISA 9.7.3), through f64.
//!
//! Sums are rounded to odd in f64, and products are exact in f64. A quotient or root of f32 numbers is never so close
//! to an f32 (or the middle of two) that rounding to f64 hides its side. So one directed rounding to f32 is correct
//! everywhere, overflow and subnormals included. The modes of conversions (`NearestAway`, integer modes) count as
//! nearest. Flushing and canonical NaN are left to the caller.

use super::half_arith::sum_to_odd_f64;
use crate::program::Round;

/// Returns `a + b`, rounded as `round` says (PTX ISA 9.7.3.3).
#[inline(always)]
pub fn f32_add_round(a: f32, b: f32, round: Round) -> f32 {
    sum(f64::from(a), f64::from(b), round)
}

/// Returns `a - b`, rounded as `round` says (PTX ISA 9.7.3.4).
#[inline(always)]
pub fn f32_sub_round(a: f32, b: f32, round: Round) -> f32 {
    sum(f64::from(a), -f64::from(b), round)
}

/// Returns `a * b`, rounded as `round` says (PTX ISA 9.7.3.5).
#[inline(always)]
pub fn f32_mul_round(a: f32, b: f32, round: Round) -> f32 {
    f64_to_f32_round(f64::from(a) * f64::from(b), round)
}

/// Returns `a * b + c` with one rounding, as `round` says (PTX ISA 9.7.3.6).
#[inline(always)]
pub fn f32_fma_round(a: f32, b: f32, c: f32, round: Round) -> f32 {
    sum(f64::from(a) * f64::from(b), f64::from(c), round)
}

/// Returns `a / b`, rounded as `round` says (PTX ISA 9.7.3.8).
#[inline(always)]
pub fn f32_div_round(a: f32, b: f32, round: Round) -> f32 {
    f64_to_f32_round(f64::from(a) / f64::from(b), round)
}

/// Returns `1 / a`, rounded as `round` says (PTX ISA 9.7.3.13).
#[inline(always)]
pub fn f32_rcp_round(a: f32, round: Round) -> f32 {
    f64_to_f32_round(1.0 / f64::from(a), round)
}

/// Returns the square root, rounded as `round` says (PTX ISA 9.7.3.15).
#[inline(always)]
pub fn f32_sqrt_round(a: f32, round: Round) -> f32 {
    f64_to_f32_round(f64::from(a).sqrt(), round)
}

/// Returns whether `.ftz` flushes `a * b + c`, decided as on the machine: by the result with unbounded exponents.
/// Rounding in f32's own range can lift such a result to the least normal number.
pub fn is_tiny_fma(a: f32, b: f32, c: f32, round: Round) -> bool {
    is_tiny(sum_to_odd_f64(f64::from(a) * f64::from(b), f64::from(c)), round)
}

/// The same for `a / b`.
pub fn is_tiny_quotient(a: f32, b: f32, round: Round) -> bool {
    is_tiny(f64::from(a) / f64::from(b), round)
}

fn is_tiny(x: f64, round: Round) -> bool {
    const UP: f64 = (1_u64 << 40) as f64;
    f64::from(f64_to_f32_round(x * UP, round).abs()) < f64::from(f32::MIN_POSITIVE) * UP
}

/// Narrows an f64, rounded as `round` says (PTX ISA, `cvt.f32.f64`).
#[inline(always)]
pub fn f64_to_f32_round(x: f64, round: Round) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let (down, up) = match round {
        Round::Zero => (x > 0.0, x < 0.0),
        Round::Down => (true, false),
        Round::Up => (false, true),
        _ => (false, false),
    };
    let bits = near.to_bits();
    let negative = (bits >> 31) != 0;
    let (outward, inward) = (bits.wrapping_add(1), bits.wrapping_sub(1));
    let above = if negative { inward } else { outward };
    let below = if negative { outward } else { inward };
    let raised = if up & (back < x) { above } else { bits };
    f32::from_bits(if down & (back > x) { below } else { raised })
}

#[inline(always)]
fn sum(a: f64, b: f64, round: Round) -> f32 {
    let total = f64_to_f32_round(sum_to_odd_f64(a, b), round);
    // An exact zero is negative when rounding down, unless both are +0.
    let negative_zero = (round == Round::Down) & (a + b == 0.0) & (a.is_sign_negative() | b.is_sign_negative());
    if negative_zero { -0.0 } else { total }
}
