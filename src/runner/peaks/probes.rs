//! The kernels that find a device's peaks, and the work of each launch.

use crate::domain::device::DeviceInfo;
use crate::domain::device::regime::COLD_L2_SIZES;
use crate::domain::family::plan::{Arg, Initial, Launch, LaunchPlan, Scalar, ScalarValue, Workspace};

/// The rate that a probe measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peak {
    /// Bytes/s read from and written to device memory.
    Memory,
    /// Bytes/s from L2.
    L2,
    /// FLOP/s of the FP16 tensor cores with FP32 accumulation.
    F16,
    /// FLOP/s of the FP32 multiply-add pipes.
    Fma,
    /// Launches/s.
    Launch,
}

/// A micro-benchmark: a kernel whose work is known.
#[derive(Debug, Clone)]
pub struct PeakKernel {
    /// The rate that it measures.
    pub figure: Peak,
    /// CUDA source of the kernel.
    pub source: &'static str,
    /// One launch of it.
    pub plan: LaunchPlan,
    /// Bytes, FLOP or launches of one execution of the plan.
    pub work: f64,
}

/// Loop counts of the probes. In long loops a launch's start and end are negligible, and the rate is constant.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Steps of the arithmetic loops.
    pub steps: u32,
    /// Sweeps over what fits L2.
    pub sweeps: u32,
}

impl Effort {
    /// At least hundreds of thousands of clocks. A launch's start and end take some thousands and hardly matter.
    pub const FULL: Self = Self { steps: 400, sweeps: 128 };
}

const READ: &str = include_str!("../../../kernels/peaks/read.cu");
const FFMA: &str = include_str!("../../../kernels/peaks/ffma.cu");
const MMA: &str = include_str!("../../../kernels/peaks/mma.cu");
const WGMMA: &str = include_str!("../../../kernels/peaks/wgmma.cu");
const EMPTY: &str = include_str!("../../../kernels/peaks/empty.cu");

/// Threads of a block in `read.cu`. Each reads 8 x 16 bytes of a chunk.
const READ_THREADS: u32 = 512;
const CHUNK_BYTES: u64 = READ_THREADS as u64 * 8 * 16;

/// The largest sweep over device memory, in sizes of L2. The cache can then serve at most 1 part in 16, whatever it
/// keeps.
const SWEEP_L2_SIZES: u64 = 16;

/// Returns the probes of a device. Where several measure one figure, the fastest counts.
pub fn probes(device: &DeviceInfo, effort: Effort) -> Vec<PeakKernel> {
    let l2 = device.l2_bytes;
    // Two blocks are resident on a multiprocessor at once.
    let resident = device.sms * 2;
    // Possibly no more than a quarter of the memory is free.
    let large = chunks((SWEEP_L2_SIZES * l2).min(device.memory_bytes / 4));
    // As large as the rotated buffers of a cold measurement, so that L2 keeps as much of it as of those.
    let rotated = chunks(COLD_L2_SIZES * l2);
    let mut all = vec![
        read(Peak::Memory, large, 2, resident),
        // With one block per chunk, the hardware chooses the order.
        read(Peak::Memory, large, 2, large * 2),
        read(Peak::Memory, rotated, 8, resident),
        copy(large / 2, resident),
        // Small enough for L2 even where each half of it keeps its own copy.
        read(Peak::L2, chunks(l2 / 4), effort.sweeps, resident),
        read(Peak::L2, chunks(l2 / 8), effort.sweeps * 2, resident),
        ffma(resident, effort.steps),
        empty(),
    ];
    // From sm_100 on, tensor cores need instructions that neither kernel uses.
    match device.sm {
        80..=89 => all.push(mma(resident, effort.steps)),
        90..=99 => all.push(wgmma(device.sms, effort.steps)),
        _ => {}
    }
    all
}

fn chunks(bytes: u64) -> u32 {
    u32::try_from((bytes / CHUNK_BYTES).max(1)).unwrap_or(u32::MAX)
}

