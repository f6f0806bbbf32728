//! Counts per CPU thread. Counting is cheap during execution; the counts are added up at the end.

use super::lanes::{W64, lanes_of};
use super::run::Run;
use super::supposed::{ClusterArrivals, Dynamic, Supposed};
use crate::counters::{Class, Counters, Flop, Traffic};
use crate::gpu::Latencies;
use crate::program::{Binary, Op, Space, Ternary, Ty, Unary};
use crate::timing::{Cache, Layout, SECTOR_BYTES, Scoreboard, Times, cost};

/// Counts of one CPU thread, and the place of its last access.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Traffic and branches, counted as they happen.
    pub counters: Counters,
    /// Per instruction, the number of warps that executed it and of their lanes.
    pub executed: Vec<(u64, u64)>,
    /// The allocation of the last access, because the next access is mostly in the same one.
    pub allocation: usize,
    /// The cost of the current access.
    pub dynamic: Dynamic,
    /// The block's L1.
    pub l1: Cache,
    /// A scoreboard per warp of the cluster; empty without counters.
    pub boards: Vec<Scoreboard>,
    /// The arrivals at the barrier of the cluster.
    arrivals: ClusterArrivals,
    /// The warps of the cluster under suppositions; mostly empty.
    pub supposed: Vec<Supposed>,
}

/// Counts of memory accesses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accesses {
    traffic: [Traffic; 4],
    dynamic: Dynamic,
}

impl Tally {
    /// Makes an empty tally for a launch.
    pub fn new(run: &Run<'_>) -> Self {
        let counting = run.options.counters;
        let boards = if counting { (run.warps * run.cluster_blocks) as usize } else { 0 };
        let l1_bytes = if counting { run.gpu.l1_bytes.saturating_sub(u64::from(run.shared_bytes)) } else { 0 };
        Self {
            counters: Counters::default(),
            executed: vec![(0, 0); if counting { run.kernel.instructions.len() } else { 0 }],
            allocation: 0,
            dynamic: Dynamic::default(),
            l1: Cache::new(l1_bytes.max(crate::timing::LINE_BYTES * 16)),
            boards: vec![Scoreboard::new(Layout::of(run.kernel)); boards],
            arrivals: ClusterArrivals::default(),
            supposed: Supposed::all(run),
        }
    }

    /// Starts a block or a cluster.
    pub fn start_block(&mut self) {
        self.l1.reset();
        self.boards.iter_mut().for_each(Scoreboard::reset);
        self.arrivals = ClusterArrivals::default();
        self.supposed.iter_mut().for_each(Supposed::start_block);
    }

    /// Records that the lanes of `mask` of the warp with this scoreboard executed an instruction.
    #[inline(always)]
    pub fn issue(&mut self, run: &Run<'_>, board: usize, instruction: usize, mask: u32) {
        let (warps, lanes) = &mut self.executed[instruction];
        *warps += 1;
        *lanes += u64::from(mask.count_ones());
        let Dynamic { occupied, delay, .. } = self.dynamic;
        self.boards[board].issue(&run.prepared[instruction], occupied, delay);
        if !self.supposed.is_empty() {
            self.issue_supposed(run, board, instruction);
        }
        self.dynamic = Dynamic::default();
    }

    #[cold]
    #[inline(never)]
    fn issue_supposed(&mut self, run: &Run<'_>, board: usize, instruction: usize) {
        for (supposed, (_, free)) in self.supposed.iter_mut().zip(&run.supposed) {
            supposed.issue(board, &run.prepared[instruction], free[instruction], self.dynamic);
        }
    }

    /// Records the cycles for which an access to shared memory occupies its pipe.
    #[inline(always)]
    pub fn occupy_shared(&mut self, traffic: &Traffic) {
        self.dynamic.occupied = (traffic.units - 1) as u32;
        self.dynamic.conflicts = (traffic.units - traffic.ideal_units) as u32;
    }

    /// Records the cycles for which an access to the shared memory of another block occupies its pipe, and what it takes longer.
    pub fn occupy_remote(&mut self, traffic: &Traffic, at: &Latencies) {
        self.occupy_shared(traffic);
        self.dynamic.occupied = traffic.units as u32 * u32::from(at.remote_occupancy) - 1;
        self.dynamic.delay = at.remote_shared.into();
    }

    /// Returns the counts of accesses so far. [`Tally::restore`] takes them after accesses that no load or store made.
    pub fn traffic(&self) -> Accesses {
        let counters = &self.counters;
        Accesses {
            traffic: [counters.global_load, counters.global_store, counters.shared_load, counters.shared_store],
            dynamic: self.dynamic,
        }
    }

    /// Discards the counts of accesses since then. The contents of L1 and L2 stay.
    pub fn restore(&mut self, before: Accesses) {
        let counters = &mut self.counters;
        [counters.global_load, counters.global_store, counters.shared_load, counters.shared_store] = before.traffic;
        self.dynamic = before.dynamic;
    }

