//! What a warp sees while it executes: the launch, the block's constants and memories, and the tally.

use std::collections::{BTreeMap, VecDeque};

use super::lanes::{ALL, W32, W64};
use super::mbarrier::Mbarrier;
use super::tally::Tally;
use super::transfer::Transfer;
use super::warp::Warp;
use super::{Launch, Options};
use crate::fault::FaultKind;
use crate::gpu::Gpu;
use crate::memory::proxies::Moment;
use crate::memory::{GlobalMemory, SharedMemory};
use crate::program::{CONSTANT, Kernel, Slot, TRUE};
use crate::timing::Prepared;

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

/// A launch: what all its blocks share.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Global memory.
    pub memory: &'a GlobalMemory,
    /// What is looked at.
    pub options: &'a Options,
    /// The shape.
    pub launch: &'a Launch<'a>,
    /// The GPU.
    pub gpu: &'a Gpu,
    /// The parameter block.
    pub params: Vec<u8>,
    /// Addresses of the module's globals.
    pub globals: &'a [u64],
    /// Name of the PTX file.
    pub file: &'a str,
    /// The PTX, for messages.
    pub text: &'a str,
    /// Threads of a block.
    pub threads: u32,
    /// Warps of a block.
    pub warps: u32,
    /// Blocks of a cluster.
    pub cluster_blocks: u32,
    /// Static and dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Where the dynamic shared memory starts.
    pub dynamic_offset: u32,
    /// What the scoreboard needs of each instruction; empty without counters.
    pub prepared: Vec<Prepared>,
}

/// Values of a block's constants.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    /// Behind 32-bit operands.
    pub c32: Vec<W32>,
    /// Behind 64-bit operands.
    pub c64: Vec<W64>,
}

/// What the warps of one cluster see. Without clusters that is one block.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    /// The launch.
    pub run: &'a Run<'a>,
    /// What was done so far.
    pub tally: &'a mut Tally,
    /// The block of the cluster that executes now.
    pub rank: usize,
    /// Shared memory, per block of the cluster.
    pub memories: Vec<SharedMemory>,
    /// Constants, per block of the cluster.
    pub constants: Vec<Constants>,
    /// The mbarriers by their shared address, per block of the cluster.
    pub mbarriers: Vec<BTreeMap<u32, Mbarrier>>,
    /// Bulk copies that were issued and are not complete.
    pub transfers: VecDeque<Transfer>,
    /// The fewest `barrier.cluster.arrive`s that a live warp of the cluster has executed.
    pub cluster_arrivals: u64,
    /// Whether the current access is volatile, and so no race.
    pub volatile: bool,
    /// When the current access was asked for, if it goes through the asynchronous proxy.
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

impl Warp {
    /// Returns a predicate operand.
    #[inline(always)]
    pub fn predicate(&self, slot: Slot) -> u32 {
        if slot < CONSTANT {
            self.predicates[usize::from(slot)]
        } else if slot == TRUE {
            ALL
        } else {
            0
        }
    }

    /// Returns a predicate operand, negated if asked.
    #[inline(always)]
    pub fn predicate_or_not(&self, slot: Slot, negated: bool) -> u32 {
        self.predicate(slot) ^ if negated { ALL } else { 0 }
    }

    /// Overwrites a predicate in the lanes of `mask`.
    #[inline(always)]
    pub fn set_predicate(&mut self, slot: Slot, value: u32, mask: u32) {
        if slot < CONSTANT {
            let predicate = &mut self.predicates[usize::from(slot)];
            *predicate = *predicate & !mask | value & mask;
        }
    }

    /// Overwrites a 32-bit slot in the lanes of `mask`.
    #[inline(always)]
    pub fn set32(&mut self, slot: Slot, value: &W32, mask: u32) {
        if slot < CONSTANT {
            self.r32[usize::from(slot)].set(value, mask);
        }
    }

    /// Overwrites a 64-bit slot in the lanes of `mask`.
    #[inline(always)]
    pub fn set64(&mut self, slot: Slot, value: &W64, mask: u32) {
        if slot < CONSTANT {
            self.r64[usize::from(slot)].set(value, mask);
        }
    }
}
