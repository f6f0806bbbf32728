//! `mma.sync` of f16, bit by bit as the hardware sums.
//!
//! Measured on an H200 over 32,768 sums of normally distributed numbers, all of which this code reproduces. The 16
//! products of an m16n8k16 and C are aligned to the largest exponent; a product's exponent is the sum of its factors'
//! exponents. Each term is cut off 25 bits below it. The sum is exact and then cut off to 24 bits. Subnormal operands
//! and bf16 were not measured, so their results are only likely. A sum that is not finite is that of
//! [`super::mma_m16n8k16_f16`].

use super::float::canonical;
use super::mma::{Lanes, accumulators, halves, registers};
use super::mma_block::{Operand, Rows, Sums, each, multiply, rows};

/// Bits kept below the largest exponent.
const KEPT: i32 = 25;

/// A register of A or B with its elements' exponents.
struct Terms<V, E> {
    values: V,
    exponents: E,
}

type Left = Terms<Operand<f32, 2>, Operand<i32, 2>>;
type Right = Terms<Rows<f32, 2>, Rows<i32, 2>>;

/// Multiplies 16 x 16 by 16 x 8, f16 or `bf16`, and adds to f32 as an H200 does: aligned and cut off, in one sum (PTX
/// ISA 9.7.14.5.8). Uses `mul_add`.
#[inline(always)]
pub fn mma_m16n8k16_f16_hopper(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4], bf16: bool) -> [Lanes; 4] {
    let [upper, lower] = accumulators(c);
    let (a0, a1, a2, a3) = (left(&a[0], bf16), left(&a[1], bf16), left(&a[2], bf16), left(&a[3], bf16));
    let b = [right(&b[0], bf16), right(&b[1], bf16)];
    registers(&[sums(&[a0, a2], &b, &upper), sums(&[a1, a3], &b, &lower)])
}

#[inline(always)]
fn left(register: &Lanes, bf16: bool) -> Left {
    let values = halves(register, bf16);
    Terms { values, exponents: [each(&values[0], exponent), each(&values[1], exponent)] }
}

#[inline(always)]
fn right(register: &Lanes, bf16: bool) -> Right {
    let Terms { values, exponents } = left(register, bf16);
    Terms { values: rows(&values), exponents: rows(&exponents) }
}

#[inline(always)]
fn exponent(x: f32) -> i32 {
    ((x.to_bits() >> 23) & 0xff) as i32 - 127
}

/// Returns the eight rows of the product of two registers of A and of B.
#[inline(always)]
fn sums(a: &[Left; 2], b: &[Right; 2], c: &Sums<f32>) -> Sums<f32> {
    let mut plain = *c;
    multiply(&a[0].values, &b[0].values, &mut plain);
    multiply(&a[1].values, &b[1].values, &mut plain);
    let mut result = *c;
    for (g, row) in result.iter_mut().enumerate() {
        let largest = largest_exponents(a, b, row, g);
        let aligned = aligned_sums(a, b, row, g, &largest);
        for j in 0..8 {
            let unit = f64::from_bits(((largest[j] - KEPT + 1023) as u64) << 52);
            // An f64 has 29 bits below the last bit of an f32.
            let cut = f64::from_bits(aligned[j].to_bits() & !0x1fff_ffff);
            let finite = (cut * unit) as f32;
            row[j] = if plain[g][j].is_finite() { finite } else { canonical(plain[g][j]) };
        }
    }
    result
}

#[inline(always)]
fn largest_exponents(a: &[Left; 2], b: &[Right; 2], c: &[f32; 8], g: usize) -> [i32; 8] {
    let mut largest = c.map(exponent);
    for register in 0..2 {
        for t in 0..4 {
            for part in 0..2 {
                let own = a[register].exponents[part][4 * g + t];
                let others = &b[register].exponents[part][t];
                for (most, other) in largest.iter_mut().zip(others) {
                    *most = (*most).max(own + other);
                }
            }
        }
    }
    largest
}

/// Returns the sums of the truncated terms, in units of the last bit kept.
#[inline(always)]
fn aligned_sums(a: &[Left; 2], b: &[Right; 2], c: &[f32; 8], g: usize, largest: &[i32; 8]) -> [f64; 8] {
    let mut total = [0.0; 8];
    for j in 0..8 {
        total[j] = f64::from(aligned(c[j], largest[j]));
    }
    for register in 0..2 {
        // Eight terms below 2^27 fit; sixteen might not.
        let mut sum = [0_i32; 8];
        for t in 0..4 {
            for part in 0..2 {
                let factor = a[register].values[part][4 * g + t];
                let others = &b[register].values[part][t];
                for j in 0..8 {
                    sum[j] = sum[j].wrapping_add(aligned(factor * others[j], largest[j]));
                }
            }
        }
        for j in 0..8 {
            total[j] += f64::from(sum[j]);
        }
    }
    total
}

/// Returns a number in units of `2^(largest - KEPT)`, cut off. Its own exponent is at most one above the largest,
/// because a product of significands can reach 4.
#[inline(always)]
fn aligned(x: f32, largest: i32) -> i32 {
    let bits = x.to_bits();
    let fraction = bits & 0x7f_ffff;
    let normal = bits & 0x7f80_0000 != 0;
    let significand = (if normal { fraction | 0x80_0000 } else { fraction << 1 }) << (KEPT - 22);
    let shift = (largest + 1 - exponent(x)).min(31) & 31;
    let magnitude = (significand >> shift) as i32;
    let sign = (bits as i32) >> 31;
    (magnitude ^ sign).wrapping_sub(sign)
}
