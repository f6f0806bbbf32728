//! Integer products, quotients and remainders (PTX ISA 9.7.1). None of them panics.
//!
//! PTX leaves division by zero undefined. These functions return what an H200 returns (measured): all ones, for
//! quotient and remainder, signed or not. The least number divided by -1 wraps around.

macro_rules! divisions {
    ($bits:literal, $unsigned:ty, $signed:ty, $div_u:ident, $rem_u:ident, $div_s:ident, $rem_s:ident) => {
        #[doc = concat!("Divides unsigned ", $bits, "-bit numbers; by zero gives all ones (PTX ISA 9.7.1.8).")]
        #[inline(always)]
        pub fn $div_u(a: $unsigned, b: $unsigned) -> $unsigned {
            a.checked_div(b).unwrap_or(<$unsigned>::MAX)
        }

        #[doc = concat!("Returns the remainder of unsigned ", $bits, "-bit numbers; by zero it is all ones (PTX ISA 9.7.1.9).")]
        #[inline(always)]
        pub fn $rem_u(a: $unsigned, b: $unsigned) -> $unsigned {
            a.checked_rem(b).unwrap_or(<$unsigned>::MAX)
        }

        #[doc = concat!("Divides signed ", $bits, "-bit numbers; by zero gives -1 (PTX ISA 9.7.1.8).")]
        #[inline(always)]
        pub fn $div_s(a: $unsigned, b: $unsigned) -> $unsigned {
            if b == 0 { <$unsigned>::MAX } else { (a as $signed).wrapping_div(b as $signed) as $unsigned }
        }

        #[doc = concat!("Returns the remainder of signed ", $bits, "-bit numbers, with `a`'s sign; by zero it is -1 (PTX ISA 9.7.1.9).")]
        #[inline(always)]
        pub fn $rem_s(a: $unsigned, b: $unsigned) -> $unsigned {
            if b == 0 { <$unsigned>::MAX } else { (a as $signed).wrapping_rem(b as $signed) as $unsigned }
        }
    };
}

divisions!("32", u32, i32, div_u32, rem_u32, div_s32, rem_s32);
divisions!("64", u64, i64, div_u64, rem_u64, div_s64, rem_s64);

/// Returns the upper half of the product (PTX ISA 9.7.1.3).
#[inline(always)]
pub fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// Returns the upper half of the signed product (PTX ISA 9.7.1.3).
#[inline(always)]
pub fn mul_hi_s32(a: u32, b: u32) -> u32 {
    ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
}

/// Returns the upper half of the product (PTX ISA 9.7.1.3).
#[inline(always)]
pub fn mul_hi_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// Returns the upper half of the signed product (PTX ISA 9.7.1.3).
#[inline(always)]
pub fn mul_hi_s64(a: u64, b: u64) -> u64 {
    ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
}

/// Returns the upper half of the product, plus `c` (PTX ISA 9.7.1.4).
#[inline(always)]
pub fn mad_hi_u32(a: u32, b: u32, c: u32) -> u32 {
    mul_hi_u32(a, b).wrapping_add(c)
}

/// Returns the upper half of the signed product, plus `c` (PTX ISA 9.7.1.4).
#[inline(always)]
pub fn mad_hi_s32(a: u32, b: u32, c: u32) -> u32 {
    mul_hi_s32(a, b).wrapping_add(c)
}

/// Returns the upper half of the product, plus `c` (PTX ISA 9.7.1.4).
#[inline(always)]
pub fn mad_hi_u64(a: u64, b: u64, c: u64) -> u64 {
    mul_hi_u64(a, b).wrapping_add(c)
}

/// Returns the upper half of the signed product, plus `c` (PTX ISA 9.7.1.4).
#[inline(always)]
pub fn mad_hi_s64(a: u64, b: u64, c: u64) -> u64 {
    mul_hi_s64(a, b).wrapping_add(c)
}

/// Multiplies the low 24 bits and returns the low 32 bits of the product (`mul24.lo`, PTX ISA 9.7.1.5).
#[inline(always)]
pub fn mul24_u32(a: u32, b: u32) -> u32 {
    (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff)
}

/// Multiplies the low 24 bits as signed numbers and returns the low 32 bits of the product (`mul24.lo`, PTX ISA
/// 9.7.1.5).
#[inline(always)]
pub fn mul24_s32(a: u32, b: u32) -> u32 {
    let extend = |x: u32| ((x << 8) as i32) >> 8;
    extend(a).wrapping_mul(extend(b)) as u32
}
