//! Addresses, special registers, and the modes of atomics, shuffles, votes and barriers.

use super::Slot;
use super::arithmetic::Bool;

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
