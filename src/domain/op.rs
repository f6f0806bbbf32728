//! What a workload computes: its dimensions, tensors, work and float64 oracle.

pub mod atomic_sums;
mod dims;
pub mod oracle;
mod probe;
mod tensor;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::atomic_sums::AtomicSums;
pub use self::dims::{DimDefault, DimSpec, Dims, OptionalDim, completed, show_dims};
pub use self::probe::{Change, FillAround, Probe, Probed};
pub use self::tensor::{TensorRole, TensorSpec, Values, runs, spread};
pub use super::dtype::Dtype;
use crate::error::Error;

/// The work and memory that a device can always spend on a check, however small the case is.
#[derive(Debug, Clone, Copy)]
pub struct CheckLimits {
    /// Floating-point operations.
    pub flop: f64,
    /// Bytes of tensors, with elements of 4 bytes.
    pub bytes: f64,
}

/// The most work and memory of a hidden case relative to the original case. A kernel with room and time for the case then has both
/// for the hidden case.
const MAX_HIDDEN_WORK: f64 = 2.0;

/// The most work and memory of a hidden case, however large the case is. The hidden shapes of a causal prefill of 8,192 rows took over
/// 26 s without this limit (H200, 2026-11-29, `optloop start --workload attention-prefill-bf16`). Far shapes test large offsets.
const MOST_HIDDEN: CheckLimits = CheckLimits { flop: 2e11, bytes: 64.0 * 1024.0 * 1024.0 };

impl CheckLimits {
    /// Returns the limits of the hidden cases of a case with so much work and memory. These are the least.
    #[must_use]
    pub fn of_hidden(self, flop: f64, bytes: f64) -> Self {
        Self {
            flop: self.flop.max(MOST_HIDDEN.flop.min(MAX_HIDDEN_WORK * flop)),
            bytes: self.bytes.max(MOST_HIDDEN.bytes.min(MAX_HIDDEN_WORK * bytes)),
        }
    }
}

/// A shape with a tensor so large that its offsets in bytes do not fit 32 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarShape {
    /// The sizes.
    pub dims: Dims,
    /// The dimension that is large. Its indices are independent of each other, and follow each other in memory in every tensor
    /// that has it.
    pub dim: &'static str,
    /// How many of its first and of its last indices are looked at. The last ones lie beyond 32 bits.
    pub window: i64,
    /// Whether blocks of a grid with one axis take the indices in order, or backwards: no other dimension has tiles, too.
    pub is_in_order: bool,
    /// Whether the op does not declare that the indices are independent of each other, so that the oracle must show it.
    pub is_assumed: bool,
}

/// Elements of the largest tensor in either window of a far shape, at least.
const WINDOW_ELEMENTS: usize = 1 << 16;

/// The most indices in either window, however small they are.
const MOST_INDICES: usize = 256;

/// The most bytes of a tensor without the large dimension.
const MOST_WHOLE_BYTES: usize = 64 << 20;

impl FarShape {
    /// Enlarges a dimension until the last indices of the largest tensor lie beyond 4 GiB, or beyond 2^30 elements where these
    /// have one or two bytes: no tensor has 2^31 elements. None if other tensors would be too large, or if the dimension has no
    /// such size.
    pub fn along(op: &dyn Op, dims: &Dims, dim: &'static str, dtype: Dtype) -> Option<Self> {
        let sized = |size: i64| {
            let mut dims = dims.clone();
            dims.insert(dim.to_owned(), size);
            dims
        };
        let (one, two) = (op.tensors(&sized(1), dtype), op.tensors(&sized(2), dtype));
        let of_index = |(one, two): (&TensorSpec, &TensorSpec)| two.bytes() - one.bytes();
        let largest = one.iter().zip(&two).max_by_key(|pair| of_index(*pair))?;
        let (bytes, size) = (of_index(largest), largest.0.dtype.bytes());
        let boundary: usize = match size {
            1 => 1 << 30,
            2 => 1 << 31,
            _ => 1 << 32,
        };
        let window = WINDOW_ELEMENTS.div_ceil((bytes / size).max(1)).clamp(2, MOST_INDICES);
        let count = (boundary.div_ceil(bytes.max(1)) + window) as i64;
        let dims = sized(count);
        let is_fine = |(one, two): (&TensorSpec, &TensorSpec), far: &TensorSpec| {
            let is_whole = of_index((one, two)) == 0;
            far.elements() < 1 << 31 && (!is_whole || far.bytes() <= MOST_WHOLE_BYTES)
        };
        let tensors = op.tensors(&dims, dtype);
        let in_range = op.dims().iter().any(|it| it.name == dim && (it.range.0..=it.range.1).contains(&count));
        let is_fine = in_range && one.iter().zip(&two).zip(&tensors).all(|(pair, far)| is_fine(pair, far));
        let shape = Self { dims, dim, window: window as i64, is_in_order: true, is_assumed: false };
        (is_fine && op.check(&shape.dims).is_ok()).then_some(shape)
    }
}

