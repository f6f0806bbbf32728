//! A baseline's inputs, and the checks of its answer.

use std::collections::BTreeMap;
use std::path::Path;

use super::process::sentence;
use super::protocol::PreparedBackend;
use super::{Backend, Ready, plausible};
use crate::domain::code::launched::LaunchedKernel;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::op::{Dims, Dtype, Op, Values};
use crate::domain::workload::Tolerance;
use crate::error::{Error, Result, error};
use crate::runner::inputs;
use crate::runner::memory;
use crate::runner::outputs::Outputs;
use crate::runner::validate::Expectation;

/// The most float64 work to check a baseline's outputs. It allows some 64 rows of the longest cases, and every row of
/// the others.
const ORACLE_FLOP: f64 = 1e9;

/// The rows of an output that have to fit into the memory: those of the longest cases.
const SAMPLED_ROWS: usize = 64;

/// The relative error above which a baseline counts as computing something else. Rounding to the coarsest dtype in use,
/// FP8 with 3 bits of mantissa, gives a few hundredths.
const WRONG: f64 = 0.1;

/// The most kernels of a call to keep, and the most characters of a name. Templates have long ones.
const MAX_KERNELS: usize = 64;
const MAX_NAME: usize = 1000;

/// Accepts any error, because only the computed error is of interest here.
const ANY_ERROR: Tolerance = Tolerance { relative_l2: f64::INFINITY, worst_row: f64::INFINITY };

/// How an output is judged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judged {
    /// It may differ as far as anything that computes the same. Beyond that it is of no use.
    AsBaseline,
    /// It must be as right as a kernel's. One that is wrong is timed all the same.
    AsKernel(Tolerance),
}

/// The inputs of a case in files, and the expected output.
pub(super) struct CaseInputs {
    /// The path of each input's file, by the tensor's name.
    pub files: BTreeMap<String, String>,
    expectation: Expectation,
    output_bytes: usize,
}

impl CaseInputs {
    /// Draws the inputs of a seed into a folder and computes the expected output.
    pub fn new(op: &dyn Op, dims: &Dims, dtype: Dtype, seed: u64, folder: &Path) -> Result<Self> {
        let DrawnInputs { files, values } = DrawnInputs::new(op, dims, dtype, seed, folder)?;
        Self::of((op, dims, dtype), files, &values, seed)
    }

    /// Gives one of the inputs `takes` other values than the seed has, and computes what follows. `files` has that input alone: the
    /// first one with floating-point numbers. They stay as they are in its first half, by which a program may know it.
    pub fn changed(
        (op, dims, dtype): (&dyn Op, &Dims, Dtype),
        seed: u64,
        takes: &[String],
        folder: &Path,
    ) -> Result<Self> {
        let specs = op.inputs(dims, dtype);
        let mut values: Vec<Vec<f32>> = specs.iter().map(|tensor| inputs::draw(tensor, seed)).collect();
        let taken = || specs.iter().enumerate().filter(|(_, tensor)| takes.contains(&tensor.name));
        let place = taken().find(|(_, tensor)| !tensor.dtype.is_integer()).or_else(|| taken().next());
        let (place, tensor) = place.ok_or("its calls take no input")?;
        let other = inputs::draw(tensor, inputs::mix(seed, &["again"]));
        let kept = if matches!(tensor.values, Values::Normal) { other.len() / 2 } else { 0 };
        values[place][kept..].copy_from_slice(&other[kept..]);
        let path = folder.join(format!("{}.again", tensor.name));
        let written = std::fs::write(&path, inputs::encode(&values[place], tensor.dtype));
        written.map_err(|error| error!("an input cannot be written to {}: {error}", path.display()))?;
        let files = [(tensor.name.clone(), text(&path)?.to_owned())].into();
        Self::of((op, dims, dtype), files, &values, seed)
    }

    fn of(
        (op, dims, dtype): (&dyn Op, &Dims, Dtype),
        files: BTreeMap<String, String>,
        values: &[Vec<f32>],
        seed: u64,
    ) -> Result<Self> {
        let expectation = Expectation::new(op, dims, dtype, values, ORACLE_FLOP, seed)?;
        Ok(Self { files, expectation, output_bytes: Outputs::of(op, dims, dtype).bytes() })
    }

    /// Accepts a backend as ready only if its answer makes sense.
    pub fn validated(&self, backend: PreparedBackend, folder: &Path, judged: Judged) -> Backend {
        let ready = self.ready(&backend, folder, judged);
        Backend { name: backend.name, ready }
    }

