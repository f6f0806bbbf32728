//! The launch data that all blocks share.

use super::{Launch, Options};
use crate::gpu::Gpu;
use crate::memory::GlobalMemory;
use crate::program::Kernel;
use crate::timing::Prepared;

/// The data of a launch that all its blocks share.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Global memory.
    pub memory: &'a GlobalMemory,
    /// What the execution counts and checks.
    pub options: &'a Options,
    /// The shape.
    pub launch: &'a Launch<'a>,
    /// The GPU.
    pub gpu: &'a Gpu,
    /// The parameter block.
    pub params: Vec<u8>,
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
    /// Static and dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Offset of the dynamic shared memory.
    pub dynamic_offset: u32,
    /// The instructions in the scoreboard's form; empty without counters.
    pub prepared: Vec<Prepared>,
}

impl Run<'_> {
    /// Returns the grid index of the block with this rank in this cluster.
    pub fn block_of(&self, cluster: u64, rank: u32) -> [u32; 3] {
        let [cx, cy, cz] = self.launch.cluster;
        let [gx, gy] = [u64::from(self.launch.grid[0] / cx), u64::from(self.launch.grid[1] / cy)];
        let at = [(cluster % gx) as u32, (cluster / gx % gy) as u32, (cluster / gx / gy) as u32];
        [at[0] * cx + rank % cx, at[1] * cy + rank / cx % cy, at[2] * cz + rank / (cx * cy)]
    }

    /// Returns the PTX instruction on a line, for messages.
    pub fn text_of(&self, line: u32) -> String {
        let text = self.text.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
