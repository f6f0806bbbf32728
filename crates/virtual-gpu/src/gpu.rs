//! The modelled GPUs: limits, rates and latencies, each with its source.
//!
//! The comments mark the source of each number:
//!
//! * \[guide\] CUDA Programming Guide, "Arithmetic Instructions" (results per clock and SM by compute capability) and
//!   "Technical Specifications per Compute Capability".
//! * \[h100\], \[a100\], \[ada\] NVIDIA's whitepapers on the Hopper, Ampere and Ada architectures; \[h200\], \[l4\] the
//!   data sheets.
//! * \[hopper\] Luo et al., *Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking*
//!   (arXiv 2402.13499) and its extension (arXiv 2501.12084).
//! * \[ampere\] Abdelkhalik et al., *Demystifying the Nvidia Ampere Architecture through Microbenchmarking and
//!   Instruction-level Analysis* (arXiv 2208.11174).
//! * \[recorded\] measured on an H200 with optloop, 2026-11-20.
//! * \[cluster\] measured on an H200 with docs/measuring/cluster.cu, 2026-11-29.
//! * \[fit\] fitted to the recorded H200 times, docs/model.md.
//! * \[guess\] a plausible number; no result here depends on it much.
//!
//! The published numbers were written down without the papers at hand, so check a number before relying on it. Those
//! that decide the model's ranking were checked against recorded times, docs/model.md.

mod known;

use crate::program::Ty;

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
    /// Maximum threads per block.
    pub max_threads_per_block: u32,
    /// Maximum resident threads per multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// Maximum resident blocks per multiprocessor.
    pub max_blocks_per_multiprocessor: u32,
    /// 32-bit registers per multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Shared memory per multiprocessor, in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// Maximum shared memory per block after opting in, in bytes.
    pub max_shared_bytes_per_block: u32,
    /// Shared memory reserved by the system per block, in bytes.
    pub reserved_shared_bytes_per_block: u32,
    /// L1 and shared memory per multiprocessor together, in bytes.
    pub l1_bytes: u64,
    /// Clock under load, in Hz.
    pub clock_hz: f64,
    /// L2 size in bytes.
    pub l2_bytes: u64,
    /// Memory size in bytes.
    pub memory_bytes: u64,
    /// Throughput of each unit.
    pub rates: Rates,
    /// Latency of each operation.
    pub latencies: Latencies,
}

/// Peak rates per clock or second.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Warp schedulers per multiprocessor; each issues one instruction per clock.
    pub schedulers: u32,
    /// Single-precision multiply-adds per clock and multiprocessor, in lanes.
    pub fma_lanes: u32,
    /// Integer and logic operations per clock and multiprocessor, in lanes.
    pub alu_lanes: u32,
    /// Special functions per clock and multiprocessor, in lanes.
    pub mufu_lanes: u32,
    /// Packed 16-bit operations per clock and multiprocessor, in lanes of two values.
    pub half_lanes: u32,
    /// Double-precision multiply-adds per clock and multiprocessor, in lanes.
    pub double_lanes: u32,
    /// Loads, stores and shuffles per clock and multiprocessor, in lanes.
    pub lsu_lanes: u32,
    /// FLOP of the tensor cores per clock and multiprocessor with 16-bit inputs, dense.
    pub tensor16_flop: f64,
    /// The same with tf32 inputs.
    pub tensor_tf32_flop: f64,
    /// The same with 8-bit inputs.
    pub tensor8_flop: f64,
    /// The same with f64 inputs.
    pub tensor64_flop: f64,
    /// Share of the tensor rate that `mma.sync` reaches. Only `wgmma` reaches all of it.
    pub warp_tensor_fraction: f64,
    /// Bytes of shared memory or L1 per clock and multiprocessor.
    pub shared_bytes: f64,
    /// Bytes from L2 per clock and multiprocessor.
    pub l2_bytes_per_multiprocessor: f64,
    /// Bytes from L2 per second, for all multiprocessors together.
    pub l2_bytes_per_s: f64,
    /// Bytes from memory per second.
    pub memory_bytes_per_s: f64,
    /// Time of an empty kernel in a replayed graph, back to back with others, in seconds.
    pub launch_s: f64,
    /// Extra time at the ends of a kernel that does work, in seconds: arguments, instructions and L1 are cold, and the
    /// last stores must arrive.
    pub start_s: f64,
}

