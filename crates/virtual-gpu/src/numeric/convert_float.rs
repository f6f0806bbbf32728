//! `cvt` to floating-point types (PTX ISA 9.7.9.21).

use super::float::{NAN32, QUIET64};
use super::half::NAN16;
use super::soft::{BF16, E4M3, E5M2, F16, F32, F64, Format, Number, TF32};
use crate::program::{Mods, Round, Ty};

/// Value of a floating-point operand.
pub(super) enum Class {
    Nan,
    Infinite { negative: bool },
    Finite(Number),
}

/// Returns the format of a scalar type, or of the elements of a packed one.
pub(super) fn format(ty: Ty) -> &'static Format {
    match ty {
        Ty::F16 | Ty::F16x2 => &F16,
        Ty::Bf16 | Ty::Bf16x2 => &BF16,
        Ty::Tf32 => &TF32,
        Ty::F64 => &F64,
        Ty::E4m3x2 => &E4M3,
        Ty::E5m2x2 => &E5M2,
        _ => &F32,
    }
}

/// Returns PTX's canonical NaN.
fn nan(ty: Ty) -> u64 {
    match ty {
        Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 => NAN16.into(),
        Ty::E4m3x2 | Ty::E5m2x2 => 0x7f,
        _ => NAN32.into(),
    }
}

/// Reads an operand. With `ftz` a subnormal f32 counts as zero.
pub(super) fn classify(ty: Ty, ftz: bool, bits: u64) -> Class {
    let format = format(ty);
    // The bits of a tf32 operand are those of an f32.
    let bits = if ty == Ty::Tf32 { bits >> 13 } else { bits };
    let magnitude = bits & ((1 << format.sign) - 1);
    let negative = (bits >> format.sign) & 1 != 0;
    let has_infinity = ty != Ty::E4m3x2;
    if magnitude > format.max_finite {
        let infinite = has_infinity && magnitude == format.max_finite + 1;
        return if infinite { Class::Infinite { negative } } else { Class::Nan };
    }
    let bits = if ftz && ty == Ty::F32 { flush(format, bits) } else { bits };
    Class::Finite(format.decode(bits))
}

/// Converts an integer.
pub(super) fn from_integer(value: i128, to: Ty, mods: Mods) -> u64 {
    let number = Number { negative: value < 0, mantissa: value.unsigned_abs(), exponent: 0 };
    let bits = format(to).encode(number, mods.round);
    let mods = Mods { sat: mods.sat && to != Ty::Bf16, ..mods };
    finish(to, mods, bits)
}

/// Converts one element from a floating-point type to another, or rounds it to an integer of its own type.
pub(super) fn convert(from: Ty, to: Ty, mods: Mods, bits: u64) -> u64 {
    let format = format(to);
    let bits = match classify(from, mods.ftz, bits) {
        Class::Nan if mods.sat && clamps(to) => return 0,
        Class::Nan => return nan_from(from, to, mods, bits),
        Class::Infinite { negative } => (u64::from(negative) << format.sign) | (format.max_finite + 1),
        Class::Finite(number) if mods.ftz && to == Ty::F32 && is_tiny(number, format, mods.round) => {
            u64::from(number.negative) << format.sign
        }
        Class::Finite(number) => format.encode(integral(number, mods.round), mods.round),
    };
    finish(to, mods, bits)
}

/// Returns the NaN that results from a NaN. Double precision keeps sign and payload, as IEEE 754 recommends. Bf16 and
/// tf32 are f32 with fewer bits, and the machine only moves them; all others become canonical. PTX leaves this open, so
/// this is the observed behaviour of an H200.
fn nan_from(from: Ty, to: Ty, mods: Mods, bits: u64) -> u64 {
    match (from, to) {
        (Ty::Bf16, Ty::F32) => bits << 16 & 0xffff_ffff,
        (Ty::F32, Ty::Tf32) => bits & 0xffff_e000,
        // Flushing is a single-precision operation, which first makes the NaN canonical.
        (Ty::F32, Ty::F64) if mods.ftz => 0x7fff_ffff_e000_0000,
        _ if from == Ty::F64 || to == Ty::F64 => {
            let (from, to) = (format(from), format(to));
            let payload = bits << (64 - from.precision + 1) >> 12 | QUIET64;
            let exponent = to.max_finite + 1;
            let sign = bits >> from.sign & 1;
            sign << to.sign | exponent | (payload & (QUIET64 * 2 - 1)) >> (53 - to.precision)
        }
        _ => nan(to),
    }
}

/// Returns whether a number is below the least normal one when rounded with unbounded exponents. The machine decides
/// this way what `.ftz` flushes.
fn is_tiny(number: Number, format: &Format, round: Round) -> bool {
    if number.mantissa == 0 {
        return false;
    }
    let top = |mantissa: u128| 127 - mantissa.leading_zeros() as i32;
    let digits = format.precision as i32 - 1;
    let quantum = top(number.mantissa) + number.exponent - digits;
    top(number.rounded_at(quantum, round)) + quantum < format.quantum + digits
}

/// Rounds to an integer if `round` is an integer mode.
fn integral(number: Number, round: Round) -> Number {
    let wanted = matches!(round, Round::IntegerNearest | Round::IntegerZero | Round::IntegerDown | Round::IntegerUp);
    if !wanted || number.exponent >= 0 {
        return number;
    }
    Number { mantissa: number.rounded_at(0, round), exponent: 0, ..number }
}

/// Returns whether `.sat` clamps to [0, 1]. For the other types it is `.satfinite`.
fn clamps(to: Ty) -> bool {
    matches!(to, Ty::F16 | Ty::F32 | Ty::F64)
}

/// Applies the steps after rounding to a value that is not NaN: `.sat` or `.satfinite`, `.relu`, `.ftz`.
fn finish(to: Ty, mods: Mods, bits: u64) -> u64 {
    let format = format(to);
    let sign = bits & (1 << format.sign);
    let magnitude = bits ^ sign;
    let bits = if mods.sat && clamps(to) {
        if sign != 0 { 0 } else { magnitude.min(one(format)) }
    } else if mods.sat && magnitude > format.max_finite {
        sign | format.max_finite
    } else {
        bits
    };
    let bits = if mods.relu && bits & (1 << format.sign) != 0 { 0 } else { bits };
    let bits = if mods.ftz && to == Ty::F32 { flush(format, bits) } else { bits };
    place(to, bits)
}

/// Moves a tf32 to the upper bits, as in an f32.
fn place(to: Ty, bits: u64) -> u64 {
    if to == Ty::Tf32 { bits << 13 } else { bits }
}

fn one(format: &Format) -> u64 {
    format.encode(Number { negative: false, mantissa: 1, exponent: 0 }, Round::Nearest)
}

fn flush(format: &Format, bits: u64) -> u64 {
    let exponent = ((1 << format.sign) - 1) & !((1 << (format.precision - 1)) - 1);
    if bits & exponent == 0 { bits & (1 << format.sign) } else { bits }
}
