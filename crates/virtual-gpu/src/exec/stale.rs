//! Old data that a warp has loaded from global memory, and not loaded again ([`super::messages`]).

use super::lane_fault::Origin;

/// A load of an old word.
#[derive(Debug)]
pub(crate) struct Stale {
    pub address: u64,
    /// The load.
    pub origin: Origin,
    /// Index in the grid of the block that stored the new word.
    pub other_block: u32,
    /// Warp of that block.
    pub other_warp: u32,
    /// The instruction of that warp.
    pub other_pc: u32,
}
