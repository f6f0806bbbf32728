//! The state that a warp can access during execution: the launch, the block's constants and memories, and the tally.

use std::collections::{BTreeMap, VecDeque};

use super::lanes::{W32, W64};
use super::mbarrier::Mbarrier;
use super::run::Run;
use super::tally::Tally;
use super::transfer::Transfer;
use super::warp::Warp;
use crate::memory::SharedMemory;
use crate::memory::proxies::Moment;
use crate::program::{CONSTANT, Slot};

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
    pub tally: &'a mut Tally,
    /// The block of the cluster that is executing.
    pub rank: usize,
    /// Shared memory, per block of the cluster.
    pub memories: Vec<SharedMemory>,
    /// Constants, per block of the cluster.
    pub constants: Vec<Constants>,
    /// The mbarriers by their shared address, per block of the cluster.
    pub mbarriers: Vec<BTreeMap<u32, Mbarrier>>,
    /// Issued bulk copies that are not complete.
    pub transfers: VecDeque<Transfer>,
    /// The fewest `barrier.cluster.arrive`s executed by a live warp of the cluster.
    pub cluster_arrivals: u64,
    /// Whether the current access is volatile and therefore exempt from race checks.
    pub volatile: bool,
    /// When the current access was issued, if it goes through the asynchronous proxy.
    pub asynchronous: Option<Moment>,
}

impl Env<'_> {
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
