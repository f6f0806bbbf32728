//! When a warp's instructions could issue, tracked during execution.

use super::latency::Pipe;
use super::prepared::{Effect, Layout, Prepared};

/// Groups of asynchronous copies whose end times are kept.
const GROUPS: usize = 8;

/// Two points in time of one warp, in cycles since the start of its block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// If every instruction waits in PTX order for the previous one to issue.
    pub in_order: u32,
    /// If instructions wait only for their operands and pipes, within one pass of a loop and between the same barriers:
    /// the order of a perfect compiler.
    pub dataflow: u32,
}

impl Times {
    /// Returns the later time of each kind.
    #[inline]
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { in_order: self.in_order.max(other.in_order), dataflow: self.dataflow.max(other.dataflow) }
    }

    /// Returns both times plus `cycles`.
    #[inline]
    #[must_use]
    pub fn after(self, cycles: u32) -> Self {
        Self { in_order: self.in_order + cycles, dataflow: self.dataflow + cycles }
    }
}

/// Resources that a warp used in total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Issue slots: machine instructions, as estimated from PTX.
    pub issue_slots: u64,
    /// Cycles for which each [`Pipe`] of its partition was occupied.
    pub pipe_cycles: [u64; Pipe::COUNT],
}

/// The ready times of one warp's registers.
///
/// Call [`Scoreboard::issue`] for every instruction that the warp executes. At a block barrier, pass the maximum of
/// [`Scoreboard::arrive`] over the warps to [`Scoreboard::barrier`] of each. The warp's time is [`Scoreboard::now`]
/// after its last instruction; the block's time is that of its slowest warp.
#[derive(Debug, Clone)]
pub struct Scoreboard {
    ready: Vec<Times>,
    /// In order: when the pipe is free. Dataflow: cycles for which it is occupied since `start.dataflow`.
    pipes: [Times; Pipe::COUNT],
    /// Issue slots since `start.dataflow`.
    issued: u32,
    /// The earliest start of the next instruction.
    start: Times,
    /// The latest start so far among those that the dataflow may still overlap.
    last_start: u32,
    /// The latest end so far.
    end: Times,
    copies: Times,
    groups: [Times; GROUPS],
    closed: usize,
    /// Before `start.dataflow`.
    totals: Totals,
}

impl Scoreboard {
    /// Makes the scoreboard of a warp whose registers are all ready.
    pub fn new(layout: Layout) -> Self {
        Self {
            ready: vec![Times::default(); layout.registers()],
            pipes: [Times::default(); Pipe::COUNT],
            issued: 0,
            start: Times::default(),
            last_start: 0,
            end: Times::default(),
            copies: Times::default(),
            groups: [Times::default(); GROUPS],
            closed: 0,
            totals: Totals::default(),
        }
    }

    /// Forgets everything, for the next block.
    pub fn reset(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.fill(Times::default());
        *self = Self { ready, ..Self::new(Layout::default()) };
    }

    /// Issues an instruction. `occupied` is the dynamic cycles for which its pipe is occupied beyond the first:
    /// wavefronts of shared memory or 128-byte lines of global memory, less one. `delay` is the cycles that delay only
    /// its result: [`crate::gpu::Latencies::l1_miss`] when a sector missed L1.
    #[inline]
    pub fn issue(&mut self, instruction: &Prepared, occupied: u32, delay: u32) {
        let cost = instruction.cost;
        let mut start = self.start;
        for source in &instruction.sources[..usize::from(instruction.source_count)] {
            start = start.max(self.ready[usize::from(*source)]);
        }
        // An instruction without a pipe was merged into another access, and so were its wavefronts.
        let occupied = if cost.pipe == Pipe::None { 0 } else { occupied };
        let taken = u32::from(cost.occupancy) + occupied;
        if cost.pipe != Pipe::None {
            let pipe = &mut self.pipes[cost.pipe as usize];
            start.in_order = start.in_order.max(pipe.in_order);
            pipe.in_order = start.in_order + taken;
            pipe.dataflow += taken;
        }
        if cost.issue > 0 {
            self.start.in_order = start.in_order + u32::from(cost.issue);
            self.issued += u32::from(cost.issue);
            self.last_start = self.last_start.max(start.dataflow);
        }
        let end = start.after(u32::from(cost.latency) + occupied + delay);
        for destination in &instruction.destinations[..usize::from(instruction.destination_count)] {
            self.ready[usize::from(*destination)] = end;
        }
        self.end = self.end.max(end);
        if instruction.effect != Effect::Plain {
            self.take_effect(instruction, end);
        }
    }

