//! Instructions in the scoreboard's form, prepared once per kernel.

mod merge;
mod operands;

use super::latency::{Cost, Pipe, cost};
use crate::gpu::Gpu;
use crate::program::{CONSTANT, Kernel, MbarrierOp, NONE, Op, Slot, TRUE, Ty};

/// Maximum sources of an instruction with its guard: `mma` with 4 + 2 + 4 registers, or a guarded 8-wide store.
pub const MAX_SOURCES: usize = 12;

/// Maximum destinations stored inline: an 8-wide load.
pub const MAX_DESTINATIONS: usize = 8;

/// Effects of an instruction on a warp's time besides its latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Plain,
    /// Nothing more, but it has more destinations than fit inline.
    Many,
    /// A backward branch: later instructions do not move before it.
    Loop,
    /// Starts an asynchronous copy.
    Copy,
    /// Closes a group of asynchronous copies.
    Commit,
    /// Waits until at most this many groups are in flight.
    Wait(u8),
}

/// Offsets of a kernel's registers in the one array of ready times: 32-bit slots, 64-bit slots, predicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    wide: u16,
    predicates: u16,
    end: u16,
}

impl Layout {
    /// Returns the layout of a kernel's registers.
    pub fn of(kernel: &Kernel) -> Self {
        let wide = kernel.slots32;
        let predicates = wide + kernel.slots64;
        Self { wide, predicates, end: predicates + kernel.predicates }
    }

    /// Returns the number of registers.
    pub fn registers(self) -> usize {
        usize::from(self.end)
    }
}

/// An instruction reduced to what determines its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub(super) sources: [u16; MAX_SOURCES],
    pub(super) destinations: [u16; MAX_DESTINATIONS],
    /// Destinations that do not fit inline: the accumulator of a `wgmma`.
    pub(super) more: Box<[u16]>,
    pub(super) source_count: u8,
    pub(super) destination_count: u8,
    pub(super) cost: Cost,
    pub(super) effect: Effect,
}

impl Prepared {
    /// Prepares every instruction of a kernel for a GPU.
    pub fn all(kernel: &Kernel, gpu: &Gpu) -> Vec<Self> {
        let mut all: Vec<Self> = (0..kernel.instructions.len()).map(|index| Self::of(kernel, index, gpu)).collect();
        for index in merge::merged_loads(kernel) {
            let latency = all[index].cost.latency;
            all[index].cost = Cost { latency, pipe: Pipe::None, occupancy: 0, issue: 0 };
        }
        all
    }

    /// Prepares one instruction.
    pub fn of(kernel: &Kernel, index: usize, gpu: &Gpu) -> Self {
        let instruction = &kernel.instructions[index];
        let mut lists = Lists { layout: Layout::of(kernel), sources: Vec::new(), destinations: Vec::new() };
        lists.operands(&instruction.op);
        if instruction.guard != TRUE {
            lists.source(Ty::Pred, instruction.guard);
            // The old value stays where the guard is false, so the instruction waits for it.
            let old = lists.destinations.clone();
            lists.sources.extend(old);
        }
        let Lists { sources, destinations, .. } = lists;
        let effect = match &instruction.op {
            Op::Branch { target, .. } if *target as usize <= index => Effect::Loop,
            Op::CpAsync { .. } | Op::Bulk { .. } | Op::BulkTensor(_) | Op::CpAsyncMbarrierArrive { .. } => Effect::Copy,
            Op::CpAsyncCommit | Op::BulkCommit => Effect::Commit,
            Op::CpAsyncWait { groups } => Effect::Wait(groups.unwrap_or(0).min(255) as u8),
            Op::BulkWait { groups, .. } => Effect::Wait((*groups).min(255) as u8),
            Op::Mbarrier { op: MbarrierOp::WaitState { .. } | MbarrierOp::WaitParity { .. }, .. } => Effect::Wait(0),
            _ if destinations.len() > MAX_DESTINATIONS => Effect::Many,
            _ => Effect::Plain,
        };
        let mut prepared = Self {
            sources: [0; MAX_SOURCES],
            destinations: [0; MAX_DESTINATIONS],
            more: destinations.get(MAX_DESTINATIONS..).unwrap_or_default().into(),
            source_count: sources.len().min(MAX_SOURCES) as u8,
            destination_count: destinations.len().min(MAX_DESTINATIONS) as u8,
            cost: cost(&instruction.op, gpu),
            effect,
        };
        for (to, from) in prepared.sources.iter_mut().zip(&sources) {
            *to = *from;
        }
        for (to, from) in prepared.destinations.iter_mut().zip(&destinations) {
            *to = *from;
        }
        prepared
    }

    /// Returns its cost without dynamic cycles.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns the pipe it occupies.
    pub fn pipe(&self) -> Pipe {
        self.cost.pipe
    }
}

struct Lists {
    layout: Layout,
    sources: Vec<u16>,
    destinations: Vec<u16>,
}

impl Lists {
    fn place(&self, ty: Ty, slot: Slot) -> Option<u16> {
        if slot == NONE || slot >= CONSTANT {
            return None;
        }
        Some(match ty.bits() {
            1 => self.layout.predicates + slot,
            64 | 128 => self.layout.wide + slot,
            _ => slot,
        })
    }

    fn source(&mut self, ty: Ty, slot: Slot) {
        let place = self.place(ty, slot);
        self.sources.extend(place);
    }

    fn destination(&mut self, ty: Ty, slot: Slot) {
        let place = self.place(ty, slot);
        self.destinations.extend(place);
    }
}
