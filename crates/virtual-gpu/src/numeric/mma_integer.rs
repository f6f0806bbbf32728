//! `mma.sync` of 8-bit and 4-bit integers on fragments as the lanes hold them (PTX ISA 9.7.14.5.8 and 9.7.14.5.9).
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

/// Integers of 4 or 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// Bits of each.
    pub bits: u32,
    /// Whether they are signed.
    pub signed: bool,
}

impl Elements {
    fn get(self, word: u32, index: u32) -> i32 {
        let high = word << (32 - self.bits * (index + 1));
        if self.signed { high as i32 >> (32 - self.bits) } else { (high >> (32 - self.bits)) as i32 }
    }
}

/// Multiplies integers of the same size: 8 rows for one register of A for each of B, or 16 for two. Adds to s32 (PTX ISA
/// 9.7.14.5.3, 9.7.14.5.10 and 9.7.14.5.11).
pub fn mma_integers(a: &[Lanes], b: &[Lanes], c: &[Lanes; 4], elements: [Elements; 2]) -> [Lanes; 4] {
    let mut d = *c;
    let halves = a.len() / b.len();
    for (register, lanes) in d.iter_mut().enumerate().take(2 * halves) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            let (row, column) = (lane / 4, lane % 4 * 2 + register % 2);
            for (step, b) in b.iter().enumerate() {
                let a = &a[step * halves + register / 2];
                let products = (0..4).map(|t| product(a[4 * row + t], b[4 * column + t], elements));
                *sum = sum.wrapping_add(products.sum::<i32>() as u32);
            }
        }
    }
    d
}

/// Returns the sum of the products of two words' elements.
fn product(x: u32, y: u32, [left, right]: [Elements; 2]) -> i32 {
    (0..32 / left.bits).map(|index| left.get(x, index) * right.get(y, index)).sum()
}
