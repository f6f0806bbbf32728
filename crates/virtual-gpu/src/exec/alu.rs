//! Arithmetic on lanes. Hot forms are loops that vectorise; all others run lane by lane through `numeric`.

use super::lanes::{W32, W64, w32, w64};
use super::scalar;
use crate::numeric as num;
use crate::program::{Binary, Mods, Round, Ternary, Ty, Unary};

macro_rules! lanes32 {
    (|$($x:ident = $value:ident),+| $body:expr) => {
        w32!(lane => { $(let $x = $value.0[lane];)+ $body })
    };
}

pub(crate) use lanes32;

macro_rules! lanes64 {
    (|$($x:ident = $value:ident),+| $body:expr) => {
        w64!(lane => { $(let $x = $value.0[lane];)+ $body })
    };
}

/// A loop over lanes of single-precision values. With `ftz`, operands and result are flushed.
macro_rules! floats {
    ($mods:expr, |$($x:ident = $value:ident),+| $body:expr) => {
        if $mods.ftz {
            w32!(lane => {
                $(let $x = num::flush(f32::from_bits($value.0[lane]));)+
                num::canonical(num::flush($body)).to_bits()
            })
        } else {
            w32!(lane => {
                $(let $x = f32::from_bits($value.0[lane]);)+
                num::canonical($body).to_bits()
            })
        }
    };
}

/// With `.ftz`, flushes results that were below the least normal number and were lifted to it by rounding. Such numbers
/// are rare, so one check of the warp's results decides.
#[inline(always)]
fn drop_lifted(mods: Mods, value: W32, is_tiny: impl Fn(usize) -> bool) -> W32 {
    let mut suspicious = false;
    for bits in value.0 {
        suspicious |= bits & 0x7fff_ffff == 0x0080_0000;
    }
    if mods.ftz && suspicious { drop_lifted_slow(value, is_tiny) } else { value }
}

#[cold]
fn drop_lifted_slow(value: W32, is_tiny: impl Fn(usize) -> bool) -> W32 {
    w32!(lane => {
        let bits = value.0[lane];
        let lifted = bits & 0x7fff_ffff == 0x0080_0000 && is_tiny(lane);
        if lifted { bits & 0x8000_0000 } else { bits }
    })
}

/// Returns an operand of one lane, flushed.
fn flushed(value: &W32, lane: usize) -> f32 {
    num::flush(f32::from_bits(value.0[lane]))
}

#[inline(always)]
fn saturate_if(value: W32, sat: bool) -> W32 {
    if sat { lanes32!(|x = value| num::saturate(f32::from_bits(x)).to_bits()) } else { value }
}

/// Computes an operation with one source of at most 32 bits.
#[inline(always)]
pub(crate) fn unary32(op: Unary, ty: Ty, mods: Mods, a: &W32) -> W32 {
    match (op, ty) {
        (Unary::Ex2, Ty::F32) => floats!(mods, |x = a| num::ex2_approx(x, false)),
        (Unary::Neg, Ty::F32) => {
            floats!(mods, |x = a| -x)
        }
        (Unary::Abs, Ty::F32) => {
            floats!(mods, |x = a| x.abs())
        }
        (Unary::Not, Ty::B32) => lanes32!(|x = a| !x),
        _ => unary32_slow(op, ty, mods, a),
    }
}

#[inline(never)]
fn unary32_slow(op: Unary, ty: Ty, mods: Mods, a: &W32) -> W32 {
    w32!(lane => scalar::unary(op, ty, mods, u64::from(a.0[lane])) as u32)
}

/// Computes an operation with one 64-bit source. `popc`, `clz` and `bfind` have a 32-bit result, in the low half.
#[inline(never)]
pub(crate) fn unary64(op: Unary, ty: Ty, mods: Mods, a: &W64) -> W64 {
    w64!(lane => scalar::unary(op, ty, mods, a.0[lane]))
}