    /// Issues an instruction that takes no time. As any other, it waits for its operands, and later ones wait for it.
    pub fn pass(&mut self, instruction: &Prepared) {
        let mut start = self.start;
        for source in &instruction.sources[..usize::from(instruction.source_count)] {
            start = start.max(self.ready[usize::from(*source)]);
        }
        // One that vanishes delays nothing.
        if instruction.cost.issue > 0 {
            self.start.in_order = start.in_order;
            self.last_start = self.last_start.max(start.dataflow);
        }
        for destination in &instruction.destinations[..usize::from(instruction.destination_count)] {
            self.ready[usize::from(*destination)] = start;
        }
        self.end = self.end.max(start);
        if instruction.effect != Effect::Plain {
            self.take_effect(instruction, start);
        }
    }

    #[cold]
    fn take_effect(&mut self, instruction: &Prepared, end: Times) {
        for destination in &*instruction.more {
            self.ready[usize::from(*destination)] = end;
        }
        match instruction.effect {
            Effect::Plain | Effect::Many => {}
            Effect::Loop => self.fence(),
            Effect::Copy => self.copies = self.copies.max(end),
            Effect::Commit => {
                self.groups[self.closed % GROUPS] = self.copies;
                self.closed += 1;
            }
            Effect::Wait(groups) => {
                let until = match usize::from(groups) {
                    0 => self.copies,
                    n if n < self.closed && n < GROUPS => self.groups[(self.closed - 1 - n) % GROUPS],
                    _ => Times::default(),
                };
                self.wait(until);
            }
        }
    }

    /// Returns when the dataflow has issued everything so far: the last start, or the end of the busiest pipe.
    fn drained(&self) -> u32 {
        let busiest = self.pipes.iter().map(|pipe| pipe.dataflow).max().unwrap_or(0).max(self.issued);
        self.last_start.max(self.start.dataflow + busiest)
    }

    /// Prevents later instructions from starting before all earlier ones have started.
    fn fence(&mut self) {
        self.start.dataflow = self.drained();
        self.totals = self.totals();
        self.issued = 0;
        self.pipes.iter_mut().for_each(|pipe| pipe.dataflow = 0);
    }

    /// Returns when the warp arrives at its current barrier.
    pub fn arrive(&self) -> Times {
        Times { in_order: self.start.in_order, dataflow: self.drained() }
    }

    /// Continues after a barrier: at the latest arrival of the waiting warps, plus [`crate::gpu::Latencies::barrier`].
    pub fn barrier(&mut self, at: Times) {
        self.fence();
        self.start = self.start.max(at);
    }

    /// Prevents later instructions from starting before `until`, such as the end of another warp's copies.
    pub fn wait(&mut self, until: Times) {
        self.barrier(until);
    }

    /// Returns the end of the asynchronous copies so far, so that other warps can [`Scoreboard::wait`] for it.
    pub fn copies(&self) -> Times {
        self.copies
    }

    /// Returns the resources that the warp used so far.
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals;
        totals.issue_slots += u64::from(self.issued);
        totals.pipe_cycles.iter_mut().zip(&self.pipes).for_each(|(sum, pipe)| *sum += u64::from(pipe.dataflow));
        totals
    }

    /// Returns when everything so far is done.
    pub fn now(&self) -> Times {
        Times { in_order: self.end.in_order.max(self.start.in_order), dataflow: self.end.dataflow.max(self.drained()) }
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
