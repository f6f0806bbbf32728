//! The times of the executed warps under suppositions, tracked beside their actual times.

use std::ops::Range;

use super::run::Run;
use crate::counters::Counters;
use crate::timing::{Layout, Prepared, Scoreboard, Supposition, Times};

/// The dynamic cycles of an instruction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Dynamic {
    /// Cycles beyond the first for which an access occupies its pipe.
    pub occupied: u32,
    /// Those of them that are bank conflicts.
    pub conflicts: u32,
    /// Those of them that a scattered access to global memory takes beyond the ideal.
    pub scattered: u32,
    /// Extra cycles before the result of a load is ready, because it missed L1.
    pub delay: u32,
}

/// When the last warp has arrived at the barrier of a cluster, for the current phase and the one before: a warp may arrive again
/// before another one has continued.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClusterArrivals([(u64, Times); 2]);

impl ClusterArrivals {
    /// Notes an arrival in a phase.
    pub fn arrive(&mut self, phase: u64, at: Times) {
        let latest = self.latest(phase).max(at);
        self.0[phase as usize % 2] = (phase, latest);
    }

    /// Returns the latest arrival in a phase.
    pub fn latest(&self, phase: u64) -> Times {
        let (of, at) = self.0[phase as usize % 2];
        if of == phase { at } else { Times::default() }
    }
}

/// The warps of a cluster under one supposition.
#[derive(Debug)]
pub(crate) struct Supposed {
    supposition: Supposition,
    /// A scoreboard per warp of the cluster.
    boards: Vec<Scoreboard>,
    arrivals: ClusterArrivals,
    /// Only times and the usage of units.
    counters: Counters,
}

impl Supposed {
    /// Makes the supposed warps of a launch, in the order of [`Run::supposed`].
    pub fn all(run: &Run<'_>) -> Vec<Self> {
        let boards = vec![Scoreboard::new(Layout::of(run.kernel)); (run.warps * run.cluster_blocks) as usize];
        let new = |&(supposition, _): &(Supposition, _)| Self {
            supposition,
            boards: boards.clone(),
            arrivals: ClusterArrivals::default(),
            counters: Counters::default(),
        };
        run.supposed.iter().map(new).collect()
    }

    /// Starts a block or a cluster.
    pub fn start_block(&mut self) {
        self.boards.iter_mut().for_each(Scoreboard::reset);
        self.arrivals = ClusterArrivals::default();
    }

    /// Issues an instruction, at no cost if it is `free`.
    pub fn issue(&mut self, board: usize, instruction: &Prepared, free: bool, dynamic: Dynamic) {
        if free {
            return self.boards[board].pass(instruction);
        }
        let Dynamic { occupied, conflicts, scattered, delay } = dynamic;
        let (occupied, delay) = match self.supposition {
            Supposition::NoBankConflicts => (occupied.saturating_sub(conflicts), delay),
            Supposition::NoScatteredAccess => (occupied.saturating_sub(scattered), delay),
            Supposition::NoCacheMisses => (occupied, 0),
            _ => (occupied, delay),
        };
        self.boards[board].issue(instruction, occupied, delay);
    }

    /// Continues the boards in `waiting` after a block barrier at which the boards in `arrived` have arrived. A barrier
    /// takes `latency` cycles.
    pub fn barrier(&mut self, arrived: &[usize], waiting: &[usize], latency: u32) {
        let latest = arrived.iter().map(|&board| self.boards[board].arrive()).reduce(Times::max).unwrap_or_default();
        for &board in waiting {
            self.pass(board, latest, latency);
        }
    }

    /// Notes that a board has arrived at the barrier of its cluster.
    pub fn arrive_at_cluster(&mut self, board: usize, phase: u64) {
        self.arrivals.arrive(phase, self.boards[board].arrive());
    }

    /// Continues a board after the barrier of its cluster.
    pub fn pass_cluster(&mut self, board: usize, phase: u64, latency: u32) {
        self.pass(board, self.arrivals.latest(phase), latency);
    }

    /// Continues a board after a barrier at which the last warp has arrived at `latest`.
    fn pass(&mut self, board: usize, latest: Times, latency: u32) {
        let own = self.boards[board].arrive();
        self.boards[board].barrier(match self.supposition {
            Supposition::NoBarriers => own,
            Supposition::NoIdleWarps => own.after(latency),
            _ => latest.after(latency),
        });
    }

    /// Ends a block whose warps have these scoreboards.
    pub fn end_block(&mut self, boards: Range<usize>) {
        let average = self.supposition == Supposition::NoIdleWarps;
        self.counters.add_boards(&self.boards[boards], average);
    }

    /// Adds the same supposition's times on another thread.
    pub fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
    }

    /// Returns the supposition and its times.
    pub fn finish(self) -> (Supposition, Counters) {
        (self.supposition, self.counters)
    }
}
