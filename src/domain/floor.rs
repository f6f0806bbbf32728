//! The floor of a case: no correct kernel on the device is faster.

use super::device::DeviceInfo;
use super::workload::{Case, Workload};

/// Returns `max(FLOP / peak, bytes / bandwidth, launch)` in nanoseconds, for a warm cache.
///
/// A working set that fits L2 stays there between replays, so it is bounded by the cache's bandwidth, not by memory's.
pub fn floor_ns(workload: &Workload, case: &Case, device: &DeviceInfo) -> f64 {
    let flop = workload.op.flop(&case.dims);
    let bytes = workload.op.bytes(&case.dims, workload.dtype);
    let peaks = &device.peaks;
    let bandwidth = if bytes <= device.l2_bytes as f64 { peaks.l2_bytes_per_s } else { peaks.memory_bytes_per_s };
    let arithmetic_ns = flop / peaks.flops(workload.dtype) * 1e9;
    let memory_ns = bytes / bandwidth * 1e9;
    arithmetic_ns.max(memory_ns).max(peaks.launch_ns)
}
