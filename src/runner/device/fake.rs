//! The device of the test suites.
//!
//! It executes nothing. Outputs come from the op's oracle and times from a formula over the launch plan. So a session
//! always finds the same improvements. A family under test can request a fault through a scalar argument called `FAULT`
//! ([`faults`]). A test can list the faults of each stage ([`script`]). Its times are *modelled*, and its name says so.

mod faults;
pub(super) mod script;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use self::faults::*;
use self::script::{InjectedFault, Script};
use super::{Buffer, Capture, Device, Fault, Module, Problem, Replay, Restore, Work, self_check};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::{DeviceInfo, Peaks, TimingMode};
use crate::domain::family::plan;
use crate::domain::op::{Dims, Dtype, Op};
use crate::runner::inputs;
use crate::runner::outputs::Outputs;

/// The fake device; see the module.
pub struct FakeDevice {
    info: DeviceInfo,
    modules: HashMap<usize, State>,
    buffers: HashMap<usize, Memory>,
    captures: HashMap<usize, Captured>,
    /// The last handle given out.
    next: usize,
    jitter: u64,
    /// The factor of its times.
    slowness: f64,
    known: Option<LastOutput>,
    script: Option<Script>,
}

/// The memory of a buffer.
struct Memory {
    bytes: Rc<Vec<u8>>,
    /// The output of the last execution. It is computed only when it is read, so that 500 replays are affordable.
    due: Option<PendingOutput>,
    /// Whether no kernel wrote out of the buffer's bounds.
    intact: bool,
}

/// The state that a loaded module keeps between executions, as kernels do in global variables.
#[derive(Default)]
struct State {
    executions: usize,
    outputs: HashSet<Buffer>,
    dims: Option<Dims>,
    /// The inputs of the first execution; `None` before it.
    first: Option<Vec<Rc<Vec<u8>>>>,
    /// Whether the module wrote into workspaces of others.
    strayed: bool,
}

/// An output that is not computed yet, with the inputs as they were.
struct PendingOutput {
    computed: Rc<Computed>,
    inputs: Vec<Rc<Vec<u8>>>,
    spoil: Option<OutputError>,
}

/// The error in an output.
#[derive(Clone, Copy)]
enum OutputError {
    Off,
    SlightlyOff,
    NotANumber,
    Unwritten,
}

/// A [`super::Problem`] that outlives the call.
struct Computed {
    op: &'static dyn Op,
    dims: Dims,
    dtype: Dtype,
}

/// Captured executions, with plans of their own.
struct Captured {
    works: Vec<OwnedWork>,
    restores: Vec<Restore>,
    replay_ns: f64,
    /// Whether the contents of a buffer have changed since its last replay.
    stale: bool,
    /// Whether a buffer was written since its last replay.
    is_cold: bool,
}

/// A [`Work`] that outlives the call.
struct OwnedWork {
    module: Module,
    fault: i32,
    /// The inputs, then the output. What is updated in place is both.
    buffers: Vec<Buffer>,
    computed: Option<Rc<Computed>>,
}

/// The last output. The participants of a comparison and the buffer sets of a cold case all have the same inputs.
struct LastOutput {
    dims: Dims,
    dtype: Dtype,
    inputs: Vec<Rc<Vec<u8>>>,
    output: Vec<f32>,
}

/// Executions before `SKIPS_LATER` takes effect. An evaluation has only some dozens.
const SKIPS_AFTER: usize = 300;

/// Executions after which a kernel is being timed in a comparison. Preparation takes about ten.
const LATER: usize = 20;

/// The slowdown of a slow kernel.
const SLOW_FACTOR: f64 = 3.0;

/// How much slower each numbered device is than the one before. Cards of one model differ by percents.
const SLOWER_CARD: f64 = 0.04;

/// The absolute value above which an input is large. Only inputs multiplied by 64 have such values.
const LARGE: f32 = 96.0;

impl FakeDevice {
    /// Makes the device with a number.
    pub fn numbered(number: u32) -> Self {
        let mut device = Self::new();
        if number > 0 {
            device.info.id = format!("fake:{number}");
            device.slowness += f64::from(number) * SLOWER_CARD;
            device.script = Script::from_env(number);
        }
        device
    }

