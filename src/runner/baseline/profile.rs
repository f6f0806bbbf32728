//! Calls of backends that a profiler counts: the requests, and what the program answers.
//!
//! A profiled process is not confined: the profiler connects to it, and it needs the right to read counters. So only
//! programs that optloop ships are profiled, and of these only those that run nothing of a project.

use std::path::Path;

use super::case_inputs::{DrawnInputs, known_kernels, text};
use super::process::{answer, parse_answer};
use super::protocol::{Profiled, Request, RequestedCase};
use super::{BaselineProgram, SHIPPED_CACHE, blocking};
use crate::domain::code::launched::LaunchedKernel;
use crate::domain::compute::Compute;
use crate::domain::device::regime::Regime;
use crate::domain::op::{Dtype, Op};
use crate::domain::workload::Case;
use crate::error::{Error, Result, error};

/// The option of the shipped programs that names a file of requests.
const REQUESTS_OPTION: &str = "--requests";

/// One call of a backend.
#[derive(Clone)]
pub struct ProfiledCall {
    /// The op.
    pub op: &'static dyn Op,
    /// The tensors' element type.
    pub dtype: Dtype,
    /// The precision of its products.
    pub compute: Compute,
    /// The case.
    pub case: Case,
    /// The program's name of the backend.
    pub backend: String,
    /// Bytes of the device's L2.
    pub l2_bytes: u64,
    /// The seed of the inputs.
    pub input_seed: u64,
}

impl BaselineProgram {
    /// Tells whether a profiler may run the program without confinement.
    pub fn may_be_profiled(&self) -> bool {
        self.copies.is_some() && self.cache == SHIPPED_CACHE
    }

    /// Writes the inputs and the requests of calls into a folder. Returns the program that makes them, with its arguments.
    pub(in crate::runner) async fn profiled(&self, calls: &[ProfiledCall], folder: &Path) -> Result<Vec<String>> {
        let (device, calls, folder) = (self.device, calls.to_vec(), folder.to_owned());
        let file = blocking(move || write(device, &calls, &folder)).await?;
        Ok(self.command.iter().cloned().chain([REQUESTS_OPTION.to_owned(), file]).collect())
    }
}

/// Writes the requests into a file, with the inputs beside it. Returns its path.
fn write(device: u32, calls: &[ProfiledCall], folder: &Path) -> Result<String> {
    let unwritten = |error| error!("the requests of a baseline cannot be written: {error}");
    let mut lines = String::new();
    for (place, call) in calls.iter().enumerate() {
        let ProfiledCall { op, dtype, compute, case, backend, l2_bytes, input_seed } = call;
        let own = folder.join(place.to_string());
        std::fs::create_dir(&own).map_err(unwritten)?;
        let inputs = DrawnInputs::new(*op, &case.dims, *dtype, *input_seed, &own)?.files;
        let case = RequestedCase {
            op: op.name(),
            dtype: *dtype,
            compute: *compute,
            dims: &case.dims,
            tensors: &op.tensors(&case.dims, *dtype),
            scalars: op.scalars(&case.dims).into_iter().collect(),
            regime: Regime::Warm,
            l2_bytes: *l2_bytes,
            inputs: &inputs,
        };
        let request = Request::Profile { device, case, backend };
        lines += &serde_json::to_string(&request).map_err(Error::new)?;
        lines.push('\n');
    }
    let file = folder.join("requests");
    std::fs::write(&file, lines).map_err(unwritten)?;
    Ok(text(&file)?.to_owned())
}

/// Reads the answers to calls among what was printed: the kernels of each call, or why there was none.
pub(in crate::runner) fn answers(printed: &str, calls: &[ProfiledCall]) -> Vec<Result<Vec<LaunchedKernel>>> {
    let mut lines = printed.lines().filter(|line| line.starts_with('{'));
    let one = |call: &ProfiledCall| {
        let line = lines.next().ok_or("the program did not answer")?;
        let answered = answer(line.as_bytes()).and_then(parse_answer::<Profiled>);
        let Profiled { compute, kernels } = answered.map_err(Error::new)?;
        if compute.unwrap_or_default() != call.compute {
            return Err(error!("it did not multiply in the mode `{}`", call.compute.name()));
        }
        let kernels = known_kernels(&kernels.unwrap_or_default());
        if kernels.is_empty() { Err(Error::new("the program does not tell its kernels")) } else { Ok(kernels) }
    };
    calls.iter().map(one).collect()
}
