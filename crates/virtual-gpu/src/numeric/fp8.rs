//! The 8-bit floating-point formats (PTX ISA 5.2.3). All their values are f32 values, so widening is exact.

use super::half::f16_to_f32;

/// A format of 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fp8 {
    /// Four bits of exponent, three of fraction. It has no infinities; its largest magnitude is 448.
    E4m3,
    /// Five bits of exponent, two of fraction: the upper half of an f16.
    E5m2,
}

/// Widens the low byte, an e4m3. Its NaNs, `0x7f` and `0xff`, become NaNs.
#[inline(always)]
pub fn e4m3_to_f32(byte: u32) -> f32 {
    let sign = (byte & 0x80) << 24;
    let magnitude = (byte & 0x7f) << 20;
    // As for f16: a subnormal's fraction gets the exponent of 2^-6, the least normal; then 2^-6 is subtracted.
    let subnormal = (f32::from_bits(magnitude + (121 << 23)) - f32::from_bits(121 << 23)).to_bits();
    let finite = if magnitude < 0x0080_0000 { subnormal } else { magnitude + (120 << 23) };
    let bits = if byte & 0x7f == 0x7f { 0x7fff_ffff } else { finite };
    f32::from_bits(sign | bits)
}

/// Widens the low byte, an e5m2.
#[inline(always)]
pub fn e5m2_to_f32(byte: u32) -> f32 {
    f16_to_f32((byte & 0xff) << 8)
}
