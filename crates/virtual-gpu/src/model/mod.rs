//! The model: turns counters and a launch's shape into a *modelled* time. docs/model.md of optloop explains it and
//! reports how well it ranks.

mod occupancy;
#[cfg(test)]
mod tests;

pub use occupancy::{Occupancy, occupancy};

use crate::counters::Counters;
use crate::gpu::{Gpu, Rates};
use crate::timing::{LINE_BYTES, Pipe, SECTOR_BYTES, Supposition};

/// Position of a block's time between the dataflow time (0) and the time in PTX order (1) after scheduling by ptxas, on
/// a logarithmic scale. Fitted, docs/model.md.
const ORDER: f64 = 0.4;

/// The same when registers run out and spill: none are left for loads in flight. Fitted, docs/model.md.
const ORDER_SPILLED: f64 = 0.8;

/// Bytes of spills per thread from which registers count as short.
const SPILLED_BYTES: u32 = 64;

/// Exponent for combining throughput, latency and L2. 1 means no overlap; infinity means that the longest hides the
/// others. Fitted, docs/model.md.
const OVERLAP: f64 = 2.0;

/// Share of the sectors of stores that reach L2. Several stores to one sector are merged before. Fitted, docs/model.md.
const STORED: f64 = 0.4;

/// Bytes of a wavefront of shared memory or L1.
const WAVEFRONT: f64 = LINE_BYTES as f64;

/// Bytes of a sector.
const SECTOR: f64 = SECTOR_BYTES as f64;

/// Inputs of the model besides the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Registers per thread, from ptxas.
    pub registers: u32,
    /// Shared memory of a block, static and dynamic, in bytes.
    pub shared_bytes: u32,
    /// Blocks of a cluster.
    pub cluster_blocks: u32,
    /// Bytes moved by each thread's spilled registers, from ptxas, because PTX has no spills. Each place in the code
    /// counts once.
    pub spill_bytes: u32,
}

/// The bound of a modelled time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Limiter {
    Issue,
    Tensor,
    Fma,
    Alu,
    Mufu,
    Shared,
    L2,
    Hbm,
    Latency,
    Launch,
}

/// A modelled time.
#[derive(Debug, Clone, PartialEq)]
pub struct Modelled {
    /// Time of one launch, back to back with others, in nanoseconds.
    pub time_ns: f64,
    /// The bound of the time.
    pub limiter: Limiter,
    /// Blocks resident on a multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Time of each part alone, in nanoseconds.
    pub parts_ns: Vec<(Limiter, f64)>,
}

/// How the grid is distributed over the multiprocessors.
struct Grid {
    blocks: f64,
    multiprocessors: f64,
    /// Resident blocks per multiprocessor while there are enough blocks.
    resident: f64,
    /// Blocks of the busiest multiprocessor under round-robin distribution.
    busiest: f64,
    /// Waves of resident blocks. A value below one leaves multiprocessors idle.
    waves: f64,
    /// Whether the last wave counts as full.
    evenly: bool,
}

impl Grid {
    /// Distributes the blocks; `evenly` if every multiprocessor is to get the same number and no wave is partial.
    fn new(gpu: &Gpu, shape: &Shape, held: u32, evenly: bool) -> Self {
        let (blocks, multiprocessors) = (shape.blocks.max(1) as f64, f64::from(gpu.multiprocessors));
        let held = f64::from(held.max(1));
        let waves = blocks / (multiprocessors * held);
        let each = blocks / multiprocessors;
        let busiest = if evenly { each.max(1.0) } else { each.ceil() };
        Self { blocks, multiprocessors, resident: held.min(each.ceil()), busiest, waves, evenly }
    }

    /// Returns the work of the busiest multiprocessor, in average blocks.
    ///
    /// Blocks are distributed round-robin. With a causal mask, the tile count is a power of two and the multiprocessor
    /// count a multiple of four. Some multiprocessors then get only the longest blocks. Once all are full, the next
    /// block goes to the first free multiprocessor. That halves the imbalance on a logarithmic scale (fitted,
    /// docs/model.md).
    fn blocks_of_busiest(&self, block: &Block<'_>) -> f64 {
        let (average, longest) = block.latency();
        let uneven = longest / average.max(1.0);
        if self.waves <= 1.0 { self.busiest * uneven } else { self.blocks / self.multiprocessors * uneven.sqrt() }
    }
}

