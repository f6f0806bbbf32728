//! Devices: what can load an artifact, launch a plan and time it.

mod choice;
mod cuda;
mod fake;
pub(in crate::runner) mod self_check;
mod virtual_gpu;

use std::collections::HashMap;

use crate::domain::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::op::{Dims, Dtype, Op, TensorSpec};
use crate::domain::plan::LaunchPlan;
use crate::domain::profile::Profile;

pub use choice::{DeviceChoice, describe, open};
#[cfg(test)]
pub(in crate::runner) use fake::FakeDevice;
pub(in crate::runner) use fake::script::Script;

/// A buffer of a device. It lives until it is freed or the device is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buffer(usize);

/// Why a device did not do what it was told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It refuses the variant; the device is unharmed.
    #[error("{0}")]
    Refused(String),
    /// The variant crashed; nothing more can be expected of this process.
    #[error("{0}")]
    Crashed(String),
    /// The variant does not end; the device is unharmed.
    #[error("{0}")]
    TimedOut(String),
    /// The machine, not the variant, is at fault.
    #[error("{0}")]
    Broken(String),
}

/// A loaded artifact. It lives until it is unloaded or the device is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(Default))]
pub struct Module(usize);

/// Captured executions. They live until they are released or the device is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(Default))]
pub struct Capture(usize);

/// What a plan is meant to compute.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The op.
    pub op: &'static dyn Op,
    /// The op's dimensions.
    pub dims: &'a Dims,
    /// Element type of the tensors.
    pub dtype: Dtype,
}

impl Problem<'_> {
    /// Returns the tensors: the inputs, then the one output.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.op.tensors(self.dims, self.dtype)
    }

    /// Returns the output tensor.
    pub fn output(&self) -> TensorSpec {
        self.op.output(self.dims, self.dtype)
    }
}

/// A launch plan with the code and the buffers behind its names.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Where the plan's kernels are.
    pub module: Module,
    /// The kernels to launch, in order.
    pub plan: &'a LaunchPlan,
    /// The buffer of every tensor and workspace that the plan names.
    pub buffers: &'a HashMap<String, Buffer>,
    /// What it is meant to compute, for devices that go by that; none for a plan that is only timed.
    pub problem: Option<Problem<'a>>,
}

/// Something that executes kernels. Several artifacts can be loaded at a time: the participants of a comparison are.
pub trait Device {
    /// Describes the device.
    fn info(&self) -> &DeviceInfo;

    /// Loads an artifact beside those that are loaded.
    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault>;

    /// Unloads an artifact.
    fn unload(&mut self, module: Module) -> Result<(), Fault>;

    /// Allocates a buffer of `bytes` bytes with undefined contents, but never what another variant left in the memory: that
    /// could be a right output.
    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault>;

    /// Frees a buffer.
    fn free(&mut self, buffer: Buffer) -> Result<(), Fault>;

    /// Overwrites a whole buffer.
    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault>;

    /// Overwrites a whole buffer with what another of the same size holds. A device may do so without a copy on the host.
    fn copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        let bytes = self.read(from)?;
        self.write(to, &bytes)
    }

    /// Sets every byte of a buffer.
    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault>;

    /// Fills a buffer with a byte that stands for "never written". A device that knows which memory was written takes it
    /// for that: a kernel that reads it reads uninitialised memory.
    fn poison(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.fill(buffer, byte)
    }

    /// Reads a whole buffer.
    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault>;

    /// Tells whether a buffer holds these bytes. A device may do so without a copy of the whole.
    fn holds(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<bool, Fault> {
        Ok(self.read(buffer)? == bytes)
    }

    /// Tells whether the memory around a buffer is as it was when it was allocated, and makes it so again.
    ///
    /// A device that finds accesses out of bounds by itself has nothing to look at.
    fn was_intact(&mut self, _buffer: Buffer) -> Result<bool, Fault> {
        Ok(true)
    }

    /// Takes back what a variant may have asked of the caches for longer than it runs. Nothing by default.
    fn reset_caches(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Executes a plan once and waits for it.
    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault>;

    /// Returns what replays plans, where its [`TimingMode`](crate::domain::device::TimingMode) says that it does.
    fn as_replay(&mut self) -> Option<&mut dyn Replay> {
        None
    }

    /// Returns what models times, where its [`TimingMode`](crate::domain::device::TimingMode) says that it does.
    fn as_model(&mut self) -> Option<&mut dyn Model> {
        None
    }
}

/// A device that times what it replays. Several captures can be held at a time.
pub trait Replay {
    /// Captures executions of plans for [`Replay::replay`]: those of `works` in turns, from the front again after the last.
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault>;

    /// Replays captured executions once, waits, and returns how long the device took for all of them, in nanoseconds.
    fn replay(&mut self, capture: Capture) -> Result<f64, Fault>;

    /// Releases a capture. The modules and buffers behind it must outlive it.
    fn release(&mut self, capture: Capture) -> Result<(), Fault>;
}

/// A device that models times: the same plan on the same contents always takes the same.
pub trait Model {
    /// Executes a plan once while counting what it does, and returns the counts with the modelled times.
    ///
    /// `share` is how much of each grid to execute: below 1 the results in memory are partial.
    fn model(&mut self, work: &Work<'_>, share: f64) -> Result<Profile, Fault>;
}
