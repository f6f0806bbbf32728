//! `mma.sync` of 8-bit integers on fragments as the lanes hold them (PTX ISA 9.7.14.5.8 and 9.7.14.5.9).
//!
//! Products are summed as f32, which is exact, because 32 of them stay below 2^24. The addition to C wraps around
//! (`.satfinite` is not modelled). Uses `mul_add`.

use super::integer::byte;
use super::mma::Lanes;
use super::mma_block::{Operand, Sums, each, multiply, rows, split};

/// Multiplies 16 x 16 by 16 x 8, signed or unsigned bytes, and adds to s32 (PTX ISA 9.7.14.5.8).
#[inline(always)]
pub fn mma_m16n8k16_i8(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 4], a_signed: bool, b_signed: bool) -> [Lanes; 4] {
    let (mut upper, mut lower) = ([[0.0; 8]; 8], [[0.0; 8]; 8]);
    let b = rows(&bytes(&b[0], b_signed));
    multiply(&bytes(&a[0], a_signed), &b, &mut upper);
    multiply(&bytes(&a[1], a_signed), &b, &mut lower);
    added(&[upper, lower], c)
}

/// Multiplies 16 x 32 by 32 x 8, signed or unsigned bytes, and adds to s32 (PTX ISA 9.7.14.5.9).
#[inline(always)]
pub fn mma_m16n8k32_i8(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4], a_signed: bool, b_signed: bool) -> [Lanes; 4] {
    let (mut upper, mut lower) = ([[0.0; 8]; 8], [[0.0; 8]; 8]);
    let (first, second) = (rows(&bytes(&b[0], b_signed)), rows(&bytes(&b[1], b_signed)));
    multiply(&bytes(&a[0], a_signed), &first, &mut upper);
    multiply(&bytes(&a[2], a_signed), &second, &mut upper);
    multiply(&bytes(&a[1], a_signed), &first, &mut lower);
    multiply(&bytes(&a[3], a_signed), &second, &mut lower);
    added(&[upper, lower], c)
}

#[inline(always)]
fn bytes(register: &Lanes, signed: bool) -> Operand<f32, 4> {
    [
        each(register, |word| byte(word, 0, signed) as f32),
        each(register, |word| byte(word, 1, signed) as f32),
        each(register, |word| byte(word, 2, signed) as f32),
        each(register, |word| byte(word, 3, signed) as f32),
    ]
}

/// Adds the sums of rows 0 to 7 and 8 to 15 to C.
#[inline(always)]
fn added(sums: &[Sums<f32>; 2], c: &[Lanes; 4]) -> [Lanes; 4] {
    let ([d0, d1], [d2, d3]) = (split(&sums[0]), split(&sums[1]));
    let mut d = *c;
    for (register, sums) in d.iter_mut().zip([d0, d1, d2, d3]) {
        for lane in 0..32 {
            register[lane] = register[lane].wrapping_add(sums[lane] as i32 as u32);
        }
    }
    d
}
