//! What is asked of a device to screen a variant: a pure function of what the session knows.

use std::time::Duration;

use crate::domain::code::artifact::Artifact;
use crate::domain::device::TimeSource;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::error::Error;
use crate::runner::compile::CompileError;
use crate::runner::inputs;
use crate::runner::messages::CaseRequest;
use crate::runner::trial::{Seeds, Trial};
use crate::session::pipeline::duplicates::Duplicates;
use crate::session::pipeline::{Assessed, Compiled};
use crate::session::state::SessionState;

/// Consecutive screening runs that are first checked and timed on the same inputs. Drawing inputs takes seconds where a
/// case is large. Each variant has held-out inputs of its own after timing, and a candidate is checked and compared on
/// others.
const SAME_INPUTS: u64 = 64;

/// How a variant is screened.
pub(in crate::session) enum Prepared<'a> {
    /// A device has to be asked.
    Trial(Trial<'a>),
    /// The result is known without a device.
    Known(Evaluation),
}

/// Prepares the screening of a variant. No case is begun that may not end `within` the time that is left.
pub(in crate::session) fn prepare<'a>(
    state: &'a SessionState,
    duplicates: &Duplicates,
    assessed: &'a Assessed,
    within: Duration,
) -> anyhow::Result<Prepared<'a>> {
    let Assessed { compiled, without_prospects } = assessed;
    // Whether a new family is right has to be seen, because its parameters may make it fast.
    let is_to_be_seen = state.setup().is_on_trial(&compiled.proposal.variant.family);
    let why_not = duplicates.of(compiled).or_else(|| without_prospects.clone()).filter(|_| !is_to_be_seen);
    let pruned = |message| Ok(Prepared::Known(Evaluation::without_device(Outcome::Pruned { message })));
    if let Some(message) = why_not {
        return pruned(message);
    }
    let artifact = match &compiled.artifact {
        Ok(artifact) => artifact,
        Err(CompileError::Broken(message)) => anyhow::bail!("Failed to compile: {message}"),
        Err(rejected) => {
            let is_of_model = matches!(compiled.proposal.rationale.origin, Origin::Model { .. });
            let message = if is_of_model { rejected.with_lines() } else { rejected.to_string() };
            return Ok(Prepared::Known(Evaluation::without_device(Outcome::RejectedByCompiler { message })));
        }
    };
    match cases(state, compiled) {
        Ok(cases) => Ok(Prepared::Trial(trial(state, artifact, cases, compiled, within))),
        Err(message) => pruned(message.into()),
    }
}

/// Returns the cases of a variant, each with the time to beat there.
fn cases(state: &SessionState, compiled: &Compiled) -> Result<Vec<CaseRequest>, Error> {
    let mut cases = compiled.cases.clone()?;
    for case in &mut cases {
        case.incumbent_ns = match compiled.proposal.rationale.purpose {
            // Nothing is to beat, and a modelled time needs no confirmation.
            Purpose::Experiment => (!state.setup().samples_times()).then_some(0.0),
            purpose => state.to_beat_ns(&case.case.name, purpose).or_else(|| begins_without_kernel(state)),
        };
    }
    Ok(cases)
}

fn trial<'a>(
    state: &'a SessionState,
    artifact: &'a Artifact,
    cases: Vec<CaseRequest>,
    compiled: &Compiled,
    within: Duration,
) -> Trial<'a> {
    let setup = state.setup();
    Trial {
        workload: &setup.workload,
        artifact,
        cases,
        measuring: setup.options.measuring,
        seeds: seeds(setup.options.seed, state.begun_before()),
        within: Some(within),
        drops_slow: compiled.proposal.may_be_dropped() && setup.samples_times(),
        explain: false,
    }
}

/// Returns the seeds of the variant that begins after so many others.
fn seeds(seed: u64, before: u64) -> Seeds {
    let input_seed = |place: u64| inputs::mix(seed, &["screening", &place.to_string()]);
    Seeds {
        input: input_seed(before / SAME_INPUTS),
        later: (before % SAME_INPUTS >= SAME_INPUTS / 2).then(|| input_seed(before / SAME_INPUTS + 1)),
        own: inputs::mix(seed, &["own", &before.to_string()]),
    }
}

/// Returns the time that the first variant of a case has to beat where times are modelled and the workload has no initial kernel: any.
/// So it is confirmed, as a winner must be.
fn begins_without_kernel(state: &SessionState) -> Option<f64> {
    let setup = state.setup();
    let is_modelled = setup.device.time_source() == TimeSource::Modelled && !setup.samples_times();
    (setup.workload.initial_kernel.is_none() && is_modelled).then_some(f64::INFINITY)
}
