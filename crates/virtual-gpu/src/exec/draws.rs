//! Blocks that draw their work from a counter in global memory.
//!
//! A persistent block adds 1 to the counter and does the piece of work with that number, until none is left. Blocks run
//! one after the other here, so the first would do the work of all. Hence the others get their turn after each draw. In
//! a sample of the grid, a draw also counts those of the blocks that an executed block stands for.

use std::collections::BTreeMap;

/// The draws of a cluster's blocks.
#[derive(Debug, Default)]
pub(crate) struct Draws {
    /// How often the block with a rank has added 1 to the counter at an address.
    times: BTreeMap<(u64, usize), u64>,
    /// Whether a block has drawn work in this turn.
    drawn: bool,
}

impl Draws {
    /// Returns what a block that stands for `blocks` blocks adds to a counter when it adds 1 and uses the result.
    ///
    /// The first time that is 1, because the result may be a ticket that shows which block arrives last. A block that
    /// adds again draws work, and makes up for the first time.
    pub fn step(&mut self, rank: usize, address: u64, blocks: u64) -> u64 {
        let times = self.times.entry((address, rank)).or_default();
        *times += 1;
        self.drawn |= *times > 1;
        match *times {
            1 => 1,
            2 => 2 * blocks - 1,
            _ => blocks,
        }
    }

    /// Begins a turn.
    pub fn begin_turn(&mut self) {
        self.drawn = false;
    }

    /// Returns whether a block has drawn work in this turn.
    pub fn has_drawn(&self) -> bool {
        self.drawn
    }

    /// Forgets the draws of the last cluster.
    pub fn reset(&mut self) {
        self.times.clear();
        self.drawn = false;
    }
}
