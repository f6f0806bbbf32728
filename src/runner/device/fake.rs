//! The device of the test suites.
//!
//! It executes nothing: outputs come from the op's reference, times from a formula over the launch plan, so that a
//! session over it has something to find and always finds the same. A family under test can ask for trouble through a
//! scalar argument called `FAULT`. Its times are *modelled* and its name says what it is.

use std::collections::{HashMap, HashSet};

use super::trouble::{Strike, Trouble};
use super::{Buffer, Capture, Clock, Device, Fault, Module, Problem, Replay, Work};
use crate::domain::artifact::Artifact;
use crate::domain::device::{DeviceInfo, Peaks, TimeSource};
use crate::domain::op::{Dims, Dtype, Op, Role};
use crate::domain::plan::{Arg, LaunchPlan, ScalarValue};
use crate::runner::{inputs, self_check};

/// See the module.
pub struct FakeDevice {
    info: DeviceInfo,
    modules: HashSet<usize>,
    buffers: HashMap<usize, Vec<u8>>,
    captures: HashMap<usize, Captured>,
    /// The number of the handle given out last.
    next: usize,
    jitter: u64,
    known: Option<Known>,
    trouble: Option<Trouble>,
}

/// Captured executions, with plans of their own, so that a replay can compute what the inputs are by then.
struct Captured {
    works: Vec<OwnedWork>,
    replay_ns: f64,
    /// A buffer was written since the last replay. Computing again only then keeps 500 replays affordable.
    stale: bool,
}

/// A [`Work`] that outlives the call.
struct OwnedWork {
    module: Module,
    plan: LaunchPlan,
    buffers: HashMap<String, Buffer>,
    problem: Option<(&'static dyn Op, Dims, Dtype)>,
}

/// The last answer. The entrants of a contest and the sets of a cold case all have the same inputs.
struct Known {
    dims: Dims,
    dtype: Dtype,
    inputs: Vec<Vec<u8>>,
    output: Vec<f32>,
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
    /// Makes a device with the limits of an H200, but a small cache.
    pub fn new() -> Self {
        let info = DeviceInfo {
            id: "fake".to_owned(),
            name: "fake device (no kernel was executed)".to_owned(),
            sm: 90,
            arch: "sm_90a".to_owned(),
            sms: 132,
            smem_limit_bytes: 232_448,
            max_threads: 1024,
            // So small that the many sets of a cold case are soon computed.
            l2_bytes: 1 << 20,
            memory_bytes: 16 << 30,
            driver: None,
            uuid: None,
            time_source: TimeSource::Modelled,
            replays: true,
            peaks: Peaks::derived(90, 132, 1_980_000.0, 3_201_000.0, 6144.0),
        };
        Self {
            info,
            modules: HashSet::new(),
            buffers: HashMap::new(),
            captures: HashMap::new(),
            next: 0,
            jitter: 1,
            known: None,
            trouble: Trouble::asked(),
        }
    }

    /// Returns how many modules, buffers and captures are held.
    #[cfg(test)]
    pub fn held(&self) -> [usize; 3] {
        [self.modules.len(), self.buffers.len(), self.captures.len()]
    }

