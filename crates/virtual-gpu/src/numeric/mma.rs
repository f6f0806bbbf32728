//! `mma.sync` of floats on fragments as the lanes hold them (PTX ISA 9.7.14.5).
//!
//! Every fragment is made of 8 x 8 blocks (8 x 4 for 32- and 64-bit elements). Lane `4 g + t` holds the elements of
//! row `g` (A, C, D) or column `g` (B) that belong to `t`, so the registers of one block, lane after lane, are the block
//! itself: row-major for A, C and D, column-major for B.
//!
//! With an f32 accumulator each element is a chain of fused multiply-adds from C on, in the order of k, rounded to
//! nearest. The products are exact, so the error is at most `K * 2^-24` times the largest partial sum's magnitude. The
//! hardware aligns the products of a block of k to the largest and truncates, in an order that NVIDIA does not state:
//! its error has a bound of the same kind and the results differ in the last bits. An f16 accumulator is summed in f32
//! and rounded once. NaN results are canonical.
//!
//! All functions on floats use `mul_add`.

use super::float::canonical;
use super::half::{bf16_to_f32, f16_to_f32, f32_to_f16};
use super::mma_dense::multiply_block;

/// One register of a warp, lane by lane.
pub type Lanes = [u32; 32];

type Block<const K: usize> = [[f32; K]; 8];

/// Multiplies 16 x 16 by 16 x 8, f16 or `bf16`, and adds to f32 (PTX ISA 9.7.14.5.8).
#[inline(always)]
pub fn mma_m16n8k16_f16(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4], bf16: bool) -> [Lanes; 4] {
    let [upper, lower] = halves_k16(a, b, accumulators(c), bf16);
    registers([upper, lower])
}

/// Multiplies 16 x 8 by 8 x 8, f16 or `bf16`, and adds to f32 (PTX ISA 9.7.14.5.7).
#[inline(always)]
pub fn mma_m16n8k8_f16(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 4], bf16: bool) -> [Lanes; 4] {
    registers(halves_k8(a, b, accumulators(c), bf16))
}

/// Multiplies 16 x 16 by 16 x 8 in f16 and adds to f16 (PTX ISA 9.7.14.5.8).
#[inline(always)]
pub fn mma_m16n8k16_f16_f16(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 2]) -> [Lanes; 2] {
    let sums = halves_k16(a, b, [halves(&c[0], false), halves(&c[1], false)], false);
    [packed(&sums[0]), packed(&sums[1])]
}

/// Multiplies 16 x 8 by 8 x 8 in f16 and adds to f16 (PTX ISA 9.7.14.5.7).
#[inline(always)]
pub fn mma_m16n8k8_f16_f16(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 2]) -> [Lanes; 2] {
    let sums = halves_k8(a, b, [halves(&c[0], false), halves(&c[1], false)], false);
    [packed(&sums[0]), packed(&sums[1])]
}

/// Multiplies 16 x 4 by 4 x 8 in tf32 and adds to f32; the low 13 bits of A and B are ignored (PTX ISA 9.7.14.5.6).
#[inline(always)]
pub fn mma_m16n8k4_tf32(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 4]) -> [Lanes; 4] {
    let [mut upper, mut lower] = accumulators(c);
    let b = transposed(&tf32(&b[0]));
    multiply_block(&tf32(&a[0]), &b, &mut upper);
    multiply_block(&tf32(&a[1]), &b, &mut lower);
    registers([upper, lower])
}

/// Multiplies 16 x 8 by 8 x 8 in tf32 and adds to f32; the low 13 bits of A and B are ignored (PTX ISA 9.7.14.5.7).
#[inline(always)]
pub fn mma_m16n8k8_tf32(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4]) -> [Lanes; 4] {
    let [mut upper, mut lower] = accumulators(c);
    let (first, second) = (transposed(&tf32(&b[0])), transposed(&tf32(&b[1])));
    multiply_block(&tf32(&a[0]), &first, &mut upper);
    multiply_block(&tf32(&a[2]), &second, &mut upper);
    multiply_block(&tf32(&a[1]), &first, &mut lower);
    multiply_block(&tf32(&a[3]), &second, &mut lower);
    registers([upper, lower])
}

