//! The launch data that all blocks share.

use std::sync::Mutex;

use super::shuffle::{Permutation, Shuffle};
use super::{Launch, Options};
use crate::gpu::Gpu;
use crate::memory::GlobalMemory;
use crate::memory::flags::Flags;
use crate::memory::heap::Heap;
use crate::memory::messages::Messages;
use crate::program::Kernel;
use crate::timing::{Prepared, Supposition};

/// The data of a launch that all its blocks share.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Global memory.
    pub memory: &'a GlobalMemory,
    /// The counts and checks of the execution.
    pub options: &'a Options,
    /// The shape.
    pub launch: &'a Launch<'a>,
    /// The GPU.
    pub gpu: &'a Gpu,
    /// The parameter block.
    pub params: Vec<u8>,
    /// Where the blocks of a cooperative launch wait for each other; 0 in other launches.
    pub workspace: u64,
    /// The heap, if the kernel allocates memory or frees it.
    pub heap: Option<&'a Heap>,
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
    /// Clusters of the grid for each executed one, rounded down: 1 unless the grid is sampled.
    pub stands_for: u64,
    /// Static and dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Offset of the dynamic shared memory.
    pub dynamic_offset: u32,
    /// The number of launches before.
    pub launches: u64,
    /// The launch's number, which distinguishes its writes from those of other launches: 1 to
    /// [`crate::memory::accesses::LAUNCHES`].
    pub number: u64,
    /// The previous launch's number, if this launch may begin before that has ended.
    pub overlapped: Option<u64>,
    /// The allocations in which the launch may write, by index; None if it may write in any.
    pub written: Option<Vec<usize>>,
    /// Log2 of the bytes of the kernel's smallest access to global memory.
    pub global_shift: u32,
    /// Whether blocks may order each other: by flags in global memory, or in a cluster.
    pub talks: bool,
    /// The flags in global memory.
    pub flags: Mutex<Flags>,
    /// The strong stores in global memory that no fence has published.
    pub messages: Mutex<Messages>,
    /// The instructions in the scoreboard's form; empty without counters.
    pub prepared: Vec<Prepared>,
    /// The suppositions that change when instructions can issue, each with whether an instruction takes no time; empty
    /// unless they are wanted.
    pub supposed: Vec<(Supposition, Vec<bool>)>,
}

impl Run<'_> {
    /// Returns whether the launch may write in the allocation with this index.
    #[inline(always)]
    pub fn may_write(&self, allocation: usize) -> bool {
        self.written.as_ref().is_none_or(|written| written.contains(&allocation))
    }

    /// Returns the grid index of the block with this rank in this cluster.
    pub fn block_of(&self, cluster: u64, rank: u32) -> [u32; 3] {
        let [cx, cy, cz] = self.launch.cluster;
        let [gx, gy] = [u64::from(self.launch.grid[0] / cx), u64::from(self.launch.grid[1] / cy)];
        let at = [(cluster % gx) as u32, (cluster / gx % gy) as u32, (cluster / gx / gy) as u32];
        [at[0] * cx + rank % cx, at[1] * cy + rank / cx % cy, at[2] * cz + rank / (cx * cy)]
    }

    /// Returns the multiprocessor on which a block runs: any, with a random order.
    pub fn multiprocessor_of(&self, block: u64) -> u32 {
        let count = u64::from(self.gpu.multiprocessors);
        match self.options.order {
            None => (block % count) as u32,
            Some(seed) => Permutation::new(Some(seed), count).get(block % count) as u32,
        }
    }

    /// Returns a number that depends on the launch's order and a place in it; 0 without a random order.
    pub fn chance(&self, place: u64) -> u64 {
        self.options.order.map_or(0, |seed| Shuffle::new(seed ^ self.launches, place).next())
    }

    /// Returns the index in the grid of a block, x first.
    pub fn index_of(&self, [x, y, z]: [u32; 3]) -> u32 {
        let [gx, gy, _] = self.launch.grid;
        z.wrapping_mul(gy).wrapping_add(y).wrapping_mul(gx).wrapping_add(x)
    }

    /// Returns the place in the grid of the block with this index.
    pub fn block_at(&self, index: u32) -> [u32; 3] {
        let [gx, gy, _] = self.launch.grid;
        [index % gx, index / gx % gy, index / gx / gy]
    }

    /// Returns the PTX instruction on a line, for messages.
    pub fn text_of(&self, line: u32) -> String {
        let text = self.text.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
