//! `wgmma` of 8-bit floats as an H200 sums them: with few bits.
//!
//! The 32 products and C are aligned to the largest exponent; a product's exponent is the sum of its factors' exponents. Each term
//! is cut off 13 bits below it, and the sum is exact. So terms of 1/4,096 of a sum lose up to half of themselves: on 4,096 equal
//! terms, an H200 was 8.3% off, and 0.7% on 832 (2026-11-30), as this code is for some significands, and as it is not with 12 or 14
//! bits. It was not compared bit by bit.

use super::fp8::Fp8;
use super::mma::{Lanes, accumulators, registers};
use super::mma_block::{Operand, Rows, Sums, rows};
use super::mma_fp8::{bytes, mma_m16n8k32_f8};

/// Bits kept below the largest exponent.
const KEPT: i32 = 13;

/// The exponent of a sum whose terms are all zero or negligible. No product of two 8-bit floats is that small.
const LEAST: i32 = -60;

/// Multiplies 16 x 32 by 32 x 8, with A and B of these formats, and adds to f32.
pub fn mma_m16n8k32_f8_hopper(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4], formats: [Fp8; 2]) -> [Lanes; 4] {
    let [upper, lower] = accumulators(c);
    let [a0, a1, a2, a3] = [0, 1, 2, 3].map(|at| bytes(&a[at], formats[0]));
    let of_b = [0, 1].map(|at| bytes(&b[at], formats[1]));
    let elements = [&a0, &a1, &a2, &a3, &of_b[0], &of_b[1]].into_iter().flatten().flatten();
    if !elements.chain(upper.iter().chain(&lower).flatten()).all(|x| x.is_finite()) {
        return mma_m16n8k32_f8(a, b, c, formats);
    }
    let b = [rows(&of_b[0]), rows(&of_b[1])];
    registers(&[sums([&a0, &a2], &b, &upper), sums([&a1, &a3], &b, &lower)])
}

/// Returns the eight rows of the product of two registers of A and of B.
fn sums(a: [&Operand<f32, 4>; 2], b: &[Rows<f32, 4>; 2], c: &Sums<f32>) -> Sums<f32> {
    let mut result = *c;
    for (g, row) in result.iter_mut().enumerate() {
        let terms = (0..2).flat_map(|half| (0..4).flat_map(move |t| (0..4).map(move |part| (half, t, part))));
        let factors = terms.map(|(half, t, part)| (a[half][part][4 * g + t], &b[half][part][t]));
        let mut largest = row.map(|x| exponent(x).max(LEAST));
        for (factor, others) in factors.clone() {
            let own = exponent(factor);
            for (largest, other) in largest.iter_mut().zip(others) {
                *largest = (*largest).max(own + exponent(*other));
            }
        }
        let per_unit = largest.map(|largest| power_of_two(KEPT - largest));
        let mut total = *row;
        // At most 33 terms below 2^15: the sum is exact.
        total.iter_mut().zip(&per_unit).for_each(|(total, per_unit)| *total = (*total * per_unit).trunc());
        for (factor, others) in factors {
            for ((total, other), per_unit) in total.iter_mut().zip(others).zip(&per_unit) {
                *total += (factor * other * per_unit).trunc();
            }
        }
        *row = std::array::from_fn(|j| total[j] * power_of_two(largest[j] - KEPT));
    }
    result
}

fn exponent(x: f32) -> i32 {
    ((x.to_bits() >> 23) & 0xff) as i32 - 127
}

/// Returns 2 to a power from -126 to 127.
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum of so many products of two numbers, 32 at a time.
    fn sum(a: u32, b: u32, terms: u32) -> f32 {
        let all = |byte: u32| [byte * 0x0101_0101; 32];
        let mut c = [[0; 32]; 4];
        for _ in 0..terms / 32 {
            c = mma_m16n8k32_f8_hopper(&[all(a); 4], &[all(b); 2], &c, [Fp8::E4m3; 2]);
        }
        assert!(c.iter().flatten().all(|word| *word == c[0][0]), "every element has the same terms");
        f32::from_bits(c[0][0])
    }

    #[test]
    fn long_sums_lose_what_lies_13_bits_below_them() {
        // One, and what an integer counts exactly: nothing is lost.
        assert_eq!(sum(0x38, 0x38, 4096), 4096.0);
        // Few terms are exact. From 2,048 on, the unit of 1.125 times 1.125 is 1/4. The sums are those of a second implementation,
        // with whole numbers. An H200 was 8.3% off on a sum like the last one.
        assert_eq!(sum(0x39, 0x39, 32), 32.0 * 1.265_625);
        assert_eq!(sum(0x39, 0x39, 4096), 4923.5);
        assert_eq!(sum(0x39, 0x3c, 4096), 6338.0);
        // NaN remains.
        assert!(sum(0x7f, 0x38, 64).is_nan());
    }
}
