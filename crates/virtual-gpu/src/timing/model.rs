//! From counters to a time. docs/model.md of optloop explains it and says how well it ranks.

use super::latency::Pipe;
use super::occupancy::occupancy;
use super::{Limiter, Modelled, Shape};
use crate::counters::Counters;
use crate::gpu::{Gpu, Rates};

/// How much of the difference between the PTX's order and the dataflow's is left after ptxas has scheduled: 0 for a
/// perfect schedule, 1 for none. Fitted, docs/model.md.
const ORDER: f64 = 0.3;

/// Exponent with which throughput and latency add up on a multiprocessor: 1 if nothing overlapped, infinity if the longer
/// one hid the other. Fitted, docs/model.md.
const OVERLAP: f64 = 2.0;

/// Bytes of a sector.
const SECTOR: f64 = super::SECTOR_BYTES as f64;

/// How the grid falls on the multiprocessors.
struct Grid {
    blocks: f64,
    multiprocessors: f64,
    /// Blocks resident on a multiprocessor while there are enough.
    resident: f64,
    /// Blocks that the busiest multiprocessor executes.
    busiest: f64,
    /// Rounds of resident blocks; a fraction below one is a round that leaves multiprocessors without work.
    waves: f64,
}

impl Grid {
    fn new(gpu: &Gpu, shape: &Shape, held: u32) -> Self {
        let (blocks, multiprocessors) = (shape.blocks.max(1) as f64, f64::from(gpu.multiprocessors));
        let held = f64::from(held.max(1));
        let waves = blocks / (multiprocessors * held);
        let busiest = (blocks / multiprocessors).ceil();
        Self { blocks, multiprocessors, resident: held.min(busiest), busiest, waves }
    }
}

/// What one block takes, on average over the executed ones.
struct Block<'a> {
    counters: &'a Counters,
    executed: f64,
    warps: f64,
    /// Factor for the memory instructions of spilled registers.
    spills: f64,
}

impl<'a> Block<'a> {
    fn new(shape: &Shape, counters: &'a Counters) -> Self {
        let executed = counters.executed_blocks.max(1) as f64;
        let warps = f64::from(shape.threads.div_ceil(32).max(1));
        let text = counters.static_instructions.max(1) as f64;
        Self { counters, executed, warps, spills: f64::from(shape.spill_bytes) / 4.0 / text }
    }

    /// Issue slots of a block, with those of the spills: as many as their share of the text.
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

    /// The share of the work that the busiest of the four partitions has, times four.
    fn imbalance(&self, resident: f64) -> f64 {
        let warps = self.warps * resident;
        let by_count = 4.0 * (warps / 4.0).ceil() / warps;
        let slots = self.counters.partition_slots;
        let (most, all) = (slots.iter().max().copied().unwrap_or(0), slots.iter().sum::<u64>());
        // Small blocks are spread over the partitions as they come; larger ones lie in all of them alike.
        if self.warps < 4.0 || all == 0 { by_count } else { 4.0 * most as f64 / all as f64 }
    }

    /// Cycles of an average block, and of the longest, when it has the multiprocessor to itself.
    fn latency(&self) -> (f64, f64) {
        let mix = |in_order: u64, dataflow: u64| {
            let (in_order, dataflow) = (in_order as f64, dataflow as f64);
            (dataflow + ORDER * (in_order - dataflow).max(0.0)) * (1.0 + self.spills)
        };
        let counters = self.counters;
        let average = mix(counters.in_order_cycles, counters.dataflow_cycles) / self.executed;
        (average, mix(counters.longest_in_order_cycles, counters.longest_dataflow_cycles).max(average))
    }
}

/// Returns the modelled time of one launch with warm caches.
pub fn model(gpu: &Gpu, shape: &Shape, counters: &Counters) -> Modelled {
    let held = occupancy(gpu, shape).blocks;
    let grid = Grid::new(gpu, shape, held);
    let block = Block::new(shape, counters);
    let latency = latency_cycles(&grid, &block) + grid.busiest * gpu.rates.block_launch;
    let throughput = throughput_cycles(&gpu.rates, &grid, &block);
    let busiest = throughput.iter().fold(0.0_f64, |most, (_, cycles)| most.max(*cycles));
    let multiprocessor = (busiest.powf(OVERLAP) + latency.powf(OVERLAP)).powf(1.0 / OVERLAP);

    let second = 1e9;
    let to_ns = |cycles: f64| cycles / gpu.clock_hz * second;
    let scale = grid.blocks / block.executed;
    let l2_bytes = scale * SECTOR * (counters.l2_sectors + counters.global_store.units + counters.atomics.units) as f64;
    let l2_ns = l2_bytes / gpu.rates.l2_bytes_per_s * second;
    // What fits in L2 is there from the replay before.
    let footprint = counters.footprint_bytes as f64;
    let cold_bytes = if footprint > gpu.l2_bytes as f64 { footprint } else { 0.0 };
    let memory_ns = cold_bytes / gpu.rates.memory_bytes_per_s * second;
    let launch_ns = gpu.rates.launch_s * second;

    let mut parts_ns: Vec<(Limiter, f64)> = throughput.iter().map(|(part, cycles)| (*part, to_ns(*cycles))).collect();
    parts_ns.push((Limiter::Latency, to_ns(latency)));
    parts_ns.extend([(Limiter::L2, l2_ns), (Limiter::Hbm, memory_ns), (Limiter::Launch, launch_ns)]);
    let limiter =
        parts_ns.iter().fold((Limiter::Launch, 0.0), |most, part| if part.1 > most.1 { *part } else { most }).0;
    let time_ns = launch_ns + to_ns(multiprocessor).max(l2_ns).max(memory_ns);
    Modelled { time_ns, limiter, blocks_per_multiprocessor: held, parts_ns }
}

/// Cycles until the last block is done if blocks only waited for themselves.
fn latency_cycles(grid: &Grid, block: &Block<'_>) -> f64 {
    let (average, longest) = block.latency();
    if grid.waves <= 1.0 {
        return longest;
    }
    // Equal blocks come in whole waves; unequal ones fill each other's gaps.
    let rest = (grid.waves.ceil() - grid.waves) * (average / longest.max(1.0));
    longest.max(average * (grid.waves + rest))
}

/// Cycles for which each unit of the busiest multiprocessor is busy.
fn throughput_cycles(rates: &Rates, grid: &Grid, block: &Block<'_>) -> Vec<(Limiter, f64)> {
    let schedulers = f64::from(rates.schedulers);
    let blocks = if grid.waves <= 1.0 { grid.busiest } else { grid.blocks / grid.multiprocessors };
    let partition = blocks * block.imbalance(grid.resident) / schedulers;
    let pipe = |pipe| block.pipe(pipe) * partition;
    let bytes = block.counters.l2_sectors as f64 / block.executed * SECTOR * blocks;
    vec![
        (Limiter::Issue, block.slots() * partition),
        (Limiter::Fma, pipe(Pipe::Fma).max(pipe(Pipe::Half)).max(pipe(Pipe::Double))),
        (Limiter::Alu, pipe(Pipe::Alu)),
        (Limiter::Mufu, pipe(Pipe::Mufu)),
        (Limiter::Tensor, pipe(Pipe::Tensor)),
        // One unit serves the four partitions: 128 bytes, which is one wavefront, per clock.
        (Limiter::Shared, block.pipe(Pipe::Lsu) * blocks),
        (Limiter::L2, bytes / rates.l2_bytes_per_multiprocessor),
    ]
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
