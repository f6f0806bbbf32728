//! The launch plan of a variant on one case, with every number filled in.
//!
//! It is also the main part of a committed winner's sidecar: with it you can launch the source without optloop.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::domain::op::{Dtype, TensorSpec};
use crate::domain::text::escape::one_line;
use crate::domain::text::names::{did_you_mean, is_identifier};
use crate::error::{Error, Result, error};

/// The bounds of `cuTensorMapEncodeTiled` (CUDA driver API): elements of a dimension, bytes of a stride, elements of a
/// box.
pub const MAX_MAP_SIZE: u64 = 1 << 32;
/// See [`MAX_MAP_SIZE`].
pub const MAX_MAP_STRIDE_BYTES: u64 = (1 << 40) - 1;
/// See [`MAX_MAP_SIZE`].
pub const MAX_BOX: u64 = 256;

/// The swizzles of a tensor map, in bytes.
pub const SWIZZLES_BYTES: [u32; 4] = [0, 32, 64, 128];

/// Returns the error for a plan whose first launch is programmatic.
pub fn no_launch_precedes(kernel: &str) -> Error {
    error!("launch `{kernel}`: the first launch of a plan cannot be programmatic, because no launch precedes it")
}

/// Kernels to launch in order on one stream, with their shared scratch memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// Scratch buffers, allocated once and kept between replays.
    pub workspaces: Vec<Workspace>,
    /// Launches that depend on weights alone. They are executed once for each weight, before the others and in this order, and leave
    /// what they make in workspaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preparation: Vec<Launch>,
    /// Launches of every execution, in stream order.
    pub launches: Vec<Launch>,
}

/// The launch that does most of a plan's work, in figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchShape {
    /// Its blocks (CTAs).
    pub ctas: u64,
    /// The threads of a block.
    pub threads: u64,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u64,
}

/// What the preparation of weights takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// Bytes of the prepared weights, in addition to the weights.
    pub bytes: usize,
    /// Time of one preparation in nanoseconds, where it was taken.
    pub ns: Option<f64>,
}

/// A scratch buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The name that launch arguments use.
    pub name: String,
    /// Size in bytes.
    pub bytes: usize,
    /// What the buffer holds before the first launch.
    pub initial: Initial,
}

/// The contents of a workspace before the first launch of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initial {
    /// Anything: the kernels write before they read. Validation fills the buffer with a poison.
    Undefined,
    /// Zeros. The kernels leave the buffer zeroed for the next launch of the plan.
    Zero,
}

