//! Comparisons of `setp` and `set` (PTX ISA 9.7.6). With a constant `cmp`, each is one or two instructions.

use super::half::{bf16_to_f32, f16_to_f32};
use crate::program::Cmp;

macro_rules! floats {
    ($(#[$doc:meta])* $name:ident, $ty:ty) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(cmp: Cmp, a: $ty, b: $ty) -> bool {
            let unordered = a.is_nan() | b.is_nan();
            match cmp {
                Cmp::Eq => a == b,
                Cmp::Ne => !unordered & (a != b),
                Cmp::Lt => a < b,
                Cmp::Le => a <= b,
                Cmp::Gt => a > b,
                Cmp::Ge => a >= b,
                Cmp::Equ => unordered | (a == b),
                Cmp::Neu => a != b,
                Cmp::Ltu => unordered | (a < b),
                Cmp::Leu => unordered | (a <= b),
                Cmp::Gtu => unordered | (a > b),
                Cmp::Geu => unordered | (a >= b),
                Cmp::Num => !unordered,
                Cmp::Nan => unordered,
            }
        }
    };
}

macro_rules! integers {
    ($(#[$doc:meta])* $name:ident, $ty:ty) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(cmp: Cmp, a: $ty, b: $ty) -> bool {
            match cmp {
                Cmp::Eq | Cmp::Equ => a == b,
                Cmp::Ne | Cmp::Neu => a != b,
                Cmp::Lt | Cmp::Ltu => a < b,
                Cmp::Le | Cmp::Leu => a <= b,
                Cmp::Gt | Cmp::Gtu => a > b,
                Cmp::Ge | Cmp::Geu => a >= b,
                Cmp::Num => true,
                Cmp::Nan => false,
            }
        }
    };
}

floats! {
    /// Compares f32. If an operand is NaN, the ordered comparisons (including `Ne`) are false and the unordered ones
    /// true.
    compare_f32, f32
}
floats! {
    /// Compares f64. If an operand is NaN, the ordered comparisons (including `Ne`) are false and the unordered ones
    /// true.
    compare_f64, f64
}
integers! {
    /// Compares unsigned 32-bit integers. An unordered comparison counts as its ordered form.
    compare_u32, u32
}
integers! {
    /// Compares signed 32-bit integers. An unordered comparison counts as its ordered form.
    compare_s32, i32
}
integers! {
    /// Compares unsigned 64-bit integers. An unordered comparison counts as its ordered form.
    compare_u64, u64
}
integers! {
    /// Compares signed 64-bit integers. An unordered comparison counts as its ordered form.
    compare_s64, i64
}

/// Compares f16 (the low 16 bits), as [`compare_f32`] does.
#[inline(always)]
pub fn compare_f16(cmp: Cmp, a: u32, b: u32) -> bool {
    compare_f32(cmp, f16_to_f32(a), f16_to_f32(b))
}

/// Compares bf16 (the low 16 bits), as [`compare_f32`] does.
#[inline(always)]
pub fn compare_bf16(cmp: Cmp, a: u32, b: u32) -> bool {
    compare_f32(cmp, bf16_to_f32(a), bf16_to_f32(b))
}
