//! The state that a warp can access during execution: the launch, the block's constants and memories, and the tally.

use std::collections::{BTreeMap, VecDeque};

use super::draws::Draws;
use super::lanes::{W32, W64};
use super::mbarrier::Mbarrier;
use super::run::Run;
use super::shuffle::Shuffle;
use super::stale::Stale;
use super::tally::Tally;
use super::transfer::Transfer;
use super::warp::Warp;
use super::warpgroup::Warpgroup;
use crate::memory::SharedMemory;
use crate::memory::order::{Clock, Time};
use crate::memory::proxies::Moment;
use crate::memory::races::Lane;
use crate::program::{CONSTANT, Semantics, Slot};

/// One of so many strong accesses to global memory ends a block's turn.
const INTERRUPTS: usize = 2;

/// Values of a block's constants.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    /// For 32-bit operands.
    pub c32: Vec<W32>,
    /// For 64-bit operands.
    pub c64: Vec<W64>,
}

/// The state that the warps of one cluster share. Without clusters, a cluster is one block.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    /// The launch.
    pub run: &'a Run<'a>,
    /// The counts so far.
    pub tally: Tally,
    /// The block of the cluster that is executing.
    pub rank: usize,
    /// Index in the grid, per block of the cluster.
    pub blocks: Vec<u32>,
    /// Shared memory, per block of the cluster.
    pub memories: Vec<SharedMemory>,
    /// Constants, per block of the cluster.
    pub constants: Vec<Constants>,
    /// The mbarriers by their shared address, per block of the cluster.
    pub mbarriers: Vec<BTreeMap<u32, Mbarrier>>,
    /// The warpgroups, per block of the cluster; empty for a kernel without products of warpgroups.
    pub warpgroups: Vec<Vec<Warpgroup>>,
    /// Issued bulk copies that are not complete.
    pub transfers: VecDeque<Transfer>,
    /// The fewest `barrier.cluster.arrive`s executed by a live warp of the cluster.
    pub cluster_arrivals: u64,
    /// The clocks that the blocks of the cluster have published at its barriers.
    pub across: Clock,
    /// The memory order of the current access.
    pub semantics: Semantics,
    /// Whether the current access is an atomic.
    pub atomic: bool,
    /// The number of strong accesses to global memory, with the current one.
    pub strong: Time,
    /// The instruction that makes the current access.
    pub pc: u32,
    /// Whether the current load is through the read-only path.
    pub read_only: bool,
    /// Old data that warps have loaded, and not loaded again.
    pub stale: Vec<Stale>,
    /// Per block of the cluster, whether a warp has waited for the previous launch. The other warps are then assumed to
    /// wait for that warp.
    pub waited: Vec<bool>,
    /// Whether a warp has accessed a flag in global memory since the last pass over the warps.
    pub polled: bool,
    /// Whether global memory has changed since the block's last turn.
    pub wrote: bool,
    /// How many instructions a warp has executed when its slice ends.
    pub slice_end: u64,
    /// Decides after which strong accesses the block's turn ends. None in the order of the grid.
    pub interrupts: Option<Shuffle>,
    /// Whether the block's turn ends.
    pub interrupted: bool,
    /// The counters of work from which the blocks draw.
    pub draws: Draws,
    /// The lanes that make the current access, if not each its own.
    pub lanes: Option<Lane>,
    /// When the current access was issued, if it goes through the asynchronous proxy.
    pub asynchronous: Option<Moment>,
}

impl Env<'_> {
    /// Returns the index in the grid of the executing block.
    pub fn block(&self) -> u64 {
        u64::from(self.blocks[self.rank])
    }

    /// Notes a strong access to global memory. After some of them, the block's turn ends, so that others come in between: a
    /// lock that is not atomic or a flag that is set too early shows only then.
    pub fn note_strong(&mut self) {
        if let Some(random) = &mut self.interrupts
            && random.below(INTERRUPTS) == 0
        {
            (self.interrupted, self.slice_end) = (true, 0);
        }
    }

    /// Returns the lane that makes the current access at the address of `lane`.
    #[inline(always)]
    pub fn lane(&self, lane: usize) -> Lane {
        self.lanes.unwrap_or(lane as Lane)
    }

    /// Orders the lanes of a warp, which have waited for each other.
    #[inline(always)]
    pub fn sync_lanes(&mut self, warp: u32) {
        if let Some(races) = &mut self.memories[self.rank].races {
            races.order.sync(warp);
        }
    }

    /// Returns the place of a warp of the block that is executing among those of the cluster.
    pub fn place(&self, warp: &Warp) -> usize {
        self.rank * self.run.warps as usize + warp.index as usize
    }

    /// Returns whether every live warp of the cluster has arrived at its barrier this many times.
    pub fn has_cluster_arrived(&self, times: u64) -> bool {
        self.cluster_arrivals >= times
    }

    /// Returns a 32-bit operand.
    #[inline(always)]
    pub fn get32<'b>(&'b self, warp: &'b Warp, slot: Slot) -> &'b W32 {
        if slot < CONSTANT {
            &warp.r32[usize::from(slot)]
        } else {
            &self.constants[self.rank].c32[usize::from(slot - CONSTANT)]
        }
    }

    /// Returns a 64-bit operand.
    #[inline(always)]
    pub fn get64<'b>(&'b self, warp: &'b Warp, slot: Slot) -> &'b W64 {
        if slot < CONSTANT {
            &warp.r64[usize::from(slot)]
        } else {
            &self.constants[self.rank].c64[usize::from(slot - CONSTANT)]
        }
    }
}
