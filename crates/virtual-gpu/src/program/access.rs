//! Addresses, special registers, and what atomics, shuffles, votes and barriers do.

use super::Slot;
use super::arithmetic::Bool;

/// Where an address points.
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

/// An address: a base with a constant offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The base register or constant.
    pub base: Slot,
    /// Whether `base` is in the 64-bit file; shared addresses may be 32-bit.
    pub wide: bool,
    /// Bytes added to the base.
    pub offset: i32,
}

/// Special registers that differ from thread to thread, or in time.
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
    /// `%clock`, 32-bit: warp instructions issued so far by this warp (this machine has no cycles).
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

/// What a block barrier instruction does.
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
