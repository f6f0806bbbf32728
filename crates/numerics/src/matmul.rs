//! Blocks of a matrix product in float64.

use std::ops::Range;

/// Columns of a block, at most. It is the size of a buffer on the stack.
pub const MAX_COLUMNS: usize = 512;

/// Returns some rows of `a[_, k] b[k, n]` for a range of at most [`MAX_COLUMNS`] columns, one row after the other.
pub fn block(a: &[f32], b: &[f32], (n, k): (usize, usize), rows: &[usize], columns: Range<usize>) -> Vec<f64> {
    let width = columns.len();
    let mut sums = vec![0.0; rows.len() * width];
    let mut wide = [0.0; MAX_COLUMNS];
    for step in 0..k {
        let of_b = &b[step * n + columns.start..][..width];
        wide.iter_mut().zip(of_b).for_each(|(wide, b)| *wide = f64::from(*b));
        for (sums, row) in sums.chunks_exact_mut(width).zip(rows) {
            let of_a = f64::from(a[row * k + step]);
            sums.iter_mut().zip(&wide).for_each(|(sum, b)| *sum += of_a * b);
        }
    }
    sums
}

/// Terms whose numbers are widened together, so that they stay in the L1 cache.
const TERMS: usize = 256;

/// Sums that are added side by side, in the end in a fixed order.
const LANES: usize = 8;

/// Returns some rows of `a[_, k]` times the transpose of `b[_, k]`, for a range of the rows of b, one row of a after the other.
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
            for (row, of_a) in of_a.iter().enumerate() {
                sums[row * width + column] += dot(of_a, &wide);
            }
        }
    }
    sums
}

/// Converts numbers, and fills the rest with zeros.
fn widen(wide: &mut [f64; TERMS], narrow: &[f32]) {
    wide[narrow.len()..].fill(0.0);
    wide.iter_mut().zip(narrow).for_each(|(wide, narrow)| *wide = f64::from(*narrow));
}

/// Returns the sum of the products of two rows of equal lengths.
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

fn dot(a: &[f64; TERMS], b: &[f64; TERMS]) -> f64 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}