fn read(figure: Peak, chunks: u32, sweeps: u32, blocks: u32) -> PeakKernel {
    let bytes = u64::from(chunks) * CHUNK_BYTES;
    let args = vec![buffer("from"), buffer("sink"), int("chunks", chunks), int("passes", sweeps)];
    let plan = plan(&[("from", bytes), ("sink", SINK_BYTES)], "read", blocks, READ_THREADS, args);
    PeakKernel { figure, source: READ, plan, work: bytes as f64 * f64::from(sweeps) }
}

/// A copied byte is read and written, so it counts twice.
fn copy(chunks: u32, blocks: u32) -> PeakKernel {
    let bytes = u64::from(chunks) * CHUNK_BYTES;
    let args = vec![buffer("from"), buffer("to"), int("chunks", chunks)];
    let plan = plan(&[("from", bytes), ("to", bytes)], "copy", blocks, READ_THREADS, args);
    PeakKernel { figure: Peak::Memory, source: READ, plan, work: 2.0 * bytes as f64 }
}

/// 16 rounds of 16 multiply-adds per step and thread.
fn ffma(blocks: u32, steps: u32) -> PeakKernel {
    const THREADS: u32 = 512;
    let args = vec![buffer("sink"), float("factor", 0.0), float("summand", 0.0), int("steps", steps)];
    let plan = plan(&[("sink", SINK_BYTES)], "ffma", blocks, THREADS, args);
    let threads = f64::from(blocks) * f64::from(THREADS);
    PeakKernel { figure: Peak::Fma, source: FFMA, plan, work: threads * f64::from(steps) * 16.0 * 16.0 * 2.0 }
}

/// 8 rounds of 8 products of 16 x 8 x 16 per step and warp.
fn mma(blocks: u32, steps: u32) -> PeakKernel {
    const WARPS: u32 = 8;
    let args = vec![buffer("sink"), int("operand", 0), int("steps", steps)];
    let plan = plan(&[("sink", SINK_BYTES)], "mma", blocks, WARPS * 32, args);
    let products = f64::from(blocks) * f64::from(WARPS) * f64::from(steps) * 8.0 * 8.0;
    PeakKernel { figure: Peak::F16, source: MMA, plan, work: products * 2.0 * (16.0 * 8.0 * 16.0) }
}

/// 16 products of 64 x 256 x 16 per step and warpgroup.
fn wgmma(blocks: u32, steps: u32) -> PeakKernel {
    const WARPGROUPS: u32 = 2;
    let args = vec![buffer("sink"), int("steps", steps)];
    let plan = plan(&[("sink", SINK_BYTES)], "wgmma", blocks, WARPGROUPS * 128, args);
    let products = f64::from(blocks) * f64::from(WARPGROUPS) * f64::from(steps) * 16.0;
    PeakKernel { figure: Peak::F16, source: WGMMA, plan, work: products * 2.0 * (64.0 * 256.0 * 16.0) }
}

fn empty() -> PeakKernel {
    PeakKernel { figure: Peak::Launch, source: EMPTY, plan: plan(&[], "empty", 1, 32, Vec::new()), work: 1.0 }
}

/// Size of the buffer for a kernel's result, if it had one.
const SINK_BYTES: u64 = 16;

fn plan(workspaces: &[(&str, u64)], kernel: &str, blocks: u32, threads: u32, args: Vec<Arg>) -> LaunchPlan {
    let workspace = |(name, bytes): &(&str, u64)| Workspace {
        name: (*name).to_owned(),
        bytes: usize::try_from(*bytes).unwrap_or(usize::MAX),
        initial: Initial::Zero,
    };
    let launch = Launch {
        kernel: kernel.to_owned(),
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
        programmatic: false,
        args,
    };
    LaunchPlan {
        workspaces: workspaces.iter().map(workspace).collect(),
        preparation: Vec::new(),
        launches: vec![launch],
    }
}

fn buffer(name: &str) -> Arg {
    Arg::Workspace(name.to_owned())
}

fn int(name: &str, value: u32) -> Arg {
    Arg::Scalar(Scalar { name: name.to_owned(), value: ScalarValue::I32(value.cast_signed()) })
}

fn float(name: &str, value: f32) -> Arg {
    Arg::Scalar(Scalar { name: name.to_owned(), value: ScalarValue::F32(value) })
}
