//! Runs one cluster of blocks (without clusters: one block) from start to end: schedules warps and detects deadlocks.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::barrier::{BARRIERS, Barrier};
use super::dispatch::{self, Level};
use super::draws::Draws;
use super::env::{Constants, Env};
use super::lane_fault::{LaneFault, Origin, Step};
use super::run::Run;
use super::shuffle::Shuffle;
use super::step::Pause;
use super::tally::Tally;
use super::warp::Warp;
use super::warpgroup::Warpgroup;
use super::{complete, constants, messages};
use crate::demangle::demangled;
use crate::fault::{Fault, FaultKind, OtherAccess};
use crate::lines::source_line;
use crate::memory::SharedMemory;
use crate::memory::order::{Clock, GROUP, Readers};
use crate::memory::races::Races;
use crate::program::{Op, Semantics};

/// The state that a CPU thread needs to execute clusters, one after the other.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    env: Env<'a>,
    /// Per block of the cluster.
    warps: Vec<Vec<Warp>>,
    /// Per block and warp, whether the warp waits at a barrier.
    at_barrier: Vec<Vec<bool>>,
    /// Per block.
    barriers: Vec<Vec<Barrier>>,
    /// Index in the grid of each block: x, y, z.
    blocks: Vec<[u32; 3]>,
    level: Level,
    /// The blocks and warps, in the order of their turns.
    turns: Vec<(usize, usize)>,
    /// Puts the turns of each pass in a random order; None for the order of the warps.
    shuffle: Option<Shuffle>,
    /// Whether a warp used up its slice in the last pass, because it may be polling.
    polls: bool,
    /// Digests of where the warps were after the last turns, the last one first.
    places: [u64; PLACES],
    /// How many turns in a row have led to another place.
    advanced: usize,
}

/// The turns after which a block that polls is where it was before, at most: it may poll several words.
const PLACES: usize = 4;

impl<'a> Machine<'a> {
    /// Makes a runner for a launch.
    pub fn new(run: &'a Run<'a>, granule_bytes: u32, level: Level) -> Self {
        let size = run.cluster_blocks as usize;
        let products = run.kernel.instructions.iter().any(|instruction| matches!(instruction.op, Op::Wgmma(_)));
        let readers = Readers { warps: run.warps, products };
        let races = || run.options.races.then(|| Races::new(run.shared_bytes, readers, granule_bytes, run.talks));
        let groups = if products { run.warps.div_ceil(GROUP) as usize } else { 0 };
        let warps = || (0..run.warps).map(|index| Warp::new(run.kernel, index, run.threads)).collect();
        let env = Env {
            run,
            tally: Tally::new(run),
            rank: 0,
            blocks: vec![0; size],
            memories: (0..size).map(|_| SharedMemory::new(run.shared_bytes, races(), run.warps)).collect(),
            constants: (0..size).map(|_| Constants::default()).collect(),
            mbarriers: vec![std::collections::BTreeMap::new(); size],
            warpgroups: (0..size).map(|_| (0..groups).map(|_| Warpgroup::default()).collect()).collect(),
            transfers: std::collections::VecDeque::new(),
            cluster_arrivals: 0,
            across: Clock::default(),
            semantics: Semantics::WEAK,
            atomic: false,
            strong: 0,
            pc: 0,
            read_only: false,
            stale: Vec::new(),
            waited: vec![false; size],
            polled: false,
            wrote: false,
            slice_end: 0,
            interrupts: None,
            interrupted: false,
            draws: Draws::default(),
            lanes: None,
            asynchronous: None,
        };
        Self {
            env,
            warps: (0..size).map(|_| warps()).collect(),
            at_barrier: vec![vec![false; run.warps as usize]; size],
            barriers: vec![vec![Barrier::default(); BARRIERS]; size],
            blocks: vec![[0; 3]; size],
            level,
            turns: Vec::new(),
            shuffle: None,
            polls: false,
            places: [0; PLACES],
            advanced: 0,
        }
    }

