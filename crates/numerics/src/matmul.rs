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
