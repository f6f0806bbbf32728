//! Dense products: the blocks that fragments consist of, and tiles of any size.

/// Numbers that can be multiplied and added with one rounding.
pub(super) trait Element: Copy {
    fn multiply_add(self, by: Self, plus: Self) -> Self;
}

impl Element for f32 {
    #[inline(always)]
    fn multiply_add(self, by: Self, plus: Self) -> Self {
        self.mul_add(by, plus)
    }
}

impl Element for f64 {
    #[inline(always)]
    fn multiply_add(self, by: Self, plus: Self) -> Self {
        self.mul_add(by, plus)
    }
}

impl Element for i32 {
    #[inline(always)]
    fn multiply_add(self, by: Self, plus: Self) -> Self {
        self.wrapping_mul(by).wrapping_add(plus)
    }
}

/// Adds the product of `a` (8 x K, row-major) and `b` (K x 8, row-major) to `c` (8 x 8), in the order of k.
#[inline(always)]
pub(super) fn multiply_block<T: Element, const K: usize>(a: &[[T; K]; 8], b: &[[T; 8]; K], c: &mut [[T; 8]; 8]) {
    for (row, sums) in a.iter().zip(c) {
        let mut total = *sums;
        for k in 0..K {
            for n in 0..8 {
                total[n] = row[k].multiply_add(b[k][n], total[n]);
            }
        }
        *sums = total;
    }
}

/// Columns that are summed at once.
const WIDTH: usize = 16;

/// Adds the product of `a` (m x k) and `b` (k x n) to `c` (m x n), all row-major and dense: each sum is a chain of fused
/// multiply-adds in the order of k. Uses `mul_add`.
///
/// # Panics
///
/// If a slice is shorter than its matrix.
#[inline(always)]
pub fn multiply_tile(a: &[f32], b: &[f32], c: &mut [f32], m: usize, n: usize, k: usize) {
    let wide = n - n % WIDTH;
    for row in 0..m {
        let a_row = &a[row * k..][..k];
        let c_row = &mut c[row * n..][..n];
        for column in (0..wide).step_by(WIDTH) {
            multiply_columns::<WIDTH>(a_row, b, &mut c_row[column..], n, column);
        }
        if n - wide >= 8 {
            multiply_columns::<8>(a_row, b, &mut c_row[wide..], n, wide);
        }
        for column in n - n % 8..n {
            multiply_columns::<1>(a_row, b, &mut c_row[column..], n, column);
        }
    }
}

/// Adds one row of `a` times W columns of `b` to the first W of `c`.
#[inline(always)]
fn multiply_columns<const W: usize>(a: &[f32], b: &[f32], c: &mut [f32], n: usize, column: usize) {
    let mut total = [0.0; W];
    total.copy_from_slice(&c[..W]);
    for (k, &factor) in a.iter().enumerate() {
        let b_row = &b[k * n + column..][..W];
        for (sum, &other) in total.iter_mut().zip(b_row) {
            *sum = factor.mul_add(other, *sum);
        }
    }
    c[..W].copy_from_slice(&total);
}
