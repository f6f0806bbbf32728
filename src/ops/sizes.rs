//! What most ops have in common when they choose other sizes of a case.

use crate::domain::op::{CheckLimits, Dims, Dtype, Op};

/// The multiples of a period, on which kernels begin to take the same paths as on a large case.
pub const PERIODS: [i64; 5] = [1, 2, 4, 8, 16];

/// See [`Op::scaled`]. `scaled` makes the sizes with so many periods. What comes twice and the case itself are left out.
pub fn scaled<const N: usize>(dims: &Dims, periods: [i64; N], scaled: impl Fn(i64) -> Dims) -> Vec<Dims> {
    let mut all: Vec<Dims> = periods.map(scaled).into();
    all.dedup();
    all.retain(|scaled| scaled != dims);
    all
}

/// Keeps the hidden shapes of a case that take no more work and memory than allowed ([`Op::hidden`]), without the case itself.
pub fn within_limits(op: &dyn Op, dims: &Dims, least: CheckLimits, mut hidden: Vec<Dims>) -> Vec<Dims> {
    let bytes = |dims: &Dims| op.bytes(dims, Dtype::F32);
    let most = least.of_hidden(op.flop(dims), bytes(dims));
    hidden.retain(|other| other != dims && op.flop(other) <= most.flop && bytes(other) <= most.bytes);
    hidden
}