/// Returns the dimensions whose entries an op computes independently of each other, such as batch and heads: the
/// leading dimensions that all of its tensors share, without the rows' own.
pub fn independent_dims(op: &dyn Op, dtype: Dtype) -> Vec<&'static str> {
    // Each dimension gets a size of its own, by which it is found in the shapes.
    let names: Vec<&'static str> = op.dims().iter().map(|dim| dim.name).collect();
    let size = |place: usize| 11 + place as i64;
    let dims: Dims = names.iter().enumerate().map(|(place, name)| ((*name).to_owned(), size(place))).collect();
    let shapes: Vec<Vec<usize>> = op.tensors(&dims, dtype).into_iter().map(|tensor| tensor.shape).collect();
    let shared = |axis: usize| {
        let extent = *shapes.first()?.get(axis)?;
        let is_shared = shapes.iter().all(|shape| axis + 1 < shape.len() && shape[axis] == extent);
        is_shared.then(|| names.iter().enumerate().find(|(place, _)| size(*place) as usize == extent))?
    };
    (0..).map_while(shared).map(|(_, name)| *name).take_while(|name| !op.is_sequential(name)).collect()
}

/// Where an op comes from: everything that another process needs to compute it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OpSource {
    /// An op of optloop, by name.
    BuiltIn(String),
    /// An op that the project declares.
    Declared(Box<DeclaredSource>),
}

/// The files of an op that a project declares.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeclaredSource {
    /// The text of its `op.toml`.
    pub manifest: String,
    /// The text of its oracle.
    pub oracle: String,
    /// The interpreter of an oracle in Python, as a path or as a name in PATH. Empty for one in CUDA.
    pub python: String,
    /// The files that inputs come from.
    pub files: Vec<InputFile>,
}

/// A file that an input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InputFile {
    /// Its name in the op's folder.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// The hash of its contents, in hexadecimal digits.
    pub hash: String,
}

/// Which work of a case is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Work that is divided among blocks, such as batch entries, heads or rows of the output.
    Independent,
    /// Work that each block does sequentially, such as the keys of a query or the terms of a sum.
    Sequential,
}

impl Axis {
    /// Returns the name that the store uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Sequential => "sequential",
        }
    }
}

/// Multiplies a dimension. None if the result is not a whole number above 0.
pub fn multiplied(dims: &Dims, name: &str, factor: f64) -> Option<Dims> {
    let size = dims[name] as f64 * factor;
    let mut resized = dims.clone();
    resized[name] = (size >= 1.0 && size.fract() == 0.0 && size < i64::MAX as f64).then_some(size as i64)?;
    Some(resized)
}

/// The floating-point operations of an attention kernel in the time that a virtual GPU takes for one element of a kernel that
/// does little more than load and store. Such an element takes ten to twenty instructions. A check of 8 million points of a stencil
/// took 21 s on two busy cores (2026-11-26).
const FLOP_OF_AN_ELEMENT: f64 = 32.0;

/// An operation that kernels of several families can compute.
///
/// Its oracle is what every validation compares with. So the oracle is written for clarity first, in float64, and only
/// its outer loop is parallel.
pub trait Op: Sync + Send {
    /// Returns the name that workloads and manifests use.
    fn name(&self) -> &'static str;

    /// Returns what another process needs to compute the op.
    fn source(&self) -> OpSource {
        OpSource::BuiltIn(self.name().to_owned())
    }

    /// Returns a text that is equal only for ops that compute the same. For an op of optloop, that is its name.
    fn identity(&self) -> String {
        self.name().to_owned()
    }

    /// Returns the dimensions that every case must give.
    fn dims(&self) -> &'static [DimSpec];

