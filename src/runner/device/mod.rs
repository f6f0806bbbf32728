//! Devices: they load artifacts, execute launch plans and time them.

mod choice;
mod cuda;
mod fake;
pub(in crate::runner) mod self_check;
mod several;
mod virtual_gpu;

use std::collections::HashMap;
use std::ops::Range;

use crate::domain::code::artifact::Artifact;
use crate::domain::code::profile::Profile;
use crate::domain::compute::Compute;
use crate::domain::device::DeviceInfo;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::op::{Dims, Dtype, Op, TensorSpec};

pub use choice::{DeviceChoice, describe, open};
#[cfg(test)]
pub(in crate::runner) use fake::FakeDevice;
pub(in crate::runner) use fake::script::Script;
pub use several::{Devices, Others};

/// Handle of a device buffer, which lives until it is freed or the device is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(Default))]
pub struct Buffer(usize);

/// Why a device did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The device refuses the variant and is unharmed.
    #[error("{0}")]
    Refused(String),
    /// The device does not model what the variant does, which says nothing about the variant.
    #[error("{0}")]
    NotModelled(String),
    /// There is not enough memory. The device is unharmed.
    #[error("{0}")]
    OutOfMemory(String),
    /// The variant crashed. This process cannot use the device any more.
    #[error("{message}")]
    Crashed {
        /// What happened.
        message: String,
        /// The line of the variant's source, if the device knows it.
        line: Option<u32>,
    },
    /// The variant does not end. The device is unharmed.
    #[error("{0}")]
    TimedOut(String),
    /// The variant had not ended after as much work as there is time for. The device is unharmed.
    #[error("{0}")]
    TooLong(String),
    /// The machine, not the variant, is at fault.
    #[error("{0}")]
    Broken(String),
}

/// Identifies the contents of a buffer: on one device, equal contents have equal digests. Two different ones agree with a
/// probability of about 2^-64, and no kernel can compute them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

/// Handle of a loaded artifact, which lives until it is unloaded or the device is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(Default))]
pub struct Module(usize);

/// Handle of captured executions, which live until they are released or the device is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(Default))]
pub struct Capture(usize);

impl Digest {
    /// Returns a digest that the host computes.
    fn of(bytes: &[u8]) -> Self {
        let mut first = [0; 8];
        first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
        Self(u64::from_le_bytes(first))
    }
}

/// The problem that a plan solves.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The op.
    pub op: &'static dyn Op,
    /// The op's dimensions.
    pub dims: &'a Dims,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The precision in which the plan's kernels may multiply.
    pub compute: Compute,
}

impl Problem<'_> {
    /// Returns the tensors, in the order of [`Op::tensors`].
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.op.tensors(self.dims, self.dtype)
    }

    /// Returns the size of all tensors in bytes.
    pub fn bytes(&self) -> usize {
        self.tensors().iter().map(TensorSpec::bytes).sum()
    }

    /// Returns the tensors that hold results, among them those that are updated in place.
    pub fn outputs(&self) -> Vec<TensorSpec> {
        self.op.outputs(self.dims, self.dtype)
    }

    /// Returns the tensors that have values before a launch, among them those that are updated in place.
    pub fn inputs(&self) -> Vec<TensorSpec> {
        self.op.inputs(self.dims, self.dtype)
    }
}

/// A copy that gives a tensor, which an execution has updated in place, its initial values again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restore {
    /// The buffer with the initial values. No plan names it.
    pub from: Buffer,
    /// The tensor's buffer.
    pub to: Buffer,
}

/// A launch plan with the module and the buffers behind its names.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The module with the plan's kernels.
    pub module: Module,
    /// The kernels to launch, in order.
    pub plan: &'a LaunchPlan,
    /// The buffer of every tensor and workspace that the plan names.
    pub buffers: &'a HashMap<String, Buffer>,
    /// What a replay restores before its executions. [`Device::launch`] and [`Model::model`] restore nothing.
    pub restores: &'a [Restore],
    /// The problem that the plan solves, for devices that compute or model from it; `None` for a plan that is only
    /// timed.
    pub problem: Option<Problem<'a>>,
}

/// A device that executes kernels. It can hold several artifacts at a time, as a comparison of participants needs.
pub trait Device {
    /// Describes the device.
    fn info(&self) -> &DeviceInfo;

    /// Loads an artifact. Artifacts loaded before stay loaded.
    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault>;

    /// Unloads an artifact.
    fn unload(&mut self, module: Module) -> Result<(), Fault>;

    /// Allocates a buffer of `bytes` bytes. Its contents are undefined but never what another variant left in memory,
    /// which could be a correct output.
    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault>;

    /// Does the same at an address that is `offset` bytes, a multiple of 256, beyond where [`Device::alloc`] puts it. A device
    /// without addresses ignores the offset.
    fn alloc_at(&mut self, bytes: usize, offset: usize) -> Result<Buffer, Fault>;

    /// Frees a buffer.
    fn free(&mut self, buffer: Buffer) -> Result<(), Fault>;

    /// Overwrites a whole buffer.
    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault>;