/// The largest grid and block along x, y and z on every supported architecture (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability").
pub const MAX_GRID: [u32; 3] = [i32::MAX.cast_unsigned(), 65535, 65535];
/// See [`MAX_GRID`].
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];

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
    /// May start before the previous launch has ended. The kernel waits for that launch by `griddepcontrol.wait` (PTX
    /// ISA, "griddepcontrol"; CUDA C++ Programming Guide, "Programmatic Dependent Launch"). The first launch of a plan
    /// never may, because it would overlap with unrelated work before it.
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

    /// Refuses a grid, a block or a cluster that no device accepts. The error is one sentence.
    fn check_sizes(&self) -> Result<()> {
        let sizes = [("grid", self.grid, MAX_GRID), ("block", self.block, MAX_BLOCK)].into_iter();
        for (what, sizes, most) in sizes.chain(self.cluster.map(|sizes| ("cluster", sizes, MAX_BLOCK))) {
            if sizes.iter().zip(most).any(|(size, most)| !(1..=most).contains(size)) {
                let (kernel, [x, y, z], [most_x, most_y, most_z]) = (&self.kernel, sizes, most);
                return Err(error!(
                    "its launch of `{kernel}` has a {what} of {x} x {y} x {z}, but it must be 1 x 1 x 1 to {most_x} x {most_y} x {most_z}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the threads of a block.
    pub fn block_threads(&self) -> u64 {
        self.block.iter().map(|size| u64::from(*size)).product()
    }
}

impl LaunchPlan {
    /// Returns a plan whose kernels do the same, and write into workspaces instead of `outputs`. So no check may find it right.
    pub fn writing_elsewhere(&self, outputs: &[TensorSpec]) -> Self {
        let mut plan = self.clone();
        for TensorSpec { name, .. } in outputs {
            let elsewhere = format!("{name}_elsewhere");
            let args = plan.preparation.iter_mut().chain(&mut plan.launches).flat_map(|launch| &mut launch.args);
            for arg in args {
                match arg {
                    Arg::Tensor(tensor) if tensor == name => *arg = Arg::Workspace(elsewhere.clone()),
                    Arg::TensorMap(map) if map.tensor == *name => map.tensor.clone_from(&elsewhere),
                    Arg::Tensor(_) | Arg::TensorMap(_) | Arg::Workspace(_) | Arg::Scalar(_) => {}
                }
            }
        }
        let workspace = |tensor: &TensorSpec| Workspace {
            name: format!("{}_elsewhere", tensor.name),
            bytes: tensor.bytes(),
            initial: Initial::Undefined,
        };
        plan.workspaces.extend(outputs.iter().map(workspace));
        plan
    }

    /// Returns the largest number of threads of any launch of the plan.
    pub fn threads(&self) -> u64 {
        self.launches.iter().map(|launch| launch.ctas().saturating_mul(launch.block_threads())).max().unwrap_or(0)
    }

    /// Returns the largest number of blocks (CTAs) of any launch of the plan.
    pub fn ctas(&self) -> u64 {
        self.launches.iter().map(Launch::ctas).max().unwrap_or(0)
    }

    /// Returns the launch that does most of the work, as far as launches show it: the one with the most shared memory in all its
    /// blocks, or else the one with the most threads. A launch that adds partial sums may have more blocks. All 0 without launches.
    pub fn shape(&self) -> LaunchShape {
        let shapes = self.launches.iter().map(|launch| LaunchShape {
            ctas: launch.ctas(),
            threads: launch.block_threads(),
            shared_bytes: u64::from(launch.shared_bytes),
        });
        let size = |shape: &LaunchShape| {
            (shape.ctas.saturating_mul(shape.shared_bytes), shape.ctas.saturating_mul(shape.threads))
        };
        shapes.max_by_key(size).unwrap_or_default()
    }

    /// Returns the plan that prepares weights, if they are prepared. It has the same workspaces.
    pub fn preparing(&self) -> Option<Self> {
        let (workspaces, launches) = (self.workspaces.clone(), self.preparation.clone());
        (!launches.is_empty()).then_some(Self { workspaces, preparation: Vec::new(), launches })
    }

    /// Returns the workspaces that hold prepared weights: those that the preparation takes.
    pub fn prepared(&self) -> impl Iterator<Item = &Workspace> {
        let taken = buffers(&self.preparation);
        self.workspaces.iter().filter(move |workspace| taken.contains(workspace.name.as_str()))
    }

    /// Describes the preparation, if weights are prepared.
    pub fn preparation(&self, ns: Option<f64>) -> Option<Preparation> {
        let bytes = self.prepared().map(|workspace| workspace.bytes).sum();
        (!self.preparation.is_empty()).then_some(Preparation { bytes, ns })
    }

    /// Returns whether each parameter of a kernel stands for one buffer in all launches, and no other parameter for the same.
    pub fn tells_buffers_apart(&self) -> bool {
        let mut known: HashMap<&str, Vec<&str>> = HashMap::new();
        self.launches.iter().all(|launch| {
            let buffers: Vec<&str> = launch.args.iter().filter_map(Arg::buffer).collect();
            let is_apart = buffers.iter().collect::<HashSet<_>>().len() == buffers.len();
            is_apart && *known.entry(&launch.kernel).or_insert_with(|| buffers.clone()) == buffers
        })
    }

    /// Finds mistakes that a device would accept silently, or refuse without an explanation. Plans come from files,
    /// which can be wrong. `weights` names those of the tensors that are weights. The error is one sentence.
    pub fn check(&self, tensors: &[TensorSpec], weights: &[&str]) -> Result<()> {
        let first = [self.preparation.first(), self.launches.first()].into_iter().flatten();
        if let Some(Launch { kernel, .. }) = first.into_iter().find(|first| first.programmatic) {
            return Err(no_launch_precedes(kernel));
        }
        let is_tensor = |workspace: &&Workspace| tensors.iter().any(|tensor| tensor.name == workspace.name);
        if let Some(Workspace { name, .. }) = self.workspaces.iter().find(is_tensor) {
            return Err(error!("`{name}` names a tensor and a workspace").hint("give the workspace another name"));
        }
        let all = || self.preparation.iter().chain(&self.launches);
        let names = all().map(|launch| &launch.kernel).chain(self.workspaces.iter().map(|it| &it.name));
        if let Some(name) = names.into_iter().find(|name| !is_identifier(name)) {
            return Err(
                error!("`{}` is no name of a kernel or workspace", one_line(name)).hint("use letters, digits and `_`")
            );
        }
        if self.launches.is_empty() {
            return Err(Error::new("it launches no kernel"));
        }
        all().try_for_each(Launch::check_sizes)?;
        self.check_preparation(tensors, weights)?;
        all().flat_map(|launch| &launch.args).try_for_each(|arg| match arg {
            Arg::TensorMap(map) => map
                .check(tensors, &self.workspaces)
                .map_err(|mistake| mistake.within(format_args!("tensor map `{}`", map.name))),
            Arg::Tensor(name) if !tensors.iter().any(|tensor| tensor.name == *name) => {
                Err(error!("there is no tensor `{}`", one_line(name)))
            }
            Arg::Workspace(name) if !self.workspaces.iter().any(|workspace| workspace.name == *name) => {
                Err(error!("there is no workspace `{}`", one_line(name)))
            }
            Arg::Tensor(_) | Arg::Workspace(_) | Arg::Scalar(_) => Ok(()),
        })
    }

    /// Refuses a preparation that takes anything but weights, or a workspace that executions leave zeroed.
    fn check_preparation(&self, tensors: &[TensorSpec], weights: &[&str]) -> Result<()> {
        let is_weight = |name: &str| weights.contains(&name) || !tensors.iter().any(|tensor| tensor.name == name);
        for launch in &self.preparation {
            if let Some(name) = launch.args.iter().filter_map(Arg::buffer).find(|name| !is_weight(name)) {
                let known = tensors.iter().map(|tensor| &*tensor.name).filter(|name| weights.contains(name));
                let known = known.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "which the op does not have".to_owned() } else { known };
                return Err(error!(
                    "launch `{}` prepares weights, so it cannot take `{}`: it may take weights ({known}), workspaces and numbers",
                    launch.kernel,
                    one_line(name)
                ));
            }
        }
        match self.prepared().find(|workspace| workspace.initial == Initial::Zero) {
            Some(Workspace { name, .. }) => Err(error!(
                "workspace `{name}` holds prepared weights, so it cannot be one that executions leave zeroed"
            )
            .hint("make it `undefined`")),
            None => Ok(()),
        }
    }
}

/// Returns the tensors and workspaces that launches take.
pub fn buffers(launches: &[Launch]) -> HashSet<&str> {
    launches.iter().flat_map(|launch| &launch.args).filter_map(Arg::buffer).collect()
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
    /// A tensor description for the copy engine, 128 bytes passed by value.
    TensorMap(TensorMap),
}

impl Arg {
    /// Returns the tensor or the workspace that the kernel reaches with it.
    fn buffer(&self) -> Option<&str> {
        match self {
            Self::Tensor(name) | Self::Workspace(name) | Self::TensorMap(TensorMap { tensor: name, .. }) => Some(name),
            Self::Scalar(_) => None,
        }
    }
}

/// A tensor description for Hopper's copy engine (TMA), as `cuTensorMapEncodeTiled` takes it (CUDA driver API, "Tensor
/// Map Object Management"). Elements outside of the tensor are zero when loaded and left alone when stored.
///
/// The kernel takes it as a `const __grid_constant__` parameter of 128 bytes, aligned to 64 or more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMap {
    /// The name in the manifest, for the reader.
    pub name: String,
    /// The tensor or workspace whose address the map holds.
    pub tensor: String,
    /// The element type, which is the tensor's.
    pub dtype: Dtype,
    /// Elements along each dimension, innermost first; one to five dimensions.
    pub sizes: Vec<u64>,
    /// Bytes between neighbouring elements along each dimension except the innermost, which is dense; multiples of 16.
    pub stride_bytes: Vec<u64>,
    /// Elements of a copied box along each dimension, 1 to 256.
    #[serde(rename = "box")]
    pub box_sizes: Vec<u32>,
    /// Width of the swizzle in bytes: 0 (none), 32, 64 or 128. Within it, the row number permutes chunks of 16 bytes in
    /// shared memory.
    pub swizzle_bytes: u32,
}

impl TensorMap {
    fn check(&self, tensors: &[TensorSpec], workspaces: &[Workspace]) -> Result<()> {
        let elements = self.elements_there(tensors, workspaces)?;
        self.check_shape()?;
        let element_bytes = self.dtype.bytes() as u64;
        let steps = self.sizes.iter().skip(1).zip(&self.stride_bytes);
        let steps = steps.map(|(size, stride)| (size - 1).saturating_mul(stride / element_bytes));
        let last = steps.fold(self.sizes[0], u64::saturating_add);
        if last > elements {
            return Err(error!("it reaches element {last} of `{}`, which has {elements}", self.tensor));
        }
        Ok(())
    }

    /// Returns how many elements the tensor or workspace has.
    fn elements_there(&self, tensors: &[TensorSpec], workspaces: &[Workspace]) -> Result<u64> {
        if let Some(workspace) = workspaces.iter().find(|workspace| workspace.name == self.tensor) {
            return Ok((workspace.bytes / self.dtype.bytes()) as u64);
        }
        let tensor = tensors.iter().find(|tensor| tensor.name == self.tensor).ok_or_else(|| {
            let workspaces = workspaces.iter().map(|workspace| workspace.name.as_str());
            let hint = did_you_mean(&self.tensor, tensors.iter().map(|tensor| tensor.name.as_str()).chain(workspaces));
            error!("there is no tensor or workspace `{}`{hint}", self.tensor)
        })?;
        match self.dtype == tensor.dtype {
            true => Ok(tensor.elements() as u64),
            false => {
                let (own, of_tensor) = (self.dtype.name(), tensor.dtype.name());
                Err(error!("it has type {own}, but `{}` has type {of_tensor}", self.tensor))
            }
        }
    }

    /// Checks the rules that hold for every tensor.
    fn check_shape(&self) -> Result<()> {
        let rank = self.sizes.len();
        if !(1..=5).contains(&rank) || self.box_sizes.len() != rank || self.stride_bytes.len() + 1 != rank {
            return Err(Error::new(
                "give one to five `sizes`, as many for `box`, and one stride fewer, innermost first",
            ));
        }
        let within = |what: &str, numbers: &[u64], most: u64| match numbers.iter().find(|n| !(1..=most).contains(*n)) {
            Some(n) => Err(error!("a {what} of {n}, not 1 to {most}")),
            None => Ok(()),
        };
        let box_sizes: Vec<u64> = self.box_sizes.iter().map(|size| u64::from(*size)).collect();
        within("size", &self.sizes, MAX_MAP_SIZE)?;
        within("stride", &self.stride_bytes, MAX_MAP_STRIDE_BYTES)?;
        within("box", &box_sizes, MAX_BOX)?;
        if let Some(stride) = self.stride_bytes.iter().find(|stride| !stride.is_multiple_of(16)) {
            return Err(error!("a stride of {stride} bytes is not a multiple of 16"));
        }
        let row_bytes = box_sizes[0] * self.dtype.bytes() as u64;
        if !row_bytes.is_multiple_of(16) {
            return Err(error!("a box's rows of {row_bytes} bytes are not a multiple of 16"));
        }
        match self.swizzle_bytes {
            0 => Ok(()),
            32 | 64 | 128 if row_bytes <= u64::from(self.swizzle_bytes) => Ok(()),
            32 | 64 | 128 => {
                Err(error!("a box's rows of {row_bytes} bytes are longer than its swizzle of {}", self.swizzle_bytes))
            }
            other => Err(error!("swizzle {other} is not 0, 32, 64 or 128")),
        }
    }
}

/// A number passed by value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scalar {
    /// The name in the manifest, for the reader.
    pub name: String,
    /// The number's type and value.
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
    /// A C `long long`.
    I64(i64),
    /// A C `double`.
    F64(f64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::{TensorRole, Values};

    /// Loads a map of `k` after a change to the map or its launch.
    fn checked(change: impl FnOnce(&mut LaunchPlan, &mut TensorMap)) -> Result<()> {
        let tensor = TensorSpec {
            name: "k".to_owned(),
            dtype: Dtype::F16,
            shape: vec![100, 64],
            role: TensorRole::Input,
            values: Values::Normal,
        };
        let mut map = TensorMap {
            name: "k_map".to_owned(),
            tensor: "k".to_owned(),
            dtype: Dtype::F16,
            sizes: vec![64, 100],
            stride_bytes: vec![128],
            box_sizes: vec![64, 32],
            swizzle_bytes: 128,
        };
        let launch = Launch {
            kernel: "tiled".to_owned(),
            grid: [4, 1, 1],
            block: [128, 1, 1],
            shared_bytes: 0,
            cluster: None,
            programmatic: false,
            args: Vec::new(),
        };
        let mut plan = LaunchPlan { launches: vec![launch], ..LaunchPlan::default() };
        change(&mut plan, &mut map);
        plan.launches[0].args.push(Arg::TensorMap(map));
        plan.check(&[tensor], &[])
    }

    /// A sidecar is a file, so its contents are not trusted.
    #[test]
    fn a_plan_that_no_manifest_gives_is_refused() {
        assert_eq!(checked(|_, _| {}), Ok(()));
        let refused = |change: fn(&mut LaunchPlan, &mut TensorMap)| checked(change).unwrap_err();
        insta::assert_snapshot!(refused(|plan, _| plan.launches[0].programmatic = true), @"launch `tiled`: the first launch of a plan cannot be programmatic, because no launch precedes it");
        insta::assert_snapshot!(refused(|plan, _| plan.launches[0].grid = [0; 3]), @"its launch of `tiled` has a grid of 0 x 0 x 0, but it must be 1 x 1 x 1 to 2147483647 x 65535 x 65535");
        insta::assert_snapshot!(refused(|plan, _| plan.launches[0].block = [32, 1, 65]), @"its launch of `tiled` has a block of 32 x 1 x 65, but it must be 1 x 1 x 1 to 1024 x 1024 x 64");
        insta::assert_snapshot!(refused(|plan, _| plan.launches[0].cluster = Some([2, 0, 1])), @"its launch of `tiled` has a cluster of 2 x 0 x 1, but it must be 1 x 1 x 1 to 1024 x 1024 x 64");
        assert_eq!(LaunchPlan::default().check(&[], &[]), Err(Error::new("it launches no kernel")));
        insta::assert_snapshot!(refused(|plan, _| plan.launches[0].kernel = "a\"); system(\"b".to_owned()), @r#"`a"); system("b` is no name of a kernel or workspace: use letters, digits and `_`"#);
        insta::assert_snapshot!(refused(|plan, _| plan.launches[0].args.push(Arg::Tensor("q\nx".to_owned()))), @"there is no tensor `q x`");
        insta::assert_snapshot!(refused(|plan, _| plan.launches[0].args.push(Arg::Workspace("w".to_owned()))), @"there is no workspace `w`");
        insta::assert_snapshot!(refused(|plan, _| plan.workspaces.push(Workspace { name: "k".to_owned(), bytes: 64, initial: Initial::Zero })), @"`k` names a tensor and a workspace: give the workspace another name");
        insta::assert_snapshot!(refused(|_, map| map.swizzle_bytes = 16), @"tensor map `k_map`: swizzle 16 is not 0, 32, 64 or 128");
        insta::assert_snapshot!(refused(|_, map| map.sizes[1] = 101), @"tensor map `k_map`: it reaches element 6464 of `k`, which has 6400");
        insta::assert_snapshot!(refused(|_, map| map.sizes[1] = 0), @"tensor map `k_map`: a size of 0, not 1 to 4294967296");
        insta::assert_snapshot!(refused(|_, map| map.box_sizes[1] = 257), @"tensor map `k_map`: a box of 257, not 1 to 256");
        insta::assert_snapshot!(refused(|_, map| map.stride_bytes.clear()), @"tensor map `k_map`: give one to five `sizes`, as many for `box`, and one stride fewer, innermost first");
        insta::assert_snapshot!(refused(|_, map| map.dtype = Dtype::F32), @"tensor map `k_map`: it has type f32, but `k` has type f16");
    }

    #[test]
    fn a_preparation_takes_weights_alone_and_leaves_them_in_memory_that_stays() {
        let prepared = |args: &[Arg], initial, weights: &[&str]| {
            let launch = |args: &[Arg]| Launch {
                kernel: "pass".to_owned(),
                grid: [1; 3],
                block: [32, 1, 1],
                shared_bytes: 0,
                cluster: None,
                programmatic: false,
                args: args.to_vec(),
            };
            let tensor = |name: &str| TensorSpec {
                name: name.to_owned(),
                dtype: Dtype::F16,
                shape: vec![8],
                role: TensorRole::Input,
                values: Values::Normal,
            };
            let workspace = |name: &str, initial| Workspace { name: name.to_owned(), bytes: 16, initial };
            let plan = LaunchPlan {
                workspaces: vec![workspace("packed", initial), workspace("counter", Initial::Zero)],
                preparation: vec![launch(args)],
                launches: vec![launch(&[Arg::Tensor("x".to_owned()), Arg::Workspace("packed".to_owned())])],
            };
            plan.check(&[tensor("x"), tensor("w")], weights).map(|()| plan.preparation(Some(5.0)))
        };
        let (w, x, packed) =
            (Arg::Tensor("w".to_owned()), Arg::Tensor("x".to_owned()), Arg::Workspace("packed".to_owned()));
        let found = prepared(&[w.clone(), packed.clone()], Initial::Undefined, &["w"]);
        assert_eq!(found, Ok(Some(Preparation { bytes: 16, ns: Some(5.0) })));
        insta::assert_snapshot!(prepared(&[w.clone(), x], Initial::Undefined, &["w"]).unwrap_err(), @"launch `pass` prepares weights, so it cannot take `x`: it may take weights (`w`), workspaces and numbers");
        insta::assert_snapshot!(prepared(std::slice::from_ref(&w), Initial::Undefined, &[]).unwrap_err(), @"launch `pass` prepares weights, so it cannot take `w`: it may take weights (which the op does not have), workspaces and numbers");
        insta::assert_snapshot!(prepared(&[w, packed], Initial::Zero, &["w"]).unwrap_err(), @"workspace `packed` holds prepared weights, so it cannot be one that executions leave zeroed: make it `undefined`");
    }

    #[test]
    fn parameters_of_the_same_buffer_do_not_tell_buffers_apart() {
        let plan = |args: &[&[&str]]| {
            let mut plan = LaunchPlan::default();
            for names in args {
                let args = names.iter().map(|name| Arg::Tensor((*name).to_owned())).collect();
                plan.launches.push(Launch {
                    kernel: "pass".to_owned(),
                    grid: [1; 3],
                    block: [1; 3],
                    shared_bytes: 0,
                    cluster: None,
                    programmatic: false,
                    args,
                });
            }
            plan
        };
        assert!(plan(&[&["x", "y"], &["x", "y"]]).tells_buffers_apart());
        assert!(!plan(&[&["x", "x"]]).tells_buffers_apart());
        assert!(!plan(&[&["x", "y"], &["y", "x"]]).tells_buffers_apart());
    }
}
