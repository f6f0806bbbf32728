//! Resident blocks per multiprocessor, by the rules of the CUDA occupancy calculator (compute capability 8 and 9).

use super::Shape;
use crate::gpu::Gpu;

/// Allocation unit of a warp's registers. (CUDA occupancy calculator: "register allocation unit size".)
const REGISTER_UNIT: u32 = 256;

/// Allocation unit of a block's shared memory, in bytes.
const SHARED_UNIT: u32 = 128;

/// Allocation unit of a block's warps, which keeps the four partitions balanced.
const WARP_UNIT: u32 = 4;

/// Occupancy of a multiprocessor and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks of this shape per multiprocessor; 0 if none fits.
    pub blocks: u32,
    /// Warps of these blocks.
    pub warps: u32,
    /// Blocks that the threads allow.
    pub by_threads: u32,
    /// Blocks that the registers allow.
    pub by_registers: u32,
    /// Blocks that the shared memory allows.
    pub by_shared: u32,
}

/// Returns how many blocks of a shape fit on a multiprocessor.
pub fn occupancy(gpu: &Gpu, shape: &Shape) -> Occupancy {
    let warps = shape.threads.div_ceil(32).max(1);
    let by_threads = gpu.max_threads_per_multiprocessor / 32 / warps;
    let by_registers = blocks_by_registers(gpu, shape.registers, warps);
    let shared = (shape.shared_bytes + gpu.reserved_shared_bytes_per_block).next_multiple_of(SHARED_UNIT);
    let by_shared = match shape.shared_bytes <= gpu.max_shared_bytes_per_block {
        true => gpu.shared_bytes_per_multiprocessor / shared.max(1),
        false => 0,
    };
    let fits = shape.threads <= gpu.max_threads_per_block;
    let most = gpu.max_blocks_per_multiprocessor.min(by_threads).min(by_registers).min(by_shared);
    let blocks = if fits { most } else { 0 };
    Occupancy { blocks, warps: blocks * warps, by_threads, by_registers, by_shared }
}

fn blocks_by_registers(gpu: &Gpu, registers: u32, warps: u32) -> u32 {
    if registers == 0 {
        return gpu.max_blocks_per_multiprocessor;
    }
    // A warp's registers come from its own partition's quarter of the file.
    let per_warp = (registers.next_multiple_of(8) * 32).next_multiple_of(REGISTER_UNIT);
    let held = gpu.registers_per_multiprocessor / WARP_UNIT / per_warp * WARP_UNIT;
    held / warps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(gpu: &Gpu, threads: u32, registers: u32, shared_bytes: u32) -> u32 {
        let shape = Shape { threads, registers, shared_bytes, ..Shape::default() };
        occupancy(gpu, &shape).blocks
    }

    #[test]
    fn blocks_are_those_of_the_occupancy_calculator() {
        let (h200, a100, l4) = (Gpu::h200(), Gpu::a100(), Gpu::l4());
        assert_eq!(blocks(&h200, 256, 32, 0), 8, "2048 threads, all registers");
        assert_eq!(blocks(&h200, 256, 33, 0), 6, "rounded to 40: 1280 a warp, 12 warps a partition");
        assert_eq!(blocks(&h200, 256, 64, 0), 4);
        assert_eq!(blocks(&h200, 256, 255, 0), 1);
        assert_eq!(blocks(&h200, 128, 168, 0), 3, "12 warps, as three warpgroups of a GEMM");
        assert_eq!(blocks(&h200, 32, 32, 0), 32, "the limit on blocks");
        assert_eq!(blocks(&l4, 32, 32, 0), 24);
        assert_eq!(blocks(&l4, 256, 32, 0), 6, "1536 threads");
        assert_eq!(blocks(&a100, 1024, 64, 0), 1);
        assert_eq!(blocks(&a100, 1024, 65, 0), 0, "too many registers for a block of 1024");
    }

    #[test]
    fn shared_memory_includes_the_systems_share() {
        let h200 = Gpu::h200();
        assert_eq!(blocks(&h200, 128, 32, 227 * 1024), 1);
        assert_eq!(blocks(&h200, 128, 32, 227 * 1024 + 1), 0);
        assert_eq!(blocks(&h200, 128, 32, 113 * 1024), 2);
        assert_eq!(blocks(&h200, 128, 32, 113 * 1024 + 1), 1);
        assert_eq!(blocks(&Gpu::a100(), 128, 32, 81 * 1024), 2);
        assert_eq!(blocks(&Gpu::l4(), 128, 32, 48 * 1024), 2);
    }

    #[test]
    fn no_block_is_held_beyond_the_threads_of_a_block() {
        assert_eq!(blocks(&Gpu::h200(), 1025, 16, 0), 0);
    }
}
