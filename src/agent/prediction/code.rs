//! How alike the code and the launches of two variants are. Compilers turn changes of parameters into spills, unrolled loops and
//! other launches, so variants with similar code have similar times, also where their parameters say less.

use crate::domain::code::CodeFigures;
use crate::domain::family::plan::{LaunchPlan, LaunchShape};

/// Bytes of local memory count less than other figures: their range is far larger, and most variants have none.
const LOCAL_WEIGHT: f64 = 0.25;

/// What the driver reserves of the shared memory for each block (CUDA C++ Programming Guide, "Compute Capability 8.x"). With it,
/// blocks with hardly any shared memory are alike.
const RESERVED_SHARED_BYTES: u64 = 1024;

/// A compiled variant, as it is launched on a case.
#[derive(Debug, Clone, Copy)]
pub struct Built {
    /// What the compiler reported.
    pub code: CodeFigures,
    /// Blocks (CTAs) of the largest launch.
    pub ctas: u64,
    /// The launch that does most of the work. None where its plan is not on record.
    pub shape: Option<LaunchShape>,
}

impl Built {
    /// Returns a compiled variant with a launch plan.
    pub fn of(code: CodeFigures, plan: &LaunchPlan) -> Self {
        Self { code, ctas: plan.ctas(), shape: Some(plan.shape()) }
    }

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

    /// Returns the same as far as it comes from the launch that does most of the work: its blocks, and what a multiprocessor needs
    /// for each. None if one of them is not known.
    pub(super) fn alike_in_launch(&self, other: &Self) -> Option<f64> {
        let (one, other) = (self.shape?, other.shape?);
        let apart = |figure: fn(&LaunchShape) -> u64, least: u64| {
            let ln = |shape: &LaunchShape| ((figure(shape) + least) as f64).ln();
            (ln(&one) - ln(&other)).abs()
        };
        let distance = apart(|shape| shape.ctas, 1)
            + apart(|shape| shape.threads, 1)
            + apart(|shape| shape.shared_bytes, RESERVED_SHARED_BYTES);
        Some((-distance).exp())
    }
}
