//! Faults during a warp's execution, and where they happened.

use crate::fault::{FaultKind, Found};

/// A fault, and the lane of the warp that caused it.
#[derive(Debug)]
pub(crate) struct LaneFault {
    /// The first affected lane.
    pub lane: usize,
    /// The fault.
    pub kind: FaultKind,
    /// The instruction that issued the access, if it is not the one being executed.
    pub origin: Option<Origin>,
    /// The instruction of the other access of a race, if it is known.
    pub other: Option<u32>,
}

/// An instruction of a thread of the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The block of the cluster.
    pub rank: usize,
    /// The warp of the block.
    pub warp: u32,
    /// The instruction.
    pub pc: u32,
    /// The lane.
    pub lane: usize,
}

/// The result of a part of an instruction. The error is boxed because it is rare and would be carried everywhere.
pub(crate) type Step<T> = Result<T, Box<LaneFault>>;

impl LaneFault {
    /// Attaches a fault to a lane.
    #[cold]
    #[allow(clippy::new_ret_no_self)]
    pub fn at(lane: usize, found: impl Into<Found>) -> Box<Self> {
        let Found { kind, other } = found.into();
        Box::new(Self { lane, kind, origin: None, other })
    }

    /// Attaches a fault to the first lane of a mask.
    #[cold]
    pub fn of(mask: u32, kind: FaultKind) -> Box<Self> {
        Self::at(if mask == 0 { 0 } else { mask.trailing_zeros() as usize }, kind)
    }
}