    fn ready(&self, backend: &PreparedBackend, folder: &Path, judged: Judged) -> Result<Ready> {
        if let Some(error) = &backend.error {
            return Err(Error::new(sentence(error)));
        }
        let launches_per_sample = backend.launches_per_sample.filter(|launches| *launches > 0);
        let Some(launches_per_sample) = launches_per_sample else {
            return Err(Error::new("it does not report the number of launches per sample"));
        };
        if let Some(ns) = backend.eager_ns.filter(|ns| !plausible(*ns)) {
            return Err(error!("it reported an invalid eager time of {ns} ns"));
        }
        let (relative_l2, correctness, wrong) = match judged {
            Judged::AsBaseline => {
                (backend.output.as_ref().map(|file| self.error(file, folder)).transpose()?, None, None)
            }
            Judged::AsKernel(tolerance) => {
                let file = backend.output.as_ref().ok_or("it wrote no output")?;
                match self.checked(file, folder, &tolerance) {
                    Ok(found) => (Some(found.relative_l2), Some(found), None),
                    Err(problem) => (None, None, Some(problem.to_string())),
                }
            }
        };
        let kernels = known_kernels(backend.kernels.as_deref().unwrap_or_default());
        let (eager_ns, method, takes) = (backend.eager_ns, backend.method, backend.takes.clone());
        Ok(Ready { launches_per_sample, eager_ns, relative_l2, kernels, method, correctness, wrong, takes })
    }

    /// Returns the error of an output.
    fn error(&self, file: &str, folder: &Path) -> Result<f64> {
        let found = self.checked(file, folder, &ANY_ERROR)?;
        match found.relative_l2 <= WRONG {
            true => Ok(found.relative_l2),
            false => Err(error!("it computes a different result: its relative error is {:.2e}", found.relative_l2)),
        }
    }

    /// Compares an output with the oracle's.
    pub(super) fn checked(&self, file: &str, folder: &Path, tolerance: &Tolerance) -> Result<Correctness> {
        if file.contains(['/', '\\']) {
            return Err(error!("its output `{file}` is a path, not the name of a file in the output folder"));
        }
        let bytes =
            std::fs::read(folder.join(file)).map_err(|error| error!("its output `{file}` cannot be read: {error}"))?;
        if bytes.len() != self.output_bytes {
            return Err(error!("its output has {} bytes, not {}", bytes.len(), self.output_bytes));
        }
        self.expectation.check(&bytes, tolerance).map_err(|problem| error!("its output: {problem}"))
    }
}

/// Inputs in files.
pub(super) struct DrawnInputs {
    /// The path of each input's file, by the tensor's name.
    pub files: BTreeMap<String, String>,
    /// The values of each input, in the op's order.
    pub values: Vec<Vec<f32>>,
}

impl DrawnInputs {
    /// Draws the inputs of a seed into a folder.
    pub fn new(op: &dyn Op, dims: &Dims, dtype: Dtype, seed: u64, folder: &Path) -> Result<Self> {
        memory::check(op, dims, dtype, SAMPLED_ROWS)?;
        let (mut files, mut values) = (BTreeMap::new(), Vec::new());
        for tensor in op.inputs(dims, dtype) {
            let drawn = inputs::draw(&tensor, seed);
            let path = folder.join(format!("{}.input", tensor.name));
            let written = std::fs::write(&path, inputs::encode(&drawn, tensor.dtype));
            written.map_err(|error| error!("an input cannot be written to {}: {error}", path.display()))?;
            files.insert(tensor.name, text(&path)?.to_owned());
            values.push(drawn);
        }
        Ok(Self { files, values })
    }
}

/// Returns the kernels of a call, with names that can be shown. They only explain, so senseless ones are left out as a whole.
pub(super) fn known_kernels(kernels: &[LaunchedKernel]) -> Vec<LaunchedKernel> {
    if kernels.len() > MAX_KERNELS || kernels.iter().any(|kernel| kernel.blocks() == 0 || kernel.threads() == 0) {
        return Vec::new();
    }
    let shown = |kernel: &LaunchedKernel| {
        let name = sentence(&kernel.name).chars().take(MAX_NAME).collect();
        LaunchedKernel { name, ..kernel.clone() }
    };
    kernels.iter().map(shown).collect()
}

/// Returns a path as a string for JSON.
pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| error!("the path of the temporary folder, {}, is not UTF-8", path.display()))
}
