//! Matrix fragments against plain products, with the layouts written out in PTX ISA 9.7.14.5.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use virtual_gpu::numeric::*;

type Matrix = Vec<Vec<f64>>;

/// Positions of a fragment's elements: (row, column) of element `i` of a lane.
type Layout = fn(usize, usize) -> (usize, usize);

/// C and D of m16n8: `row = groupID (+ 8 for c2, c3)`, `col = threadID_in_group * 2 + (i & 1)`.
const ACCUMULATOR: Layout = |lane, i| (lane / 4 + if i < 2 { 0 } else { 8 }, (lane % 4) * 2 + (i & 1));

/// Deterministic numbers.
fn random<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

fn matrix(values: &[f64], columns: usize) -> Matrix {
    values.chunks(columns).map(<[f64]>::to_vec).collect()
}

fn product(a: &Matrix, b: &Matrix, c: &Matrix) -> Matrix {
    let sum = |row: &[f64], column: usize| row.iter().zip(b).map(|(x, other)| x * other[column]).sum::<f64>();
    a.iter().zip(c).map(|(row, c)| c.iter().enumerate().map(|(j, z)| sum(row, j) + z).collect()).collect()
}

/// Fills fragments: registers of `per` elements of `32 / per` bits each.
fn fragment<const R: usize>(from: &Matrix, per: usize, layout: Layout, bits: impl Fn(f64) -> u32) -> [[u32; 32]; R] {
    let width = 32 / per as u32;
    let mask = u32::MAX >> (32 - width);
    std::array::from_fn(|register| {
        std::array::from_fn(|lane| {
            let element = |part| {
                let (row, column) = layout(lane, register * per + part);
                (bits(from[row][column]) & mask) << (width * part as u32)
            };
            (0..per).map(element).fold(0, |word, part| word | part)
        })
    })
}

/// Reads an accumulator of 32-bit elements.
fn gathered(d: &[[u32; 32]; 4], value: impl Fn(u32) -> f64) -> Matrix {
    let mut result = vec![vec![f64::NAN; 8]; 16];
    for (i, register) in d.iter().enumerate() {
        for (lane, bits) in register.iter().enumerate() {
            let (row, column) = ACCUMULATOR(lane, i);
            result[row][column] = value(*bits);
        }
    }
    result
}

fn f32_value(bits: u32) -> f64 {
    f32::from_bits(bits).into()
}

fn f32_bits(x: f64) -> u32 {
    (x as f32).to_bits()
}

fn assert_close(result: &Matrix, expected: &Matrix, bound: f64) {
    for (row, (got, want)) in result.iter().zip(expected).enumerate() {
        for (column, (x, y)) in got.iter().zip(want).enumerate() {
            assert!((x - y).abs() <= bound, "({row}, {column}): {x} is not {y}");
        }
    }
}

/// Numbers that every format represents exactly: multiples of 1/8 of at most 7 bits.
fn operands(m: usize, k: usize) -> (Matrix, Matrix, Matrix) {
    let values = random(-63..64_i32, (m + 8) * k + m * 8);
    let values: Vec<f64> = values.into_iter().map(|x| f64::from(x) / 8.0).collect();
    (matrix(&values[..m * k], k), matrix(&values[m * k..(m + 8) * k], 8), matrix(&values[(m + 8) * k..], 8))
}

