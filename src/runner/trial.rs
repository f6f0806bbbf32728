//! Has a device check and time a compiled variant. Every evaluation begins so: a session's, and those of `bench`, `check` and
//! the audit.

use std::time::Duration;

use super::inputs;
use super::messages::{CaseRequest, EvaluateRequest};
use super::worker::{Worker, WorkerError};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::measurement::floor::Floor;
use crate::domain::measurement::settings::Measuring;
use crate::domain::workload::{Case, Workload};

/// A compiled variant on cases, and how to check and time it there.
pub struct Trial<'a> {
    /// What the variant computes, with its tolerance.
    pub workload: &'a Workload,
    /// The compiled variant.
    pub artifact: &'a Artifact,
    /// The cases with their plans, in the order to try them.
    pub cases: Vec<CaseRequest>,
    /// How to measure.
    pub measuring: Measuring,
    /// Where its inputs come from.
    pub seeds: Seeds,
    /// The time for all cases. None is no limit.
    pub within: Option<Duration>,
    /// Whether a variant is dropped once it is far behind.
    pub drops_slow: bool,
    /// Whether a device that models its times also models them without each cause of lost time.
    pub explain: bool,
}

/// The seeds of a trial's inputs. [`EvaluateRequest`] says what each is for.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// That of the inputs on which it is checked and timed.
    pub input: u64,
    /// That of the inputs that later variants share, if they are near.
    pub later: Option<u64>,
    /// That of the data that no other variant gets.
    pub own: u64,
}

impl Seeds {
    /// Derives all seeds of a variant that shares no inputs with others.
    pub fn alone(input: u64) -> Self {
        Self { input, later: None, own: inputs::mix(input, &["own"]) }
    }
}

impl Trial<'_> {
    /// Checks and times the variant. A time below the floor is an outcome, too. An error means that the machine or the oracle is
    /// at fault.
    pub async fn run(self, worker: &mut Worker) -> Result<Evaluation, WorkerError> {
        let (workload, request) = (self.workload, self.request());
        let cases: Vec<Case> = request.cases.iter().map(|request| request.case.clone()).collect();
        let mut evaluation = worker.evaluate(request).await?;
        refute(workload, &cases, worker.info(), &mut evaluation);
        Ok(evaluation)
    }

    /// Returns the request for the device.
    pub fn request(self) -> EvaluateRequest {
        let Self { workload, artifact, cases, measuring, seeds, within, drops_slow, explain } = self;
        EvaluateRequest {
            artifact: artifact.clone(),
            op: workload.op.source(),
            dtype: workload.dtype,
            compute: workload.compute,
            tolerance: workload.tolerance,
            cases,
            measuring,
            input_seed: seeds.input,
            later_input_seed: seeds.later,
            own_seed: seeds.own,
            within_s: within.map(|within| within.as_secs_f64()),
            drops_slow,
            explain,
        }
    }
}

/// Turns an evaluation with a time below the floor into a cheat. Either the work was not done, or the time is wrong.
pub fn refute(workload: &Workload, cases: &[Case], device: &DeviceInfo, evaluation: &mut Evaluation) {
    if device.time_source() != TimeSource::Measured || evaluation.outcome != Outcome::Measured {
        return;
    }
    let refuted = evaluation.measurements.iter().find_map(|found| {
        let case = cases.iter().find(|case| case.name == found.case)?;
        let (floor, ns) = (Floor::of(workload, case, device), found.best_timing()?.median_ns);
        floor.refutes(ns).then(|| (found.case.clone(), floor.refutation(ns)))
    });
    if let Some((case, message)) = refuted {
        evaluation.outcome = Outcome::Cheated { case, check: Check::Floor, message };
    }
}