    fn handle(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Writes what a plan is meant to compute into its output, or what its fault makes of it.
    fn compute(&mut self, work: &Work<'_>, fault: i32) -> Result<(), Fault> {
        if !self.modules.contains(&work.module.0) {
            return Err(Fault::Broken("no such module".to_owned()));
        }
        let Some(problem) = work.problem else { return Ok(()) };
        let mut out = self.reference(&problem, work.buffers);
        let last = out.len() - 1;
        match fault {
            WRONG => out[last] += 1.0,
            NOT_A_NUMBER => out[last] = f32::NAN,
            _ => {}
        }
        let mut bytes = inputs::encode(&out, problem.dtype);
        if fault == UNWRITTEN {
            bytes.truncate(bytes.len() - problem.dtype.bytes());
        }
        let buffer = self.buffers.get_mut(&work.buffers[&problem.output().name].0).expect("the output is allocated");
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    /// Computes what the kernel of the self-check does, or something else if a test wants that.
    fn check_itself(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        let strike = self.trouble.as_ref().and_then(|trouble| trouble.at(self_check::KERNEL));
        let strike = strike.map(|strike| strike.happen(&mut std::io::sink()));
        let mut found = self_check::expected_bytes(&self.read(work.buffers["from"])?);
        if strike == Some(Strike::Wrong) {
            found[0] ^= 1;
        }
        self.write(work.buffers["to"], &found)
    }

    /// Returns the op's reference on what the inputs are now.
    fn reference(&mut self, problem: &Problem<'_>, buffers: &HashMap<String, Buffer>) -> Vec<f32> {
        let Problem { op, dims, dtype } = *problem;
        let tensors = problem.tensors();
        let inputs = tensors.iter().filter(|tensor| tensor.role == Role::Input);
        let inputs: Vec<&Vec<u8>> = inputs.map(|tensor| &self.buffers[&buffers[&tensor.name].0]).collect();
        let same =
            |known: &Known| known.dims == *dims && known.dtype == dtype && known.inputs.iter().eq(inputs.clone());
        if let Some(known) = self.known.as_ref().filter(|known| same(known)) {
            return known.output.clone();
        }
        let values: Vec<_> = inputs.iter().map(|bytes| inputs::decode(bytes, dtype)).collect();
        let output = problem.output();
        let rows: Vec<usize> = (0..output.elements() / output.row_len()).collect();
        let reference = op.reference(dims, &values, &rows);
        let output: Vec<f32> = reference.into_iter().map(|value| value as f32).collect();
        let inputs = inputs.into_iter().cloned().collect();
        self.known = Some(Known { dims: dims.clone(), dtype, inputs, output: output.clone() });
        output
    }
}

impl OwnedWork {
    fn of(work: &Work<'_>) -> Self {
        Self {
            module: work.module,
            plan: work.plan.clone(),
            buffers: work.buffers.clone(),
            problem: work.problem.map(|problem| (problem.op, problem.dims.clone(), problem.dtype)),
        }
    }

    fn borrowed(&self) -> Work<'_> {
        let problem = self.problem.as_ref().map(|(op, dims, dtype)| Problem { op: *op, dims, dtype: *dtype });
        Work { module: self.module, plan: &self.plan, buffers: &self.buffers, problem }
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
    let launches_ns = work.plan.launches.len() as f64 * 2000.0;
    let Some(problem) = work.problem else { return launches_ns };
    let launch = work.plan.launches.iter().max_by_key(|launch| launch.ctas());
    let (ctas, threads) = launch.map_or((1.0, 32.0), |l| (l.ctas() as f64, l.block.map(f64::from).iter().product()));
    let filled = (ctas / f64::from(info.sms)).min(1.0);
    let occupied = (threads / 256.0).min(1.0);
    let rate = info.peaks.flops(problem.dtype) * 0.05 * filled * occupied;
    problem.op.flop(problem.dims) / rate * 1e9 + launches_ns
}

impl Device for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault> {
        if artifact.cubin.is_empty() {
            return Err(Fault::Refused("the CUBIN is empty".to_owned()));
        }
        let handle = self.handle();
        self.modules.insert(handle);
        Ok(Module(handle))
    }

    fn unload(&mut self, module: Module) -> Result<(), Fault> {
        self.modules.remove(&module.0);
        Ok(())
    }

    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        if bytes as u64 > self.info.memory_bytes {
            return Err(Fault::Refused(format!("{bytes} bytes of device memory: there are not so many")));
        }
        let handle = self.handle();
        self.buffers.insert(handle, vec![0; bytes]);
        Ok(Buffer(handle))
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.buffers.remove(&buffer.0);
        Ok(())
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        self.buffers.insert(buffer.0, bytes.to_vec());
        self.captures.values_mut().for_each(|captured| captured.stale = true);
        Ok(())
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.buffers.entry(buffer.0).or_default().fill(byte);
        self.captures.values_mut().for_each(|captured| captured.stale = true);
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
            _ if work.plan.launches.iter().any(|launch| launch.kernel == self_check::KERNEL) => self.check_itself(work),
            fault => self.compute(work, fault),
        }
    }

    fn clock(&mut self) -> Clock<'_> {
        Clock::Replay(self)
    }

    fn trouble(&self) -> Option<Trouble> {
        self.trouble.clone()
    }
}

impl Replay for FakeDevice {
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault> {
        let executed = || works.iter().cycle().take(executions as usize);
        let captured = Captured {
            works: executed().take(works.len()).map(OwnedWork::of).collect(),
            replay_ns: executed().map(|work| model_ns(&self.info, work)).sum(),
            stale: true,
        };
        let handle = self.handle();
        self.captures.insert(handle, captured);
        Ok(Capture(handle))
    }

    /// Returns the modelled time with 0.2% of noise, from a fixed sequence.
    fn replay(&mut self, capture: Capture) -> Result<f64, Fault> {
        let no_capture = || Fault::Broken("no such capture".to_owned());
        let mut captured = self.captures.remove(&capture.0).ok_or_else(no_capture)?;
        if captured.stale {
            for work in captured.works.iter().map(OwnedWork::borrowed) {
                let fault = fault(work.plan);
                self.compute(&work, if fault == WRONG_WHEN_REPLAYED { WRONG } else { fault })?;
            }
            captured.stale = false;
        }
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (self.jitter >> 40) as f64 / (1_u64 << 24) as f64 - 0.5;
        let replay_ns = captured.replay_ns * (1.0 + 0.002 * noise);
        self.captures.insert(capture.0, captured);
        Ok(replay_ns)
    }

    fn release(&mut self, capture: Capture) -> Result<(), Fault> {
        self.captures.remove(&capture.0);
        Ok(())
    }
}
