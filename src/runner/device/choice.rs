//! The devices that `--device` names, and how they are opened.

use std::path::PathBuf;

use virtual_gpu::gpu::Gpu;

use super::Device;
use super::cuda::CudaDevice;
use super::fake::FakeDevice;
use super::virtual_gpu::VirtualDevice;
use crate::domain::device::DeviceInfo;
use crate::domain::text::names::did_you_mean;
use crate::error::{Error, Result, error};

/// The virtual GPU used if no CUDA device answers.
const DEFAULT_GPU: &str = "h200";

/// What precedes the file of a recording.
const REPLAY: &str = "replay:";

/// Why a recording cannot be opened as a device.
pub const EXECUTES_NOTHING: &str =
    "a recording (replay:FILE) executes no kernel, so only `optloop start` and `optloop resume` can use it";

/// The environment variable that enables the fake device.
const FAKE_ALLOWED: &str = "OPTLOOP_FAKE_DEVICE";

/// The devices that `--device` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device, or the virtual GPU if none answers.
    Auto,
    /// A CUDA device by number.
    Cuda(u32),
    /// A virtual GPU by name. It executes on the CPU and models times.
    Virtual(String),
    /// A file with a recorded search space. It has results, and executes nothing.
    Replay(PathBuf),
    /// A device of the test suites, by number. It computes outputs with the op's oracle and takes times from a formula. Those of
    /// each number are longer than those of the one before, as two cards of a model differ.
    Fake(u32),
}

impl DeviceChoice {
    /// Tells whether the device is certain to cost nothing, because it is no GPU.
    pub fn is_free(&self) -> bool {
        matches!(self, Self::Virtual(_) | Self::Replay(_) | Self::Fake(_))
    }

    /// Refuses a device that executes no kernel. The error is one sentence.
    pub fn that_executes(self) -> Result<Self> {
        if matches!(self, Self::Replay(_)) { Err(Error::new(EXECUTES_NOTHING)) } else { Ok(self) }
    }

    /// Returns the virtual GPU used if no CUDA device answers.
    pub fn fallback() -> Self {
        Self::Virtual(DEFAULT_GPU.to_owned())
    }

    /// Returns the virtual GPU of an architecture, such as `sm_90a`.
    pub fn virtual_of(arch: &str) -> Option<Self> {
        let is_of = |name: &&str| Gpu::named(name).is_some_and(|gpu| gpu.arch == arch);
        Gpu::NAMES.iter().copied().find(is_of).map(|name| Self::Virtual(name.to_owned()))
    }

    /// Returns the number of the CUDA device. It is 0 unless the choice names one.
    pub fn number(&self) -> u32 {
        match self {
            Self::Cuda(number) => *number,
            Self::Auto | Self::Virtual(_) | Self::Replay(_) | Self::Fake(_) => 0,
        }
    }

    /// Returns the environment variable, name and value, that a process needs to open this device; `None` if it needs
    /// none.
    pub(in crate::runner) fn environment(&self) -> Option<(&'static str, &'static str)> {
        matches!(self, Self::Fake(_)).then_some((FAKE_ALLOWED, "1"))
    }
}

impl std::str::FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => return Ok(Self::Auto),
            "virtual" => return Ok(Self::fallback()),
            _ => {}
        }
        // Its times are made up, so it has to be enabled in two places.
        if let Some(number) = fake_number(text).filter(|_| std::env::var_os(FAKE_ALLOWED).is_some()) {
            return Ok(Self::Fake(number));
        }
        if let Some(name) = text.strip_prefix("virtual:") {
            return virtual_gpu(name);
        }
        if let Some(file) = text.strip_prefix(REPLAY) {
            // A resumption may have another current folder.
            return std::path::absolute(file).map(Self::Replay).map_err(|_| {
                error!("`{text}` names no file")
                    .hint(format_args!("use {REPLAY}FILE, with a recorded search space (`optloop docs simulate`)"))
            });
        }
        text.strip_prefix("cuda:")
            .and_then(|number| number.parse().ok())
            .map(Self::Cuda)
            .ok_or_else(|| error!("`{text}` is not a device; use auto, cuda:N, virtual, virtual:NAME or {REPLAY}FILE"))
    }
}

/// Returns the number of a fake device: 0 for `fake`, N for `fake:N`.
fn fake_number(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("fake")?;
    if rest.is_empty() { Some(0) } else { rest.strip_prefix(':')?.parse().ok() }
}

fn virtual_gpu(name: &str) -> Result<DeviceChoice> {
    let name = name.to_ascii_lowercase();
    if Gpu::named(&name).is_some() {
        return Ok(DeviceChoice::Virtual(name));
    }
    let known = Gpu::NAMES;
    let hint = did_you_mean(&name, known.iter().copied());
    Err(error!("there is no virtual GPU `{name}`{hint}; there are: {}", known.join(", ")))
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Virtual(name) => write!(f, "virtual:{name}"),
            Self::Replay(path) => write!(f, "{REPLAY}{}", path.display()),
            Self::Fake(0) => f.write_str("fake"),
            Self::Fake(number) => write!(f, "fake:{number}"),
        }
    }
}

/// Describes a device without opening it, since opening creates a context. The error says in one sentence why the
/// device is not available.
pub fn describe(choice: &DeviceChoice) -> Result<DeviceInfo> {
    match choice {
        DeviceChoice::Auto => CudaDevice::describe(0),
        DeviceChoice::Cuda(number) => CudaDevice::describe(*number),
        // These devices have no context.
        DeviceChoice::Virtual(_) | DeviceChoice::Replay(_) | DeviceChoice::Fake(_) => Ok(open(choice)?.info().clone()),
    }
}

/// Opens a device in this process. The error says in one sentence why the device is not available.
///
/// [`DeviceChoice::Auto`] opens the first CUDA device. Whether another device replaces a missing one is up to the
/// caller, which can tell the user.
pub fn open(choice: &DeviceChoice) -> Result<Box<dyn Device>> {
    match choice {
        DeviceChoice::Auto => Ok(Box::new(CudaDevice::open(0)?)),
        DeviceChoice::Cuda(number) => Ok(Box::new(CudaDevice::open(*number)?)),
        DeviceChoice::Virtual(name) => Ok(Box::new(VirtualDevice::open(name)?)),
        DeviceChoice::Replay(_) => Err(Error::new(EXECUTES_NOTHING)),
        DeviceChoice::Fake(number) => Ok(Box::new(FakeDevice::numbered(*number))),
    }
}
