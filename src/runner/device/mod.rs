//! Devices: what can load an artifact, launch a plan and time it.

mod cuda;
mod fake;

use std::collections::HashMap;

use crate::domain::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::op::{Dims, Dtype, Op};
use crate::domain::plan::LaunchPlan;

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
    /// The machine, not the variant, is at fault.
    #[error("{0}")]
    Broken(String),
}

/// A launch plan with the buffers behind its names, and what it is meant to compute.
pub struct Work<'a> {
    /// The kernels to launch, in order.
    pub plan: &'a LaunchPlan,
    /// The buffer of every tensor and workspace that the plan names.
    pub buffers: &'a HashMap<String, Buffer>,
    /// The op, for devices that model the work instead of executing it.
    pub op: &'static dyn Op,
    /// The op's dimensions.
    pub dims: &'a Dims,
    /// Element type of the tensors.
    pub dtype: Dtype,
}

/// Something that executes kernels. One artifact is loaded at a time, and one capture is held at a time.
pub trait Device {
    /// Describes the device.
    fn info(&self) -> &DeviceInfo;

    /// Loads an artifact in place of the one before.
    fn load(&mut self, artifact: &Artifact) -> Result<(), Fault>;

    /// Allocates a buffer of `bytes` bytes with undefined contents.
    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault>;

    /// Frees a buffer.
    fn free(&mut self, buffer: Buffer) -> Result<(), Fault>;

    /// Overwrites a whole buffer.
    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault>;

    /// Sets every byte of a buffer.
    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault>;

    /// Reads a whole buffer.
    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault>;

    /// Executes a plan once and waits for it.
    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault>;

    /// Captures `executions` executions of a plan for [`Device::replay`].
    fn capture(&mut self, work: &Work<'_>, executions: u32) -> Result<(), Fault>;

    /// Replays the captured executions once, waits, and returns how long the device took, in nanoseconds.
    fn replay(&mut self) -> Result<f64, Fault>;
}

/// The devices that `--device` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device.
    Auto,
    /// A CUDA device by number.
    Cuda(u32),
    /// The device of the test suites: it computes with the op's reference and makes its times up.
    Fake,
}

impl DeviceChoice {
    /// Returns the number of the CUDA device that is meant, or would be.
    pub fn number(&self) -> u32 {
        match self {
            Self::Cuda(number) => *number,
            Self::Auto | Self::Fake => 0,
        }
    }
}

impl std::str::FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            // Its times are made up: only who asks for it in two places gets it.
            "fake" if std::env::var_os("OPTLOOP_FAKE_DEVICE").is_some() => Ok(Self::Fake),
            "virtual" => Err("the virtual device is not in this version; use auto or cuda:N".to_owned()),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| format!("`{text}` is no device; use auto or cuda:N")),
        }
    }
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Fake => f.write_str("fake"),
        }
    }
}

/// Opens a device in this process. The error says in one sentence why it is not there.
pub fn open(choice: &DeviceChoice) -> Result<Box<dyn Device>, String> {
    match choice {
        DeviceChoice::Auto => Ok(Box::new(cuda::CudaDevice::open(0)?)),
        DeviceChoice::Cuda(number) => Ok(Box::new(cuda::CudaDevice::open(*number)?)),
        DeviceChoice::Fake => Ok(Box::new(fake::FakeDevice::new())),
    }
}
