//! The launch plan of a variant on one case, with every number filled in.
//!
//! This is also the heart of a committed winner's sidecar: with it a stranger can launch the file without optloop.

use serde::{Deserialize, Serialize};

use super::op::Dtype;

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
    /// May start before the launch before it has ended: the kernel itself waits for that by `griddepcontrol.wait` (PTX ISA,
    /// "griddepcontrol"; CUDA C++ Programming Guide, "Programmatic Dependent Launch"). Never the first launch of a plan, which
    /// would overlap with whatever ran before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub programmatic: bool,
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
    /// A description of a tensor for the copy engine, 128 bytes passed by value.
    TensorMap(TensorMap),
}

/// What Hopper's copy engine (TMA) is told of a tensor, as `cuTensorMapEncodeTiled` takes it (CUDA driver API, "Tensor Map Object
/// Management"). Elements outside of the tensor are zero when loaded and left alone when stored.
///
/// The kernel takes it as `const __grid_constant__` parameter of 128 bytes, aligned to 64 or more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMap {
    /// The name in the manifest, for the reader.
    pub name: String,
    /// The tensor whose address it holds.
    pub tensor: String,
    /// The tensor's element type.
    pub dtype: Dtype,
    /// Elements along each dimension, innermost first; one to five of them.
    pub sizes: Vec<u64>,
    /// Bytes from an element to the next along each dimension but the innermost, where they are dense: multiples of 16.
    pub stride_bytes: Vec<u64>,
    /// Elements of a copied box along each dimension, 1 to 256.
    #[serde(rename = "box")]
    pub box_sizes: Vec<u32>,
    /// The bytes among which chunks of 16 bytes are exchanged in shared memory by the number of their row: 0 (none), 32, 64 or 128.
    pub swizzle_bytes: u32,
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
