//! `cvt` of packed types (PTX ISA 9.7.9.21).

use super::convert_float;
use crate::program::{Mods, Ty};

/// Converts two values and packs the results, `a`'s into the upper half: `cvt.f16x2.f32 d, a, b` and similar forms.
///
/// `to` is `F16x2`, `Bf16x2`, `E4m3x2` or `E5m2x2`; `mods.sat` means `.satfinite`.
pub fn convert_pack(from: Ty, to: Ty, mods: Mods, a: u64, b: u64) -> u64 {
    let width = to.bits() / 2;
    (convert_float::convert(from, to, mods, a) << width) | convert_float::convert(from, to, mods, b)
}

/// Widens two 8-bit floats exactly to f16x2.
pub(super) fn unpack_fp8(from: Ty, mods: Mods, bits: u64) -> u64 {
    let widen = |element| convert_float::convert(from, Ty::F16x2, Mods { sat: false, ..mods }, element);
    (widen((bits >> 8) & 0xff) << 16) | widen(bits & 0xff)
}

/// Narrows an f16x2 to two 8-bit floats.
pub(super) fn pack_fp8(to: Ty, mods: Mods, bits: u64) -> u64 {
    convert_pack(Ty::F16x2, to, mods, (bits >> 16) & 0xffff, bits & 0xffff)
}
