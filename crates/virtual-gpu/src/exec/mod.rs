//! The executor: launches a kernel of a loaded module.

mod access;
mod alu;
mod atomics;
mod barrier;
mod bulk;
mod call;
mod choice;
mod cluster;
mod cluster_address;
mod compare;
mod complete;
mod constants;
mod copies;
mod dispatch;
mod draws;
mod env;
mod global_races;
mod grid;
mod groups;
mod lane_fault;
mod lanes;
mod matrix;
mod mbarrier;
mod messages;
mod move_tile;
mod pack;
mod print;
mod run;
mod scalar;
mod schedule;
mod shuffle;
mod stale;
mod step;
mod supposed;
mod sync;
mod tally;
mod tensor;
mod tile;
mod transfer;
mod warp;
mod warp_ops;
mod warpgroup;
mod wgmma;

use std::sync::Arc;

use crate::counters::Counters;
use crate::fault::LaunchError;
use crate::gpu::Gpu;
use crate::memory::GlobalMemory;
use crate::memory::heap::{self, Heap};
use crate::program::{Kernel, Module};

/// Bytes at which the blocks of a cooperative launch wait for each other: more than CUDA's cooperative groups use.
const GRID_WORKSPACE_BYTES: u64 = 64;

/// A launch's shape and arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch<'a> {
    /// Blocks of the grid: x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block: x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster: x, y, z; (1, 1, 1) for none.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// One little-endian byte string per parameter, exactly as long as the parameter.
    pub args: &'a [Vec<u8>],
}

/// The counts and checks of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Collect [`Counters`]. Otherwise only `blocks`, `executed_blocks` and `warps_per_block` are filled in.
    pub counters: bool,
    /// Also collect the counters under every [`crate::timing::Supposition`], which takes several times as long. Needs
    /// `counters`.
    pub suppose: bool,
    /// Detect races in shared and global memory, and asynchronous reads of data stored without a proxy fence.
    pub races: bool,
    /// Detect reads of uninitialised memory.
    pub uninitialised: bool,
    /// Execute at most about this many blocks (whole clusters), evenly spread over the grid; None for all. Sampling
    /// leaves the results in memory partial.
    pub sample_blocks: Option<u32>,
    /// Execute only the blocks (whole clusters) at the edges of the grid: the first, the last, and the last along each axis.
    pub edges: bool,
    /// Execute only about so many blocks (whole clusters) at the end of the grid.
    pub last_blocks: Option<u32>,
    /// Warp instructions after which a warp counts as runaway. A matrix product counts for the multiply-adds that it stands for.
    pub instruction_limit: u64,
    /// Seed of a random order of blocks and warps, and of what shows their place (`%smid`, `%clock`); None for the
    /// order of the grid. Results must not depend on it.
    pub order: Option<u64>,
    /// Whether the launch may begin before the previous one has ended (programmatic dependent launch).
    pub overlaps: bool,
    /// Whether all blocks may wait for each other (`cudaLaunchCooperativeKernel`). They must be resident at the same
    /// time.
    pub cooperative: bool,
    /// CPU threads; None for all cores. Results do not depend on it.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            counters: true,
            suppose: false,
            races: true,
            uninitialised: true,
            sample_blocks: None,
            edges: false,
            last_blocks: None,
            // A few seconds: a thousand times what a warp of a large attention kernel executes.
            instruction_limit: 200_000_000,
            order: None,
            overlaps: false,
            cooperative: false,
            threads: None,
        }
    }
}

/// A GPU whose kernels run on the CPU.
#[derive(Debug)]
pub struct VirtualGpu {
    gpu: Gpu,
    memory: GlobalMemory,
}

/// A module whose globals are in a GPU's memory.
#[derive(Debug, Clone)]
pub struct Loaded {
    module: Arc<Module>,
    globals: Arc<[u64]>,
    /// Where the blocks of a cooperative launch wait for each other, if a kernel does so.
    workspace: Option<u64>,
    /// The heap of its kernels, if one of them allocates memory, and its address.
    heap: Option<(u64, Arc<Heap>)>,
}

impl Loaded {
    /// Returns the module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Returns the addresses of the module's globals, in order.
    pub fn globals(&self) -> &[u64] {
        &self.globals
    }
}

/// An error of a memory operation by the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemoryError(pub String);

impl VirtualGpu {
    /// Makes a GPU with empty memory.
    pub fn new(gpu: Gpu) -> Self {
        Self { gpu, memory: GlobalMemory::default() }
    }

