//! The additions of PTX to IEEE arithmetic of f32 and f64: flushing, saturation, minimum and maximum, canonical NaN
//! (PTX ISA 9.7.3).

/// PTX's canonical NaN of f32.
pub(super) const NAN32: u32 = 0x7fff_ffff;
/// The bit that makes a NaN of f64 quiet.
pub(super) const QUIET64: u64 = 1 << 51;

/// Returns zero of the same sign for a subnormal, else `x` (`.ftz`).
#[inline(always)]
pub fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// Clamps to [0, 1]; NaN and -0 become +0 (`.sat`).
#[inline(always)]
pub fn saturate(x: f32) -> f32 {
    let positive = if x > 0.0 { x } else { 0.0 };
    if positive < 1.0 { positive } else { 1.0 }
}

/// Clamps to [0, 1]; NaN and -0 become +0 (`.sat` of conversions to f64).
#[inline(always)]
pub fn saturate_f64(x: f64) -> f64 {
    let positive = if x > 0.0 { x } else { 0.0 };
    if positive < 1.0 { positive } else { 1.0 }
}

/// Replaces any NaN by PTX's canonical `0x7fffffff`, the result of invalid f32 arithmetic.
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    f32::from_bits(if x.is_nan() { NAN32 } else { x.to_bits() })
}

/// Returns `a * b + c` with one rounding, to nearest even (PTX ISA 9.7.3.6). Uses `mul_add`.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// Returns the lesser; -0 is less than +0. A number beats NaN unless `nan`; a NaN result is canonical (PTX ISA
/// 9.7.3.11).
#[inline(always)]
pub fn f32_min(a: f32, b: f32, nan: bool) -> f32 {
    select32(a, b, nan, key32(a) < key32(b))
}

/// Returns the greater; +0 is greater than -0. A number beats NaN unless `nan`; a NaN result is canonical (PTX ISA
/// 9.7.3.12).
#[inline(always)]
pub fn f32_max(a: f32, b: f32, nan: bool) -> f32 {
    select32(a, b, nan, key32(a) > key32(b))
}

/// Returns the lesser; -0 is less than +0. A number beats NaN; of two NaN the second is returned (PTX ISA 9.7.3.11).
#[inline(always)]
pub fn f64_min(a: f64, b: f64) -> f64 {
    select64(a, b, key64(a) < key64(b))
}

/// Returns the greater; +0 is greater than -0. A number beats NaN; of two NaN the second is returned (PTX ISA
/// 9.7.3.12).
#[inline(always)]
pub fn f64_max(a: f64, b: f64) -> f64 {
    select64(a, b, key64(a) > key64(b))
}

#[inline(always)]
fn select32(a: f32, b: f32, nan: bool, a_first: bool) -> f32 {
    let (a_nan, b_nan) = (a.is_nan(), b.is_nan());
    let number = if (a_first & !a_nan) | b_nan { a } else { b };
    let invalid = (a_nan & b_nan) | (nan & (a_nan | b_nan));
    f32::from_bits(if invalid { NAN32 } else { number.to_bits() })
}

#[inline(always)]
fn select64(a: f64, b: f64, a_first: bool) -> f64 {
    let (a_nan, b_nan) = (a.is_nan(), b.is_nan());
    // Of two NaN the machine returns the second, made quiet.
    let number = if (a_first | b_nan) & !a_nan { a } else { b };
    f64::from_bits(number.to_bits() | if a_nan & b_nan { QUIET64 } else { 0 })
}

/// Maps sign and magnitude to an integer of the same order, with -0 below +0.
#[inline(always)]
fn key32(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    bits ^ ((bits >> 31) & i32::MAX)
}

#[inline(always)]
fn key64(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    bits ^ ((bits >> 63) & i64::MAX)
}
