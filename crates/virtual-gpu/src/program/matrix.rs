//! Operands of matrix products and asynchronous copies, the largest instructions.

use super::Slot;
use super::access::{Address, AtomOp};
use super::types::Ty;

/// A matrix multiply-accumulate of a warp, `mma.sync.aligned.row.col`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mma {
    /// Rows of A and D: 16, or 8 for some products of f64 and of integers.
    pub m: u8,
    /// Columns of B and D: 8.
    pub n: u8,
    /// Columns of A and rows of B.
    pub k: u8,
    /// Type of A's elements: [`Ty::F16`], [`Ty::Bf16`], [`Ty::E4m3`], [`Ty::E5m2`], [`Ty::Tf32`], [`Ty::S8`],
    /// [`Ty::U8`], [`Ty::S4`], [`Ty::U4`] or [`Ty::F64`].
    pub a_ty: Ty,
    /// Type of B's elements: A's, or the other one of e4m3 and e5m2, of s8 and u8, or of s4 and u4.
    pub b_ty: Ty,
    /// Type of C and D: [`Ty::F32`], [`Ty::F16`], [`Ty::S32`] or [`Ty::F64`].
    pub c_ty: Ty,
    /// Registers of A (at most 4), padded with [`super::NONE`].
    pub a: [Slot; 4],
    /// Registers of B (at most 2).
    pub b: [Slot; 2],
    /// Registers of C.
    pub c: [Slot; 4],
    /// Registers of D.
    pub d: [Slot; 4],
}

/// Operation of an mbarrier instruction. `addr` is in shared memory, possibly of another block of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MbarrierOp {
    Init {
        count: Slot,
    },
    Inval,
    /// `mbarrier.arrive{.drop}{.expect_tx}`: `state` is a 64-bit destination or NONE; `count` 32-bit or NONE for 1;
    /// `tx` the expected bytes or NONE.
    Arrive {
        state: Slot,
        count: Slot,
        tx: Slot,
        drop: bool,
    },
    ExpectTx {
        tx: Slot,
    },
    CompleteTx {
        tx: Slot,
    },
    /// `mbarrier.test_wait`/`try_wait` with the 64-bit state of an arrive.
    WaitState {
        d: Slot,
        state: Slot,
        blocking: bool,
    },
    /// `mbarrier.test_wait.parity`/`try_wait.parity`.
    WaitParity {
        d: Slot,
        parity: Slot,
        blocking: bool,
    },
    /// `mbarrier.pending_count`: `state` to `d`; the address is unused.
    PendingCount {
        d: Slot,
        state: Slot,
    },
}

/// The operands of a bulk copy (`cp.async.bulk`), and how it reports completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BulkOp {
    /// Global to shared memory of one block, or of several (`.multicast::cluster`). Completes on `mbarrier`.
    GlobalToShared { mbarrier: Address, multicast: Slot },
    /// Shared to global. Completes by bulk groups.
    SharedToGlobal,
    /// Shared to shared memory of another block of the cluster. Completes on the remote `mbarrier`.
    SharedToShared { mbarrier: Address },
    /// `cp.reduce.async.bulk` shared to global.
    ReduceToGlobal { op: AtomOp, ty: Ty },
    /// `cp.async.bulk.prefetch.L2`
    Prefetch,
}

/// A tensor copy (`cp.async.bulk.tensor`), tiled mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BulkTensor {
    /// Whether global memory is the source (else the destination).
    pub load: bool,
    /// Whether it only prefetches to L2.
    pub prefetch: bool,
    /// Operation of `cp.reduce.async.bulk.tensor`, if it is a reduction.
    pub reduce: Option<AtomOp>,
    /// Number of dimensions, 1 to 5.
    pub dims: u8,
    /// Generic address of the tensor map.
    pub map: Address,
    /// Coordinates, innermost first.
    pub coordinates: [Slot; 5],
    /// Shared address.
    pub shared: Address,
    /// The mbarrier, for loads.
    pub mbarrier: Address,
    /// 16-bit mask of the receiving blocks, or NONE.
    pub multicast: Slot,
}

impl Mma {
    /// Returns the multiply-adds of a warp.
    pub fn multiply_adds(&self) -> u64 {
        u64::from(self.m) * u64::from(self.n) * u64::from(self.k)
    }
}

impl Wgmma {
    /// Returns the multiply-adds of each of the four warps that share the 64 rows.
    pub fn multiply_adds(&self) -> u64 {
        16 * u64::from(self.n) * u64::from(self.k)
    }
}

/// `wgmma.mma_async.sync.aligned`: D (m64 x n, f32, f16 or s32) = A B + D.
#[derive(Debug, Clone, PartialEq)]
pub struct Wgmma {
    /// Columns of B and D, 8 to 256.
    pub n: u16,
    /// Columns of A and rows of B: 16 for 16-bit types, 8 for tf32, 32 for 8-bit.
    pub k: u8,
    /// Type of A's elements.
    pub a_ty: Ty,
    /// Type of B's elements: A's, or the other one of e4m3 and e5m2.
    pub b_ty: Ty,
    /// Type of D.
    pub d_ty: Ty,
    /// Registers of D, also the accumulator.
    pub d: Box<[Slot]>,
    /// Four registers of A; the first is NONE when A comes from `a_desc`.
    pub a: [Slot; 4],
    /// Matrix descriptor of A, 64-bit, or NONE.
    pub a_desc: Slot,
    /// Matrix descriptor of B, 64-bit.
    pub b_desc: Slot,
    /// Predicate `scale-d`: false means D = A B.
    pub scale_d: Slot,
    /// Whether A is negated.
    pub negate_a: bool,
    /// Whether B is negated.
    pub negate_b: bool,
    /// Whether A in shared memory is column-major.
    pub transpose_a: bool,
    /// Whether B in shared memory is row-major (`N` contiguous).
    pub transpose_b: bool,
}
