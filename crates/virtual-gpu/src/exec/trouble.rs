//! What went wrong while a warp executed, and where.

use crate::fault::FaultKind;

/// What went wrong, and in which lane of the warp.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// The first lane concerned.
    pub lane: usize,
    /// What happened.
    pub kind: FaultKind,
    /// Where the instruction is that asked for it, if that is not the one being executed.
    pub origin: Option<Origin>,
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

/// The result of a part of an instruction. Boxed, because it is almost never there and would be carried everywhere.
pub(crate) type Step<T> = Result<T, Box<Trouble>>;

impl Trouble {
    /// Puts a fault at a lane.
    #[cold]
    #[allow(clippy::new_ret_no_self)]
    pub fn at(lane: usize, kind: FaultKind) -> Box<Self> {
        Box::new(Self { lane, kind, origin: None })
    }

    /// Puts a fault at the first lane of a mask.
    #[cold]
    pub fn of(mask: u32, kind: FaultKind) -> Box<Self> {
        Self::at(if mask == 0 { 0 } else { mask.trailing_zeros() as usize }, kind)
    }
}