/// Computes an operation with two sources and a result of at most 32 bits.
#[inline(always)]
pub(crate) fn binary32(op: Binary, ty: Ty, mods: Mods, a: &W32, b: &W32) -> W32 {
    let nearest = mods.round == Round::Nearest;
    match (op, ty) {
        (Binary::Add, Ty::F32) if nearest => saturate_if(floats!(mods, |x = a, y = b| x + y), mods.sat),
        (Binary::Sub, Ty::F32) if nearest => saturate_if(floats!(mods, |x = a, y = b| x - y), mods.sat),
        (Binary::Mul, Ty::F32) if nearest => {
            let product = floats!(mods, |x = a, y = b| x * y);
            let tiny = |lane| num::is_tiny_fma(flushed(a, lane), flushed(b, lane), 0.0, mods.round);
            saturate_if(drop_lifted(mods, product, tiny), mods.sat)
        }
        (Binary::Max, Ty::F32) => floats!(mods, |x = a, y = b| num::f32_max(x, y, mods.nan)),
        (Binary::Min, Ty::F32) => floats!(mods, |x = a, y = b| num::f32_min(x, y, mods.nan)),
        (Binary::Add, Ty::B32 | Ty::U32 | Ty::S32) if !mods.sat => lanes32!(|x = a, y = b| x.wrapping_add(y)),
        (Binary::Sub, Ty::B32 | Ty::U32 | Ty::S32) if !mods.sat => lanes32!(|x = a, y = b| x.wrapping_sub(y)),
        (Binary::Mul, Ty::U32 | Ty::S32) => lanes32!(|x = a, y = b| x.wrapping_mul(y)),
        (Binary::And, _) => lanes32!(|x = a, y = b| x & y),
        (Binary::Or, _) => lanes32!(|x = a, y = b| x | y),
        (Binary::Xor, _) => lanes32!(|x = a, y = b| x ^ y),
        (Binary::Min, Ty::S32) if !mods.relu => lanes32!(|x = a, y = b| (x as i32).min(y as i32) as u32),
        (Binary::Max, Ty::S32) if !mods.relu => lanes32!(|x = a, y = b| (x as i32).max(y as i32) as u32),
        (Binary::Min, Ty::U32) => lanes32!(|x = a, y = b| x.min(y)),
        (Binary::Max, Ty::U32) => lanes32!(|x = a, y = b| x.max(y)),
        (Binary::Shl, Ty::B32) => lanes32!(|x = a, y = b| if y > 31 { 0 } else { x << (y & 31) }),
        (Binary::Shr, Ty::B32 | Ty::U32) => lanes32!(|x = a, y = b| if y > 31 { 0 } else { x >> (y & 31) }),
        (Binary::Shr, Ty::S32) => lanes32!(|x = a, y = b| ((x as i32) >> y.min(31)) as u32),
        (Binary::Add, Ty::U16 | Ty::S16 | Ty::B16) => lanes32!(|x = a, y = b| x.wrapping_add(y) & 0xffff),
        (Binary::Add, Ty::F16x2) if !mods.sat => {
            lanes32!(|x = a, y = b| half2(x, y, |x, y| num::f16_add(x, y, mods.ftz, false, false)))
        }
        (Binary::Mul, Ty::F16x2) if !mods.sat => {
            lanes32!(|x = a, y = b| half2(x, y, |x, y| num::f16_mul(x, y, mods.ftz, false, false)))
        }
        _ => binary32_slow(op, ty, mods, a, b),
    }
}

#[inline(always)]
fn half2(x: u32, y: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    f(x & 0xffff, y & 0xffff) | f(x >> 16, y >> 16) << 16
}

#[inline(never)]
fn binary32_slow(op: Binary, ty: Ty, mods: Mods, a: &W32, b: &W32) -> W32 {
    w32!(lane => scalar::binary(op, ty, mods, u64::from(a.0[lane]), u64::from(b.0[lane])) as u32)
}

