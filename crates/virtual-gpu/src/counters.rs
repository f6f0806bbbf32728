//! Counters of a launch, exact over the executed blocks.

use std::collections::BTreeMap;

use crate::timing::{Scoreboard, Supposition, Times, Totals};

/// The most bytes that a launch prints, which is what CUDA's buffer holds unless the host enlarges it.
pub(crate) const MAX_PRINTED: usize = 1 << 20;

/// Classes of warp instructions, by the unit that executes them. They classify PTX instructions, not machine
/// instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(usize)]
pub enum Class {
    /// Single-precision add, multiply, fused multiply-add, min, max, compare.
    Float,
    Double,
    /// 16-bit arithmetic (f16, bf16, packed).
    Half,
    /// 32- and 16-bit integer and logic, selects, predicates.
    Integer,
    /// 64-bit integer: at least two machine instructions each.
    Wide,
    /// Moves and packing: often free on the machine.
    Move,
    Convert,
    /// ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh.
    Special,
    Tensor,
    GlobalLoad,
    GlobalStore,
    SharedLoad,
    SharedStore,
    LocalLoad,
    LocalStore,
    Atomic,
    /// Shuffles, votes, matches, reductions.
    Warp,
    /// cp.async and bulk copies.
    AsyncCopy,
    Barrier,
    Branch,
    Other,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = Self::Other as usize + 1;

    /// All classes, in the order of their discriminants.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Float,
        Self::Double,
        Self::Half,
        Self::Integer,
        Self::Wide,
        Self::Move,
        Self::Convert,
        Self::Special,
        Self::Tensor,
        Self::GlobalLoad,
        Self::GlobalStore,
        Self::SharedLoad,
        Self::SharedStore,
        Self::LocalLoad,
        Self::LocalStore,
        Self::Atomic,
        Self::Warp,
        Self::AsyncCopy,
        Self::Barrier,
        Self::Branch,
        Self::Other,
    ];
}

/// Warp accesses to one kind of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Warp instructions with at least one active lane that accessed it.
    pub requests: u64,
    /// Units moved: 32-byte sectors of global and local memory, wavefronts of shared memory.
    pub units: u64,
    /// Units that a perfect layout would need for those bytes.
    pub ideal_units: u64,
    /// Bytes requested by active lanes.
    pub bytes: u64,
}

impl Traffic {
    /// Adds another count.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.units += other.units;
        self.ideal_units += other.ideal_units;
        self.bytes += other.bytes;
    }
}

/// Floating-point operations by pipe. A fused multiply-add counts as two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Flop {
    pub half: u64,
    pub single: u64,
    pub double: u64,
    /// Tensor cores with 16-bit inputs.
    pub tensor16: u64,
    /// Tensor cores with tf32 inputs.
    pub tensor_tf32: u64,
    /// Tensor cores with 8-bit inputs.
    pub tensor8: u64,
    /// Tensor cores with f64 inputs.
    pub tensor64: u64,
}

impl Flop {
    /// Returns the operations of tensor cores.
    pub fn tensor(&self) -> u64 {
        self.tensor16 + self.tensor_tf32 + self.tensor8 + self.tensor64
    }

    /// Returns the operations of all pipes together.
    pub fn total(&self) -> u64 {
        self.half + self.single + self.double + self.tensor()
    }
}

