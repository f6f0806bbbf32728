//! Bulk copies that were issued: what they move, and whom they tell.

use super::tile::Tile;
use super::trouble::Origin;
use crate::memory::proxies::Moment;
use crate::program::{AtomOp, Ty};

/// Where a copy's bytes come from or go to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// A global address.
    Global(u64),
    /// An offset in the shared memory of a block of the cluster.
    Shared(usize, u32),
}

/// What a bulk copy moves.
#[derive(Debug)]
pub(crate) enum Moved {
    /// Bytes that follow one another, a multiple of 16.
    Line {
        /// Source.
        from: End,
        /// Destinations.
        to: Vec<End>,
        /// How elements are combined with those that are there, if they do not replace them.
        reduce: Option<(AtomOp, Ty)>,
    },
    /// A box of a tensor.
    Tile(Tile),
}

/// A bulk copy that is under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// What it moves.
    pub moved: Moved,
    /// Bytes that count at the mbarriers.
    pub bytes: u32,
    /// The mbarriers to tell, one per destination: block and offset.
    pub mbarriers: Vec<(usize, u32)>,
    /// The warp that issued it, in its block.
    pub warp: u32,
    /// The block that issued it.
    pub rank: usize,
    /// The bulk group of its warp that it belongs to, if it goes to global memory.
    pub group: u32,
    /// When it was issued, for what was not fenced by then.
    pub asked: Moment,
    /// Where it was issued, for what goes wrong later.
    pub origin: Origin,
}

impl Transfer {
    /// Returns whether its destination is global memory.
    pub fn is_store(&self) -> bool {
        match &self.moved {
            Moved::Line { to, .. } => matches!(to[..], [End::Global(_)]),
            Moved::Tile(tile) => !tile.load,
        }
    }
}