    /// Makes a device with the limits of an H200, but a small cache.
    pub fn new() -> Self {
        let info = DeviceInfo {
            id: "fake".to_owned(),
            // A test of two kinds of device names the second one here.
            name: std::env::var("OPTLOOP_FAKE_NAME").unwrap_or("fake device (no kernel was executed)".to_owned()),
            sm: 90,
            arch: "sm_90a".to_owned(),
            sms: 132,
            smem_limit_bytes: 232_448,
            max_threads: 1024,
            // So small that the many buffer sets of a cold case are computed quickly.
            l2_bytes: 1 << 20,
            memory_bytes: 16 << 30,
            driver: None,
            uuid: None,
            timing: TimingMode::Simulated,
            peaks: Peaks::derived(90, 132, 1_980_000.0, 3_201_000.0, 6144.0),
        };
        Self {
            info,
            modules: HashMap::new(),
            buffers: HashMap::new(),
            captures: HashMap::new(),
            next: 0,
            jitter: 1,
            slowness: 1.0,
            known: None,
            script: Script::from_env(0),
        }
    }

    /// Returns how many modules, buffers and captures are held.
    #[cfg(test)]
    pub fn held(&self) -> [usize; 3] {
        [self.modules.len(), self.buffers.len(), self.captures.len()]
    }

    /// Returns the inputs of the output that was computed last.
    #[cfg(test)]
    pub fn last_inputs(&self) -> Option<Vec<Rc<Vec<u8>>>> {
        self.known.as_ref().map(|known| known.inputs.clone())
    }

    fn handle(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Executes a plan once, including its fault, unless the fault ends the process.
    fn execute(&mut self, work: &OwnedWork) -> Result<(), Fault> {
        // What is updated in place may be the result of an earlier execution.
        let mut taken = match work.buffers.split_last() {
            Some((_, inputs)) if work.computed.is_some() => {
                inputs.iter().map(|input| self.contents(*input).cloned()).collect::<Result<Vec<_>, Fault>>()?
            }
            _ => Vec::new(),
        };
        let is_strayed_into = work.fault != WRITES_OTHER_WORKSPACES && self.modules.values().any(|state| state.strayed);
        let no_module = || Fault::Broken("no such module".to_owned());
        let state = self.modules.get_mut(&work.module.0).ok_or_else(no_module)?;
        let executions = state.executions;
        state.executions += 1;
        let (Some(computed), Some((output, inputs))) = (&work.computed, work.buffers.split_last()) else {
            return Ok(());
        };
        let met = !state.outputs.insert(*output);
        if (work.fault == CACHED && met) || (work.fault == SKIPS && executions % 2 == 1) {
            return Ok(());
        }
        let other_shape = *state.dims.get_or_insert_with(|| computed.dims.clone()) != computed.dims;
        let first = state.first.get_or_insert_with(|| taken.clone());
        state.strayed |= work.fault == WRITES_OTHER_WORKSPACES && executions > LATER;
        if work.fault == SKIPS_LATER && executions > SKIPS_AFTER {
            taken.clone_from(first);
        }
        let spoil = match work.fault {
            WRONG => Some(OutputError::Off),
            UNWRITTEN => Some(OutputError::Unwritten),
            NOT_A_NUMBER => Some(OutputError::NotANumber),
            WRONG_LATER if executions > 0 => Some(OutputError::Off),
            NOT_REPEATABLE if executions > 0 => Some(OutputError::SlightlyOff),
            WRONG_ON_PROBES if has_large(&taken[0], computed.dtype) => Some(OutputError::NotANumber),
            WRONG_ON_HIDDEN if other_shape => Some(OutputError::Off),
            _ if is_strayed_into && *first != taken => Some(OutputError::Off),
            _ => None,
        };
        let is_timed = executions > LATER;
        if work.fault == WRITES_INPUTS || (work.fault == WRITES_INPUTS_LATER && is_timed) {
            let first = &mut Rc::make_mut(&mut self.memory(inputs[0])?.bytes)[0];
            *first = first.wrapping_add(1);
        }
        let due = PendingOutput { computed: Rc::clone(computed), inputs: taken, spoil };
        let memory = self.memory(*output)?;
        memory.due = Some(due);
        memory.intact &= !(work.fault == WRITES_BESIDE || (work.fault == WRITES_BESIDE_LATER && is_timed));
        Ok(())
    }

    /// Computes the self-check's result, or a wrong one if a test asks for it.
    fn check_itself(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        let fault = self.script.as_ref().and_then(|script| script.at(self_check::KERNEL));
        let fault = fault.map(|fault| fault.happen(&mut std::io::sink()));
        let mut found = self_check::expected_bytes(&self.read(work.buffers["from"])?);
        if fault == Some(InjectedFault::Wrong) {
            found[0] ^= 1;
        }
        self.write(work.buffers["to"], &found)
    }

    fn memory(&mut self, buffer: Buffer) -> Result<&mut Memory, Fault> {
        self.buffers.get_mut(&buffer.0).ok_or_else(|| Fault::Broken("no such buffer".to_owned()))
    }

    /// Overwrites a buffer.
    fn put(&mut self, buffer: Buffer, bytes: Vec<u8>) -> Result<(), Fault> {
        let memory = self.memory(buffer)?;
        let is_new = *memory.bytes != bytes;
        memory.bytes = Rc::new(bytes);
        memory.due = None;
        for captured in self.captures.values_mut() {
            captured.stale |= is_new;
            captured.is_cold = true;
        }
        Ok(())
    }

    /// Overwrites a buffer with the contents of another.
    fn put_copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        let bytes = Rc::clone(self.contents(from)?);
        let memory = self.memory(to)?;
        (memory.bytes, memory.due) = (bytes, None);
        Ok(())
    }

