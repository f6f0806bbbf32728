//! Chooses the block and the warp to run next.
//!
//! Blocks of a kernel that uses flags or atomics in global memory take turns on one CPU thread: a block that polls, or
//! has drawn work from a counter, is set aside, and others run. As on the machine, only a limited number of blocks is resident at a time, and waiting
//! blocks stay resident. Other kernels' blocks run side by side, each from start to end.

use std::collections::VecDeque;

use super::choice::Choice;
use super::cluster::Machine;
use super::dispatch::Level;
use super::run::Run;
use super::shuffle::Shuffle;
use super::tally::Tally;
use crate::fault::Fault;

/// Blocks that a random order looks ahead, as the machine starts blocks almost in order. Blocks may wait for earlier
/// ones.
const WINDOW: usize = 32;

/// How often in a row a block that goes on is taken again soon, before all others have had their turn.
const SOON: usize = 16;

/// The most memory of the blocks that take turns, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The clusters that have not started. The next one is chosen from a window.
struct Window {
    clusters: Choice,
    next: u64,
    window: VecDeque<u64>,
    shuffle: Option<Shuffle>,
    /// How often the first of the window was skipped.
    passed: usize,
}

impl Window {
    fn new(clusters: Choice, seed: Option<u64>) -> Self {
        let shuffle = seed.map(|seed| Shuffle::new(seed, 0));
        Self { clusters, next: 0, window: VecDeque::new(), shuffle, passed: 0 }
    }

    fn take(&mut self) -> Option<u64> {
        let size = if self.shuffle.is_some() { WINDOW } else { 1 };
        while self.window.len() < size
            && let Some(cluster) = self.clusters.get(self.next)
        {
            self.window.push_back(cluster);
            self.next += 1;
        }
        let index = match &mut self.shuffle {
            Some(shuffle) if self.passed < WINDOW => shuffle.below(self.window.len()),
            _ => 0,
        };
        self.passed = if index == 0 { 0 } else { self.passed + 1 };
        self.window.remove(index)
    }
}

/// Executes clusters by turns on this CPU thread.
pub(crate) fn take_turns(run: &Run<'_>, clusters: Choice, granule: u32, level: Level) -> Result<Tally, Box<Fault>> {
    let mut order = Window::new(clusters, run.options.order);
    let most = most_resident(run);
    let mut tally = Tally::new(run);
    let mut free: Vec<Machine<'_>> = Vec::new();
    let mut waiting: VecDeque<Machine<'_>> = VecDeque::new();
    // Instructions, and turns, since a block has changed global memory or ended.
    let (mut idle, mut turns) = (0, 0);
    // Whether the blocks draw work: those that start late would get none.
    let mut draw = false;
    loop {
        let has_room = waiting.len() < WINDOW || (draw || turns > waiting.len()) && waiting.len() < most;
        let started = if has_room { order.take() } else { None };
        let mut machine = match started {
            Some(cluster) => {
                let mut machine = free.pop().unwrap_or_else(|| Machine::new(run, granule, level));
                machine.start(cluster);
                turns = 0;
                machine
            }
            None => match waiting.pop_front() {
                Some(machine) => machine,
                None => break,
            },
        };
        let before = machine.instructions();
        let ended = machine.proceed(true)?;
        draw |= machine.has_drawn();
        if ended || machine.has_written() {
            (idle, turns) = (0, 0);
        } else {
            (idle, turns) = (idle + machine.instructions() - before, turns + 1);
        }
        if idle > run.options.instruction_limit {
            return Err(machine.runaway());
        }
        if ended {
            free.push(machine);
        } else if run.options.order.is_some() && machine.advances(SOON) {
            // A thousand blocks may poll for what this one does.
            waiting.insert(waiting.len().min(WINDOW), machine);
        } else {
            waiting.push_back(machine);
        }
    }
    free.iter().for_each(|machine| tally.add(machine.tally()));
    Ok(tally)
}

/// Returns how many blocks are resident on the machine at a time, as its threads and shared memory allow.
pub(crate) fn resident_blocks(run: &Run<'_>) -> u32 {
    let gpu = run.gpu;
    let by_threads = gpu.max_threads_per_multiprocessor / 32 / run.warps.max(1);
    let by_shared =
        gpu.shared_bytes_per_multiprocessor / (run.shared_bytes + gpu.reserved_shared_bytes_per_block).max(1);
    gpu.max_blocks_per_multiprocessor.min(by_threads).min(by_shared).max(1) * gpu.multiprocessors
}

/// Returns how many clusters are resident at a time, at most: as on the machine, and as the memory of this one allows.
fn most_resident(run: &Run<'_>) -> usize {
    let blocks = resident_blocks(run);
    let kernel = run.kernel;
    let lanes = 128 * u64::from(kernel.slots32) + 256 * u64::from(kernel.slots64) + 32 * u64::from(kernel.local_bytes);
    let warps = u64::from(run.warps);
    let bytes = u64::from(run.shared_bytes) * (8 + warps) + warps * lanes + 4096;
    let clusters = (u64::from(blocks)).min(MAX_BYTES / bytes) / u64::from(run.cluster_blocks);
    clusters.max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_starts_soon_after_its_predecessors() {
        let mut window = Window::new(Choice::new(1000, None), Some(7));
        let order: Vec<u64> = std::iter::from_fn(|| window.take()).collect();
        assert!(!order.is_sorted());
        for (number, &block) in order.iter().enumerate() {
            assert!((block as usize) < number + WINDOW, "{number}: {block}");
        }
        let mut sorted = order;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
    }
}
