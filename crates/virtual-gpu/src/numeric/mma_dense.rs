//! Dense products of any size.

/// Columns that are summed at once.
const WIDTH: usize = 16;
/// Rows that are summed at once. Several sums are then in flight, and each row of B is read less often.
const ROWS: usize = 8;

/// Adds the product of `a` (m x k) and `b` (k x n) to `c` (m x n), all row-major and dense. Each sum is a chain of
/// fused multiply-adds in the order of k. Uses `mul_add`.
///
/// # Panics
///
/// If a slice is shorter than its matrix.
#[inline(always)]
pub fn multiply_tile(a: &[f32], b: &[f32], c: &mut [f32], m: usize, n: usize, k: usize) {
    let blocked = m - m % ROWS;
    for row in (0..blocked).step_by(ROWS) {
        multiply_rows::<ROWS>(&a[row * k..], b, &mut c[row * n..], n, k);
    }
    for row in blocked..m {
        multiply_rows::<1>(&a[row * k..], b, &mut c[row * n..], n, k);
    }
}

/// Adds R rows of `a` times `b` to the first R rows of `c`.
#[inline(always)]
fn multiply_rows<const R: usize>(a: &[f32], b: &[f32], c: &mut [f32], n: usize, k: usize) {
    let wide = n - n % WIDTH;
    for column in (0..wide).step_by(WIDTH) {
        multiply_columns::<R, WIDTH>(a, b, c, n, k, column);
    }
    if n - wide >= 8 {
        multiply_columns::<R, 8>(a, b, c, n, k, wide);
    }
    for column in n - n % 8..n {
        multiply_columns::<R, 1>(a, b, c, n, k, column);
    }
}

/// Adds R rows of `a` times W columns of `b`, from `column` on, to the same part of `c`.
#[inline(always)]
fn multiply_columns<const R: usize, const W: usize>(
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    n: usize,
    k: usize,
    column: usize,
) {
    let rows: [&[f32]; R] = std::array::from_fn(|row| &a[row * k..][..k]);
    let mut totals = [[0.0; W]; R];
    for (row, total) in totals.iter_mut().enumerate() {
        total.copy_from_slice(&c[row * n + column..][..W]);
    }
    for i in 0..k {
        let b_row = &b[i * n + column..][..W];
        for (row, total) in rows.iter().zip(&mut totals) {
            let factor = row[i];
            for (sum, &other) in total.iter_mut().zip(b_row) {
                *sum = factor.mul_add(other, *sum);
            }
        }
    }
    for (row, total) in totals.iter().enumerate() {
        c[row * n + column..][..W].copy_from_slice(total);
    }
}
