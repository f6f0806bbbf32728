//! How alike the code of two variants is. Compilers turn changes of parameters into spills, unrolled loops and other
//! launches, so variants with similar code have similar times, also where their parameters say less.

use crate::domain::code::CodeFigures;

/// Bytes of local memory count less than other figures: their range is far larger, and most variants have none.
const LOCAL_WEIGHT: f64 = 0.25;

/// A compiled variant, as it is launched on a case.
#[derive(Debug, Clone, Copy)]
pub struct Built {
    /// What the compiler reported.
    pub code: CodeFigures,
    /// Blocks (CTAs) of the largest launch.
    pub ctas: u64,
}

impl Built {
    /// Returns the correlation of the times of two variants as far as it comes from their code: 1 for the same figures,
    /// 1/e where one of them differs by a factor of e.
    pub(super) fn alike(&self, other: &Self) -> f64 {
        let apart = |figure: fn(&Self) -> f64| (figure(self) - figure(other)).abs();
        let distance = apart(|built| f64::from(built.code.registers.max(1)).ln())
            + apart(|built| LOCAL_WEIGHT * f64::from(built.code.local_bytes).ln_1p())
            + apart(|built| f64::from(built.code.instructions).ln_1p())
            + apart(|built| (built.ctas.max(1) as f64).ln());
        (-distance).exp()
    }
}
