//! `cvt` between scalar types (PTX ISA 9.7.9.21), exact in every form.
//!
//! This is the slow path. The executor has a faster one for the most common pairs.

use super::convert_float::{self, Class};
use crate::program::{Mods, Round, Ty};

/// Converts one value. Operand and result are right-aligned; bits above the operand's width are ignored.
/// A signed result narrower than 32 bits is sign-extended to 32; every other result is zero-extended. `mods.sat` means
/// `.satfinite` where `.sat` does not exist: to bf16 (from a float), tf32 and the 8-bit floats.
///
/// Pairs `E4m3x2`, `E5m2x2` to `F16x2` and back convert both elements.
pub fn convert(from: Ty, to: Ty, mods: Mods, bits: u64) -> u64 {
    match (from, to) {
        (Ty::E4m3x2 | Ty::E5m2x2, _) => super::convert_pack::unpack_fp8(from, mods, bits),
        (Ty::F16x2, Ty::E4m3x2 | Ty::E5m2x2) => super::convert_pack::pack_fp8(to, mods, bits),
        _ => match (from.is_float(), to.is_float()) {
            (false, false) => from_integer(integer(from, bits), to, mods.sat),
            (false, true) => convert_float::from_integer(integer(from, bits), to, mods),
            (true, false) => float_to_integer(from, to, mods, bits),
            (true, true) => convert_float::convert(from, to, mods, bits),
        },
    }
}

fn mask(ty: Ty) -> u64 {
    u64::MAX >> (64 - ty.bits().min(64))
}

/// Reads an integer of type `ty`.
fn integer(ty: Ty, bits: u64) -> i128 {
    let unused = 64 - ty.bits().min(64);
    if ty.is_signed() { (((bits << unused) as i64) >> unused).into() } else { (bits & mask(ty)).into() }
}

/// Returns the least and the greatest value of an integer type.
fn range(ty: Ty) -> (i128, i128) {
    let all = i128::from(mask(ty));
    if ty.is_signed() { (-(all / 2) - 1, all / 2) } else { (0, all) }
}

/// Converts an integer to `to` by truncating or, with `sat`, by clamping.
fn from_integer(value: i128, to: Ty, sat: bool) -> u64 {
    let (least, greatest) = range(to);
    let value = if sat { value.clamp(least, greatest) } else { integer(to, value as u64) };
    let slot = if to.bits() == 64 { u64::MAX } else { 0xffff_ffff };
    value as u64 & slot
}

/// Rounds to an integer and always clamps to the range of `to` (the ISA's rule for floats). NaN becomes 0. If either
/// side has 64 bits, NaN becomes the number of `to` with only its highest bit set.
fn float_to_integer(from: Ty, to: Ty, mods: Mods, bits: u64) -> u64 {
    let (least, greatest) = range(to);
    let value = match convert_float::classify(from, mods.ftz, bits) {
        Class::Nan if from == Ty::F64 || to.bits() == 64 => return from_integer(1 << (to.bits() - 1), to, false),
        Class::Nan => 0,
        Class::Infinite { negative: true } => least,
        Class::Infinite { negative: false } => greatest,
        Class::Finite(number) => {
            // Larger than any integer, and than the 128 bits used for rounding.
            let magnitude = if number.mantissa != 0 && number.exponent > 70 {
                i128::MAX
            } else {
                number.rounded_at(0, integer_round(mods.round)) as i128
            };
            if number.negative { -magnitude } else { magnitude }
        }
    };
    from_integer(value, to, true)
}

fn integer_round(round: Round) -> Round {
    match round {
        Round::Nearest | Round::NearestAway => Round::IntegerNearest,
        other => other,
    }
}
