//! The device of the test suites.
//!
//! It executes nothing: outputs come from the op's reference, times from a formula over the launch plan, so that a
//! session over it has something to find and always finds the same. A family under test can ask for trouble through a
//! scalar argument called `FAULT`. Its times are *modelled* and its name says what it is.

use std::collections::HashMap;

use super::{Buffer, Clock, Device, Fault, Replay, Work};
use crate::domain::artifact::Artifact;
use crate::domain::device::{DeviceInfo, Peaks, TimeSource};
use crate::domain::op::{Dims, Dtype, Op, Role, TensorSpec};
use crate::domain::plan::{Arg, LaunchPlan, ScalarValue};
use crate::runner::inputs;

/// See the module.
pub struct FakeDevice {
    info: DeviceInfo,
    buffers: HashMap<usize, Vec<u8>>,
    next: usize,
    captured: Option<Captured>,
    jitter: u64,
}

/// A captured plan, owned, so that a replay can compute what the inputs are by then.
struct Captured {
    plan: LaunchPlan,
    buffers: HashMap<String, Buffer>,
    op: &'static dyn Op,
    dims: Dims,
    dtype: Dtype,
    replay_ns: f64,
    /// A buffer was written since the last replay. Computing again only then keeps 500 replays affordable.
    stale: bool,
}

/// The values of a `FAULT` argument.
const WRONG: i32 = 1;
const CRASH: i32 = 2;
const UNWRITTEN: i32 = 3;
const HANG: i32 = 4;
const DEATH: i32 = 5;
const NOT_A_NUMBER: i32 = 6;
const WRONG_WHEN_REPLAYED: i32 = 7;

impl FakeDevice {
    /// Makes a device with the limits of an H200.
    pub fn new() -> Self {
        let info = DeviceInfo {
            id: "fake".to_owned(),
            name: "fake device (no kernel was executed)".to_owned(),
            sm: 90,
            arch: "sm_90a".to_owned(),
            sms: 132,
            smem_limit_bytes: 232_448,
            max_threads: 1024,
            l2_bytes: 60 << 20,
            memory_bytes: 16 << 30,
            driver: None,
            uuid: None,
            time_source: TimeSource::Modelled,
            replays: true,
            peaks: Peaks::derived(90, 132, 1_980_000.0, 3_201_000.0, 6144.0),
        };
        Self { info, buffers: HashMap::new(), next: 0, captured: None, jitter: 1 }
    }

    /// Writes the op's reference, rounded to the dtype, into the output.
    fn compute(&mut self, work: &Work<'_>, fault: i32) {
        let tensors = work.op.tensors(work.dims, work.dtype);
        let contents = |tensor: &TensorSpec| inputs::decode(&self.buffers[&work.buffers[&tensor.name].0], work.dtype);
        let values: Vec<_> = tensors.iter().filter(|tensor| tensor.role == Role::Input).map(contents).collect();
        let output = work.op.output(work.dims, work.dtype);
        let rows: Vec<usize> = (0..output.elements() / output.row_len()).collect();
        let mut out: Vec<f32> =
            work.op.reference(work.dims, &values, &rows).into_iter().map(|value| value as f32).collect();
        let last = out.len() - 1;
        match fault {
            WRONG => out[last] += 1.0,
            NOT_A_NUMBER => out[last] = f32::NAN,
            _ => {}
        }
        let mut bytes = inputs::encode(&out, work.dtype);
        if fault == UNWRITTEN {
            bytes.truncate(bytes.len() - work.dtype.bytes());
        }
        let buffer = self.buffers.get_mut(&work.buffers[&output.name].0).expect("the output is allocated");
        buffer[..bytes.len()].copy_from_slice(&bytes);
    }
}

/// Returns the plan's `FAULT` argument, or 0.
fn fault(plan: &LaunchPlan) -> i32 {
    let scalars = plan.launches.iter().flat_map(|launch| &launch.args).filter_map(|arg| match arg {
        Arg::Scalar(scalar) if scalar.name == "FAULT" => Some(scalar.value),
        _ => None,
    });
    scalars.filter_map(|value| if let ScalarValue::I32(value) = value { Some(value) } else { None }).next().unwrap_or(0)
}

/// Makes a time up: work over the machine's rate, worse for few or small blocks, plus a launch each.
fn model_ns(info: &DeviceInfo, work: &Work<'_>) -> f64 {
    let launch = work.plan.launches.iter().max_by_key(|launch| launch.ctas());
    let (ctas, threads) = launch.map_or((1.0, 32.0), |l| (l.ctas() as f64, l.block.map(f64::from).iter().product()));
    let filled = (ctas / f64::from(info.sms)).min(1.0);
    let occupied = (threads / 256.0).min(1.0);
    let rate = info.peaks.flops(work.dtype) * 0.05 * filled * occupied;
    work.op.flop(work.dims) / rate * 1e9 + work.plan.launches.len() as f64 * 2000.0
}

impl Device for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, artifact: &Artifact) -> Result<(), Fault> {
        if artifact.cubin.is_empty() {
            return Err(Fault::Refused("the CUBIN is empty".to_owned()));
        }
        Ok(())
    }

    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        if bytes as u64 > self.info.memory_bytes {
            return Err(Fault::Refused(format!("{bytes} bytes of device memory: there are not so many")));
        }
        self.next += 1;
        self.buffers.insert(self.next, vec![0; bytes]);
        Ok(Buffer(self.next))
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.buffers.remove(&buffer.0);
        Ok(())
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        self.buffers.insert(buffer.0, bytes.to_vec());
        self.captured.iter_mut().for_each(|captured| captured.stale = true);
        Ok(())
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.buffers.entry(buffer.0).or_default().fill(byte);
        self.captured.iter_mut().for_each(|captured| captured.stale = true);
        Ok(())
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        self.buffers.get(&buffer.0).cloned().ok_or_else(|| Fault::Broken("no such buffer".to_owned()))
    }

    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        match fault(work.plan) {
            CRASH => Err(Fault::Crashed("an illegal memory access was encountered (made up)".to_owned())),
            HANG => loop {
                std::thread::park();
            },
            DEATH => std::process::abort(),
            fault => {
                self.compute(work, fault);
                Ok(())
            }
        }
    }

    fn clock(&mut self) -> Clock<'_> {
        Clock::Replay(self)
    }
}

impl Replay for FakeDevice {
    fn capture(&mut self, work: &Work<'_>, executions: u32) -> Result<(), Fault> {
        self.captured = Some(Captured {
            plan: work.plan.clone(),
            buffers: work.buffers.clone(),
            op: work.op,
            dims: work.dims.clone(),
            dtype: work.dtype,
            replay_ns: model_ns(&self.info, work) * f64::from(executions),
            stale: true,
        });
        Ok(())
    }

    /// Returns the modelled time with 0.2% of noise, from a fixed sequence.
    fn replay(&mut self) -> Result<f64, Fault> {
        let mut captured = self.captured.take().ok_or_else(|| Fault::Broken("nothing is captured".to_owned()))?;
        if captured.stale {
            let Captured { plan, buffers, op, dims, dtype, .. } = &captured;
            let work = Work { plan, buffers, op: *op, dims, dtype: *dtype };
            let fault = fault(plan);
            self.compute(&work, if fault == WRONG_WHEN_REPLAYED { WRONG } else { fault });
            captured.stale = false;
        }
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (self.jitter >> 40) as f64 / (1_u64 << 24) as f64 - 0.5;
        let replay_ns = captured.replay_ns * (1.0 + 0.002 * noise);
        self.captured = Some(captured);
        Ok(replay_ns)
    }
}