    /// Returns the contents of a buffer, after computing a pending output.
    fn contents(&mut self, buffer: Buffer) -> Result<&Rc<Vec<u8>>, Fault> {
        if let Some(PendingOutput { computed, inputs, spoil }) = self.memory(buffer)?.due.take() {
            let mut out = self.oracle(&computed, inputs)?;
            let last = out.len() - 1;
            match spoil {
                Some(OutputError::Off) => out[last] += 1.0,
                // Two units in the last place of a half, which is far within any tolerance.
                Some(OutputError::SlightlyOff) => out[last] *= 1.002,
                Some(OutputError::NotANumber) => out[last] = f32::NAN,
                Some(OutputError::Unwritten) | None => {}
            }
            let mut written = inputs::encode(&out, computed.dtype);
            if matches!(spoil, Some(OutputError::Unwritten)) {
                written.truncate(written.len() - computed.dtype.bytes());
            }
            let memory = self.memory(buffer)?;
            Rc::make_mut(&mut memory.bytes)[..written.len()].copy_from_slice(&written);
        }
        Ok(&self.memory(buffer)?.bytes)
    }

    /// Returns the oracle's output for these inputs.
    fn oracle(&mut self, computed: &Computed, inputs: Vec<Rc<Vec<u8>>>) -> Result<Vec<f32>, Fault> {
        let Computed { op, dims, dtype } = computed;
        let same = |known: &LastOutput| known.dims == *dims && known.dtype == *dtype && known.inputs == inputs;
        if let Some(known) = self.known.as_ref().filter(|known| same(known)) {
            return Ok(known.output.clone());
        }
        let values: Vec<_> = inputs.iter().map(|bytes| inputs::decode(bytes, *dtype)).collect();
        let rows: Vec<usize> = (0..Outputs::of(*op, dims, *dtype).rows()).collect();
        let oracle = op.oracle(dims, &values, &rows).map_err(|problem| Fault::Broken(problem.into()))?;
        let output: Vec<f32> = oracle.into_iter().map(|value| value as f32).collect();
        self.known = Some(LastOutput { dims: dims.clone(), dtype: *dtype, inputs, output: output.clone() });
        Ok(output)
    }
}

impl OwnedWork {
    fn of(work: &Work<'_>) -> Self {
        let tensors = work.problem.map(|problem| [problem.inputs(), problem.outputs()].concat()).unwrap_or_default();
        let buffers = tensors.iter().map(|tensor| work.buffers[&tensor.name]).collect();
        let taken = plan::buffers(&work.plan.launches);
        let is_written = |problem: &Problem<'_>| problem.outputs().iter().any(|output| taken.contains(&*output.name));
        let computed = work
            .problem
            .filter(is_written)
            .map(|problem| Rc::new(Computed { op: problem.op, dims: problem.dims.clone(), dtype: problem.dtype }));
        Self { module: work.module, fault: faults::of(work.plan), buffers, computed }
    }
}

/// Returns whether any value is large.
fn has_large(bytes: &[u8], dtype: Dtype) -> bool {
    inputs::decode(bytes, dtype).iter().any(|value| value.abs() > LARGE)
}

