//! What the four warps of a warpgroup know of each other's products (`wgmma.mma_async`).

use std::collections::VecDeque;

use crate::memory::order::{GROUP, Time};

/// Words of K in a row of A or a column of B.
pub(super) type Words = [u32; 8];

/// What a warp has issued of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Issued {
    /// The instruction.
    pub pc: u32,
    /// The descriptor of A; None if it is in registers.
    pub a: Option<u64>,
    /// The descriptor of B.
    pub b: u64,
}

/// The operands of a product that come from shared memory.
#[derive(Debug, Default)]
pub(super) struct Product {
    /// The 64 rows of A; empty if they are in registers.
    pub a: Vec<Words>,
    /// The columns of B.
    pub b: Vec<Words>,
    /// When they were read, in the order of the block; 0 without race detection.
    pub time: Time,
}

/// Four warps that multiply together.
#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    /// Per warp, what it has issued of the next product.
    pub(super) issued: [Option<Issued>; GROUP as usize],
    /// Per warp, whether it has yet to take its part of `product`.
    pub(super) takes: [bool; GROUP as usize],
    /// The last product.
    pub(super) product: Product,
}

/// The products that a warp has issued and not waited for: times at which they read shared memory.
#[derive(Debug, Default)]
pub(crate) struct Products {
    /// That of the last product.
    pub(super) last: Time,
    /// Those of the last product of each committed group, oldest first.
    groups: VecDeque<Time>,
}

impl Products {
    /// `wgmma.commit_group`: makes a group of the products since the last one.
    pub fn commit(&mut self) {
        self.groups.push_back(self.last);
    }

    /// Waits for all but the newest `groups` groups. Returns the time of the last product among them, if any.
    pub fn wait(&mut self, groups: usize) -> Option<Time> {
        let ended = self.groups.len().saturating_sub(groups);
        self.groups.drain(..ended).next_back()
    }
}