/// Multiplies 8 x 4 by 4 x 8 in f64 and adds, one rounding per product in the order of k (PTX ISA 9.7.14.5.2).
#[inline(always)]
pub fn mma_m8n8k4_f64(a: &[u64; 32], b: &[u64; 32], c: &[[u64; 32]; 2]) -> [[u64; 32]; 2] {
    let (mut rows, mut columns, mut sums) = ([[0.0; 4]; 8], [[0.0; 8]; 4], [[0.0; 8]; 8]);
    for lane in 0..32 {
        let (g, t) = (lane / 4, lane % 4);
        rows[g][t] = f64::from_bits(a[lane]);
        columns[t][g] = f64::from_bits(b[lane]);
        sums[g][2 * t] = f64::from_bits(c[0][lane]);
        sums[g][2 * t + 1] = f64::from_bits(c[1][lane]);
    }
    multiply_block(&rows, &columns, &mut sums);
    [0, 1].map(|i| std::array::from_fn(|lane| sums[lane / 4][2 * (lane % 4) + i].to_bits()))
}

#[inline(always)]
fn halves_k16(a: &[Lanes; 4], b: &[Lanes; 2], c: [Block<8>; 2], bf16: bool) -> [Block<8>; 2] {
    let [mut upper, mut lower] = c;
    let (first, second) = (transposed(&halves(&b[0], bf16)), transposed(&halves(&b[1], bf16)));
    multiply_block(&halves(&a[0], bf16), &first, &mut upper);
    multiply_block(&halves(&a[2], bf16), &second, &mut upper);
    multiply_block(&halves(&a[1], bf16), &first, &mut lower);
    multiply_block(&halves(&a[3], bf16), &second, &mut lower);
    [upper, lower]
}

#[inline(always)]
fn halves_k8(a: &[Lanes; 2], b: &[Lanes; 1], c: [Block<8>; 2], bf16: bool) -> [Block<8>; 2] {
    let [mut upper, mut lower] = c;
    let b = transposed(&halves(&b[0], bf16));
    multiply_block(&halves(&a[0], bf16), &b, &mut upper);
    multiply_block(&halves(&a[1], bf16), &b, &mut lower);
    [upper, lower]
}

/// Widens a register of packed halves to its block.
#[inline(always)]
fn halves(register: &Lanes, bf16: bool) -> Block<8> {
    let mut block = [[0.0; 8]; 8];
    for (lane, &pair) in register.iter().enumerate() {
        let (low, high) = if bf16 {
            (bf16_to_f32(pair), f32::from_bits(pair & 0xffff_0000))
        } else {
            (f16_to_f32(pair), f16_to_f32(pair >> 16))
        };
        block[lane / 4][2 * (lane % 4)] = low;
        block[lane / 4][2 * (lane % 4) + 1] = high;
    }
    block
}

#[inline(always)]
fn tf32(register: &Lanes) -> Block<4> {
    let mut block = [[0.0; 4]; 8];
    for (lane, &bits) in register.iter().enumerate() {
        block[lane / 4][lane % 4] = f32::from_bits(bits & 0xffff_e000);
    }
    block
}

/// Turns columns into rows, for B.
#[inline(always)]
pub(super) fn transposed<T: Copy + Default, const K: usize>(columns: &[[T; K]; 8]) -> [[T; 8]; K] {
    let mut rows = [[T::default(); 8]; K];
    for k in 0..K {
        for n in 0..8 {
            rows[k][n] = columns[n][k];
        }
    }
    rows
}

/// Reads the two blocks of an f32 accumulator: rows 0 to 7 and 8 to 15.
#[inline(always)]
fn accumulators(c: &[Lanes; 4]) -> [Block<8>; 2] {
    let mut blocks = [[[0.0; 8]; 8]; 2];
    for half in 0..2 {
        for lane in 0..32 {
            blocks[half][lane / 4][2 * (lane % 4)] = f32::from_bits(c[2 * half][lane]);
            blocks[half][lane / 4][2 * (lane % 4) + 1] = f32::from_bits(c[2 * half + 1][lane]);
        }
    }
    blocks
}

/// The reverse of [`accumulators`].
#[inline(always)]
fn registers(blocks: [Block<8>; 2]) -> [Lanes; 4] {
    let mut d = [[0; 32]; 4];
    for half in 0..2 {
        for lane in 0..32 {
            d[2 * half][lane] = canonical(blocks[half][lane / 4][2 * (lane % 4)]).to_bits();
            d[2 * half + 1][lane] = canonical(blocks[half][lane / 4][2 * (lane % 4) + 1]).to_bits();
        }
    }
    d
}

/// Rounds a block to the register of an f16 accumulator.
#[inline(always)]
fn packed(block: &Block<8>) -> Lanes {
    let mut register = [0; 32];
    for (lane, pair) in register.iter_mut().enumerate() {
        let row = &block[lane / 4];
        *pair = f32_to_f16(row[2 * (lane % 4)]) | (f32_to_f16(row[2 * (lane % 4) + 1]) << 16);
    }
    register
}