    /// Executes the cluster with this index in the grid, to its end or its first fault.
    pub fn execute(&mut self, cluster: u64) -> Result<(), Box<Fault>> {
        self.start(cluster);
        self.proceed(false).map(drop)
    }

    /// Continues the cluster to its end, and returns true. If it `yields`, it stops when its warps only poll global
    /// memory, one has drawn work, or its turn ends at random, and returns false.
    pub fn proceed(&mut self, yields: bool) -> Result<bool, Box<Fault>> {
        self.env.draws.begin_turn();
        while self.warps.iter().flatten().any(|warp| !warp.is_done()) {
            self.env.polled = false;
            let progress = self.pass()?;
            let interrupted = std::mem::take(&mut self.env.interrupted);
            if yields && (interrupted || self.has_drawn()) {
                return Ok(false);
            }
            if progress {
                continue;
            }
            match complete::complete_next(&mut self.env, &mut self.warps[0]) {
                Ok(true) => {}
                Ok(false) if self.polls && yields && self.env.polled => return Ok(false),
                // A warp polls; let it run until it has executed more than the limit.
                Ok(false) if self.polls => {}
                Ok(false) => return Err(self.deadlock()),
                Err(fault) => return Err(self.fault(0, 0, *fault)),
            }
        }
        if let Some(fault) = complete::abandoned(&self.env).or_else(|| messages::unpublished(&self.env)) {
            return Err(self.fault(0, 0, *fault));
        }
        // Copies to global memory still arrive if no warp waited for them.
        if let Err(fault) = complete::complete_stores(&mut self.env, &mut self.warps[0][0], |_| true) {
            return Err(self.fault(0, 0, *fault));
        }
        self.finish();
        Ok(true)
    }

    /// Returns the counts of the clusters so far.
    pub fn tally(&self) -> &Tally {
        &self.env.tally
    }

    /// Returns the warp instructions of the cluster so far.
    pub fn instructions(&self) -> u64 {
        self.warps.iter().flatten().map(|warp| warp.executed).sum()
    }

    /// Returns whether the cluster has changed global memory since it was last asked.
    pub fn has_written(&mut self) -> bool {
        std::mem::take(&mut self.env.wrote)
    }

    /// Returns whether a block of the cluster has drawn work from a counter in its last turn.
    pub fn has_drawn(&self) -> bool {
        self.env.draws.has_drawn()
    }

    /// Returns whether the last turn was one of up to `most` in a row that led somewhere: a cluster that polls comes back to where it
    /// was. One that draws work does not count, so that others get theirs.
    pub fn advances(&mut self, most: usize) -> bool {
        let mut hasher = DefaultHasher::new();
        self.warps.iter().flatten().for_each(|warp| (warp.pc, warp.is_done()).hash(&mut hasher));
        self.at_barrier.hash(&mut hasher);
        let place = hasher.finish();
        let is_new = !self.places.contains(&place);
        self.places.rotate_right(1);
        self.places[0] = place;
        self.advanced = if is_new && !self.has_drawn() && self.advanced < most { self.advanced + 1 } else { 0 };
        self.advanced > 0
    }

    /// Returns the fault of a cluster that waits for something that does not happen.
    pub fn runaway(&self) -> Box<Fault> {
        let limit = self.env.run.options.instruction_limit;
        let lasts = |warps: &Vec<Warp>| warps.iter().position(|warp| !warp.is_done());
        let rank = self.warps.iter().position(|warps| lasts(warps).is_some()).unwrap_or(0);
        let index = lasts(&self.warps[rank]).unwrap_or(0);
        let lane = self.warps[rank][index].live.trailing_zeros() as usize % 32;
        self.fault(rank, index, LaneFault { lane, kind: FaultKind::Runaway { limit }, origin: None, other: None })
    }

