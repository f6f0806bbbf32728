//! The GPUs that are modelled: limits and rates.

/// A named GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// Its name, such as `H200`.
    pub name: &'static str,
    /// Compute capability, such as (9, 0).
    pub compute_capability: (u32, u32),
    /// The architecture to compile for, such as `sm_90a`.
    pub arch: &'static str,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Most threads of one block.
    pub max_threads_per_block: u32,
    /// Most threads resident on a multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// Most blocks resident on a multiprocessor.
    pub max_blocks_per_multiprocessor: u32,
    /// Registers (32-bit) of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// Most shared memory of one block, opted in, in bytes.
    pub max_shared_bytes_per_block: u32,
    /// Shared memory that the system reserves per block, in bytes.
    pub reserved_shared_bytes_per_block: u32,
    /// Clock under load, in Hz.
    pub clock_hz: f64,
    /// L2 size in bytes.
    pub l2_bytes: u64,
    /// Memory size in bytes.
    pub memory_bytes: u64,
}

impl Gpu {
    /// Returns the GPUs that are known, by their lower-case names.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "h200" => Some(Self::h200()),
            _ => None,
        }
    }

    /// NVIDIA H200 SXM.
    pub fn h200() -> Self {
        Self {
            name: "H200",
            compute_capability: (9, 0),
            arch: "sm_90a",
            multiprocessors: 132,
            max_threads_per_block: 1024,
            max_threads_per_multiprocessor: 2048,
            max_blocks_per_multiprocessor: 32,
            registers_per_multiprocessor: 65536,
            shared_bytes_per_multiprocessor: 228 * 1024,
            max_shared_bytes_per_block: 227 * 1024,
            reserved_shared_bytes_per_block: 1024,
            clock_hz: 1.98e9,
            l2_bytes: 50 << 20,
            memory_bytes: 141_000_000_000,
        }
    }
}
