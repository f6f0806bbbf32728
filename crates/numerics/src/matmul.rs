//! Blocks of a matrix product in float64.

use std::ops::Range;

use multiversion::multiversion;

/// Columns of a block, at most. It is the size of a buffer on the stack.
pub const MAX_COLUMNS: usize = 512;

/// Rows of the second matrix that are multiplied while the processor has sums in registers.
const STEPS: usize = 4;

/// Returns some rows of `a[_, k] b[k, n]` for a range of at most [`MAX_COLUMNS`] columns, one row after the other.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
pub fn block(a: &[f32], b: &[f32], (n, k): (usize, usize), rows: &[usize], columns: Range<usize>) -> Vec<f64> {
    let width = columns.len();
    let mut sums = vec![0.0; rows.len() * width];
    let mut wide = [[0.0; MAX_COLUMNS]; STEPS];
    for first in (0..k).step_by(STEPS) {
        let steps = STEPS.min(k - first);
        for (step, wide) in wide.iter_mut().enumerate().take(steps) {
            let of_b = &b[(first + step) * n + columns.start..][..width];
            wide.iter_mut().zip(of_b).for_each(|(wide, b)| *wide = f64::from(*b));
        }
        for (sums, row) in sums.chunks_exact_mut(width).zip(rows) {
            let of_a = &a[row * k + first..][..steps];
            match <[f32; STEPS]>::try_from(of_a) {
                Ok(of_a) => add_steps(sums, of_a, &wide),
                Err(_) => {
                    of_a.iter().zip(&wide).for_each(|(a, wide)| add_steps(sums, [*a], std::array::from_ref(wide)))
                }
            }
        }
    }
    sums
}

/// Adds the products of some terms to the sums of a row, one term after the other.
#[inline(always)]
fn add_steps<const N: usize>(sums: &mut [f64], of_a: [f32; N], of_b: &[[f64; MAX_COLUMNS]; N]) {
    let of_a = of_a.map(f64::from);
    for (column, sum) in sums.iter_mut().enumerate().take(MAX_COLUMNS) {
        for step in 0..N {
            *sum += of_a[step] * of_b[step][column];
        }
    }
}

/// Terms whose numbers are widened together, so that they stay in the L1 cache.
const TERMS: usize = 256;

/// Sums that are added side by side, in the end in a fixed order.
const LANES: usize = 8;

/// Rows that are multiplied with another one while the processor has that in registers.
const TOGETHER: usize = 4;

/// Returns some rows of `a[_, k]` times the transpose of `b[_, k]`, for a range of the rows of b, one row of a after the other.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
pub fn block_of_rows(a: &[f32], b: &[f32], k: usize, rows: &[usize], columns: Range<usize>) -> Vec<f64> {
    let width = columns.len();
    let mut sums = vec![0.0; rows.len() * width];
    let mut of_a = vec![[0.0; TERMS]; rows.len()];
    for first in (0..k).step_by(TERMS) {
        let terms = TERMS.min(k - first);
        for (of_a, row) in of_a.iter_mut().zip(rows) {
            widen(of_a, &a[row * k + first..][..terms]);
        }
        for (column, of_b) in columns.clone().enumerate() {
            let mut wide = [0.0; TERMS];
            widen(&mut wide, &b[of_b * k + first..][..terms]);
            let (together, rest) = of_a.as_chunks::<TOGETHER>();
            for (chunk, of_a) in together.iter().enumerate() {
                for (row, sum) in dots(of_a, &wide).into_iter().enumerate() {
                    sums[(chunk * TOGETHER + row) * width + column] += sum;
                }
            }
            for (row, of_a) in rest.iter().enumerate() {
                let [sum] = dots(std::array::from_ref(of_a), &wide);
                sums[(together.len() * TOGETHER + row) * width + column] += sum;
            }
        }
    }
    sums
}

/// Converts numbers, and fills the rest with zeros.
#[inline(always)]
fn widen(wide: &mut [f64; TERMS], narrow: &[f32]) {
    wide[narrow.len()..].fill(0.0);
    wide.iter_mut().zip(narrow).for_each(|(wide, narrow)| *wide = f64::from(*narrow));
}

/// Returns the sum of the products of two rows of equal lengths.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
pub fn dot_of_rows(a: &[f32], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (of_a, of_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = of_a.remainder().iter().zip(of_b.remainder()).map(|(a, b)| f64::from(*a) * b).sum();
    for (a, b) in of_a.zip(of_b) {
        for lane in 0..LANES {
            sums[lane] += f64::from(a[lane]) * b[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Returns the sum of the products of each row and the same other one.
#[inline(always)]
fn dots<const ROWS: usize>(rows: &[[f64; TERMS]; ROWS], other: &[f64; TERMS]) -> [f64; ROWS] {
    let mut sums = [[0.0; LANES]; ROWS];
    for first in (0..TERMS).step_by(LANES) {
        for (sums, row) in sums.iter_mut().zip(rows) {
            for lane in 0..LANES {
                sums[lane] += row[first + lane] * other[first + lane];
            }
        }
    }
    sums.map(|sums| sums.iter().sum())
}
