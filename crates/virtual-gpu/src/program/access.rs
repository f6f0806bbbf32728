//! Addresses, special registers, and the modes of atomics, shuffles, votes and barriers.

use super::Slot;
use super::arithmetic::Bool;
use super::types::Ty;

/// State space of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Space {
    Generic,
    Global,
    Shared,
    /// `.shared::cluster`: an address that may point into another block of the cluster.
    SharedCluster,
    Local,
    Const,
    Param,
}

/// An address: a base plus a constant offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The base register or constant.
    pub base: Slot,
    /// Whether `base` is in the 64-bit file; shared addresses may be 32-bit.
    pub wide: bool,
    /// Bytes added to the base.
    pub offset: i32,
}

/// Special registers that differ between threads or change over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum LaneSpecial {
    /// `%tid.{x,y,z}`
    ThreadIndex(u8),
    LaneId,
    WarpId,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    /// `%clock`, 32-bit: warp instructions that this warp has issued so far (this machine has no cycles).
    Clock,
    /// `%clock64`
    Clock64,
    /// `%globaltimer`: as `%clock64`.
    GlobalTimer,
}

/// How an access orders others (PTX ISA, "Memory consistency model").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub enum Strength {
    /// It orders nothing.
    #[default]
    Weak,
    /// It may race with others of its kind: volatile, relaxed, and loads that bypass L1.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

/// Strength and scope of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Semantics {
    /// The strength.
    pub strength: Strength,
    /// Whether its scope is more than the block's cluster.
    pub wide: bool,
}

impl Semantics {
    /// An ordinary access.
    pub const WEAK: Self = Self { strength: Strength::Weak, wide: false };

    /// Returns whether it is not weak.
    pub fn is_strong(self) -> bool {
        self.strength != Strength::Weak
    }

    /// Returns whether it orders other blocks' earlier work before what follows.
    pub fn acquires(self) -> bool {
        self.wide && matches!(self.strength, Strength::Acquire | Strength::AcquireRelease)
    }

    /// Returns whether it orders earlier work before it.
    pub fn releases(self) -> bool {
        self.wide && matches!(self.strength, Strength::Release | Strength::AcquireRelease)
    }
}

/// Operation of an atomic or a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

impl AtomOp {
    /// Returns whether PTX has this operation on this type (ISA, `atom`; `bulk` for `cp.reduce.async.bulk`).
    pub(crate) fn takes(self, ty: Ty, bulk: bool) -> bool {
        match self {
            Self::Add => matches!(
                ty,
                Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64 | Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::F32 | Ty::F64
            ),
            Self::Min | Self::Max => {
                matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64) || bulk && matches!(ty, Ty::F16 | Ty::Bf16)
            }
            Self::And | Self::Or | Self::Xor => matches!(ty, Ty::B32 | Ty::B64),
            Self::Exch => matches!(ty, Ty::B32 | Ty::B64),
            Self::Cas => matches!(ty, Ty::B16 | Ty::B32 | Ty::B64),
            Self::Inc | Self::Dec => ty == Ty::U32,
        }
    }
}

/// Mode of `shfl.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// Mode of `vote.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// Mode of a block barrier instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BarOp {
    Sync,
    Arrive,
    /// `bar.red.popc`: `d` is 32-bit.
    RedPopc,
    /// `bar.red.and`/`.or`: `d` is a predicate.
    Red(Bool),
}