/// Counters of one launch. All but `blocks` and `footprint_bytes` cover only `executed_blocks`; [`Counters::scale`]
/// extrapolates them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Executed and counted blocks (fewer than `blocks` when sampled).
    pub executed_blocks: u64,
    /// Warps per block.
    pub warps_per_block: u64,
    /// Warp instructions by [`Class`].
    pub warp_instructions: [u64; Class::COUNT],
    /// Active lanes, summed over warp instructions, by [`Class`].
    pub thread_instructions: [u64; Class::COUNT],
    /// Conditional branches executed by a warp.
    pub branches: u64,
    /// Divergent branches among them.
    pub divergent_branches: u64,
    /// Loads from global memory, cp.async included.
    pub global_load: Traffic,
    /// Stores to global memory.
    pub global_store: Traffic,
    /// Loads from shared memory, ldmatrix included.
    pub shared_load: Traffic,
    /// Stores to shared memory, stmatrix included. Asynchronous copies do not count as stores, as on the machine.
    pub shared_store: Traffic,
    /// Loads and stores of local memory.
    pub local: Traffic,
    /// Atomics and reductions on global memory.
    pub atomics: Traffic,
    /// Distinct 32-byte sectors of global memory touched, times 32: the cold traffic from HBM through L2. When blocks
    /// are sampled, this is an estimate for all of them. Each allocation is scaled up, capped at its size.
    pub footprint_bytes: u64,
    /// Floating-point operations.
    pub flop: Flop,
    /// Block barriers at which a warp waited.
    pub barriers: u64,
    /// Cycles of the longest warp of a block if every instruction waited in order for its operands. Uses the latencies
    /// of [`crate::timing::cost`]; summed over executed blocks.
    pub in_order_cycles: u64,
    /// The same if an instruction waited only for its operands (unbounded reordering): the dependency bound.
    pub dataflow_cycles: u64,
    /// `in_order_cycles` of the slowest executed block.
    pub longest_in_order_cycles: u64,
    /// `dataflow_cycles` of the slowest executed block.
    pub longest_dataflow_cycles: u64,
    /// Instructions in the kernel's text, each of which must be fetched at least once.
    pub static_instructions: u64,
    /// Effective number of instructions executed often: (sum of executions)^2 / sum of squares over the instructions.
    pub hot_instructions: u64,
    /// Issue slots, summed over warps: machine instructions, as estimated from PTX ([`crate::timing::cost`]).
    pub issue_slots: u64,
    /// Issue slots of 64-bit integer instructions and of integer divisions, which mostly compute indices. Estimated from the cost of each
    /// instruction ([`crate::timing::cost`]).
    pub index_slots: u64,
    /// Issue slots of the busiest warp of a block, summed over executed blocks.
    pub busiest_warp_slots: u64,
    /// `issue_slots` by partition. A warp's partition is its number in the block modulo 4.
    pub partition_slots: [u64; 4],
    /// Cycles for which each [`crate::timing::Pipe`] of a partition was occupied, summed over warps.
    pub pipe_cycles: [u64; crate::timing::Pipe::COUNT],
    /// Sectors of global loads that missed the block's L1 ([`crate::timing::Cache`]), so L2 has to deliver them.
    pub l2_sectors: u64,
    /// The part of them that bulk copies loaded.
    pub bulk_l2_sectors: u64,
    /// Bytes that bulk copies loaded from global memory. A copy to several blocks of a cluster counts once.
    pub bulk_load_bytes: u64,
    /// Bytes that bulk copies stored or added to global memory.
    pub bulk_store_bytes: u64,
    /// The times and the usage of units under the suppositions that change when instructions can issue. Empty unless
    /// [`crate::Options::suppose`] is set; see [`Counters::supposing`].
    pub supposed: Vec<(Supposition, Self)>,
    /// A shuffle that reads a lane which takes no part in it; None if there was none. It is noted even if nothing else is
    /// counted.
    pub absent_lane: Option<AbsentLane>,
    /// What `printf` has printed, at most 1 MiB: per block, by its index in the grid. It is noted even if nothing else
    /// is counted.
    pub printed: BTreeMap<u32, String>,
}

/// A shuffle by which a lane reads another one that does not execute it, or is not in its member mask. PTX leaves the value
/// undefined, and here it is poison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbsentLane {
    /// The shuffle's line in the PTX, counted from 1.
    pub line: u32,
    /// The lane that reads.
    pub lane: u8,
    /// The lane that is read.
    pub source: u8,
}

impl Counters {
    /// Adds the usage of the warp with this number in its block.
    pub fn add_warp(&mut self, warp: usize, totals: &Totals) {
        self.issue_slots += totals.issue_slots;
        self.partition_slots[warp % 4] += totals.issue_slots;
        self.pipe_cycles.iter_mut().zip(totals.pipe_cycles).for_each(|(sum, cycles)| *sum += cycles);
    }

    /// Adds a block whose warps have these scoreboards. It takes as long as its slowest warp, or as the `average` one.
    pub(crate) fn add_boards(&mut self, boards: &[Scoreboard], average: bool) {
        let (mut slowest, mut sum, mut busiest) = (Times::default(), (0, 0), 0);
        for (warp, board) in boards.iter().enumerate() {
            let (now, totals) = (board.now(), board.totals());
            slowest = slowest.max(now);
            sum = (sum.0 + u64::from(now.in_order), sum.1 + u64::from(now.dataflow));
            busiest = busiest.max(totals.issue_slots);
            self.add_warp(warp, &totals);
        }
        self.busiest_warp_slots += busiest;
        let mean = |sum: u64| sum.div_ceil(boards.len().max(1) as u64) as u32;
        self.add_block(if average { Times { in_order: mean(sum.0), dataflow: mean(sum.1) } } else { slowest });
    }

    /// Adds the time of an executed block, which is that of its slowest warp.
    pub fn add_block(&mut self, times: Times) {
        let (in_order, dataflow) = (u64::from(times.in_order), u64::from(times.dataflow));
        self.in_order_cycles += in_order;
        self.dataflow_cycles += dataflow;
        self.longest_in_order_cycles = self.longest_in_order_cycles.max(in_order);
        self.longest_dataflow_cycles = self.longest_dataflow_cycles.max(dataflow);
    }