    /// Looks up the sectors of a load in the block's L1. Returns the extra latency: `miss` if one was missing.
    pub fn load_through_l1(&mut self, at: &W64, mask: u32, miss: u32) -> u32 {
        let (mut misses, mut last) = (0, None);
        for lane in lanes_of(mask) {
            let sector = at.0[lane] / SECTOR_BYTES;
            if last != Some(sector) {
                last = Some(sector);
                misses += u64::from(!self.l1.load(at.0[lane]));
            }
        }
        self.counters.l2_sectors += misses;
        if misses == 0 { 0 } else { miss }
    }

    /// Ends a block whose warps have these scoreboards.
    pub fn end_block(&mut self, boards: std::ops::Range<usize>) {
        self.counters.executed_blocks += 1;
        self.supposed.iter_mut().for_each(|supposed| supposed.end_block(boards.clone()));
        self.counters.add_boards(&self.boards[boards], false);
    }

    /// Lets the warps `waiting` continue after a block barrier at which the warps `arrived` have arrived. `first` is
    /// the scoreboard of the block's first warp.
    pub fn barrier(&mut self, first: usize, arrived: &[u32], waiting: impl Iterator<Item = u32>, latency: u32) {
        let board = |warp: u32| first + warp as usize;
        let latest = arrived.iter().map(|&warp| self.boards[board(warp)].arrive()).reduce(Times::max);
        let Some(latest) = latest else { return };
        let waiting: Vec<usize> = waiting.map(board).collect();
        for &board in &waiting {
            self.boards[board].barrier(latest.after(latency));
        }
        if !self.supposed.is_empty() {
            let arrived: Vec<usize> = arrived.iter().map(|&warp| board(warp)).collect();
            self.supposed.iter_mut().for_each(|supposed| supposed.barrier(&arrived, &waiting, latency));
        }
    }

    /// Notes that the warp with this scoreboard has arrived at the barrier of its cluster for the `phase`th time.
    pub fn arrive_at_cluster(&mut self, board: usize, phase: u64) {
        if let Some(scoreboard) = self.boards.get(board) {
            self.arrivals.arrive(phase, scoreboard.arrive());
            self.supposed.iter_mut().for_each(|supposed| supposed.arrive_at_cluster(board, phase));
        }
    }

    /// Lets the warp with this scoreboard continue after the barrier of its cluster, which takes `latency` cycles.
    pub fn pass_cluster(&mut self, board: usize, phase: u64, latency: u32) {
        if let Some(scoreboard) = self.boards.get_mut(board) {
            scoreboard.barrier(self.arrivals.latest(phase).after(latency));
            self.supposed.iter_mut().for_each(|supposed| supposed.pass_cluster(board, phase, latency));
        }
    }

    /// Adds another thread's tally.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.executed.iter_mut().zip(&other.executed) {
            sum.0 += more.0;
            sum.1 += more.1;
        }
        self.counters.add(&other.counters);
        self.supposed.iter_mut().zip(&other.supposed).for_each(|(sum, more)| sum.add(more));
    }

    /// Returns the counters of the launch.
    pub fn finish(mut self, run: &Run<'_>) -> Counters {
        for (instruction, &(warps, lanes)) in run.kernel.instructions.iter().zip(&self.executed) {
            let class = class_of(&instruction.op) as usize;
            self.counters.warp_instructions[class] += warps;
            if warps > 0 && is_index_arithmetic(class, &instruction.op) {
                self.counters.index_slots += warps * u64::from(cost(&instruction.op, run.gpu).issue);
            }
            self.counters.thread_instructions[class] += lanes;
            add_flop(&mut self.counters.flop, &instruction.op, warps, lanes);
            if matches!(instruction.op, Op::Bar { .. }) {
                self.counters.barriers += warps;
            }
            if let Op::Branch { .. } | Op::BranchIndexed { .. } = instruction.op
                && instruction.guard != crate::program::TRUE
            {
                self.counters.branches += warps;
            }
        }
        if run.options.counters {
            self.counters.static_instructions = run.kernel.instructions.len() as u64;
            self.counters.hot_instructions = hot_instructions(&self.executed);
        }
        self.counters.warps_per_block = u64::from(run.warps);
        self.counters.supposed = self.supposed.into_iter().map(Supposed::finish).collect();
        self.counters
    }
}

/// Tells whether an instruction is one of 64-bit integers or divides integers.
fn is_index_arithmetic(class: usize, op: &Op) -> bool {
    let divides = matches!(op, Op::Binary { op: Binary::Div | Binary::Rem, ty, .. } if !ty.is_float());
    divides || class == Class::Wide as usize
}

/// Returns the effective number of instructions that take the time: the whole text if each is executed equally often.
fn hot_instructions(executed: &[(u64, u64)]) -> u64 {
    let sum: f64 = executed.iter().map(|(warps, _)| *warps as f64).sum();
    let squares: f64 = executed.iter().map(|(warps, _)| (*warps as f64).powi(2)).sum();
    if squares == 0.0 { 0 } else { (sum * sum / squares).round() as u64 }
}

