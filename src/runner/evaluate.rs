//! Evaluates compiled variants on a device: one at a time, case by case, or several in turns, in a comparison.

mod acceptance;
mod arena;
mod below_f16;
mod case_run;
mod data;
#[cfg(test)]
mod declared;
mod drawing;
#[cfg(test)]
mod emulation;
mod executed;
mod far;
mod memoization;
mod resident;
mod sampled;
mod scoped;
mod sets;
mod setup;
mod stock;
#[cfg(test)]
mod tests;

use std::time::Instant;

use super::device::{Device, Fault, Replay};
use super::messages::{AcceptanceRequest, Accepted, CaseRequest, EvaluateRequest};
use crate::domain::code::artifact::Artifact;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::op::OpSource;
use crate::error::{Error, error};
use crate::runner::ops;

pub(super) use arena::Arena;
use case_run::EvaluationContext;
pub(super) use executed::{execute, time};
pub(super) use stock::Stock;

/// Called before each step on the device with the case's name and the action.
pub(super) type Step<'a> = dyn FnMut(&str, &str) + 'a;

/// The reason why a request ended early.
#[derive(Debug)]
pub(super) enum Ended {
    /// The variant failed: an outcome.
    Outcome(Outcome),
    /// The variant had not ended when its time was over: an outcome, unless it has much more to do than on its case.
    TooLong(Outcome),
    /// The op's oracle failed, so nothing is known about the variant.
    Oracle(Error),
    /// The machine failed, through no fault of the variant.
    Machine(Error),
}

/// Evaluates a variant on data from the stock. Calls `step` with a case's name and the action before each step on the
/// device.
///
/// An error means that the machine or the oracle, not the variant, is at fault.
pub fn evaluate(
    device: &mut dyn Device,
    request: &EvaluateRequest,
    stock: &Stock,
    step: &mut Step<'_>,
) -> Result<Evaluation, Ended> {
    let started = Instant::now();
    let mut measurements = Vec::with_capacity(request.cases.len());
    let outcome = match run(device, request, stock, step, &mut measurements) {
        Ok(()) => Outcome::Measured,
        Err(Ended::Outcome(outcome) | Ended::TooLong(outcome)) => {
            explained(outcome, device, (&request.op, &request.artifact))
        }
        Err(ended) => return Err(ended),
    };
    Ok(Evaluation { outcome, measurements, device_s: started.elapsed().as_secs_f64() })
}

/// Runs the acceptance checks on a variant. Calls `step` as [`evaluate`] does.
pub(super) fn accept(
    device: &mut dyn Device,
    request: &AcceptanceRequest,
    step: &mut Step<'_>,
) -> Result<Accepted, Ended> {
    acceptance::accept(device, request, step).map_err(|ended| match ended {
        Ended::Outcome(outcome) | Ended::TooLong(outcome) => {
            Ended::Outcome(explained(outcome, device, (&request.op, &request.artifact)))
        }
        other => other,
    })
}

fn run(
    device: &mut dyn Device,
    request: &EvaluateRequest,
    stock: &Stock,
    step: &mut Step<'_>,
    measurements: &mut Vec<Measurement>,
) -> Result<(), Ended> {
    let op = ops::of(&request.op, device.info()).map_err(Ended::Machine)?;
    let context = EvaluationContext { op, request, stock, explain: request.explain };
    let (started, mut longest_s) = (Instant::now(), 0.0);
    for case in &request.cases {
        let begun_s = started.elapsed().as_secs_f64();
        if !measurements.is_empty() && !ends_within(request.within_s, begun_s, longest_s) {
            break;
        }
        measurements.push(measure(device, &context, case, step)?);
        if request.drops_slow && is_dropped(request, measurements) {
            break;
        }
        longest_s = f64::max(longest_s, started.elapsed().as_secs_f64() - begun_s);
    }
    Ok(())
}

/// Returns whether the variant is so slow on the cases so far that the others are left out.
fn is_dropped(request: &EvaluateRequest, measurements: &[Measurement]) -> bool {
    let pairs = measurements.iter().zip(&request.cases);
    let times = pairs.filter_map(|(found, case)| Some((found.screening.as_ref()?.median_ns, case.incumbent_ns)));
    request.measuring.policy.is_dropped(&times.collect::<Vec<_>>())
}

/// Adds what the device has noticed to the outcome of a variant that failed, and the likely reason if its output differs from
/// one execution to the next.
fn explained(mut outcome: Outcome, device: &dyn Device, (op, artifact): (&OpSource, &Artifact)) -> Outcome {
    if let Some((message, noticed)) = outcome.message_mut().zip(device.noticed()) {
        message.push_str(&format!("; {noticed}"));
    }
    if outcome.check() == Some(Check::Repeatable)
        && artifact.adds_floats_with_atomics()
        && let Some(message) = outcome.message_mut()
    {
        message.push_str(
            ": it adds floating-point numbers with atomics, so the sum depends on the order in which blocks and warps run; \
             let each block write its part, and the last block add the parts in a fixed order, as examples/sum of \
             optloop does",
        );
        if matches!(op, OpSource::Declared(_)) {
            message.push_str(", or let a tensor differ within bounds (--atomic-sums of optloop add)");
        }
    }
    outcome
}

/// Returns whether another case would end in time if it took as long as the longest one so far.
fn ends_within(within_s: Option<f64>, begun_s: f64, longest_s: f64) -> bool {
    within_s.is_none_or(|within_s| begun_s + longest_s < within_s)
}

fn measure(
    device: &mut dyn Device,
    context: &EvaluationContext<'_>,
    case: &CaseRequest,
    step: &mut Step<'_>,
) -> Result<Measurement, Ended> {
    let replays = device.info().replays();
    match case.scaled.as_ref().filter(|_| !replays) {
        Some(scaled) => case_run::measure_scaled(device, context, case, scaled, step),
        None => case_run::measure(device, context, case, step),
    }
}

/// Returns the device's replay interface. A device that models its times has none.
fn replays(device: &mut dyn Device) -> Result<&mut dyn Replay, Ended> {
    let name = device.info().name.clone();
    device.as_replay().ok_or_else(|| {
        Ended::Machine(error!("the {name} models its times: only a device that replays can run comparisons"))
    })
}

fn ended(case: &str, fault: Fault) -> Ended {
    match fault {
        Fault::Refused(message) => Ended::Outcome(Outcome::RejectedByCompiler { message }),
        Fault::NotModelled(message) => Ended::Outcome(Outcome::NotModelled { case: case.into(), message }),
        Fault::OutOfMemory(message) => Ended::Outcome(Outcome::OutOfMemory { case: case.into(), message }),
        Fault::Crashed { message, line } => Ended::Outcome(Outcome::Crashed { case: case.into(), message, line }),
        Fault::TimedOut(message) => Ended::Outcome(Outcome::TimedOut { case: case.into(), message }),
        Fault::TooLong(message) => Ended::TooLong(Outcome::TimedOut { case: case.into(), message }),
        Fault::Broken(message) => Ended::Machine(Error::new(message)),
    }
}
