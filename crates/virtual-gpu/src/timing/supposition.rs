//! Suppositions: what a launch would take if one cause of lost time were gone.

use super::latency::Pipe;
use crate::program::{Binary, BulkOp, Op, Space, Ternary, Unary};

/// One cause of lost time, supposed to be gone. Results of an execution do not depend on it; only times do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Supposition {
    /// Every access to shared memory takes its ideal number of wavefronts.
    NoBankConflicts,
    /// Every access to global memory takes its ideal number of sectors, in as few lines. A load that misses L1 still
    /// does. L2 delivers at most as many sectors as the requested bytes fill.
    NoScatteredAccess,
    /// Every load of a warp from global memory hits L1. Bulk copies, which bypass L1, stay as they are.
    NoCacheMisses,
    /// Loads from global memory take no time, nor do `cp.async` and bulk copies from there.
    NoGlobalLoads,
    /// Loads and stores of shared memory take no time. Tensor cores that read it themselves do.
    NoSharedAccess,
    /// Floating-point additions and multiplications take no time, those of tensor cores included.
    NoProducts,
    /// Special functions take no time: square roots, reciprocals, exponentials, logarithms, sine, cosine, tanh.
    NoExponentials,
    /// A warp never waits at a block barrier. Instructions still do not move across it.
    NoBarriers,
    /// No register is spilled, and loads and stores of local memory take no time. Occupancy stays as it is.
    NoSpills,
    /// A block's work is spread evenly over its warps: the block takes as long as its average warp, and no warp waits
    /// for another at a block barrier.
    NoIdleWarps,
    /// The longest block takes as long as the average one.
    NoUnevenBlocks,
    /// The last wave of blocks is full: where there are more blocks than multiprocessors, all get the same number.
    NoPartialWave,
    /// A launch has no overhead.
    NoLaunch,
}

impl Supposition {
    /// All suppositions.
    pub const ALL: [Self; 13] = [
        Self::NoBankConflicts,
        Self::NoScatteredAccess,
        Self::NoCacheMisses,
        Self::NoGlobalLoads,
        Self::NoSharedAccess,
        Self::NoProducts,
        Self::NoExponentials,
        Self::NoBarriers,
        Self::NoSpills,
        Self::NoIdleWarps,
        Self::NoUnevenBlocks,
        Self::NoPartialWave,
        Self::NoLaunch,
    ];

    /// Returns whether it changes when the instructions of a warp can issue, and so needs scoreboards of its own. The
    /// others change only how the counters become a time.
    pub fn changes_warps(self) -> bool {
        !matches!(self, Self::NoUnevenBlocks | Self::NoPartialWave | Self::NoLaunch)
    }

    /// Returns whether an operation on this pipe takes no time.
    pub(crate) fn makes_free(self, op: &Op, pipe: Pipe) -> bool {
        match self {
            Self::NoGlobalLoads => loads_from_global(op),
            Self::NoSharedAccess => accesses(op, &[Space::Shared, Space::SharedCluster]),
            Self::NoSpills => accesses(op, &[Space::Local]),
            Self::NoProducts => is_product(op) && matches!(pipe, Pipe::Fma | Pipe::Half | Pipe::Double | Pipe::Tensor),
            Self::NoExponentials => is_special(op),
            _ => false,
        }
    }
}

fn loads_from_global(op: &Op) -> bool {
    match op {
        // Pointers of unknown space mostly point to global memory.
        Op::Ld { space, .. } => matches!(space, Space::Global | Space::Generic),
        Op::CpAsync { .. } => true,
        Op::Bulk { op, .. } => matches!(op, BulkOp::GlobalToShared { .. }),
        Op::BulkTensor(copy) => copy.load,
        _ => false,
    }
}

fn accesses(op: &Op, spaces: &[Space]) -> bool {
    match op {
        Op::Ld { space, .. } | Op::St { space, .. } => spaces.contains(space),
        Op::LdMatrix { .. } | Op::StMatrix { .. } => spaces.contains(&Space::Shared),
        _ => false,
    }
}

fn is_product(op: &Op) -> bool {
    match op {
        Op::Binary { op: Binary::Add | Binary::Sub | Binary::Mul, ty, .. } => ty.is_float(),
        Op::Ternary { op: Ternary::Mad, ty, .. } => ty.is_float(),
        Op::Mma(_) | Op::Wgmma(_) => true,
        _ => false,
    }
}

fn is_special(op: &Op) -> bool {
    let Op::Unary { op, .. } = op else { return false };
    matches!(
        op,
        Unary::Sqrt | Unary::Rcp | Unary::Rsqrt | Unary::Ex2 | Unary::Lg2 | Unary::Sin | Unary::Cos | Unary::Tanh
    )
}