/// Returns the class of an operation.
pub(crate) fn class_of(op: &Op) -> Class {
    match op {
        Op::Mov { .. } | Op::Special { .. } | Op::Pack { .. } | Op::Unpack { .. } => Class::Move,
        Op::Unary { op, ty, .. } => match op {
            Unary::Sqrt
            | Unary::Rcp
            | Unary::Rsqrt
            | Unary::Ex2
            | Unary::Lg2
            | Unary::Sin
            | Unary::Cos
            | Unary::Tanh => {
                if *ty == Ty::F64 {
                    Class::Double
                } else {
                    Class::Special
                }
            }
            _ => arithmetic(*ty),
        },
        Op::Binary { op: Binary::MulWide, .. } | Op::Ternary { op: Ternary::MadWide, .. } => Class::Wide,
        Op::Binary { ty, .. } | Op::Ternary { ty, .. } | Op::Setp { ty, .. } | Op::Set { ty, .. } => arithmetic(*ty),
        Op::Bfi { ty, .. } | Op::Carry { ty, .. } | Op::MadCarry { ty, .. } => arithmetic(*ty),
        Op::Selp { .. } | Op::Slct { .. } | Op::Pred { .. } | Op::IsSpace { .. } => Class::Integer,
        Op::Mapa { .. } | Op::GetCtaRank { .. } => Class::Integer,
        Op::Cvt { .. } => Class::Convert,
        Op::Ld { space, .. } => memory(*space, [Class::GlobalLoad, Class::SharedLoad, Class::LocalLoad]),
        Op::St { space, .. } => memory(*space, [Class::GlobalStore, Class::SharedStore, Class::LocalStore]),
        Op::Atom { .. } => Class::Atomic,
        Op::Shfl { .. } | Op::Vote { .. } | Op::Match { .. } | Op::Redux { .. } => Class::Warp,
        Op::ActiveMask { .. } | Op::Elect { .. } => Class::Warp,
        Op::LdMatrix { .. } => Class::SharedLoad,
        Op::StMatrix { .. } => Class::SharedStore,
        Op::Mma(_) | Op::Wgmma(_) => Class::Tensor,
        Op::CpAsync { .. } | Op::Bulk { .. } | Op::BulkTensor(_) => Class::AsyncCopy,
        Op::Bar { .. } | Op::WarpSync { .. } | Op::ClusterArrive | Op::ClusterWait | Op::Mbarrier { .. } => {
            Class::Barrier
        }
        Op::CpAsyncWait { .. } | Op::CpAsyncMbarrierArrive { .. } | Op::BulkWait { .. } | Op::WgmmaWait { .. } => {
            Class::Barrier
        }
        Op::Branch { .. } | Op::BranchIndexed { .. } | Op::Exit => Class::Branch,
        Op::Fence { .. }
        | Op::Trap
        | Op::TooDeep { .. }
        | Op::Assert { .. }
        | Op::Print { .. }
        | Op::Malloc { .. }
        | Op::Free { .. }
        | Op::Nop
        | Op::CpAsyncCommit
        | Op::BulkCommit
        | Op::GridWait
        | Op::WgmmaFence
        | Op::WgmmaCommit => Class::Other,
    }
}

fn arithmetic(ty: Ty) -> Class {
    match ty {
        Ty::F32 | Ty::Tf32 => Class::Float,
        Ty::F64 => Class::Double,
        Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 => Class::Half,
        _ if ty.bits() == 64 => Class::Wide,
        _ => Class::Integer,
    }
}

fn memory(space: Space, [global, shared, local]: [Class; 3]) -> Class {
    match space {
        Space::Shared | Space::SharedCluster => shared,
        Space::Local => local,
        Space::Param => Class::Move,
        Space::Global | Space::Generic | Space::Const => global,
    }
}

fn add_flop(flop: &mut Flop, op: &Op, warps: u64, lanes: u64) {
    let (ty, per_lane) = match op {
        Op::Binary { op: Binary::Add | Binary::Sub | Binary::Mul | Binary::Div, ty, .. } => (*ty, 1),
        Op::Ternary { op: Ternary::Mad, ty, .. } => (*ty, 2),
        Op::Mma(mma) => {
            return add_tensor(flop, mma.a_ty, 2 * mma.multiply_adds() * warps);
        }
        Op::Wgmma(wgmma) => {
            return add_tensor(flop, wgmma.a_ty, 2 * wgmma.multiply_adds() * warps);
        }
        _ => return,
    };
    match ty {
        Ty::F32 => flop.single += per_lane * lanes,
        Ty::F64 => flop.double += per_lane * lanes,
        Ty::F16 | Ty::Bf16 => flop.half += per_lane * lanes,
        Ty::F16x2 | Ty::Bf16x2 => flop.half += 2 * per_lane * lanes,
        _ => {}
    }
}

fn add_tensor(flop: &mut Flop, ty: Ty, each: u64) {
    match ty {
        Ty::F16 | Ty::Bf16 => flop.tensor16 += each,
        Ty::Tf32 => flop.tensor_tf32 += each,
        Ty::F64 => flop.tensor64 += each,
        _ => flop.tensor8 += each,
    }
}
