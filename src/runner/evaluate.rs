//! Evaluates compiled variants on a device: one at a time, case by case, or several in turns, in a contest.

mod arena;
mod case_run;
mod data;
#[cfg(test)]
mod emulation;
mod examine;
mod held;
mod pace;
mod sets;
mod setup;
mod stock;
#[cfg(test)]
mod tests;

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::device::{Clock, Device, Fault, Replay};
use crate::domain::artifact::Artifact;
use crate::domain::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::op::Dtype;
use crate::domain::plan::LaunchPlan;
use crate::domain::verdict::Policy;
use crate::domain::workload::{Case, Tolerance};
use crate::ops;

pub(super) use arena::{Arena, time};
use case_run::Asked;
pub(super) use examine::examine;
pub(super) use stock::Stock;

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
    /// When to stop sampling, and when to confirm a modelled time.
    pub policy: Policy,
    /// The shortest sample.
    pub min_sample_ns: f64,
    /// The most float64 work per check.
    pub oracle_flop: f64,
    /// The most work of one launch on a device that models its times, for cases that have a scaled one.
    pub model_flop: f64,
    /// Where the inputs come from: another seed is other inputs. Variants that share them share what is slow to draw.
    pub input_seed: u64,
    /// Where all comes from that no other variant was given: contents after timing and of a confirmation, and where checks look.
    pub own_seed: u64,
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
    pub scaled: Option<PlannedCase>,
}

/// A case with the variant's plan on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedCase {
    /// The case.
    pub case: Case,
    /// The variant's plan on it.
    pub plan: LaunchPlan,
}

/// Everything that a device needs to know to examine a variant that is about to win.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExamineRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op's name.
    pub op: String,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The largest errors that count as correct on probes, on hidden cases, and on what it is timed on.
    pub tolerance: Tolerance,
    /// The largest errors on random inputs of the case itself, where a winner may have to be better than correct.
    pub accuracy: Tolerance,
    /// The case that it is about to win, or the scaled one where a device models its times.
    pub case: PlannedCase,
    /// Cases that are not in the workload.
    pub hidden: Vec<PlannedCase>,
    /// The shortest sample.
    pub min_sample_ns: f64,
    /// The most float64 work per check.
    pub oracle_flop: f64,
    /// Where the inputs come from.
    pub input_seed: u64,
}

/// What an examination found of a variant that passed it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Examination {
    /// Checks of outputs that it passed.
    pub outputs: usize,
    /// Its time on contents that it never saw over that on the same ones again and again; none where times are modelled.
    pub pace: Option<f64>,
}

/// What is told before each step on the device: the case's name and what is being done.
pub(super) type Step<'a> = dyn FnMut(&str, &str) + 'a;

/// What ended something early.
#[derive(Debug)]
pub(super) enum Ended {
    /// The variant failed: an outcome.
    Outcome(Outcome),
    /// The machine failed: no fault of the variant.
    Machine(String),
}

/// Evaluates a variant, on data from the stock. `step` is called with a case's name and what is being done, before each step on the device.
///
/// An error means that the machine, not the variant, is at fault.
pub fn evaluate(
    device: &mut dyn Device,
    request: &EvaluateRequest,
    stock: &Stock,
    step: &mut Step<'_>,
) -> Result<Evaluation, String> {
    let started = Instant::now();
    let mut measurements = Vec::with_capacity(request.cases.len());
    let outcome = match run(device, request, stock, step, &mut measurements) {
        Ok(()) => Outcome::Measured,
        Err(Ended::Outcome(outcome)) => outcome,
        Err(Ended::Machine(message)) => return Err(message),
    };
    Ok(Evaluation { outcome, measurements, device_s: started.elapsed().as_secs_f64() })
}

fn run(
    device: &mut dyn Device,
    request: &EvaluateRequest,
    stock: &Stock,
    step: &mut Step<'_>,
    measurements: &mut Vec<Measurement>,
) -> Result<(), Ended> {
    let op = ops::find(&request.op).map_err(Ended::Machine)?;
    let asked = Asked { op, request, stock };
    request.cases.iter().try_for_each(|case| {
        measurements.push(measure(device, &asked, case, step)?);
        Ok(())
    })
}

fn measure(
    device: &mut dyn Device,
    asked: &Asked<'_>,
    case: &CaseRequest,
    step: &mut Step<'_>,
) -> Result<Measurement, Ended> {
    let models = matches!(device.clock(), Clock::Model(_));
    match case.scaled.as_ref().filter(|_| models) {
        Some(scaled) => case_run::measure_scaled(device, asked, case, scaled, step),
        None => case_run::measure(device, asked, case, step),
    }
}

/// Returns what replays; a device that models its times does not.
fn replays(device: &mut dyn Device) -> Result<&mut dyn Replay, Ended> {
    let name = device.info().name.clone();
    match device.clock() {
        Clock::Replay(device) => Ok(device),
        Clock::Model(_) => {
            Err(Ended::Machine(format!("the {name} models its times: only a device that replays can sample in turns")))
        }
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
