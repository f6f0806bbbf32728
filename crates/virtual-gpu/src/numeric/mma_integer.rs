//! `mma.sync` of 8-bit integers on fragments as the lanes hold them (PTX ISA 9.7.14.5.8 and 9.7.14.5.9).
//!
//! Sums wrap around (`.satfinite` is not modelled).

use super::integer::byte;
use super::mma::{Lanes, transposed};
use super::mma_dense::multiply_block;

/// Multiplies 16 x 16 by 16 x 8, signed or unsigned bytes, and adds to s32 (PTX ISA 9.7.14.5.8).
#[inline(always)]
pub fn mma_m16n8k16_i8(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 4], a_signed: bool, b_signed: bool) -> [Lanes; 4] {
    let [mut upper, mut lower] = accumulators(c);
    let b = transposed(&bytes(&b[0], b_signed));
    multiply_block(&bytes(&a[0], a_signed), &b, &mut upper);
    multiply_block(&bytes(&a[1], a_signed), &b, &mut lower);
    registers([upper, lower])
}

/// Multiplies 16 x 32 by 32 x 8, signed or unsigned bytes, and adds to s32 (PTX ISA 9.7.14.5.9).
#[inline(always)]
pub fn mma_m16n8k32_i8(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4], a_signed: bool, b_signed: bool) -> [Lanes; 4] {
    let [mut upper, mut lower] = accumulators(c);
    let (first, second) = (transposed(&bytes(&b[0], b_signed)), transposed(&bytes(&b[1], b_signed)));
    multiply_block(&bytes(&a[0], a_signed), &first, &mut upper);
    multiply_block(&bytes(&a[2], a_signed), &second, &mut upper);
    multiply_block(&bytes(&a[1], a_signed), &first, &mut lower);
    multiply_block(&bytes(&a[3], a_signed), &second, &mut lower);
    registers([upper, lower])
}

#[inline(always)]
fn bytes(register: &Lanes, signed: bool) -> [[i32; 16]; 8] {
    let mut block = [[0; 16]; 8];
    for (lane, &word) in register.iter().enumerate() {
        for i in 0..4 {
            block[lane / 4][4 * (lane % 4) + i as usize] = byte(word, i, signed);
        }
    }
    block
}

#[inline(always)]
fn accumulators(c: &[Lanes; 4]) -> [[[i32; 8]; 8]; 2] {
    let mut blocks = [[[0; 8]; 8]; 2];
    for half in 0..2 {
        for lane in 0..32 {
            blocks[half][lane / 4][2 * (lane % 4)] = c[2 * half][lane] as i32;
            blocks[half][lane / 4][2 * (lane % 4) + 1] = c[2 * half + 1][lane] as i32;
        }
    }
    blocks
}

#[inline(always)]
fn registers(blocks: [[[i32; 8]; 8]; 2]) -> [Lanes; 4] {
    let mut d = [[0; 32]; 4];
    for half in 0..2 {
        for lane in 0..32 {
            d[2 * half][lane] = blocks[half][lane / 4][2 * (lane % 4)] as u32;
            d[2 * half + 1][lane] = blocks[half][lane / 4][2 * (lane % 4) + 1] as u32;
        }
    }
    d
}
