//! Oracles of the ops that projects declare: programs outside of optloop, each in a process of its own.

mod check;
mod cuda;
mod python;

use std::sync::Arc;
use std::time::Duration;

use self::cuda::CudaOracle;
use self::python::PythonOracle;
use crate::domain::device::DeviceInfo;
use crate::domain::op::DeclaredSource;
use crate::domain::op::oracle::{Oracle, OracleLanguage};
use crate::ops::Declared;
use crate::runner::activity::{self, Limit, RunningStep};
use crate::runner::device::DeviceChoice;

pub use check::{Observed, check};
pub use cuda::serve;

/// The longest that a call may take. The worker's steps, of which it is a part, have a similar limit.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The variable by which a file learns on which device to compute. Those that `optloop import` makes of modules have it.
const DEVICE_VARIABLE: &str = "OPTLOOP_DEVICE";

/// What messages call it.
const LIMIT_NAME: &str = "the limit for a call of an oracle";

/// Begins a call, or another step within its limit, for those who ask what is under way.
fn begin() -> RunningStep {
    activity::begin("a call", Limit::new(LIMIT_NAME, TIME_LIMIT))
}

/// Makes the oracle of an op. Nothing runs before the first call. One in CUDA runs on `device`, and cannot be called without
/// one. The error has a sentence for each mistake of the manifest.
pub fn of(source: &DeclaredSource, device: Option<&DeviceInfo>) -> Result<Arc<dyn Oracle>, Vec<String>> {
    let file = Declared::oracle_file(&source.manifest)?;
    Ok(match OracleLanguage::of_file(&file) {
        Some(OracleLanguage::Cuda) => Arc::new(CudaOracle::new(file, source.oracle.clone(), device)),
        Some(OracleLanguage::Python) | None => {
            let device = device.and_then(|device| gpu_of(&source.oracle, device));
            Arc::new(PythonOracle::new(source.oracle.clone(), source.python.clone(), device))
        }
    })
}

/// Returns the GPU on which an oracle in Python can run, as PyTorch calls it: that of the kernels, if the file can be told.
fn gpu_of(text: &str, device: &DeviceInfo) -> Option<String> {
    match device.id.parse() {
        Ok(DeviceChoice::Cuda(number)) if text.contains(DEVICE_VARIABLE) => Some(format!("cuda:{number}")),
        _ => None,
    }
}
