//! The approximate functions `sin`, `cos` and `tanh`, and the half-precision forms of `tanh` and `ex2` (PTX ISA 9.7.3
//! and 9.7.5). Polynomials use `mul_add`.

use super::approx::{TO_INTEGER, ex2_approx, flush_if, polynomial};
use super::float::canonical;
use super::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// `(sin(r) - r) / r^3` of `r^2`, for |r| up to pi/4.
const SIN: [f32; 4] = [-1.666_666_7e-1, 8.333_332e-3, -1.984_006_4e-4, 2.724_687e-6];
/// `(cos(r) - 1 + r^2/2) / r^4` of `r^2`.
const COS: [f32; 4] = [4.166_667e-2, -1.388_888_8e-3, 2.480_057_8e-5, -2.729_820_8e-7];
/// `(tanh(x) - x) / x^3` of `x^2`, for |x| up to 0.6.
const TANH: [f32; 6] =
    [-3.333_333_4e-1, 1.333_331_3e-1, -5.396_155_3e-2, 2.178_832_1e-2, -8.410_071e-3, 2.370_765_7e-3];

/// From this magnitude on, a number of turns counts as whole.
const WHOLE: f32 = 4_194_304.0;

/// Returns the sine and the cosine of the remainder of `x` modulo pi/2, and the multiple of pi/2.
///
/// As on the hardware, `x` is first converted to turns, rounded to an f32 towards zero. This rounding causes the error
/// of large arguments, on the hardware too.
#[inline(always)]
fn reduced(x: f32) -> (f32, f32, u32) {
    let turns = product_to_zero(x, 0.5 * std::f32::consts::FRAC_1_PI);
    let fraction = turns - ((turns + TO_INTEGER) - TO_INTEGER);
    // A product with zero turns infinity into NaN.
    let fraction = if turns.abs() >= WHOLE { turns * 0.0 } else { fraction };
    let shifted = fraction.mul_add(4.0, TO_INTEGER);
    let rest = (shifted - TO_INTEGER).mul_add(-0.25, fraction);
    let r = rest * std::f32::consts::TAU;
    let square = r * r;
    let sine = polynomial(&SIN, square).mul_add(r * square, r);
    let cosine = polynomial(&COS, square).mul_add(square, -0.5).mul_add(square, 1.0);
    (sine, cosine, shifted.to_bits())
}

/// Returns `a * b`, rounded towards zero.
#[inline(always)]
fn product_to_zero(a: f32, b: f32) -> f32 {
    let product = a * b;
    let rest = a.mul_add(b, -product);
    let too_large = ((product > 0.0) & (rest < 0.0)) | ((product < 0.0) & (rest > 0.0));
    f32::from_bits(product.to_bits() - u32::from(too_large))
}

/// Returns the sine (PTX ISA 9.7.3.21: absolute error 2^-20.5 in [-2 pi, 2 pi], 2^-14.7 in [-100 pi, 100 pi]; here
/// 2^-20.6 and 2^-14.74, within 2^-21.4 of an H200). Uses `mul_add`.
#[inline(always)]
pub fn sin_approx(x: f32, ftz: bool) -> f32 {
    let x = flush_if(x, ftz);
    let (sine, cosine, quadrant) = reduced(x);
    let magnitude = if quadrant & 1 == 0 { sine } else { cosine };
    let signed = f32::from_bits(magnitude.to_bits() ^ ((quadrant & 2) << 30));
    canonical(flush_if(if x == 0.0 { x } else { signed }, ftz))
}

/// Returns the cosine (PTX ISA 9.7.3.22: absolute error 2^-20.5 in [-2 pi, 2 pi], 2^-14.7 in [-100 pi, 100 pi]; here
/// 2^-20.6 and 2^-14.74). Uses `mul_add`.
#[inline(always)]
pub fn cos_approx(x: f32, ftz: bool) -> f32 {
    let (sine, cosine, quadrant) = reduced(flush_if(x, ftz));
    let magnitude = if quadrant & 1 == 0 { cosine } else { sine };
    let signed = f32::from_bits(magnitude.to_bits() ^ ((quadrant.wrapping_add(1) & 2) << 30));
    canonical(flush_if(signed, ftz))
}

/// The bits of an f32 below the eleventh after the point.
const BELOW_ELEVEN_BITS: u32 = 0xfff;

/// Returns the hyperbolic tangent (PTX ISA 9.7.3.23: relative error 2^-11). It is rounded to eleven bits after the point, so
/// that a kernel for which this is not enough is wrong here, too. Uses `mul_add`.
#[inline(always)]
pub fn tanh_approx(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = magnitude * magnitude;
    let small = polynomial(&TANH, square).mul_add(magnitude * square, magnitude);
    let power = ex2_approx(magnitude * (2.0 * std::f32::consts::LOG2_E), false);
    let large = 1.0 - 2.0 / (power + 1.0);
    let result = if magnitude < 0.6 { small } else { large };
    let rounded = f32::from_bits((result.to_bits() + (BELOW_ELEVEN_BITS >> 1)) & !BELOW_ELEVEN_BITS);
    // A subnormal number has fewer bits, and is its own tangent.
    canonical(if result < f32::MIN_POSITIVE || result.is_nan() { result } else { rounded }.copysign(x))
}

/// Returns `2^x` of an f16 by rounding the f32 result (PTX ISA 9.7.5.10; `ftz` as in the instruction). Uses `mul_add`.
#[inline(always)]
pub fn f16_ex2_approx(x: u32, ftz: bool) -> u32 {
    let result = f32_to_f16(ex2_approx(f16_to_f32(x), false));
    if ftz & (result & 0x7c00 == 0) { 0 } else { result }
}

/// Returns `2^x` of a bf16 by rounding the f32 result. Subnormal results become zero, because `.ftz` is required (PTX
/// ISA 9.7.5.10). Uses `mul_add`.
#[inline(always)]
pub fn bf16_ex2_approx(x: u32) -> u32 {
    f32_to_bf16(ex2_approx(bf16_to_f32(x), true))
}

/// Returns the hyperbolic tangent of an f16 by rounding the f32 result (PTX ISA 9.7.5.9). Uses `mul_add`.
#[inline(always)]
pub fn f16_tanh_approx(x: u32) -> u32 {
    f32_to_f16(tanh_approx(f16_to_f32(x)))
}

/// Returns the hyperbolic tangent of a bf16 by rounding the f32 result (PTX ISA 9.7.5.9). Uses `mul_add`.
#[inline(always)]
pub fn bf16_tanh_approx(x: u32) -> u32 {
    f32_to_bf16(tanh_approx(bf16_to_f32(x)))
}