    /// Adds the counters of other blocks of the same launch.
    pub fn add(&mut self, other: &Self) {
        self.executed_blocks += other.executed_blocks;
        for (sum, more) in self.warp_instructions.iter_mut().zip(other.warp_instructions) {
            *sum += more;
        }
        for (sum, more) in self.thread_instructions.iter_mut().zip(other.thread_instructions) {
            *sum += more;
        }
        for (sum, more) in self.pipe_cycles.iter_mut().zip(other.pipe_cycles) {
            *sum += more;
        }
        for (sum, more) in self.partition_slots.iter_mut().zip(other.partition_slots) {
            *sum += more;
        }
        self.branches += other.branches;
        self.divergent_branches += other.divergent_branches;
        self.global_load.add(&other.global_load);
        self.global_store.add(&other.global_store);
        self.shared_load.add(&other.shared_load);
        self.shared_store.add(&other.shared_store);
        self.local.add(&other.local);
        self.atomics.add(&other.atomics);
        self.barriers += other.barriers;
        self.in_order_cycles += other.in_order_cycles;
        self.dataflow_cycles += other.dataflow_cycles;
        self.longest_in_order_cycles = self.longest_in_order_cycles.max(other.longest_in_order_cycles);
        self.longest_dataflow_cycles = self.longest_dataflow_cycles.max(other.longest_dataflow_cycles);
        self.issue_slots += other.issue_slots;
        self.index_slots += other.index_slots;
        self.busiest_warp_slots += other.busiest_warp_slots;
        self.l2_sectors += other.l2_sectors;
        self.bulk_l2_sectors += other.bulk_l2_sectors;
        self.bulk_load_bytes += other.bulk_load_bytes;
        self.bulk_store_bytes += other.bulk_store_bytes;
        self.absent_lane = self.absent_lane.or(other.absent_lane);
        other.printed.iter().for_each(|(&block, text)| self.print(block, text));
    }

    /// Adds what a block has printed, up to a limit in all.
    pub(crate) fn print(&mut self, block: u32, text: &str) {
        let so_far: usize = self.printed.values().map(String::len).sum();
        if so_far + text.len() <= MAX_PRINTED {
            self.printed.entry(block).or_default().push_str(text);
        }
    }

    /// Returns the model's counters under a supposition; `None` if they were not collected.
    pub fn supposing(&self, supposition: Supposition) -> Option<Self> {
        let mut counters = Self { supposed: Vec::new(), ..self.clone() };
        if supposition.changes_warps() {
            counters.take_usage(&self.supposed.iter().find(|(of, _)| *of == supposition)?.1);
        }
        match supposition {
            Supposition::NoBankConflicts => {
                for traffic in [&mut counters.shared_load, &mut counters.shared_store] {
                    traffic.units = traffic.ideal_units;
                }
            }
            Supposition::NoScatteredAccess => {
                for traffic in [&mut counters.global_load, &mut counters.global_store, &mut counters.atomics] {
                    traffic.units = traffic.ideal_units;
                }
                counters.limit_l2(counters.global_load.ideal_units);
            }
            Supposition::NoCacheMisses => {
                counters.limit_l2(0);
                counters.limit_footprint(self.bulk_load_bytes);
            }
            Supposition::NoGlobalLoads => {
                counters.l2_sectors = 0;
                counters.limit_footprint(0);
            }
            // The partitions of two-warp blocks are uneven because their warps are.
            Supposition::NoIdleWarps => counters.partition_slots = [counters.issue_slots / 4; 4],
            Supposition::NoUnevenBlocks => {
                counters.longest_in_order_cycles = 0;
                counters.longest_dataflow_cycles = 0;
            }
            _ => {}
        }
        Some(counters)
    }

    /// Takes over times and the usage of units.
    fn take_usage(&mut self, from: &Self) {
        self.in_order_cycles = from.in_order_cycles;
        self.dataflow_cycles = from.dataflow_cycles;
        self.longest_in_order_cycles = from.longest_in_order_cycles;
        self.longest_dataflow_cycles = from.longest_dataflow_cycles;
        self.issue_slots = from.issue_slots;
        self.busiest_warp_slots = from.busiest_warp_slots;
        self.partition_slots = from.partition_slots;
        self.pipe_cycles = from.pipe_cycles;
    }

    /// Limits the sectors that L2 delivers to warps.
    fn limit_l2(&mut self, sectors: u64) {
        self.l2_sectors = self.l2_sectors.min(self.bulk_l2_sectors + sectors);
    }

    /// Limits the footprint to what is stored, and `loaded` bytes of the executed blocks.
    fn limit_footprint(&mut self, loaded: u64) {
        let bytes = self.global_store.bytes + self.atomics.bytes + self.bulk_store_bytes + loaded;
        self.footprint_bytes = self.footprint_bytes.min((bytes as f64 * self.scale()) as u64);
    }

    /// Returns how many blocks of the grid an executed block represents.
    pub fn scale(&self) -> f64 {
        if self.executed_blocks == 0 { 0.0 } else { self.blocks as f64 / self.executed_blocks as f64 }
    }

    /// Returns the issue slots of a block's busiest warp over those of its average warp: 1 is balanced. 0 without
    /// counters.
    pub fn busiest_warp(&self) -> f64 {
        (self.busiest_warp_slots * self.warps_per_block) as f64 / self.issue_slots.max(1) as f64
    }

    /// Returns the number of warp instructions.
    pub fn instructions(&self) -> u64 {
        self.warp_instructions.iter().sum()
    }

    /// Returns the average number of active lanes of a warp instruction.
    pub fn active_lanes(&self) -> f64 {
        self.thread_instructions.iter().sum::<u64>() as f64 / self.instructions().max(1) as f64
    }
}