/// Average cost of an executed block.
struct Block<'a> {
    counters: &'a Counters,
    executed: f64,
    warps: f64,
    /// Memory instructions of spilled registers per other instruction.
    spills: f64,
    /// See [`ORDER`].
    order: f64,
}

impl<'a> Block<'a> {
    fn new(shape: &Shape, counters: &'a Counters) -> Self {
        let executed = counters.executed_blocks.max(1) as f64;
        let warps = f64::from(shape.threads.div_ceil(32).max(1));
        // Assumption: a spill runs as often as the frequent instructions, at most one per instruction.
        let spills = (f64::from(shape.spill_bytes) / 4.0 / counters.hot_instructions.max(1) as f64).min(1.0);
        let order = if shape.spill_bytes < SPILLED_BYTES { ORDER } else { ORDER_SPILLED };
        Self { counters, executed, warps, spills, order }
    }

    /// Issue slots of a block, including those of its spills, in proportion to their share of the text.
    fn slots(&self) -> f64 {
        self.counters.issue_slots as f64 / self.executed * (1.0 + self.spills)
    }

    fn pipe(&self, pipe: Pipe) -> f64 {
        let cycles = self.counters.pipe_cycles[pipe as usize] as f64 / self.executed;
        match pipe {
            Pipe::Lsu => cycles + self.counters.issue_slots as f64 / self.executed * self.spills,
            _ => cycles,
        }
    }

    /// Load of the busiest of the four partitions relative to the average; 1 means balanced.
    ///
    /// Warps are assigned to partitions round-robin. Blocks of two warps alternate between the same two pairs of
    /// partitions, so extra work of their first warps never evens out. The recorded times show this. A single large
    /// block with one busy warp is bound by its latency anyway.
    fn imbalance(&self, resident: f64) -> f64 {
        let warps = self.warps * resident;
        let by_count = 4.0 * (warps / 4.0).ceil() / warps;
        let slots = self.counters.partition_slots;
        let (most, all) = (slots.iter().max().copied().unwrap_or(0) as f64, slots.iter().sum::<u64>().max(1) as f64);
        if self.warps as u64 == 2 { by_count.max(2.0 * most / all) } else { by_count }
    }

    /// Cycles of an average block and of the longest, each alone on its multiprocessor.
    fn latency(&self) -> (f64, f64) {
        let mix = |in_order: u64, dataflow: u64| {
            let (in_order, dataflow) = (in_order.max(dataflow) as f64, dataflow as f64);
            dataflow.powf(1.0 - self.order) * in_order.powf(self.order) * (1.0 + self.spills)
        };
        let counters = self.counters;
        let average = mix(counters.in_order_cycles, counters.dataflow_cycles) / self.executed;
        (average, mix(counters.longest_in_order_cycles, counters.longest_dataflow_cycles).max(average))
    }
}

/// Returns the modelled time of one launch with warm caches.
pub fn model(gpu: &Gpu, shape: &Shape, counters: &Counters) -> Modelled {
    evaluate(gpu, shape, counters, None)
}

/// Returns the modelled time under a supposition; `None` if the counters were collected without it.
///
/// The parts of the model are not independent: a shorter block may make the grid more uneven. Removing a cause must not
/// increase the time, so the actual time is the limit.
pub fn model_supposing(gpu: &Gpu, shape: &Shape, counters: &Counters, supposition: Supposition) -> Option<Modelled> {
    let supposed = counters.supposing(supposition)?;
    let mut shape = *shape;
    let actual = model(gpu, &shape, counters);
    if supposition == Supposition::NoSpills {
        shape.spill_bytes = 0;
    }
    let modelled = evaluate(gpu, &shape, &supposed, Some(supposition));
    Some(Modelled { time_ns: modelled.time_ns.min(actual.time_ns), ..modelled })
}