    /// Returns the dimensions that a case may leave out. A family that does not name one takes only cases without it.
    fn optional_dims(&self) -> &'static [OptionalDim] {
        &[]
    }

    /// Returns all dimensions, first those that every case must give.
    fn all_dims(&self) -> Vec<&'static DimSpec> {
        self.dims().iter().chain(self.optional_dims().iter().map(|optional| &optional.dim)).collect()
    }

    /// Refuses combinations of dimensions that are individually in range but invalid together. The error is one
    /// sentence.
    fn check(&self, _dims: &Dims) -> Result<(), Error> {
        Ok(())
    }

    /// Returns whether entries of a dimension depend on earlier ones, as tokens do on those before them. False by default.
    fn is_sequential(&self, _dim: &str) -> bool {
        false
    }

    /// Returns the element types that its kernels can have.
    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F16, Dtype::Bf16, Dtype::F32]
    }

    /// Returns the names of tensors that only some cases have.
    fn optional_tensors(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the names of tensors that stay the same for many executions. A family may prepare them.
    fn weights(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the tensors of a case: the inputs, then those that are updated in place, then the outputs. So the tensors
    /// with values before a launch come first, and those with results come last. Those without an element type of their
    /// own have `dtype`.
    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec>;

    /// Returns an expression of PyTorch that computes the outputs of cases with these optional dimensions. It uses inputs and
    /// dimensions by name, `torch` and `F` (torch.nn.functional). Exported modules call it where there is no winner. None by default.
    fn torch(&self, _optional: &[&str]) -> Option<String> {
        None
    }

    /// Returns the floating-point launch arguments, such as a scale, by name.
    fn scalars(&self, dims: &Dims) -> Vec<(&'static str, f64)>;

    /// Returns the floating-point operations that the case needs (a multiply-add counts 2).
    fn flop(&self, dims: &Dims) -> f64;

    /// Returns smaller dimensions on which kernels take the same paths, the smallest first. A variant that is too much
    /// work for a CPU is checked on one of these instead. None by default.
    ///
    /// A kernel may be invalid on some of them, and some may not pass [`Op::check`]: the caller must check both.
    fn scaled(&self, _dims: &Dims) -> Vec<Dims> {
        Vec::new()
    }

    /// Returns the dimensions with `factor` times as much work along an axis. None if they would not be whole, or if
    /// the op has no such axis. The result may be out of range or not pass [`Op::check`]: the caller must check both.
    fn resized(&self, _dims: &Dims, _axis: Axis, _factor: f64) -> Option<Dims> {
        None
    }

    /// Returns the probes that every winner must pass. None by default.
    fn probes(&self) -> &'static [Probe] {
        &[]
    }

    /// Returns the probe for shapes with more indices of a dimension than 16 bits count. None by default.
    fn probe_of_length(&self) -> Option<&'static Probe> {
        None
    }

    /// Returns shapes that no workload names, the most telling first. The same source is right on them where its
    /// family's constraints allow it. Some are near the case, others are drawn from the seed. Each has at most twice
    /// the work and memory of the case, or the work and memory of `least`. None by default.
    ///
    /// Some of them may not pass [`Op::check`]: the caller must check.
    fn hidden(&self, _dims: &Dims, _least: CheckLimits, _seed: u64) -> Vec<Dims> {
        Vec::new()
    }

    /// Returns small shapes with all remainders that sizes have by the tiles of kernels, in addition to the hidden ones. None by
    /// default. The caller must check them, too.
    fn remainders(&self, _dims: &Dims, _seed: u64) -> Vec<Dims> {
        Vec::new()
    }

    /// Returns a shape with a tensor of more elements than a float counts, but with little else, for real GPUs. None if there is
    /// none, as by default.
    fn huge(&self, _dims: &Dims, _seed: u64) -> Option<Dims> {
        None
    }

    /// Returns a shape near the case whose offsets in bytes do not fit 32 bits. None if there is none with little work for each
    /// index of a dimension, as by default.
    fn far(&self, _dims: &Dims, _dtype: Dtype) -> Option<FarShape> {
        None
    }

    /// Returns how far each of the given output rows may be from the oracle (L2) because a kernel may round
    /// intermediate results to the dtype. Zero by default.
    fn intermediate_rounding(&self, _dims: &Dims, _dtype: Dtype, _inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
        vec![0.0; rows.len()]
    }

    /// Computes the given rows of the outputs in float64, concatenated in the order of `rows`.
    ///
    /// Rows are numbered through all outputs, in the order of [`Op::tensors`]. The rows of an output come before those of
    /// the next. `inputs` holds the input tensors in that order, too. Each element is already rounded to its dtype.
    ///
    /// Only an oracle outside of optloop can fail. The error is one sentence that names the op.
    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error>;

    /// Returns whether an FP32 kernel may be expected to bear inputs whose exact result is given for some rows: no power of a free
    /// input overflows in it. True by default.
    fn bears(&self, _dims: &Dims, _dtype: Dtype, _inputs: &[Vec<f32>], _exact: (&[usize], &[f64])) -> bool {
        true
    }

    /// Returns how far two executions may differ on an output whose floating-point sums may have any order. None if the same
    /// inputs must give the same bytes.
    fn atomic_sums(&self, _output: &str) -> Option<AtomicSums> {
        None
    }

    /// Returns whether an output holds logarithms. An error of a logarithm is a relative error of what it is the logarithm of, so
    /// errors count as they are, whatever its size. Minus infinity is the logarithm of nothing. Each element is a row of its own.
    fn is_logarithm(&self, _output: &str) -> bool {
        false
    }

    /// Returns the input from which the indices in an output select, each from its own row. Where elements are equal, any of their
    /// indices is right. None if the output holds no such indices.
    fn selects(&self, _output: &str) -> Option<&str> {
        None
    }

    /// Returns whether an output holds elements of inputs as they are, or their indices. Elements must be equal to the oracle's, whatever
    /// the tolerance. Zeros of either sign are equal, and so are all NaN.
    fn is_copied(&self, _output: &str) -> bool {
        false
    }

    /// Returns whether the oracle runs on the device that executes the kernels. It must not run while one is timed.
    fn oracle_uses_device(&self) -> bool {
        false
    }

    /// Returns the most terms that a sum of a case may have, if its floating-point operations do not say so: 1 by default.
    fn longest_sum(&self, _dims: &Dims, _dtype: Dtype) -> f64 {
        1.0
    }

    /// Returns the elements of a tensor on which results depend: all of them by default.
    fn needed_elements(&self, _dims: &Dims, tensor: &TensorSpec) -> usize {
        tensor.elements()
    }

    /// Returns the fewest bytes that device memory must move: each input read once, each output written once, and what is
    /// updated in place both.
    fn bytes(&self, dims: &Dims, dtype: Dtype) -> f64 {
        let moved = |role: TensorRole| f64::from(u8::from(role.is_read()) + u8::from(role.is_written()));
        let needed = |tensor: &TensorSpec| (self.needed_elements(dims, tensor) * tensor.dtype.bytes()) as f64;
        self.tensors(dims, dtype).iter().map(|tensor| needed(tensor) * moved(tensor.role)).sum()
    }

    /// Returns how much a CPU has to do for a case: its floating-point operations, or its elements if they are more.
    fn work(&self, dims: &Dims) -> f64 {
        self.flop(dims).max(self.bytes(dims, Dtype::F32) / Dtype::F32.bytes() as f64)
    }

    /// Returns how much a virtual GPU has to do for a case: its floating-point operations, or what it takes to load and store
    /// its elements if that is more.
    fn executed_flop(&self, dims: &Dims) -> f64 {
        let moved = |role: TensorRole| f64::from(u8::from(role.is_read()) + u8::from(role.is_written()));
        let tensors = self.tensors(dims, Dtype::F32);
        let elements: f64 = tensors.iter().map(|tensor| tensor.elements() as f64 * moved(tensor.role)).sum();
        self.flop(dims).max(FLOP_OF_AN_ELEMENT * elements)
    }

    /// Returns the cost of the whole oracle, in floating-point operations of optloop's own oracles.
    fn oracle_flop(&self, dims: &Dims) -> f64 {
        self.work(dims)
    }

    /// Returns the tensors of a case that hold results, among them those that are updated in place.
    fn outputs(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        self.tensors(dims, dtype).into_iter().filter(|tensor| tensor.role.is_written()).collect()
    }

    /// Returns the tensors of a case that have values before a launch, among them those that are updated in place.
    fn inputs(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        self.tensors(dims, dtype).into_iter().filter(|tensor| tensor.role.is_read()).collect()
    }

    /// Returns whether a kernel updates any tensor of a case in place.
    fn is_in_place(&self, dims: &Dims, dtype: Dtype) -> bool {
        self.tensors(dims, dtype).iter().any(|tensor| tensor.role == TensorRole::InPlace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn batch_and_heads_are_independent_and_a_matrix_product_has_no_such_dimension() {
        assert_eq!(independent_dims(ops::find("attention").unwrap(), Dtype::F16), ["B", "H"]);
        assert!(independent_dims(ops::find("gemm").unwrap(), Dtype::F16).is_empty());
    }
}
