//! What a compiler reports of a variant, as far as it says how fast the variant may be.

pub mod ablation;
pub mod artifact;
pub mod counters;
pub mod cubin;
pub mod launched;
pub mod occupancy;
pub mod profile;
pub mod ptx;

use self::artifact::{InstructionMix, KernelResources};

/// Figures of the kernel with the most registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeFigures {
    /// Registers per thread.
    pub registers: u32,
    /// Local memory per thread in bytes, with what register spills write to it.
    pub local_bytes: u32,
    /// Instructions in the PTX, of the kinds that are counted.
    pub instructions: u32,
}

impl CodeFigures {
    /// Returns the figures of compiled kernels; none if nothing was compiled.
    pub fn of(kernels: &[KernelResources]) -> Option<Self> {
        let largest = kernels.iter().max_by_key(|kernel| kernel.registers)?;
        Some(Self {
            registers: largest.registers,
            local_bytes: largest.stack_bytes + largest.spill_store_bytes,
            instructions: largest.instructions.map_or(0, |mix| mix.total()),
        })
    }
}

impl InstructionMix {
    /// Returns the number of all counted instructions.
    fn total(&self) -> u32 {
        // Wide loads are among the loads.
        let Self { tensor, arithmetic, special, global_loads, wide_global_loads: _, copies, shared, local, .. } = self;
        tensor + arithmetic + special + global_loads + copies + shared + local + self.barriers + self.atomics
    }
}