    /// Moves to the start of the cluster with this index in the grid.
    pub fn start(&mut self, cluster: u64) {
        let run = self.env.run;
        if run.options.counters {
            self.env.tally.start_block();
        }
        self.shuffle = run.options.order.map(|seed| Shuffle::new(seed, cluster));
        (self.places, self.advanced) = ([0; PLACES], 0);
        self.env.interrupted = false;
        self.env.interrupts = run.options.order.filter(|_| run.kernel.talks).map(|seed| Shuffle::new(!seed, cluster));
        self.turns.clear();
        let warps = run.warps as usize;
        self.turns.extend((0..self.blocks.len()).flat_map(|rank| (0..warps).map(move |index| (rank, index))));
        self.env.transfers.clear();
        self.env.stale.clear();
        self.env.draws.reset();
        self.env.across.clear();
        self.env.cluster_arrivals = 0;
        for rank in 0..self.blocks.len() {
            self.blocks[rank] = run.block_of(cluster, rank as u32);
            self.env.waited[rank] = false;
            self.env.blocks[rank] = run.index_of(self.blocks[rank]);
            self.env.memories[rank].reset(self.env.blocks[rank]);
            self.env.mbarriers[rank].clear();
            self.env.warpgroups[rank].fill_with(Warpgroup::default);
            constants::fill(&mut self.env.constants[rank], run, self.blocks[rank], rank as u32);
            self.warps[rank].iter_mut().for_each(|warp| warp.restart(run.threads));
            self.at_barrier[rank].fill(false);
            self.barriers[rank].iter_mut().for_each(Barrier::reset);
        }
    }

    fn finish(&mut self) {
        let warps = self.env.run.warps as usize;
        for rank in 0..self.blocks.len() {
            if self.env.run.options.counters {
                self.env.tally.end_block(rank * warps..(rank + 1) * warps);
            } else {
                self.env.tally.counters.executed_blocks += 1;
            }
        }
    }

    /// Lets every warp that can run do so until it pauses. Returns whether one of them certainly made progress.
    fn pass(&mut self) -> Result<bool, Box<Fault>> {
        let mut progress = false;
        self.polls = false;
        let mut turns = std::mem::take(&mut self.turns);
        if let Some(shuffle) = &mut self.shuffle {
            shuffle.shuffle(&mut turns);
        }
        for &(rank, index) in &turns {
            if !self.warps[rank][index].is_done() && !self.at_barrier[rank][index] {
                progress |= self.run_warp(rank, index).map_err(|fault| self.fault(rank, index, *fault))?;
            }
            if self.env.interrupted {
                break;
            }
        }
        self.turns = turns;
        Ok(progress)
    }

    /// Runs one warp until it pauses. Returns whether it made progress.
    fn run_warp(&mut self, rank: usize, index: usize) -> Step<bool> {
        self.env.rank = rank;
        let board = rank * self.env.run.warps as usize + index;
        let warp = &mut self.warps[rank][index];
        let before = warp.executed;
        let pause = dispatch::run(self.level, warp, &mut self.env, board)?;
        let mut progress = true;
        match pause {
            Pause::Barrier(instruction) | Pause::Arrived(instruction) => {
                self.at_barrier[rank][index] = true;
                self.arrive(rank, index, instruction)?;
                if let Pause::Arrived(_) = pause {
                    self.at_barrier[rank][index] = false;
                }
            }
            // Barriers do not wait for a warp that has exited.
            Pause::Done => (0..BARRIERS).for_each(|id| self.release(rank, id)),
            Pause::Waiting => progress = warp.executed > before + 1,
            Pause::Slice => {
                self.polls = true;
                progress = false;
            }
        }
        self.count_cluster_arrivals();
        Ok(progress)
    }

    fn arrive(&mut self, rank: usize, index: usize, instruction: u32) -> Step<()> {
        let warp = &self.warps[rank][index];
        let lane = warp.live.trailing_zeros() as usize;
        let invalid = |message| LaneFault::at(lane, FaultKind::Invalid(message));
        let Op::Bar { id, .. } = self.env.run.kernel.instructions[instruction as usize].op else { return Ok(()) };
        let id = self.env.get32(warp, id).0[lane] as usize;
        let Some(barrier) = self.barriers[rank].get_mut(id) else {
            return Err(invalid(format!("barrier {id}; a block has {BARRIERS}")));
        };
        barrier.arrive(warp, &mut self.env, instruction).map_err(invalid)?;
        self.release(rank, id);
        Ok(())
    }

