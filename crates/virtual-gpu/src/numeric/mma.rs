//! `mma.sync` of floats on fragments as the lanes hold them (PTX ISA 9.7.14.5).
//!
//! With an f32 accumulator, each element is a chain of fused multiply-adds from C, in the order of k, rounded to
//! nearest. The products are exact, so the error is at most `K * 2^-24` times the magnitude of the largest partial sum.
//! The hardware aligns the products to the largest and truncates. Its error has a similar bound, and the results differ
//! in the last bits. [`super::mma_m16n8k16_f16_hopper`] reproduces the hardware's result, more slowly. An f16
//! accumulator is summed in f32 and rounded once. NaN results are canonical.
//!
//! All functions on floats use `mul_add`.

use super::float::canonical;
use super::half::{bf16_to_f32, f16_to_f32, f32_to_f16};
use super::mma_block::{Operand, Sums, each, joined, multiply, rows, split};

/// One register of a warp, lane by lane.
pub type Lanes = [u32; 32];

/// Multiplies 16 x 16 by 16 x 8, f16 or `bf16`, and adds to f32 (PTX ISA 9.7.14.5.8).
#[inline(always)]
pub fn mma_m16n8k16_f16(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4], bf16: bool) -> [Lanes; 4] {
    registers(&halves_k16(a, b, accumulators(c), bf16))
}

/// Multiplies 16 x 8 by 8 x 8, f16 or `bf16`, and adds to f32 (PTX ISA 9.7.14.5.7).
#[inline(always)]
pub fn mma_m16n8k8_f16(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 4], bf16: bool) -> [Lanes; 4] {
    registers(&halves_k8(a, b, accumulators(c), bf16))
}

/// Multiplies 16 x 16 by 16 x 8 in f16 and adds to f16 (PTX ISA 9.7.14.5.8).
#[inline(always)]
pub fn mma_m16n8k16_f16_f16(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 2]) -> [Lanes; 2] {
    let sums = halves_k16(a, b, [half_sums(&c[0]), half_sums(&c[1])], false);
    [packed(&sums[0]), packed(&sums[1])]
}

/// Multiplies 16 x 8 by 8 x 8 in f16 and adds to f16 (PTX ISA 9.7.14.5.7).
#[inline(always)]
pub fn mma_m16n8k8_f16_f16(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 2]) -> [Lanes; 2] {
    let sums = halves_k8(a, b, [half_sums(&c[0]), half_sums(&c[1])], false);
    [packed(&sums[0]), packed(&sums[1])]
}

/// Multiplies 16 x 4 by 4 x 8 in tf32 and adds to f32; the low 13 bits of A and B are ignored (PTX ISA 9.7.14.5.6).
#[inline(always)]
pub fn mma_m16n8k4_tf32(a: &[Lanes; 2], b: &[Lanes; 1], c: &[Lanes; 4]) -> [Lanes; 4] {
    let [mut upper, mut lower] = accumulators(c);
    let b = rows(&tf32(&b[0]));
    multiply(&tf32(&a[0]), &b, &mut upper);
    multiply(&tf32(&a[1]), &b, &mut lower);
    registers(&[upper, lower])
}

/// Multiplies 16 x 8 by 8 x 8 in tf32 and adds to f32; the low 13 bits of A and B are ignored (PTX ISA 9.7.14.5.7).
#[inline(always)]
pub fn mma_m16n8k8_tf32(a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4]) -> [Lanes; 4] {
    let [mut upper, mut lower] = accumulators(c);
    let (first, second) = (rows(&tf32(&b[0])), rows(&tf32(&b[1])));
    multiply(&tf32(&a[0]), &first, &mut upper);
    multiply(&tf32(&a[1]), &first, &mut lower);
    multiply(&tf32(&a[2]), &second, &mut upper);
    multiply(&tf32(&a[3]), &second, &mut lower);
    registers(&[upper, lower])
}

