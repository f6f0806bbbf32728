//! The 8-row pieces of matrix fragments, and their product.
//!
//! In every fragment, lane `4 g + t` holds elements of row `g` (A, C, D) or column `g` (B). A register of A or B holds
//! P elements of each lane (1 of 32 or 64 bits, 2 halves, 4 bytes): those at k = P t to P t + P - 1. A pair of
//! registers of C or D holds columns 2 t and 2 t + 1.
//!
//! The layout follows the lanes and keeps rows contiguous: the even columns of C come first, then the odd ones. B's
//! columns have the same order.

/// Numbers that can be multiplied and added with one rounding.
pub(super) trait Element: Copy + Default {
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

/// A register of A or B: the i-th array holds element `i` of every lane.
pub(super) type Operand<T, const P: usize> = [[T; 32]; P];

/// Eight rows of eight sums: the even columns, then the odd ones.
pub(super) type Sums<T> = [[T; 8]; 8];

/// A register of B as rows of eight columns (even ones first), by element and `t`.
pub(super) type Rows<T, const P: usize> = [[[T; 8]; 4]; P];

/// Transposes a register of B.
#[inline(always)]
pub(super) fn rows<T: Element, const P: usize>(b: &Operand<T, P>) -> Rows<T, P> {
    let mut rows = [[[T::default(); 8]; 4]; P];
    for part in 0..P {
        for t in 0..4 {
            for j in 0..4 {
                rows[part][t][j] = b[part][8 * j + t];
                rows[part][t][j + 4] = b[part][8 * j + 4 + t];
            }
        }
    }
    rows
}

/// Adds the product of one register of A and one of B to `sums`, in the order of k.
#[inline(always)]
pub(super) fn multiply<T: Element, const P: usize>(a: &Operand<T, P>, b: &Rows<T, P>, sums: &mut Sums<T>) {
    for (g, row) in sums.iter_mut().enumerate() {
        let mut total = *row;
        for t in 0..4 {
            for part in 0..P {
                let factor = a[part][4 * g + t];
                for j in 0..8 {
                    total[j] = factor.multiply_add(b[part][t][j], total[j]);
                }
            }
        }
        *row = total;
    }
}

/// Joins the two registers of an accumulator's rows.
#[inline(always)]
pub(super) fn joined<T: Element>(even: &[T; 32], odd: &[T; 32]) -> Sums<T> {
    let mut sums = [[T::default(); 8]; 8];
    for (g, row) in sums.iter_mut().enumerate() {
        row[..4].copy_from_slice(&even[4 * g..4 * g + 4]);
        row[4..].copy_from_slice(&odd[4 * g..4 * g + 4]);
    }
    sums
}

/// The reverse of [`joined`].
#[inline(always)]
pub(super) fn split<T: Element>(sums: &Sums<T>) -> [[T; 32]; 2] {
    let mut registers = [[T::default(); 32]; 2];
    for (g, row) in sums.iter().enumerate() {
        registers[0][4 * g..4 * g + 4].copy_from_slice(&row[..4]);
        registers[1][4 * g..4 * g + 4].copy_from_slice(&row[4..]);
    }
    registers
}

/// Applies a function to every lane.
#[inline(always)]
pub(super) fn each<A: Copy, B: Copy + Default>(lanes: &[A; 32], f: impl Fn(A) -> B) -> [B; 32] {
    let mut result = [B::default(); 32];
    for lane in 0..32 {
        result[lane] = f(lanes[lane]);
    }
    result
}