    /// Overwrites a whole buffer with the contents of another of the same size. A device may do so without a copy on
    /// the host.
    fn copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        let bytes = self.read(from)?;
        self.write(to, &bytes)
    }

    /// Does the same, but the first `turn` bytes of `from` come to the end.
    fn copy_turned(&mut self, from: Buffer, to: Buffer, turn: usize) -> Result<(), Fault> {
        let mut bytes = self.read(from)?;
        bytes.rotate_left(turn);
        self.write(to, &bytes)
    }

    /// Sets every byte of a buffer.
    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault>;

    /// Fills a buffer with a byte that stands for "never written". A device that tracks written memory marks the buffer
    /// as unwritten, so that reading it counts as reading uninitialised memory.
    fn poison(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.fill(buffer, byte)
    }

    /// Reads a whole buffer.
    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault>;

    /// Reads parts of a buffer, one after the other.
    fn read_parts(&mut self, buffer: Buffer, parts: &[Range<usize>]) -> Result<Vec<u8>, Fault> {
        let bytes = self.read(buffer)?;
        Ok(parts.iter().flat_map(|part| &bytes[part.clone()]).copied().collect())
    }

    /// Returns whether all elements of a buffer are finite numbers. A device may tell without copying the buffer to the
    /// host.
    fn are_finite(&mut self, buffer: Buffer, dtype: Dtype) -> Result<bool, Fault> {
        self.read(buffer).map(|bytes| dtype.are_finite(&bytes))
    }

    /// Returns a digest of each buffer. A device may compute them without copying the buffers to the host.
    fn digests(&mut self, buffers: &[Buffer]) -> Result<Vec<Digest>, Fault> {
        buffers.iter().map(|buffer| self.read(*buffer).map(|bytes| Digest::of(&bytes))).collect()
    }

    /// Returns of each buffer whether its guard regions are unchanged since its allocation, and restores them.
    ///
    /// A device that detects accesses out of bounds itself needs no guard regions and returns true.
    fn were_intact(&mut self, buffers: &[Buffer]) -> Result<Vec<bool>, Fault> {
        Ok(vec![true; buffers.len()])
    }

    /// Undoes cache settings of a variant that outlast it. Does nothing by default.
    fn reset_caches(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Returns what the device noticed, since an artifact was last loaded, that is no error by itself but may explain a wrong
    /// output: a clause.
    fn noticed(&self) -> Option<String>;

    /// Executes a plan once and waits for it.
    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault>;

    /// Returns the interface for replays; `None` if the device's [`TimingMode`](crate::domain::device::TimingMode) has
    /// no replays.
    fn as_replay(&mut self) -> Option<&mut dyn Replay> {
        None
    }

    /// Returns the interface for modelled times; `None` if the device's
    /// [`TimingMode`](crate::domain::device::TimingMode) has none.
    fn as_model(&mut self) -> Option<&mut dyn Model> {
        None
    }
}

/// A device that times replays. It can hold several captures at a time.
pub trait Replay {
    /// Captures `executions` executions for [`Replay::replay`]. They take the plans of `works` in turns, starting over
    /// after the last. A work that updates a tensor in place may have only one of them.
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault>;

    /// Brings the process into the [state of its graphs](crate::domain::device::gpu_state::Graphs) in which the device replays. A
    /// time that is recorded begins with this, after its executions are captured, because other processes may have
    /// ended the state.
    ///
    /// Returns the control: the time of an empty kernel as a node of a graph, in nanoseconds. `None` if the device has
    /// no such state.
    fn begin_timing(&mut self) -> Result<Option<f64>, Fault> {
        Ok(None)
    }

    /// Replays captured executions once and waits. Returns the device time of all of them together, in nanoseconds.
    ///
    /// The works' tensors that are updated in place are restored first. This time does not count.
    fn replay(&mut self, capture: Capture) -> Result<f64, Fault>;

    /// Replays captured executions `count` times, one right after the other, and waits. Returns the device time of
    /// each, in nanoseconds. The device does not wait for the host in between, so only the first time may contain such
    /// a wait.
    fn replay_in_a_row(&mut self, capture: Capture, count: usize) -> Result<Vec<f64>, Fault> {
        (0..count).map(|_| self.replay(capture)).collect()
    }

    /// Releases a capture. Its modules and buffers must live until then.
    fn release(&mut self, capture: Capture) -> Result<(), Fault>;
}

/// A device that models times. The same plan on the same contents always takes the same time.
pub trait Model: Device {
    /// Executes a plan once while counting its work. Returns the counts with the modelled times.
    ///
    /// `share` is the share of each grid to execute. Below 1, the results in memory are partial. If asked to `explain`
    /// the times, the device also models them without each cause of lost time, which takes several times as long.
    fn model(&mut self, work: &Work<'_>, share: f64, explain: bool) -> Result<Profile, Fault>;

    /// Allocates a buffer of which only about `window` bytes at either end are stored. They begin as zeros. Between them, reads
    /// return zeros and writes are lost.
    fn alloc_hollow(&mut self, bytes: usize, window: usize) -> Result<Buffer, Fault>;

    /// Overwrites a part of a buffer, from the byte `at` on.
    fn write_part(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<(), Fault>;

    /// Does the same with poison; see [`Device::poison`].
    fn poison_part(&mut self, buffer: Buffer, part: Range<usize>) -> Result<(), Fault>;

    /// Executes the first and the last block of each grid of a plan, and the last ones along each axis. With `last`, it
    /// executes so many of the last blocks instead.
    fn launch_edges(&mut self, work: &Work<'_>, last: Option<u32>) -> Result<(), Fault>;
}