    /// Returns the modelled GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Allocates a module's globals and initialises them.
    ///
    /// # Errors
    ///
    /// Fails when the globals do not fit.
    pub fn load(&mut self, module: Module) -> Result<Loaded, MemoryError> {
        let mut globals = Vec::with_capacity(module.globals.len());
        for global in &module.globals {
            globals.push(self.alloc(global.bytes.max(1))?);
        }
        for (global, &address) in module.globals.iter().zip(&globals) {
            let mut bytes = global.initial.clone();
            bytes.resize(global.bytes as usize, 0);
            for &(offset, target, addend) in &global.addresses {
                let pointer = globals[target].wrapping_add(addend as u64);
                bytes[offset as usize..][..8].copy_from_slice(&pointer.to_le_bytes());
            }
            if !bytes.is_empty() {
                self.write(address, &bytes)?;
            }
        }
        let workspace = module.kernels.iter().any(Kernel::uses_grid_workspace).then(|| {
            let address = self.alloc(GRID_WORKSPACE_BYTES)?;
            self.fill(address, GRID_WORKSPACE_BYTES, 0).map(|()| address)
        });
        let heap = module.kernels.iter().any(Kernel::uses_heap).then(|| {
            let address = self.alloc(heap::SPAN_BYTES)?;
            Ok((address, Arc::new(Heap::new(address))))
        });
        let (workspace, heap) = (workspace.transpose()?, heap.transpose()?);
        Ok(Loaded { module: Arc::new(module), globals: globals.into(), workspace, heap })
    }

    /// Frees a module's globals.
    ///
    /// # Errors
    ///
    /// Fails when the module was already unloaded.
    pub fn unload(&mut self, loaded: &Loaded) -> Result<(), MemoryError> {
        let own = loaded.workspace.into_iter().chain(loaded.heap.as_ref().map(|(address, _)| *address));
        loaded.globals.iter().copied().chain(own).try_for_each(|address| self.free(address))
    }

    /// Allocates `bytes` of uninitialised memory. Returns its address, a multiple of 256. Addresses are never reused.
    ///
    /// # Errors
    ///
    /// Fails for 0 bytes, and when the GPU's memory is full.
    pub fn alloc(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        self.alloc_at(bytes, 0)
    }

    /// Allocates memory as [`VirtualGpu::alloc`] does, `offset` bytes beyond a multiple of 16,384.
    ///
    /// # Errors
    ///
    /// Fails if the GPU has no memory left, or if `offset` is no multiple of 256 below 16,384.
    pub fn alloc_at(&mut self, bytes: u64, offset: u64) -> Result<u64, MemoryError> {
        self.memory.alloc(bytes, offset, self.gpu.memory_bytes).map_err(MemoryError)
    }

    /// Allocates zeros of which only about `window` bytes at either end are stored. Between them, reads return zeros and
    /// writes are lost. So a kernel can be given memory that this machine does not have.
    ///
    /// # Errors
    ///
    /// Fails if the GPU has no memory left.
    pub fn alloc_hollow(&mut self, bytes: u64, window: u64) -> Result<u64, MemoryError> {
        self.memory.alloc_hollow(bytes, window, self.gpu.memory_bytes).map_err(MemoryError)
    }

    /// Frees an allocation by its address.
    ///
    /// # Errors
    ///
    /// Fails if no live allocation starts there.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        self.memory.free(address).map_err(MemoryError)
    }

    /// Writes bytes and marks them initialised.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not all inside one live allocation. The same holds for the next three functions.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.memory.write(address, bytes).map_err(MemoryError)
    }

    /// Sets `bytes` bytes to `value` and marks them initialised.
    ///
    /// # Errors
    ///
    /// As [`VirtualGpu::write`].
    pub fn fill(&mut self, address: u64, bytes: u64, value: u8) -> Result<(), MemoryError> {
        self.memory.fill(address, bytes, value).map_err(MemoryError)
    }

    /// Marks `bytes` bytes as uninitialised, whatever they contain.
    ///
    /// # Errors
    ///
    /// As [`VirtualGpu::write`].
    pub fn mark_uninitialised(&mut self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        self.memory.mark_uninitialised(address, bytes).map_err(MemoryError)
    }

    /// Reads bytes, initialised or not.
    ///
    /// # Errors
    ///
    /// As [`VirtualGpu::write`].
    pub fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, MemoryError> {
        self.memory.read(address, bytes).map_err(MemoryError)
    }

    /// Executes a kernel to its end and returns its counters.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Refused`] if the launch is not allowed, [`LaunchError::Fault`] for the first fault in block
    /// order.
    pub fn launch(
        &self,
        module: &Loaded,
        kernel: &str,
        launch: &Launch<'_>,
        options: &Options,
    ) -> Result<Counters, LaunchError> {
        grid::launch(&self.gpu, &self.memory, module, kernel, launch, options)
    }
}
