//! `mma.sync` of 8-bit integers on fragments as the lanes hold them (PTX ISA 9.7.14.5.8 and 9.7.14.5.9).
//!
//! Sums wrap around (`.satfinite` is not modelled).

use super::integer::byte;
use super::mma::Lanes;
use super::mma_block::{Operand, Sums, each, joined, multiply, rows, split};

/// Multiplies 16 x 16 by 16 x 8, signed or unsigned bytes, and adds to s32 (PTX ISA 9.7.14.5.8).
#[inline(always)]
pub fn mma_m16n8k16_i8(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 4], a_signed: bool, b_signed: bool) -> [Lanes; 4] {
    let [mut upper, mut lower] = accumulators(c);
    let b = rows(&bytes(&b[0], b_signed));
    multiply(&bytes(&a[0], a_signed), &b, &mut upper);
    multiply(&bytes(&a[1], a_signed), &b, &mut lower);
    registers(&[upper, lower])
}

/// Multiplies 16 x 32 by 32 x 8, signed or unsigned bytes, and adds to s32 (PTX ISA 9.7.14.5.9).
#[inline(always)]
pub fn mma_m16n8k32_i8(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4], a_signed: bool, b_signed: bool) -> [Lanes; 4] {
    let [mut upper, mut lower] = accumulators(c);
    let (first, second) = (rows(&bytes(&b[0], b_signed)), rows(&bytes(&b[1], b_signed)));
    multiply(&bytes(&a[0], a_signed), &first, &mut upper);
    multiply(&bytes(&a[2], a_signed), &second, &mut upper);
    multiply(&bytes(&a[1], a_signed), &first, &mut lower);
    multiply(&bytes(&a[3], a_signed), &second, &mut lower);
    registers(&[upper, lower])
}

#[inline(always)]
fn bytes(register: &Lanes, signed: bool) -> Operand<i32, 4> {
    [0, 1, 2, 3].map(|i| each(register, |word| byte(word, i, signed)))
}

#[inline(always)]
fn accumulators(c: &[Lanes; 4]) -> [Sums<i32>; 2] {
    let [c0, c1, c2, c3] = c.each_ref().map(|register| each(register, |bits| bits as i32));
    [joined(&c0, &c1), joined(&c2, &c3)]
}

#[inline(always)]
fn registers(sums: &[Sums<i32>; 2]) -> [Lanes; 4] {
    let bits = |x| x as u32;
    let ([d0, d1], [d2, d3]) = (split(&sums[0]), split(&sums[1]));
    [each(&d0, bits), each(&d1, bits), each(&d2, bits), each(&d3, bits)]
}
