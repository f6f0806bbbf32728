//! The numbers of each GPU.

use super::{Gpu, Latencies, Rates};

impl Gpu {
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
            l1_bytes: 256 * 1024,
            // The highest boost clock; short kernels without tensor cores sustain it. [h200]
            clock_hz: 1.98e9,
            // As reported by the driver. [recorded]
            l2_bytes: 60 << 20,
            memory_bytes: 141_000_000_000,
            rates: Rates {
                schedulers: 4,
                fma_lanes: 128,  // [guide]
                alu_lanes: 64,   // [guide]
                mufu_lanes: 16,  // [guide]
                half_lanes: 128, // [guide]: 256 results of half2
                double_lanes: 64,
                lsu_lanes: 32,              // [guide]
                tensor16_flop: 4096.0,      // [h100]: 989 TFLOP/s at 1.83 GHz on 132 SMs
                tensor_tf32_flop: 2048.0,   // [h100]
                tensor8_flop: 8192.0,       // [h100]
                tensor64_flop: 256.0,       // [h100]
                warp_tensor_fraction: 0.63, // [hopper]: mma.sync reaches 62.9% of the peak
                // 32 banks of 4 bytes. [guide]
                shared_bytes: 128.0,
                l2_bytes_per_multiprocessor: 64.0, // [h100]
                // 5.5 to 5.7 TB/s for reads are measured on H100 SXM; the same is assumed here. [guess]
                l2_bytes_per_s: 5.5e12,
                memory_bytes_per_s: 4.8e12, // [h200]
                launch_s: 0.91e-6,          // [recorded]
                start_s: 0.9e-6,            // [fit]
            },
            latencies: Latencies {
                shared: 29,  // [hopper]
                l1: 40,      // [hopper]
                l2: 262,     // [hopper]
                memory: 480, // [hopper]
                tensor: 26,  // [hopper]: 32 for m16n8k16 in all
                ..Latencies::ampere()
            },
        }
    }

    /// NVIDIA A100 SXM with 80 GB.
    pub fn a100() -> Self {
        let hopper = Self::h200();
        Self {
            name: "A100",
            compute_capability: (8, 0),
            arch: "sm_80",
            multiprocessors: 108,
            shared_bytes_per_multiprocessor: 164 * 1024,
            max_shared_bytes_per_block: 163 * 1024,
            l1_bytes: 192 * 1024,
            clock_hz: 1.41e9, // [a100]
            l2_bytes: 40 << 20,
            memory_bytes: 80_000_000_000,
            rates: Rates {
                fma_lanes: 64,
                double_lanes: 32,
                tensor16_flop: 2048.0, // [a100]: 312 TFLOP/s
                tensor_tf32_flop: 1024.0,
                tensor8_flop: 4096.0,
                tensor64_flop: 128.0,
                warp_tensor_fraction: 1.0,    // there is no other way
                l2_bytes_per_s: 4.5e12,       // [a100]: 5120 bytes per clock at most, less what is lost; [guess]
                memory_bytes_per_s: 2.039e12, // [a100]
                launch_s: 1.5e-6,             // [guess]
                ..hopper.rates
            },
            latencies: Latencies {
                fma_occupancy: 2,
                double_occupancy: 4,
                shared: 29,  // [hopper] measures the A100 too
                l1: 38,      // [hopper]
                l2: 262,     // [hopper]
                memory: 466, // [hopper]
                tensor: 17,  // [ampere]: 25 for m16n8k16 in all
                ..Latencies::ampere()
            },
            ..hopper
        }
    }

    /// NVIDIA L4.
    pub fn l4() -> Self {
        let hopper = Self::h200();
        Self {
            name: "L4",
            compute_capability: (8, 9),
            arch: "sm_89",
            multiprocessors: 58,
            max_threads_per_multiprocessor: 1536,
            max_blocks_per_multiprocessor: 24,
            shared_bytes_per_multiprocessor: 100 * 1024,
            max_shared_bytes_per_block: 99 * 1024,
            l1_bytes: 128 * 1024,
            // 2.04 GHz boost, which 72 W do not sustain under load. [guess]
            clock_hz: 1.6e9,
            l2_bytes: 48 << 20,
            memory_bytes: 24_000_000_000,
            rates: Rates {
                double_lanes: 2,
                half_lanes: 64,
                tensor16_flop: 1024.0, // [l4]: 121 TFLOP/s at 2.04 GHz
                tensor_tf32_flop: 512.0,
                tensor8_flop: 2048.0,
                tensor64_flop: 4.0,
                warp_tensor_fraction: 1.0,
                l2_bytes_per_s: 1.5e12,    // [guess]
                memory_bytes_per_s: 300e9, // [l4]
                launch_s: 1.5e-6,          // [guess]
                ..hopper.rates
            },
            latencies: Latencies {
                double_occupancy: 64,
                shared: 30,  // [hopper] measures an RTX 4090 of the same architecture
                l1: 43,      // [hopper]
                l2: 273,     // [hopper]
                memory: 542, // [hopper]
                tensor: 17,
                ..Latencies::ampere()
            },
            ..hopper
        }
    }
}

impl Latencies {
    /// Latencies that have not changed since Ampere, as far as is published.
    fn ampere() -> Self {
        Self {
            alu: 4,               // [ampere]
            fma: 4,               // [ampere]
            fma_occupancy: 1,     // 32 lanes of a partition
            half: 4,              // [ampere]
            double: 8,            // [ampere]
            double_occupancy: 2,  // 16 lanes of a partition
            predicate: 3,         // [guess]
            mufu: 18,             // [ampere]: ex2.approx.ftz
            shuffle: 23,          // [ampere]
            vote: 12,             // [guess]
            special_register: 20, // [guess]
            tensor: 17,
            tensor_double: 16,
            shared: 29,
            shared_atomic: 60, // [guess]
            l1: 40,
            l2: 262,
            memory: 480,
            bulk_copy: 600,           // [guess]
            remote_shared: 185,       // [cluster]
            remote_occupancy: 8,      // [cluster]
            barrier: 20,              // [guess]
            cluster_barrier: 240,     // [cluster]
            cluster_barrier_warp: 15, // [cluster]
            branch_issue: 4,          // [guess]
        }
    }
}