/// Returns a made-up time in nanoseconds: work over the machine's rate, more for few or small blocks, plus the
/// launches.
fn model_ns(info: &DeviceInfo, work: &Work<'_>) -> f64 {
    let launches_ns = work.plan.launches.len() as f64 * 2000.0;
    let Some(problem) = work.problem else { return launches_ns };
    let launch = work.plan.launches.iter().max_by_key(|launch| launch.ctas());
    let (ctas, threads) = launch.map_or((1.0, 32.0), |l| (l.ctas() as f64, l.block.map(f64::from).iter().product()));
    let filled = (ctas / f64::from(info.sms)).min(1.0);
    let occupied = (threads / 256.0).min(1.0);
    let rate = info.peaks.flops(problem.dtype, problem.compute) * 0.05 * filled * occupied;
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
        self.modules.insert(handle, State::default());
        Ok(Module(handle))
    }

    fn unload(&mut self, module: Module) -> Result<(), Fault> {
        self.modules.remove(&module.0);
        Ok(())
    }

    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        if bytes as u64 > self.info.memory_bytes {
            return Err(Fault::OutOfMemory(format!("{bytes} bytes of device memory exceed the memory of the device")));
        }
        let handle = self.handle();
        self.buffers.insert(handle, Memory { bytes: Rc::new(vec![0xff; bytes]), due: None, intact: true });
        Ok(Buffer(handle))
    }

    /// It has no addresses.
    fn alloc_at(&mut self, bytes: usize, _offset: usize) -> Result<Buffer, Fault> {
        self.alloc(bytes)
    }

    fn noticed(&self) -> Option<String> {
        None
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.buffers.remove(&buffer.0);
        Ok(())
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        self.put(buffer, bytes.to_vec())
    }

    fn copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        self.put_copy(from, to)?;
        self.captures.values_mut().for_each(|captured| (captured.stale, captured.is_cold) = (true, true));
        Ok(())
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        let size = self.memory(buffer)?.bytes.len();
        self.put(buffer, vec![byte; size])
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        Ok(self.contents(buffer)?.to_vec())
    }

    fn were_intact(&mut self, buffers: &[Buffer]) -> Result<Vec<bool>, Fault> {
        buffers.iter().map(|buffer| Ok(std::mem::replace(&mut self.memory(*buffer)?.intact, true))).collect()
    }

    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        match faults::of(work.plan) {
            CRASH => Err(Fault::Crashed {
                message: "an illegal memory access was encountered (made up)".to_owned(),
                line: None,
            }),
            HANG => loop {
                std::thread::park();
            },
            WORKER_ABORT => std::process::abort(),
            _ if work.plan.launches.iter().any(|launch| launch.kernel == self_check::KERNEL) => self.check_itself(work),
            _ => self.execute(&OwnedWork::of(work)),
        }
    }

    fn as_replay(&mut self) -> Option<&mut dyn Replay> {
        Some(self)
    }
}

impl Replay for FakeDevice {
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault> {
        let executed = || works.iter().cycle().take(executions as usize);
        let mut once: Vec<OwnedWork> = executed().take(works.len()).map(OwnedWork::of).collect();
        let last = once.len() - 1;
        for work in once.iter_mut().take(last).skip(1).filter(|work| work.fault == RIGHT_AT_ENDS) {
            work.fault = WRONG;
        }
        let restores = works.iter().flat_map(|work| work.restores).copied().collect();
        let captured = Captured {
            works: once,
            restores,
            replay_ns: executed().map(|work| model_ns(&self.info, work)).sum(),
            stale: true,
            is_cold: true,
        };
        let handle = self.handle();
        self.captures.insert(handle, captured);
        Ok(Capture(handle))
    }

    /// Returns the modelled time with 0.2% of noise from a fixed sequence.
    fn replay(&mut self, capture: Capture) -> Result<f64, Fault> {
        let no_capture = || Fault::Broken("no such capture".to_owned());
        let mut captured = self.captures.remove(&capture.0).ok_or_else(no_capture)?;
        for Restore { from, to } in &captured.restores {
            self.put_copy(*from, *to)?;
        }
        for work in &captured.works {
            self.execute(work)?;
        }
        let has = |fault: i32| captured.works.iter().any(|work| work.fault == fault);
        let slow = captured.stale && has(SLOW_ON_HELD_OUT) || captured.is_cold && has(SLOW_FROM_MEMORY);
        (captured.stale, captured.is_cold) = (false, false);
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (self.jitter >> 40) as f64 / (1_u64 << 24) as f64 - 0.5;
        let replay_ns =
            captured.replay_ns * self.slowness * (1.0 + 0.002 * noise) * if slow { SLOW_FACTOR } else { 1.0 };
        self.captures.insert(capture.0, captured);
        Ok(replay_ns)
    }

    /// A test of the control gives its value.
    fn begin_timing(&mut self) -> Result<Option<f64>, Fault> {
        Ok(std::env::var("OPTLOOP_FAKE_GRAPH_NODE_NS").ok().and_then(|ns| ns.parse().ok()))
    }

    fn release(&mut self, capture: Capture) -> Result<(), Fault> {
        self.captures.remove(&capture.0);
        Ok(())
    }
}