impl Rates {
    /// Returns the dense FLOP of the tensor cores per clock and multiprocessor for an input type.
    pub fn tensor_flop(&self, ty: Ty) -> f64 {
        match ty {
            Ty::F64 => self.tensor64_flop,
            Ty::Tf32 | Ty::F32 | Ty::B32 => self.tensor_tf32_flop,
            _ if ty.bits() == 8 => self.tensor8_flop,
            _ => self.tensor16_flop,
        }
    }
}

/// Latencies in clocks, from the issue of an instruction to the issue of a dependent one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies {
    /// Integer and logic.
    pub alu: u16,
    /// Single-precision arithmetic and integer multiplication.
    pub fma: u16,
    /// Clocks for which a warp's single-precision instruction occupies its partition's pipe.
    pub fma_occupancy: u8,
    /// Packed 16-bit arithmetic.
    pub half: u16,
    /// Double-precision arithmetic.
    pub double: u16,
    /// Clocks for which a warp's double-precision instruction occupies its partition's pipe.
    pub double_occupancy: u8,
    /// Extra latency of a predicate over a register.
    pub predicate: u16,
    /// Special functions and conversions.
    pub mufu: u16,
    /// Shuffles and warp reductions.
    pub shuffle: u16,
    /// Votes.
    pub vote: u16,
    /// Thread indices and similar special registers.
    pub special_register: u16,
    /// Start of a tensor operation; the operation's own clocks are added to it.
    pub tensor: u16,
    /// The same with f64 inputs.
    pub tensor_double: u16,
    /// Load from shared memory.
    pub shared: u16,
    /// Atomic in shared memory.
    pub shared_atomic: u16,
    /// Load that hits L1.
    pub l1: u16,
    /// Load that hits L2.
    pub l2: u16,
    /// Load from device memory.
    pub memory: u16,
    /// Bulk (TMA) copy to shared memory.
    pub bulk_copy: u16,
    /// What an access to the shared memory of another block of the cluster takes beyond one to the block's own.
    pub remote_shared: u16,
    /// Cycles for which a wavefront of such an access occupies the pipe of loads and stores.
    pub remote_occupancy: u8,
    /// From the last arrival at a block barrier to the next instruction.
    pub barrier: u16,
    /// From the last arrival at the barrier of a cluster to the next instruction, with few warps in a block.
    pub cluster_barrier: u16,
    /// The least that it takes for each warp of a block.
    pub cluster_barrier_warp: u16,
    /// Issue slots of a branch, including the fetch of the next instructions.
    pub branch_issue: u8,
}

/// The barrier of a cluster takes no longer for this many warps in a block than for fewer.
const FEW_WARPS: u32 = 7;

impl Latencies {
    /// Returns the cycles from the last arrival at the barrier of a cluster to the next instruction.
    pub fn cluster_barrier(&self, warps: u32) -> u32 {
        u32::from(self.cluster_barrier) + u32::from(self.cluster_barrier_warp) * warps.max(FEW_WARPS)
    }

    /// Returns the extra latency of a load that misses L1.
    pub fn l1_miss(&self) -> u32 {
        u32::from(self.l2.saturating_sub(self.l1))
    }
}

impl Gpu {
    /// The names that [`Gpu::named`] knows.
    pub const NAMES: [&str; 3] = ["h200", "a100", "l4"];

    /// Returns a known GPU by its name, in upper or lower case.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "h200" => Some(Self::h200()),
            "a100" => Some(Self::a100()),
            "l4" => Some(Self::l4()),
            _ => None,
        }
    }
}
