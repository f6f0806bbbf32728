//! A recorded search space in place of a device: it looks results up, and executes nothing.
//!
//! What a file says is trusted. A time is not compared with a floor, and no output is checked.

use std::path::Path;

use super::messages::EvaluateRequest;
use crate::domain::device::{DeviceInfo, Peaks, TimingMode};
use crate::domain::family::plan::{Arg, LaunchPlan, ScalarValue};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::Result;
use crate::spaces::{self, Configuration, Failure, Searchable};

/// The correctness of an unchecked output.
const UNCHECKED: Correctness = Correctness { relative_l2: 0.0, worst_row: 0.0, rows_checked: 0, rows: 0 };

/// The floor in nanoseconds, in place of a floor that is not known. A proposer divides by it, and reports leave it out.
const FLOOR_NS: f64 = 1.0;

/// A recorded search space, opened as a device.
pub struct Recording {
    /// The space, with the workload and the family that stand for it.
    pub searchable: Searchable,
    /// The description of the device. Its UUID is the hash of the file.
    pub info: DeviceInfo,
}

impl Recording {
    /// Reads a file. The error is one sentence that names the file.
    pub fn open(path: &Path) -> Result<Self> {
        let (space, hash) = spaces::read_with_hash(path)?;
        let searchable = Searchable::new(space).map_err(|problem| problem.within(path.display()))?;
        let info = info(path, hash, &searchable)?;
        Ok(Self { searchable, info })
    }

    /// Returns the recorded result of a request's configuration. The launch plan holds the configuration, because the
    /// family passes every parameter to the kernel. An error means that the request is for another recording.
    pub(in crate::runner) fn evaluate(&self, request: &EvaluateRequest) -> Result<Evaluation> {
        let case = request.cases.first().ok_or("the request has no case")?;
        let configuration = self.searchable.configuration(&params(&case.plan));
        let configuration = configuration.ok_or("the recording does not have this configuration")?;
        Ok(evaluation(configuration, &case.case))
    }
}

/// Describes the device. Only its name is known.
fn info(path: &Path, hash: blake3::Hash, searchable: &Searchable) -> Result<DeviceInfo> {
    let name = searchable.space.device.as_deref().unwrap_or("an unknown device");
    Ok(DeviceInfo {
        id: format!("replay:{}", path.display()),
        name: format!("recording of {name}"),
        sm: 0,
        arch: "none".to_owned(),
        sms: 1,
        uuid: Some(hash.to_hex().to_string()),
        timing: TimingMode::Recorded,
        peaks: Peaks { launch_ns: FLOOR_NS, source: "none".to_owned(), ..searchable.device.peaks.clone() },
        ..searchable.device.clone()
    })
}

/// Returns the integers that a plan passes to its kernels.
fn params(plan: &LaunchPlan) -> Params {
    let args = plan.launches.iter().flat_map(|launch| &launch.args);
    let integers = args.filter_map(|arg| match arg {
        Arg::Scalar(scalar) => match scalar.value {
            ScalarValue::I32(value) => Some((scalar.name.clone(), i64::from(value))),
            ScalarValue::I64(value) => Some((scalar.name.clone(), value)),
            ScalarValue::F32(_) | ScalarValue::F64(_) => None,
        },
        _ => None,
    });
    integers.collect()
}

/// Returns the evaluation of a configuration. It occupies the device for as long as the recording says.
fn evaluation(configuration: &Configuration, case: &Case) -> Evaluation {
    let device_s = configuration.cost_s.unwrap_or_default();
    let recording = match &configuration.result {
        Err(failure) => return Evaluation { outcome: outcome(*failure, case), measurements: Vec::new(), device_s },
        Ok(recording) => recording,
    };
    let timing = Timing::recorded(recording.time_ns, recording.samples_ns.clone());
    let measurement = Measurement {
        case: case.name.clone(),
        regime: case.regime,
        correctness: UNCHECKED,
        screening: Some(timing.clone()),
        // There is nothing else to learn about it.
        confirmation: Some(timing),
        comparison: None,
        ctas: 1,
        shape: None,
        preparation: None,
        profile: None,
    };
    Evaluation { outcome: Outcome::Measured, measurements: vec![measurement], device_s }
}

fn outcome(failure: Failure, case: &Case) -> Outcome {
    let (case, message) = (case.name.clone(), format!("the recording says that it {}", failure.reason()));
    match failure {
        Failure::Compile => Outcome::RejectedByCompiler { message },
        Failure::Runtime => Outcome::Crashed { case, message, line: None },
        Failure::TimedOut => Outcome::TimedOut { case, message },
        Failure::Wrong => Outcome::Wrong { case, check: Check::Accuracy, message },
    }
}