/// A of 16-bit elements: `row = groupID` for a0, a1, a4, a5, else `groupID + 8`; `col = threadID_in_group * 2 + (i &
/// 1)`, and 8 more from a4 on.
const A16: Layout = |lane, i| {
    let row = lane / 4 + if i < 2 || (4..6).contains(&i) { 0 } else { 8 };
    (row, (lane % 4) * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
};
/// B of 16-bit elements: `row = threadID_in_group * 2 + (i & 1)`, 8 more from b2 on; `col = groupID`.
const B16: Layout = |lane, i| ((lane % 4) * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, lane / 4);

#[test]
fn products_of_halves() {
    for bf16 in [false, true] {
        let narrow = |x: f64| if bf16 { f32_to_bf16(x as f32) } else { f32_to_f16(x as f32) };
        let (a, b, c) = operands(16, 16);
        let sums = fragment(&c, 1, ACCUMULATOR, f32_bits);
        let d = mma_m16n8k16_f16(&fragment(&a, 2, A16, narrow), &fragment(&b, 2, B16, narrow), &sums, bf16);
        assert_close(&gathered(&d, f32_value), &product(&a, &b, &c), 0.0);
        let (a, b, c) = operands(16, 8);
        let sums = fragment(&c, 1, ACCUMULATOR, f32_bits);
        let d = mma_m16n8k8_f16(&fragment(&a, 2, A16, narrow), &fragment(&b, 2, B16, narrow), &sums, bf16);
        assert_close(&gathered(&d, f32_value), &product(&a, &b, &c), 0.0);
    }
}

#[test]
fn products_of_halves_with_half_accumulators() {
    let narrow = |x: f64| f32_to_f16(x as f32);
    // The pairs of a register: c0, c1 in the first, c2, c3 in the second.
    let gather = |d: [[u32; 32]; 2]| {
        let words = [0, 0, 1, 1].map(|r: usize| d[r]);
        let parts: [[u32; 32]; 4] = std::array::from_fn(|i| words[i].map(|w| (w >> (16 * (i & 1))) & 0xffff));
        gathered(&parts, |h| f16_to_f32(h).into())
    };
    let expected = |a, b, c| -> Matrix {
        product(a, b, c).iter().map(|row| row.iter().map(|x| f16_to_f32(narrow(*x)).into()).collect()).collect()
    };
    let (a, b, c) = operands(16, 16);
    let sums = fragment(&c, 2, ACCUMULATOR, narrow);
    let d = mma_m16n8k16_f16_f16(&fragment(&a, 2, A16, narrow), &fragment(&b, 2, B16, narrow), &sums);
    assert_close(&gather(d), &expected(&a, &b, &c), 0.0);
    let (a, b, c) = operands(16, 8);
    let sums = fragment(&c, 2, ACCUMULATOR, narrow);
    let d = mma_m16n8k8_f16_f16(&fragment(&a, 2, A16, narrow), &fragment(&b, 2, B16, narrow), &sums);
    assert_close(&gather(d), &expected(&a, &b, &c), 0.0);
}

#[test]
fn products_of_tf32() {
    // Low bits that must not count.
    let narrow = |x: f64| f32_bits(x) | 0x1abc;
    // a0: (groupID, threadID_in_group), a1: row + 8, a2 and a3: column + 4; b0: (threadID_in_group, groupID), b1: row +
    // 4.
    let a_layout: Layout = |lane, i| (lane / 4 + 8 * (i & 1), lane % 4 + 4 * (i / 2));
    let b_layout: Layout = |lane, i| (lane % 4 + 4 * i, lane / 4);
    let (a, b, c) = operands(16, 8);
    let sums = fragment(&c, 1, ACCUMULATOR, f32_bits);
    let d = mma_m16n8k8_tf32(&fragment(&a, 1, a_layout, narrow), &fragment(&b, 1, b_layout, narrow), &sums);
    assert_close(&gathered(&d, f32_value), &product(&a, &b, &c), 0.0);
    let (a, b, c) = operands(16, 4);
    let sums = fragment(&c, 1, ACCUMULATOR, f32_bits);
    let d = mma_m16n8k4_tf32(&fragment(&a, 1, a_layout, narrow), &fragment(&b, 1, b_layout, narrow), &sums);
    assert_close(&gathered(&d, f32_value), &product(&a, &b, &c), 0.0);
}

#[test]
fn products_of_bytes() {
    // Row: groupID for i in 0..4 and 8..12, else + 8; column: threadID_in_group * 4 + (i & 3), 16 more from 8 on.
    let a_layout: Layout = |lane, i| (lane / 4 + 8 * ((i / 4) & 1), (lane % 4) * 4 + (i & 3) + 16 * (i / 8));
    let b_layout: Layout = |lane, i| ((lane % 4) * 4 + (i & 3) + 16 * (i / 4), lane / 4);
    let bits = |x: f64| x as i32 as u32;
    let value = |bits: u32| f64::from(bits as i32);
    for (a_signed, b_signed) in [(true, true), (true, false), (false, true), (false, false)] {
        let bytes = |count, columns, signed: bool| {
            let low = if signed { -128 } else { 0 };
            let values: Vec<f64> = random(low..low + 256_i32, count * columns).into_iter().map(f64::from).collect();
            matrix(&values, columns)
        };
        let c = matrix(&random(-1_000_000..1_000_000_i32, 128).into_iter().map(f64::from).collect::<Vec<_>>(), 8);
        let sums = fragment(&c, 1, ACCUMULATOR, bits);
        let (a, b) = (bytes(16, 32, a_signed), bytes(32, 8, b_signed));
        let (x, y) = (fragment(&a, 4, a_layout, bits), fragment(&b, 4, b_layout, bits));
        let d = mma_m16n8k32_i8(&x, &y, &sums, a_signed, b_signed);
        assert_close(&gathered(&d, value), &product(&a, &b, &c), 0.0);
        let (a, b) = (bytes(16, 16, a_signed), bytes(16, 8, b_signed));
        let (x, y) = (fragment(&a, 4, a_layout, bits), fragment(&b, 4, b_layout, bits));
        let d = mma_m16n8k16_i8(&x, &y, &sums, a_signed, b_signed);
        assert_close(&gathered(&d, value), &product(&a, &b, &c), 0.0);
    }
}

#[test]
fn products_of_f64() {
    let (a, b, c) = operands(8, 4);
    let x = std::array::from_fn(|lane| a[lane / 4][lane % 4].to_bits());
    let y = std::array::from_fn(|lane| b[lane % 4][lane / 4].to_bits());
    let z = [0, 1].map(|i| std::array::from_fn(|lane| c[lane / 4][2 * (lane % 4) + i].to_bits()));
    let d = mma_m8n8k4_f64(&x, &y, &z);
    let expected = product(&a, &b, &c);
    for (i, register) in d.iter().enumerate() {
        for (lane, bits) in register.iter().enumerate() {
            assert_eq!(f64::from_bits(*bits), expected[lane / 4][2 * (lane % 4) + i]);
        }
    }
}

#[test]
fn rounding_stays_within_the_stated_bound_and_nan_is_canonical() {
    let values = random(-1.0..1.0_f64, 512);
    let narrow = |x: f64| f32_to_f16(x as f32);
    let exact = |x: f64| f64::from(f16_to_f32(narrow(x)));
    let values: Vec<f64> = values.into_iter().map(exact).collect();
    let (a, b, c) = (matrix(&values[..256], 16), matrix(&values[256..384], 8), matrix(&values[384..], 8));
    let (x, y) = (fragment(&a, 2, A16, narrow), fragment(&b, 2, B16, narrow));
    let mut sums = fragment(&c, 1, ACCUMULATOR, f32_bits);
    let d = mma_m16n8k16_f16(&x, &y, &sums, false);
    // Partial sums stay below 17.
    assert_close(&gathered(&d, f32_value), &product(&a, &b, &c), 16.0 * 17.0 * 2f64.powi(-24));
    sums[2][5] = 0xff80_0001;
    assert_eq!(mma_m16n8k16_f16(&x, &y, &sums, false)[2][5], 0x7fff_ffff);
}

#[test]
fn tiles_of_any_size() {
    for (m, n, k) in [(1, 1, 1), (3, 8, 5), (4, 17, 2), (5, 40, 7), (64, 256, 16), (7, 31, 0), (9, 24, 3)] {
        let values: Vec<f64> = random(-31..32_i32, m * k + k * n + m * n).into_iter().map(f64::from).collect();
        let singles: Vec<f32> = values.iter().map(|x| *x as f32).collect();
        let (a, rest) = singles.split_at(m * k);
        let (b, c) = rest.split_at(k * n);
        let mut result = c.to_vec();
        multiply_tile(a, b, &mut result, m, n, k);
        for row in 0..m {
            for column in 0..n {
                let sum: f32 = (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum();
                assert_eq!(result[row * n + column], c[row * n + column] + sum, "({row}, {column}) of {m}x{n}x{k}");
            }
        }
    }
}
