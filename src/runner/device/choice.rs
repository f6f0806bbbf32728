//! The devices that `--device` names, and how they are opened.

use virtual_gpu::gpu::Gpu;

use super::Device;
use super::cuda::CudaDevice;
use super::fake::FakeDevice;
use super::virtual_gpu::VirtualDevice;
use crate::domain::device::DeviceInfo;
use crate::domain::names::did_you_mean;

/// The virtual GPU that stands in where no CUDA device answers.
const DEFAULT_GPU: &str = "h200";

/// The variable of the environment without which there is no fake device.
const FAKE_ALLOWED: &str = "OPTLOOP_FAKE_DEVICE";

/// The devices that `--device` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device, or the virtual GPU where none answers.
    Auto,
    /// A CUDA device by number.
    Cuda(u32),
    /// A virtual GPU by its name: it executes on the CPU and models its times.
    Virtual(String),
    /// The device of the test suites: it computes with the op's reference and makes its times up.
    Fake,
}

impl DeviceChoice {
    /// Returns the virtual GPU that stands in where no CUDA device answers.
    pub fn stand_in() -> Self {
        Self::Virtual(DEFAULT_GPU.to_owned())
    }

    /// Returns the number of the CUDA device that is meant, or would be.
    pub fn number(&self) -> u32 {
        match self {
            Self::Cuda(number) => *number,
            Self::Auto | Self::Virtual(_) | Self::Fake => 0,
        }
    }

    /// Returns what has to stand in the environment of a process that is to open it.
    pub(in crate::runner) fn environment(&self) -> Option<(&'static str, &'static str)> {
        (*self == Self::Fake).then_some((FAKE_ALLOWED, "1"))
    }
}

impl std::str::FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "virtual" => return Ok(Self::stand_in()),
            // Its times are made up: only who asks for it in two places gets it.
            "fake" if std::env::var_os(FAKE_ALLOWED).is_some() => return Ok(Self::Fake),
            _ => {}
        }
        if let Some(name) = text.strip_prefix("virtual:") {
            return virtual_gpu(name);
        }
        text.strip_prefix("cuda:")
            .and_then(|number| number.parse().ok())
            .map(Self::Cuda)
            .ok_or_else(|| format!("`{text}` is no device; use auto, cuda:N, virtual or virtual:NAME"))
    }
}

fn virtual_gpu(name: &str) -> Result<DeviceChoice, String> {
    let name = name.to_ascii_lowercase();
    if Gpu::named(&name).is_some() {
        return Ok(DeviceChoice::Virtual(name));
    }
    let known = Gpu::NAMES;
    let hint = did_you_mean(&name, known.iter().copied());
    Err(format!("there is no virtual GPU `{name}`{hint}; there are: {}", known.join(", ")))
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Virtual(name) => write!(f, "virtual:{name}"),
            Self::Fake => f.write_str("fake"),
        }
    }
}

/// Describes a device without opening it, which would cost it a context. The error says in one sentence why it is not there.
pub fn describe(choice: &DeviceChoice) -> Result<DeviceInfo, String> {
    match choice {
        DeviceChoice::Auto => CudaDevice::describe(0),
        DeviceChoice::Cuda(number) => CudaDevice::describe(*number),
        // These have none.
        DeviceChoice::Virtual(_) | DeviceChoice::Fake => Ok(open(choice)?.info().clone()),
    }
}

/// Opens a device in this process. The error says in one sentence why it is not there.
///
/// [`DeviceChoice::Auto`] opens the first CUDA device: that another one stands in is its caller's decision, who can say so.
pub fn open(choice: &DeviceChoice) -> Result<Box<dyn Device>, String> {
    match choice {
        DeviceChoice::Auto => Ok(Box::new(CudaDevice::open(0)?)),
        DeviceChoice::Cuda(number) => Ok(Box::new(CudaDevice::open(*number)?)),
        DeviceChoice::Virtual(name) => Ok(Box::new(VirtualDevice::open(name)?)),
        DeviceChoice::Fake => Ok(Box::new(FakeDevice::new())),
    }
}
