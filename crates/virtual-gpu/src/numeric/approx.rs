//! The approximate functions `ex2`, `lg2`, `rcp`, `rsqrt`, `sqrt` and `div` (PTX ISA 9.7.3), each within PTX's stated
//! error and with PTX's special values.
//!
//! The functions aim at the correctly rounded result: 99% of `ex2`, `lg2` and `rsqrt` are within one ulp of an H200's.
//! With `ftz`, subnormal operands and results become zero. Polynomials use `mul_add`.

use super::float::{canonical, flush};

/// Adding this rounds an f32 of moderate size to an integer, held in the low bits: 1.5 * 2^23.
pub(super) const TO_INTEGER: f32 = 12_582_912.0;

/// `(2^f - 1) / f` on [-1/2, 1/2]; the relative error of `2^f` is below 2^-26.9.
const EX2: [f32; 6] = [6.931_472e-1, 2.402_265e-1, 5.550_357e-2, 9.618_083e-3, 1.339_086_3e-3, 1.545_316_3e-4];

/// `log2(1 + f) / f` on [sqrt(1/2) - 1, sqrt(2) - 1]; the relative error is below 2^-25.6.
const LG2: [f32; 10] = [
    std::f32::consts::LOG2_E,
    -7.213_473_3e-1,
    4.808_985_3e-1,
    -3.606_965_5e-1,
    2.885_525_5e-1,
    -2.396_081_2e-1,
    2.048_576_5e-1,
    -1.913_883_8e-1,
    1.847_603_3e-1,
    -1.074_978_9e-1,
];

/// Evaluates a polynomial, highest power last, by Horner's rule. Uses `mul_add`.
#[inline(always)]
pub(super) fn polynomial<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    let mut value = coefficients[N - 1];
    for i in 1..N {
        value = value.mul_add(x, coefficients[N - 1 - i]);
    }
    value
}

#[inline(always)]
pub(super) fn flush_if(x: f32, ftz: bool) -> f32 {
    if ftz { flush(x) } else { x }
}

/// Returns `2^x` (PTX ISA 9.7.3.20: relative error 2^-22; here 0.85 ulp, and exact at integers). Uses `mul_add`.
#[inline(always)]
pub fn ex2_approx(x: f32, ftz: bool) -> f32 {
    // Beyond these limits the result is infinite or zero anyway. NaN fails both comparisons and passes through.
    let below = if x > 130.0 { 130.0 } else { x };
    let clamped = if below < -160.0 { -160.0 } else { below };
    let shifted = clamped + TO_INTEGER;
    let fraction = clamped - (shifted - TO_INTEGER);
    let exponent = (shifted.to_bits() as i32).wrapping_sub(TO_INTEGER.to_bits() as i32);
    let mantissa = polynomial(&EX2, fraction).mul_add(fraction, 1.0);
    // Two factors cover exponents that no single f32 has. Only the second product can round, where it is subnormal.
    let half = exponent >> 1;
    let result = mantissa * power_of_two(half) * power_of_two(exponent.wrapping_sub(half));
    canonical(flush_if(result, ftz))
}

#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) as u32) << 23)
}

/// Returns the logarithm to base 2 (PTX ISA 9.7.3.19: error 2^-22, absolute in (0.5, 2) and relative elsewhere; here
/// 1.6 ulp everywhere). Uses `mul_add`.
#[inline(always)]
pub fn lg2_approx(x: f32, ftz: bool) -> f32 {
    let x = flush_if(x, ftz);
    let subnormal = x < f32::MIN_POSITIVE;
    let bits = if subnormal { x * 16_777_216.0 } else { x }.to_bits();
    let base = if subnormal { -24.0 } else { 0.0 };
    // The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)).
    let exponent = (bits.wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub((exponent as u32) << 23));
    let fraction = mantissa - 1.0;
    let finite = polynomial(&LG2, fraction).mul_add(fraction, exponent as f32 + base);
    let positive = if x == f32::INFINITY { x } else { finite };
    let number = if x == 0.0 { f32::NEG_INFINITY } else { positive };
    let valid = x >= 0.0;
    canonical(if valid { number } else { f32::NAN })
}

/// Returns `1 / x`, correctly rounded (PTX ISA 9.7.3.13 allows 1 ulp).
#[inline(always)]
pub fn rcp_approx(x: f32, ftz: bool) -> f32 {
    canonical(flush_if(1.0 / flush_if(x, ftz), ftz))
}

/// Returns the square root, correctly rounded (PTX ISA 9.7.3.15 allows a relative error of 2^-23).
#[inline(always)]
pub fn sqrt_approx(x: f32, ftz: bool) -> f32 {
    canonical(flush_if(x, ftz).sqrt())
}

/// Returns `1 / sqrt(x)` from a root and a quotient, each correctly rounded (PTX ISA 9.7.3.17: relative error 2^-22.9;
/// here 2^-23.4).
#[inline(always)]
pub fn rsqrt_approx(x: f32, ftz: bool) -> f32 {
    canonical(1.0 / flush_if(x, ftz).sqrt())
}

/// Returns `a / b`, correctly rounded where PTX allows 2 ulp. As PTX says of `div.approx`, |b| above 2^126 gives 0, or
/// NaN if `a` is infinite (PTX ISA 9.7.3.8).
#[inline(always)]
pub fn div_approx(a: f32, b: f32, ftz: bool) -> f32 {
    let (a, b) = (flush_if(a, ftz), flush_if(b, ftz));
    let quotient = a / b;
    let vanishing = (b.abs() > f32::from_bits((126 + 127) << 23)) & (b.abs() < f32::INFINITY);
    // The reciprocal of such a `b` is zero: a number times zero is zero; infinity times zero is NaN.
    let result = if vanishing { a * 0.0_f32.copysign(b) } else { quotient };
    canonical(flush_if(result, ftz))
}

/// Returns `a / b`, correctly rounded where PTX allows 2 ulp over the full range (`div.full`, PTX ISA 9.7.3.8).
#[inline(always)]
pub fn div_full(a: f32, b: f32, ftz: bool) -> f32 {
    canonical(flush_if(flush_if(a, ftz) / flush_if(b, ftz), ftz))
}

/// Returns `1 / x` to 20 bits. Only the upper 32 bits of operand and result count (PTX ISA 9.7.3.14).
#[inline(always)]
pub fn rcp_approx_ftz_f64(x: f64) -> f64 {
    upper_word_rounded(1.0 / upper_word(x))
}

/// Returns `1 / sqrt(x)` to 20 bits. Only the upper 32 bits of operand and result count (PTX ISA 9.7.3.18).
#[inline(always)]
pub fn rsqrt_approx_ftz_f64(x: f64) -> f64 {
    upper_word_rounded(1.0 / upper_word(x).sqrt())
}

const F64_SIGN: u64 = 1 << 63;
const F64_EXPONENT: u64 = 0x7ff0_0000_0000_0000;

#[inline(always)]
fn flush_f64(bits: u64) -> u64 {
    if bits & F64_EXPONENT == 0 { bits & F64_SIGN } else { bits }
}

#[inline(always)]
fn upper_word(x: f64) -> f64 {
    // A NaN must stay a NaN even if its payload is in the lower half.
    if x.is_nan() { x } else { f64::from_bits(flush_f64(x.to_bits()) & !0xffff_ffff) }
}

#[inline(always)]
fn upper_word_rounded(x: f64) -> f64 {
    let bits = flush_f64(x.to_bits()).wrapping_add(0x8000_0000) & !0xffff_ffff;
    f64::from_bits(if x.is_nan() { 0x7fff_ffff_0000_0000 } else { bits })
}
