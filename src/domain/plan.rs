//! The launch plan of a variant on one case, with every number filled in.
//!
//! This is also the heart of a committed winner's sidecar: with it a stranger can launch the file without optloop.

use serde::{Deserialize, Serialize};

/// Kernels to launch in order on one stream, with the scratch memory they share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// Scratch buffers, allocated once and kept between replays.
    pub workspaces: Vec<Workspace>,
    /// Launches, in stream order.
    pub launches: Vec<Launch>,
}

/// A scratch buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The name that launch arguments use.
    pub name: String,
    /// Size in bytes.
    pub bytes: usize,
    /// What it holds before the first launch.
    pub initial: Initial,
}

/// The contents of a workspace before the first launch of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initial {
    /// Anything: the kernels write before they read. Validation poisons it.
    Undefined,
    /// All bytes zero; the kernels leave it zeroed for the next launch of the plan.
    Zero,
}

/// One kernel launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The `extern "C"` name of the kernel.
    pub kernel: String,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads along x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Blocks per cluster along x, y, z, if the kernel is launched in clusters.
    pub cluster: Option<[u32; 3]>,
    /// Arguments, in the order of the kernel's parameters.
    pub args: Vec<Arg>,
}

impl Launch {
    /// Returns the number of blocks (CTAs).
    pub fn ctas(&self) -> u64 {
        self.grid.iter().fold(1, |ctas, &n| ctas.saturating_mul(u64::from(n)))
    }
}

impl LaunchPlan {
    /// Returns the largest number of blocks (CTAs) that any launch of the plan puts on the device at once.
    pub fn ctas(&self) -> u64 {
        self.launches.iter().map(Launch::ctas).max().unwrap_or(0)
    }
}

/// One kernel argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arg {
    /// The device address of a tensor.
    Tensor(String),
    /// The device address of a workspace.
    Workspace(String),
    /// A number passed by value.
    Scalar(Scalar),
}

/// A number passed by value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scalar {
    /// The name in the manifest, for the reader.
    pub name: String,
    /// Its type and value.
    #[serde(flatten)]
    pub value: ScalarValue,
}

/// The type and value of a scalar argument.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "lowercase")]
pub enum ScalarValue {
    /// A C `int`.
    I32(i32),
    /// A C `float`.
    F32(f32),
}
