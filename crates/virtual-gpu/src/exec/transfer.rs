//! Issued bulk copies: their data and the mbarriers that they signal.

use super::lane_fault::Origin;
use super::tile::Tile;
use crate::memory::proxies::Moment;
use crate::program::{AtomOp, Ty};

/// Source or destination of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// A global address.
    Global(u64),
    /// An offset in the shared memory of a block of the cluster.
    Shared(usize, u32),
}

/// The data that a bulk copy moves.
#[derive(Debug)]
pub(crate) enum Moved {
    /// Contiguous bytes, a multiple of 16.
    Line {
        /// Source.
        from: End,
        /// Destinations.
        to: Vec<End>,
        /// How elements are combined with those at the destination; None to replace them.
        reduce: Option<(AtomOp, Ty)>,
    },
    /// A box of a tensor.
    Tile(Tile),
}

/// A bulk copy in flight.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// The data to move.
    pub moved: Moved,
    /// Bytes to count at the mbarriers.
    pub bytes: u32,
    /// The mbarriers to signal, one per destination: block and offset.
    pub mbarriers: Vec<(usize, u32)>,
    /// Index in its block of the warp that issued it.
    pub warp: u32,
    /// The block that issued it.
    pub rank: usize,
    /// Its bulk group within the warp, if it goes to global memory.
    pub group: u32,
    /// Time of issue, to find writes that were not fenced by then.
    pub asked: Moment,
    /// The instruction that issued it, for faults that occur later.
    pub origin: Origin,
}

impl Transfer {
    /// Calls a function with every part of shared memory that it uses, and whether it writes there: block, offset and
    /// bytes.
    pub fn uses(&self, mut each: impl FnMut(bool, usize, u32, u32)) {
        match &self.moved {
            Moved::Line { from, to, .. } => {
                if let &End::Shared(rank, offset) = from {
                    each(false, rank, offset, self.bytes);
                }
                for end in to {
                    if let &End::Shared(rank, offset) = end {
                        each(true, rank, offset, self.bytes);
                    }
                }
            }
            Moved::Tile(tile) => tile.ranks.iter().for_each(|&rank| each(tile.load, rank, tile.offset, self.bytes)),
        }
    }

    /// Returns whether its source is global memory.
    pub fn is_load(&self) -> bool {
        match &self.moved {
            Moved::Line { from, .. } => matches!(from, End::Global(_)),
            Moved::Tile(tile) => tile.load,
        }
    }

    /// Returns whether its destination is global memory.
    pub fn is_store(&self) -> bool {
        match &self.moved {
            Moved::Line { to, .. } => matches!(to[..], [End::Global(_)]),
            Moved::Tile(tile) => !tile.load,
        }
    }
}