/// Multiplies 8 x 4 by 4 x 8 in f64 and adds, one rounding per product in the order of k (PTX ISA 9.7.14.5.2).
#[inline(always)]
pub fn mma_m8n8k4_f64(a: &[u64; 32], b: &[u64; 32], c: &[[u64; 32]; 2]) -> [[u64; 32]; 2] {
    let b = rows(&[each(b, f64::from_bits)]);
    let mut sums = joined(&each(&c[0], f64::from_bits), &each(&c[1], f64::from_bits));
    multiply(&[each(a, f64::from_bits)], &b, &mut sums);
    let [even, odd] = split(&sums);
    [each(&even, f64::to_bits), each(&odd, f64::to_bits)]
}

#[inline(always)]
fn halves_k16(a: &[Lanes; 4], b: &[Lanes; 2], c: [Sums<f32>; 2], bf16: bool) -> [Sums<f32>; 2] {
    let [mut upper, mut lower] = c;
    let (first, second) = (rows(&halves(&b[0], bf16)), rows(&halves(&b[1], bf16)));
    multiply(&halves(&a[0], bf16), &first, &mut upper);
    multiply(&halves(&a[1], bf16), &first, &mut lower);
    multiply(&halves(&a[2], bf16), &second, &mut upper);
    multiply(&halves(&a[3], bf16), &second, &mut lower);
    [upper, lower]
}

#[inline(always)]
fn halves_k8(a: &[Lanes; 2], b: &[Lanes; 1], c: [Sums<f32>; 2], bf16: bool) -> [Sums<f32>; 2] {
    let [mut upper, mut lower] = c;
    let b = rows(&halves(&b[0], bf16));
    multiply(&halves(&a[0], bf16), &b, &mut upper);
    multiply(&halves(&a[1], bf16), &b, &mut lower);
    [upper, lower]
}

/// Widens a register of packed halves.
#[inline(always)]
pub(super) fn halves(register: &Lanes, bf16: bool) -> Operand<f32, 2> {
    if bf16 {
        [each(register, bf16_to_f32), each(register, |pair| f32::from_bits(pair & 0xffff_0000))]
    } else {
        [each(register, f16_to_f32), each(register, |pair| f16_to_f32(pair >> 16))]
    }
}

#[inline(always)]
fn tf32(register: &Lanes) -> Operand<f32, 1> {
    [each(register, |bits| f32::from_bits(bits & 0xffff_e000))]
}

/// Reads an f32 accumulator: rows 0 to 7 and 8 to 15.
#[inline(always)]
pub(super) fn accumulators(c: &[Lanes; 4]) -> [Sums<f32>; 2] {
    let floats = |register| each(register, f32::from_bits);
    [joined(&floats(&c[0]), &floats(&c[1])), joined(&floats(&c[2]), &floats(&c[3]))]
}

/// The reverse of [`accumulators`].
#[inline(always)]
pub(super) fn registers(sums: &[Sums<f32>; 2]) -> [Lanes; 4] {
    let bits = |x| canonical(x).to_bits();
    let ([d0, d1], [d2, d3]) = (split(&sums[0]), split(&sums[1]));
    [each(&d0, bits), each(&d1, bits), each(&d2, bits), each(&d3, bits)]
}

/// Reads one register of an f16 accumulator.
#[inline(always)]
pub(super) fn half_sums(register: &Lanes) -> Sums<f32> {
    let [even, odd] = halves(register, false);
    joined(&even, &odd)
}

/// Rounds eight rows to the register of an f16 accumulator.
#[inline(always)]
pub(super) fn packed(sums: &Sums<f32>) -> Lanes {
    let [even, odd] = split(sums);
    let (low, high) = (each(&even, f32_to_f16), each(&odd, f32_to_f16));
    let mut register = [0; 32];
    for lane in 0..32 {
        register[lane] = low[lane] | (high[lane] << 16);
    }
    register
}