fn evaluate(gpu: &Gpu, shape: &Shape, counters: &Counters, supposition: Option<Supposition>) -> Modelled {
    let held = occupancy(gpu, shape).blocks;
    let grid = Grid::new(gpu, shape, held, supposition == Some(Supposition::NoPartialWave));
    let block = Block::new(shape, counters);
    let latency = latency_cycles(&grid, &block);
    let throughput = throughput_cycles(&gpu.rates, &grid, &block);
    let busiest = throughput.iter().fold(0.0_f64, |most, (_, cycles)| most.max(*cycles));

    let second = 1e9;
    let to_ns = |cycles: f64| cycles / gpu.clock_hz * second;
    let stored = (counters.global_store.units + counters.atomics.units) as f64 * STORED;
    let l2_bytes = grid.blocks / block.executed * SECTOR * (counters.l2_sectors as f64 + stored);
    let l2_ns = (l2_bytes / gpu.rates.l2_bytes_per_s * second).max(to_ns(l2_cycles(&gpu.rates, &grid, &block)));
    // Data that fits in L2 is still there from the previous replay.
    let footprint = counters.footprint_bytes as f64;
    let cold_bytes = if footprint > gpu.l2_bytes as f64 { footprint } else { 0.0 };
    let memory_ns = cold_bytes / gpu.rates.memory_bytes_per_s * second;
    let launches = if supposition == Some(Supposition::NoLaunch) { 0.0 } else { second };
    let launch_ns = (gpu.rates.launch_s + gpu.rates.start_s) * launches;
    let overlapped = [to_ns(busiest), to_ns(latency), l2_ns].map(|ns| ns.powf(OVERLAP)).iter().sum::<f64>();

    let mut parts_ns: Vec<(Limiter, f64)> = throughput.iter().map(|(part, cycles)| (*part, to_ns(*cycles))).collect();
    parts_ns.push((Limiter::Latency, to_ns(latency)));
    parts_ns.extend([(Limiter::L2, l2_ns), (Limiter::Hbm, memory_ns), (Limiter::Launch, launch_ns)]);
    let limiter =
        parts_ns.iter().fold((Limiter::Launch, 0.0), |most, part| if part.1 > most.1 { *part } else { most }).0;
    let time_ns = launch_ns + overlapped.powf(1.0 / OVERLAP).max(memory_ns);
    Modelled { time_ns, limiter, blocks_per_multiprocessor: held, parts_ns }
}

/// Cycles until the last block is done if blocks were limited only by their own latency.
fn latency_cycles(grid: &Grid, block: &Block<'_>) -> f64 {
    let (average, longest) = block.latency();
    if grid.waves <= 1.0 {
        return longest;
    }
    // Equal blocks come in whole waves. Unequal ones fill each other's gaps, but a long one may start last.
    let rest = if grid.evenly { 0.0 } else { (grid.waves.ceil() - grid.waves) * (average / longest.max(1.0)) };
    (average * (grid.waves + rest)).max(average * (grid.waves - 1.0) + longest)
}

/// Cycles for which each unit of the busiest multiprocessor is busy.
fn throughput_cycles(rates: &Rates, grid: &Grid, block: &Block<'_>) -> Vec<(Limiter, f64)> {
    let schedulers = f64::from(rates.schedulers);
    let blocks = grid.blocks_of_busiest(block);
    let partition = blocks * block.imbalance(grid.resident) / schedulers;
    let pipe = |pipe| block.pipe(pipe) * partition;
    vec![
        (Limiter::Issue, block.slots() * partition),
        (Limiter::Fma, pipe(Pipe::Fma).max(pipe(Pipe::Half)).max(pipe(Pipe::Double))),
        (Limiter::Alu, pipe(Pipe::Alu)),
        (Limiter::Mufu, pipe(Pipe::Mufu)),
        (Limiter::Tensor, pipe(Pipe::Tensor)),
        // One unit serves the four partitions.
        (Limiter::Shared, block.pipe(Pipe::Lsu) * blocks * WAVEFRONT / rates.shared_bytes),
    ]
}

/// Cycles that the busiest multiprocessor spends receiving bytes from L2.
fn l2_cycles(rates: &Rates, grid: &Grid, block: &Block<'_>) -> f64 {
    let bytes = block.counters.l2_sectors as f64 / block.executed * SECTOR;
    bytes * grid.blocks_of_busiest(block) / rates.l2_bytes_per_multiprocessor
}