    fn release(&mut self, rank: usize, id: usize) {
        for warp in self.barriers[rank][id].release(&mut self.warps[rank], &mut self.env) {
            self.at_barrier[rank][warp as usize] = false;
        }
    }

    fn count_cluster_arrivals(&mut self) {
        let live = self.warps.iter().flatten().filter(|warp| !warp.is_done());
        self.env.cluster_arrivals = live.map(|warp| warp.cluster_arrivals).min().unwrap_or(u64::MAX);
    }

    fn deadlock(&self) -> Box<Fault> {
        let mut details = Vec::new();
        let mut first = None;
        let mut waiting = 0;
        for (rank, warps) in self.warps.iter().enumerate() {
            for (index, warp) in warps.iter().enumerate().filter(|(_, warp)| !warp.is_done()) {
                waiting += 1;
                first.get_or_insert((rank, index));
                if !self.at_barrier[rank][index] {
                    let line = self.line_of(warp.pc);
                    let source = source_line(self.env.run.text, line);
                    let place = source.map_or_else(|| format!("line {line}"), |source| source.to_string());
                    details.push(format!("warp {index} at {place}"));
                }
            }
            details.extend(self.barriers[rank].iter().enumerate().filter_map(|(id, barrier)| barrier.describe(id)));
        }
        let (rank, index) = first.unwrap_or_default();
        let kind = FaultKind::Deadlock {
            waiting,
            warps: self.env.run.warps * self.env.run.cluster_blocks,
            detail: details.join("; "),
        };
        let lane = self.warps[rank][index].live.trailing_zeros() as usize;
        self.fault(rank, index, LaneFault { lane, kind, origin: None, other: None })
    }

    fn line_of(&self, pc: u32) -> u32 {
        let instructions = &self.env.run.kernel.instructions;
        instructions.get(pc as usize).or(instructions.last()).map_or(0, |instruction| instruction.line)
    }

    /// Adds the location to a fault.
    fn fault(&self, rank: usize, index: usize, fault: LaneFault) -> Box<Fault> {
        let run = self.env.run;
        let pc = self.warps[rank][index].pc;
        // The `pc` of a warp that waits at a barrier is already after the barrier.
        let pc = if self.at_barrier[rank][index] { pc.saturating_sub(1) } else { pc };
        let here = Origin { rank, warp: index as u32, pc, lane: fault.lane };
        let Origin { rank, warp, pc, lane } = fault.origin.unwrap_or(here);
        let line = self.line_of(pc);
        let [x, y, _] = run.launch.block;
        let thread = self.warps[rank][warp as usize].first_thread + lane as u32;
        let other = fault.other.or_else(|| self.copy_at(&fault.kind)).map(|pc| {
            let line = self.line_of(pc);
            OtherAccess { line, instruction: run.text_of(line), source: source_line(run.text, line) }
        });
        Box::new(Fault {
            kind: fault.kind,
            kernel: demangled(&run.kernel.name),
            file: run.file.to_owned(),
            line,
            instruction: run.text_of(line),
            source: source_line(run.text, line),
            other,
            block: self.blocks[rank],
            thread: [thread % x, thread / x % y, thread / (x * y)],
        })
    }

    /// Returns the instruction of an asynchronous copy that an access has met.
    fn copy_at(&self, kind: &FaultKind) -> Option<u32> {
        let &FaultKind::InFlight { address, .. } = kind else { return None };
        let meets = |at: u32, bytes: u32| (u64::from(at)..u64::from(at) + u64::from(bytes)).contains(&address);
        let bulk = self.env.transfers.iter().find(|transfer| {
            let mut found = false;
            transfer.uses(|_, rank, at, bytes| found |= rank == self.env.rank && meets(at, bytes));
            found
        });
        let copies =
            self.warps[self.env.rank].iter().flat_map(|warp| warp.copies.iter().chain(warp.groups.iter().flatten()));
        let copy = copies.into_iter().find(|copy| meets(copy.to, copy.bytes));
        bulk.map(|transfer| transfer.origin.pc).or(copy.map(|copy| copy.pc))
    }
}
