//! The messages between optloop and a baseline program: one JSON object per line. docs/baselines.md describes them for
//! people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::code::launched::LaunchedKernel;
use crate::domain::compute::Compute;
use crate::domain::device::regime::Regime;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::op::{Dims, Dtype, TensorSpec};
use crate::error::{Result, error};

/// The protocol version. A program with another one is refused.
pub(super) const VERSION: u32 = 2;

/// A request to a program. Each gets one answer, which is a [`Refusal`] if it cannot be met.
#[derive(Serialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(super) enum Request<'a> {
    /// Describe yourself. Always the first request.
    Hello {
        /// [`VERSION`].
        protocol: u32,
        /// The device to time on, by CUDA's numbering.
        device: u32,
    },
    /// Compile what a case needs, without its inputs. Only a program that offers it gets this request.
    Compile {
        #[serde(flatten)]
        case: RequestedCase<'a>,
    },
    /// Prepare every backend on a case.
    Prepare {
        #[serde(flatten)]
        case: RequestedCase<'a>,
        /// The shortest sample, in nanoseconds.
        min_sample_ns: f64,
        /// A folder into which each backend may write its output, in the form of the inputs.
        output_folder: &'a str,
        /// The only backend to prepare; `None` for all of them.
        backend: Option<&'a str>,
        /// Only of programs that optloop ships: how to time. None leaves it to the program.
        #[serde(skip_serializing_if = "Option::is_none")]
        method: Option<Method>,
    },
    /// Time a prepared backend.
    Sample { backend: &'a str, samples: usize },
    /// Compute other values of an input, at the addresses that the backend knows. Only rivals get this request.
    Again {
        backend: &'a str,
        input: &'a str,
        /// The file with the values.
        file: &'a str,
        output_folder: &'a str,
    },
    /// Free what was prepared.
    Release,
    /// Make one call of a backend while a profiler counts. Only programs that optloop ships get this request.
    Profile {
        /// The device to use, by CUDA's numbering.
        device: u32,
        /// Always warm: the profiler itself flushes caches where they are to be cold.
        #[serde(flatten)]
        case: RequestedCase<'a>,
        backend: &'a str,
    },
}

/// What a sample is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A replay of a CUDA graph.
    #[default]
    Graph,
    /// One call from the host, which the program waits for. In the cold regime, L2 is written over before.
    Call,
}

/// A case with its inputs.
#[derive(Serialize)]
pub(super) struct RequestedCase<'a> {
    pub op: &'a str,
    pub dtype: Dtype,
    /// The precision of products: `tf32`, or `dtype` for no less than the tensors have.
    pub compute: Compute,
    pub dims: &'a Dims,
    /// The inputs, then the output.
    pub tensors: &'a [TensorSpec],
    /// Floating-point constants of the op.
    pub scalars: BTreeMap<&'a str, f64>,
    pub regime: Regime,
    /// Bytes of the device's L2, for the cold regime.
    pub l2_bytes: u64,
    /// A file for every input tensor, with nothing but its elements, little-endian and row-major.
    pub inputs: &'a BTreeMap<String, String>,
}

/// A baseline program's description of itself: its first answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Hello {
    /// Product name of the device on which the program times.
    pub device: String,
    /// Whether its times are measured or modelled.
    pub time_source: TimeSource,
    /// Versions of the program's libraries, by name.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Whether the program compiles for a case when it is asked to, before the case is prepared.
    #[serde(default)]
    pub compiles: bool,
}

impl Hello {
    /// Checks that its times can be compared with those of a device. The error says in one sentence why not.
    pub fn fits(&self, device: &DeviceInfo) -> Result<()> {
        if self.device == device.name && self.time_source == device.time_source() {
            return Ok(());
        }
        let (theirs, ours) = (self.time_source.name(), device.time_source().name());
        Err(error!("its times are {theirs} on {}, but those of the kernels are {ours} on {}", self.device, device.name))
    }
}

/// The answer to `Request::Prepare`.
#[derive(Debug, Deserialize)]
pub struct Prepared {
    /// Every requested backend.
    pub backends: Vec<PreparedBackend>,
    /// The precision that they multiply in. `None` if the program does not know the key, and so has no choice.
    pub compute: Option<Compute>,
}

/// A prepared backend, or its error.
#[derive(Debug, Deserialize)]
pub struct PreparedBackend {
    /// The program's name for it.
    pub name: String,
    /// Why it cannot be sampled; `None` if it can.
    pub error: Option<String>,
    /// Executions per replay.
    pub launches_per_sample: Option<u32>,
    /// Nanoseconds of one call without a graph; `None` if not taken.
    pub eager_ns: Option<f64>,
    /// Name of its file in the request's output folder; `None` if it wrote none.
    pub output: Option<String>,
    /// The kernels of a call; `None` if the program does not tell.
    pub kernels: Option<Vec<LaunchedKernel>>,
    /// The inputs that each call gets anew. Only rivals tell.
    #[serde(default)]
    pub takes: Vec<String>,
    /// What a sample is.
    #[serde(default)]
    pub method: Method,
}

/// The answer to `Request::Sample`.
#[derive(Debug, Deserialize)]
pub struct Sampled {
    /// Nanoseconds per execution, one value per replay.
    pub samples_ns: Vec<f64>,
    /// Nanoseconds of an empty kernel as a node of a graph, in the same turn; `None` if the program does not measure
    /// it.
    pub graph_node_ns: Option<f64>,
}

/// The answer to `Request::Again`.
#[derive(Debug, Deserialize)]
pub(super) struct Again {
    /// Name of the outputs' file in the request's folder.
    pub output: String,
    /// Whether they are those for the values before.
    pub is_same: bool,
}

/// The answer to `Request::Profile`.
#[derive(Debug, Deserialize)]
pub(super) struct Profiled {
    /// The precision of its products.
    pub compute: Option<Compute>,
    /// The kernels of the call; `None` if the program cannot tell.
    pub kernels: Option<Vec<LaunchedKernel>>,
}

/// The answer to `Request::Compile` and to `Request::Release`.
#[derive(Debug, Deserialize)]
pub struct Done {}

/// The answer to a request that cannot be met.
#[derive(Deserialize)]
pub(super) struct Refusal {
    pub error: String,
}
