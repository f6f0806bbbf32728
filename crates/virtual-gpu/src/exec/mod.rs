//! The executor: launches a kernel of a loaded module over a memory.

use std::sync::Arc;

use crate::counters::Counters;
use crate::fault::LaunchError;
use crate::gpu::Gpu;
use crate::program::Module;

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
    /// One little-endian byte string per parameter, of the parameter's size.
    pub args: &'a [Vec<u8>],
}

/// What is looked at while executing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Count ([`Counters`]); without it only `blocks` and `executed_blocks` are filled in.
    pub counters: bool,
    /// Look for shared-memory races.
    pub races: bool,
    /// Look for reads of uninitialised memory.
    pub uninitialised: bool,
    /// Execute at most about this many blocks, evenly spread over the grid (whole clusters); None for all. Results in
    /// memory are then partial.
    pub sample_blocks: Option<u32>,
    /// Warp instructions after which a warp is given up as runaway.
    pub instruction_limit: u64,
    /// Threads of the CPU; None for all cores. Results do not depend on it.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            counters: true,
            races: true,
            uninitialised: true,
            sample_blocks: None,
            instruction_limit: 200_000_000,
            threads: None,
        }
    }
}

/// A GPU whose kernels run on the CPU.
#[derive(Debug)]
pub struct VirtualGpu {
    gpu: Gpu,
}

/// A module whose globals are in a GPU's memory.
#[derive(Debug, Clone)]
pub struct Loaded {
    module: Arc<Module>,
}

impl Loaded {
    /// Returns the module.
    pub fn module(&self) -> &Module {
        &self.module
    }
}

/// An error of a memory operation from outside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemoryError(pub String);

impl VirtualGpu {
    /// Makes a GPU with empty memory.
    pub fn new(gpu: Gpu) -> Self {
        Self { gpu }
    }

    /// Returns what it models.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Places a module's globals in memory.
    pub fn load(&mut self, _module: Module) -> Loaded {
        todo!()
    }

    /// Allocates `bytes` of uninitialised memory and returns its address, a multiple of 256. Addresses are never reused.
    pub fn alloc(&mut self, _bytes: u64) -> Result<u64, MemoryError> {
        todo!()
    }

    /// Frees an allocation by its address.
    pub fn free(&mut self, _address: u64) -> Result<(), MemoryError> {
        todo!()
    }

    /// Writes bytes, which then count as initialised.
    pub fn write(&mut self, _address: u64, _bytes: &[u8]) -> Result<(), MemoryError> {
        todo!()
    }

    /// Sets `bytes` bytes to `value`; they count as initialised.
    pub fn fill(&mut self, _address: u64, _bytes: u64, _value: u8) -> Result<(), MemoryError> {
        todo!()
    }

    /// Marks `bytes` bytes as uninitialised, whatever they contain.
    pub fn forget(&mut self, _address: u64, _bytes: u64) -> Result<(), MemoryError> {
        todo!()
    }

    /// Reads bytes, initialised or not.
    pub fn read(&self, _address: u64, _bytes: u64) -> Result<Vec<u8>, MemoryError> {
        todo!()
    }

    /// Executes a kernel to its end and returns what it did.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Refused`] if the launch is not allowed, [`LaunchError::Fault`] for the first fault in the order of the
    /// blocks.
    pub fn launch(
        &self,
        _module: &Loaded,
        _kernel: &str,
        _launch: &Launch<'_>,
        _options: &Options,
    ) -> Result<Counters, LaunchError> {
        todo!()
    }
}
