//! How many blocks of a kernel fit on a multiprocessor, by the rules of the CUDA occupancy calculator (compute
//! capabilities 8 and 9).

use super::artifact::KernelResources;
use crate::domain::device::DeviceInfo;
use crate::domain::family::plan::Launch;

/// 32-bit registers of a multiprocessor.
const REGISTERS: u32 = 65_536;

/// Registers are given to a warp in units of this many.
const REGISTER_UNIT: u32 = 256;

/// Shared memory that the system keeps for each block, in bytes. A multiprocessor has this much more than a block may
/// use.
const RESERVED_BYTES: u64 = 1024;

/// The blocks that fit on a multiprocessor together, and what limits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks per multiprocessor.
    pub blocks: u32,
    /// Warps of these blocks.
    pub warps: u32,
    /// The most warps that a multiprocessor takes.
    pub most_warps: u32,
    /// What allows no further block.
    pub limiter: Resource,
}

/// A resource of a multiprocessor that its blocks share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Places for warps.
    Warps,
    /// Places for blocks.
    Blocks,
}

impl Resource {
    /// Returns the words that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
            Self::Warps => "warps",
            Self::Blocks => "blocks",
        }
    }
}

/// Returns how many blocks of a launch fit on a multiprocessor of the device. Returns 0 blocks if not even one does.
pub fn occupancy(launch: &Launch, kernel: &KernelResources, device: &DeviceInfo) -> Occupancy {
    let (most_threads, most_blocks) = match device.sm {
        86 => (1536, 16),
        87..=89 => (1536, 24),
        _ => (2048, 32),
    };
    let warps = launch.block.iter().product::<u32>().div_ceil(32).max(1);
    let most_warps = most_threads / 32;
    let per_warp = (kernel.registers.max(1) * 32).next_multiple_of(REGISTER_UNIT);
    // A warp's registers come from the quarter of the file that belongs to its partition.
    let by_registers = REGISTERS / 4 / per_warp * 4 / warps;
    let shared = u64::from(launch.shared_bytes) + u64::from(kernel.shared_bytes) + RESERVED_BYTES;
    let by_shared = u32::try_from((device.smem_limit_bytes + RESERVED_BYTES) / shared).unwrap_or(u32::MAX);
    let limits = [
        (by_registers, Resource::Registers),
        (by_shared, Resource::SharedMemory),
        (most_warps / warps, Resource::Warps),
        (most_blocks, Resource::Blocks),
    ];
    let (blocks, limiter) =
        limits.into_iter().fold(limits[0], |least, limit| if limit.0 < least.0 { limit } else { least });
    Occupancy { blocks, warps: blocks * warps, most_warps, limiter }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(threads: u32, registers: u32, shared_bytes: u32) -> (u32, Resource) {
        let launch = Launch {
            kernel: "k".to_owned(),
            grid: [1, 1, 1],
            block: [threads, 1, 1],
            shared_bytes,
            cluster: None,
            programmatic: false,
            args: Vec::new(),
        };
        let kernel = KernelResources { registers, ..KernelResources::default() };
        let Occupancy { blocks, limiter, .. } = occupancy(&launch, &kernel, &DeviceInfo::of_arch("sm_90a").unwrap());
        (blocks, limiter)
    }

    /// The numbers are those of the CUDA occupancy calculator.
    #[test]
    fn the_scarcest_resource_limits_the_blocks() {
        assert_eq!(held(256, 32, 0), (8, Resource::Registers));
        assert_eq!(held(256, 16, 0), (8, Resource::Warps));
        assert_eq!(held(256, 255, 0), (1, Resource::Registers));
        assert_eq!(held(128, 168, 0), (3, Resource::Registers));
        assert_eq!(held(32, 16, 0), (32, Resource::Blocks));
        assert_eq!(held(128, 32, 113 * 1024), (2, Resource::SharedMemory));
        assert_eq!(held(128, 32, 114 * 1024), (1, Resource::SharedMemory));
    }
}
