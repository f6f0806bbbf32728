//! What optloop and a baseline program say to each other: one JSON object a line. docs/baselines.md describes it for people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::op::{Dims, Dtype};
use crate::domain::regime::Regime;

/// The version of the protocol. A program of another one is refused.
pub(super) const VERSION: u32 = 2;

/// What a program is asked. Every request gets one answer, which is a [`Refusal`] if it cannot be met.
#[derive(Serialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(super) enum Request<'a> {
    /// Say who you are: always the first request.
    Hello {
        /// [`VERSION`].
        protocol: u32,
        /// The device to time on, as CUDA counts them.
        device: u32,
    },
    /// Get every backend ready on a case.
    Prepare {
        op: &'a str,
        dtype: Dtype,
        dims: &'a Dims,
        regime: Regime,
        /// Size of the device's L2, for the cold regime.
        l2_bytes: u64,
        /// The shortest sample.
        min_sample_ns: f64,
        /// A file for every input tensor: its elements, little-endian, row-major, nothing else.
        inputs: &'a BTreeMap<String, String>,
        /// A folder into which each backend may write what it computed, in the same form.
        output_folder: &'a str,
        /// The only backend that is wanted; none for all of them.
        backend: Option<&'a str>,
    },
    /// Time a backend that is ready.
    Sample { backend: &'a str, samples: usize },
    /// Free what was prepared.
    Release,
}

/// Who a baseline program is: its first answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Hello {
    /// Product name of the device that the program times on.
    pub device: String,
    /// Whether its times are measured or modelled.
    pub time_source: TimeSource,
    /// Versions of the program's libraries, by name.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

impl Hello {
    /// Tells whether its times can be held against those of a device. The error says in one sentence why not.
    pub fn fits(&self, device: &DeviceInfo) -> Result<(), String> {
        if self.device == device.name && self.time_source == device.time_source() {
            return Ok(());
        }
        let (theirs, ours) = (self.time_source.name(), device.time_source().name());
        Err(format!("it is {theirs} on {} and kernels are {ours} on {}", self.device, device.name))
    }
}

/// The answer to `Request::Prepare`.
#[derive(Debug, Deserialize)]
pub struct Prepared {
    /// Every backend that was asked for.
    pub backends: Vec<PreparedBackend>,
}

/// A backend that is ready, or its error.
#[derive(Debug, Deserialize)]
pub struct PreparedBackend {
    /// The program's name for it.
    pub name: String,
    /// Why it cannot be sampled, if it cannot.
    pub error: Option<String>,
    /// Executions in one replay.
    pub launches_per_sample: Option<u32>,
    /// Time of one call without a graph.
    pub eager_ns: Option<f64>,
    /// The file in the request's output folder, by name.
    pub output: Option<String>,
}

/// The answer to `Request::Sample`.
#[derive(Debug, Deserialize)]
pub struct Sampled {
    /// Nanoseconds of one execution, a value per replay.
    pub samples_ns: Vec<f64>,
}

/// The answer to `Request::Release`.
#[derive(Debug, Deserialize)]
pub struct Released {}

/// The answer to a request that cannot be met.
#[derive(Deserialize)]
pub(super) struct Refusal {
    pub error: String,
}
