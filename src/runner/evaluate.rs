//! Evaluates a compiled variant on a device: load, then check, time and perhaps confirm it, case by case.

mod case_run;

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::device::{Clock, Device, Fault};
use crate::domain::artifact::Artifact;
use crate::domain::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::op::{Dtype, Op};
use crate::domain::plan::LaunchPlan;
use crate::domain::verdict::Policy;
use crate::domain::workload::{Case, Tolerance};
use crate::ops;

/// Everything that a device needs to know to evaluate a variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EvaluateRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op's name.
    pub op: String,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The largest errors that count as correct.
    pub tolerance: Tolerance,
    /// The cases with their plans, in the order in which to try them.
    pub cases: Vec<CaseRequest>,
    /// When to stop sampling and when to confirm.
    pub policy: Policy,
    /// The shortest sample.
    pub min_sample_ns: f64,
    /// The most float64 work per check.
    pub oracle_flop: f64,
    /// The most work of one launch on a device that models its times, for cases that have a scaled one.
    pub model_flop: f64,
    /// Where the inputs come from: another seed is other inputs.
    pub input_seed: u64,
}

/// One case of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseRequest {
    /// The case.
    pub case: Case,
    /// The variant's plan on it.
    pub plan: LaunchPlan,
    /// The incumbent's median, if there is an incumbent.
    pub incumbent_ns: Option<f64>,
    /// What to check instead where the case is too much work for a device that models its times: the counts come from a
    /// sample of the case's own blocks then.
    pub scaled: Option<ScaledCase>,
}

/// A smaller case of the same name that takes the same paths through the variant, with the variant's plan on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScaledCase {
    /// The case.
    pub case: Case,
    /// The variant's plan on it.
    pub plan: LaunchPlan,
}

/// What ended the evaluation of a case early.
enum Ended {
    /// The variant failed: an outcome.
    Outcome(Outcome),
    /// The machine failed: no fault of the variant.
    Machine(String),
}

/// Evaluates a variant. `step` is called with a case's name and what is being done, before each step on the device.
///
/// An error means that the machine, not the variant, is at fault.
pub fn evaluate(
    device: &mut dyn Device,
    request: &EvaluateRequest,
    step: &mut dyn FnMut(&str, &str),
) -> Result<Evaluation, String> {
    let started = Instant::now();
    let mut measurements = Vec::with_capacity(request.cases.len());
    let outcome = match run(device, request, step, &mut measurements) {
        Ok(()) => Outcome::Measured,
        Err(Ended::Outcome(outcome)) => outcome,
        Err(Ended::Machine(message)) => return Err(message),
    };
    Ok(Evaluation { outcome, measurements, device_s: started.elapsed().as_secs_f64() })
}

fn run(
    device: &mut dyn Device,
    request: &EvaluateRequest,
    step: &mut dyn FnMut(&str, &str),
    measurements: &mut Vec<Measurement>,
) -> Result<(), Ended> {
    let op = ops::find(&request.op).map_err(Ended::Machine)?;
    let first = request.cases.first().map_or("", |case| case.case.name.as_str());
    step(first, "load");
    device.load(&request.artifact).map_err(|fault| ended(first, fault))?;
    for case in &request.cases {
        measurements.push(measure(device, op, request, case, step)?);
    }
    Ok(())
}

fn measure(
    device: &mut dyn Device,
    op: &'static dyn Op,
    request: &EvaluateRequest,
    case: &CaseRequest,
    step: &mut dyn FnMut(&str, &str),
) -> Result<Measurement, Ended> {
    let models = matches!(device.clock(), Clock::Model(_));
    match case.scaled.as_ref().filter(|_| models) {
        Some(scaled) => case_run::measure_scaled(device, op, request, case, scaled, step),
        None => case_run::measure(device, op, request, case, step),
    }
}

fn ended(case: &str, fault: Fault) -> Ended {
    match fault {
        Fault::Refused(message) => Ended::Outcome(Outcome::RejectedByCompiler { message }),
        Fault::Crashed(message) => Ended::Outcome(Outcome::Crashed { case: case.to_owned(), message }),
        Fault::TimedOut(message) => Ended::Outcome(Outcome::TimedOut { case: case.to_owned(), message }),
        Fault::Broken(message) => Ended::Machine(message),
    }
}