/// Computes an operation with two 64-bit sources (shifts: the second is in the low half).
#[inline(always)]
pub(crate) fn binary64(op: Binary, ty: Ty, mods: Mods, a: &W64, b: &W64) -> W64 {
    match (op, ty) {
        (Binary::Add, Ty::B64 | Ty::U64 | Ty::S64) => lanes64!(|x = a, y = b| x.wrapping_add(y)),
        (Binary::Sub, Ty::B64 | Ty::U64 | Ty::S64) => lanes64!(|x = a, y = b| x.wrapping_sub(y)),
        (Binary::Mul, Ty::U64 | Ty::S64) => lanes64!(|x = a, y = b| x.wrapping_mul(y)),
        (Binary::And, _) => lanes64!(|x = a, y = b| x & y),
        (Binary::Or, _) => lanes64!(|x = a, y = b| x | y),
        (Binary::Xor, _) => lanes64!(|x = a, y = b| x ^ y),
        _ => binary64_slow(op, ty, mods, a, b),
    }
}

#[inline(never)]
fn binary64_slow(op: Binary, ty: Ty, mods: Mods, a: &W64, b: &W64) -> W64 {
    w64!(lane => scalar::binary(op, ty, mods, a.0[lane], b.0[lane]))
}

/// Shifts 64-bit values by 32-bit counts.
#[inline(always)]
pub(crate) fn shift64(op: Binary, ty: Ty, a: &W64, b: &W32) -> W64 {
    match (op, ty) {
        (Binary::Shl, _) => lanes64!(|x = a, y = b| if y > 63 { 0 } else { x << (y & 63) }),
        (_, Ty::S64) => lanes64!(|x = a, y = b| ((x as i64) >> y.min(63)) as u64),
        _ => lanes64!(|x = a, y = b| if y > 63 { 0 } else { x >> (y & 63) }),
    }
}

/// Multiplies 32-bit integers to 64 bits.
#[inline(always)]
pub(crate) fn multiply_wide(signed: bool, a: &W32, b: &W32) -> W64 {
    if signed {
        lanes64!(|x = a, y = b| i64::from(x as i32).wrapping_mul(i64::from(y as i32)) as u64)
    } else {
        lanes64!(|x = a, y = b| u64::from(x).wrapping_mul(u64::from(y)))
    }
}

/// Computes an operation with three sources of at most 32 bits.
#[inline(always)]
pub(crate) fn ternary32(op: Ternary, ty: Ty, mods: Mods, a: &W32, b: &W32, c: &W32) -> W32 {
    match (op, ty) {
        (Ternary::Mad, Ty::F32) if mods.round == Round::Nearest => {
            let sum = floats!(mods, |x = a, y = b, z = c| num::fma(x, y, z));
            let tiny = |lane| num::is_tiny_fma(flushed(a, lane), flushed(b, lane), flushed(c, lane), mods.round);
            saturate_if(drop_lifted(mods, sum, tiny), mods.sat)
        }
        (Ternary::Mad, Ty::U32 | Ty::S32) if !mods.sat => {
            lanes32!(|x = a, y = b, z = c| x.wrapping_mul(y).wrapping_add(z))
        }
        (Ternary::Lop3(lut), _) => lanes32!(|x = a, y = b, z = c| num::lop3(x, y, z, lut)),
        (Ternary::Prmt, _) => lanes32!(|x = a, y = b, z = c| num::prmt(x, y, z)),
        _ => ternary32_slow(op, ty, mods, a, b, c),
    }
}

#[inline(never)]
fn ternary32_slow(op: Ternary, ty: Ty, mods: Mods, a: &W32, b: &W32, c: &W32) -> W32 {
    w32!(lane => {
        scalar::ternary(op, ty, mods, u64::from(a.0[lane]), u64::from(b.0[lane]), u64::from(c.0[lane])) as u32
    })
}

/// Computes an operation with three 64-bit sources.
#[inline(never)]
pub(crate) fn ternary64(op: Ternary, ty: Ty, mods: Mods, a: &W64, b: &W64, c: &W64) -> W64 {
    w64!(lane => scalar::ternary(op, ty, mods, a.0[lane], b.0[lane], c.0[lane]))
}
