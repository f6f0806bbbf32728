//! What to do about a cause of lost time: a change that was not tried, or why nothing is left to try.

use super::ReportInput;
use super::format::{either, times};
use crate::domain::finding::{Finding, Remedy};
use crate::domain::ids::IterationId;
use crate::domain::origin::Purpose;
use crate::domain::prediction::Prediction;
use crate::domain::record::IterationRecord;
use crate::domain::tested::screened_ns;

/// The least expected gain that is worth an experiment: one that a comparison can resolve.
pub(super) const MIN_GAIN: f64 = 1.005;

/// What is left to do about a cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next<'a> {
    /// A configuration that the session did not try on the case, and its predicted speed-up.
    Try(&'a Remedy, Option<Prediction>),
    /// Something that no configuration does: a kernel has to be written or changed.
    Write(&'a Remedy),
    /// Every configuration that should remove the cause was tried. This is the one that came out best.
    Tried {
        /// The iteration that tried it.
        iteration: IterationId,
        /// The explained variant's time over its own. None if it has no time on the case.
        speedup: Option<f64>,
    },
    /// The diagnosis knows no change against the cause.
    Nothing,
}

/// Returns what is left to do about a cause.
pub(super) fn of<'a>(finding: &'a Finding, input: &ReportInput<'_>) -> Next<'a> {
    let iterations = &input.record.iterations;
    let mut tried: Option<(IterationId, Option<f64>)> = None;
    let explained = iterations.iter().find(|one| Some(one.id) == finding.iteration);
    let before_ns = explained.and_then(|explained| screened_ns(explained, &finding.case));
    for remedy in finding.remedies.iter().filter(|remedy| remedy.params.is_some()) {
        let Some(trial) = iterations.iter().find(|one| is_trial(one, remedy, &finding.case)) else {
            return Next::Try(remedy, (input.predict)(finding, remedy));
        };
        let speedup = before_ns.zip(screened_ns(trial, &finding.case)).map(|(before, after)| before / after);
        if tried.is_none_or(|(_, best)| speedup > best) {
            tried = Some((trial.id, speedup));
        }
    }
    match (tried, finding.remedies.first()) {
        (Some((iteration, speedup)), _) => Next::Tried { iteration, speedup },
        (None, Some(remedy)) => Next::Write(remedy),
        (None, None) => Next::Nothing,
    }
}

/// Tells whether an iteration tried the configuration of a remedy on a case, with whatever outcome.
fn is_trial(one: &IterationRecord, remedy: &Remedy, case: &str) -> bool {
    let on_case = one.cases.iter().any(|own| own.name == *case) || one.measurements.iter().any(|own| own.case == *case);
    let ended = one.outcome.is_some() && one.purpose != Purpose::Experiment;
    ended && on_case && one.family == remedy.family && Some(&one.params) == remedy.params.as_ref()
}

/// Tells whether a predicted range is not worth an experiment: no outcome in it is, or most make the variant slower.
pub(super) fn is_hopeless(prediction: Prediction) -> bool {
    prediction.hi < MIN_GAIN || prediction.median.is_some_and(|median| median < 1.0)
}

impl Next<'_> {
    /// Returns the phrase for the cause.
    pub(super) fn text(self, finding: &Finding) -> String {
        match self {
            Self::Try(remedy, Some(prediction)) if is_hopeless(prediction) => {
                let range = either(times(prediction.lo), times(prediction.hi));
                // The explanation of the parameter follows the change.
                let (change, kernel) = (remedy.text.split(": ").next().unwrap_or_default(), finding.kernel_change);
                format!("no parameter helps ({change}: {range} predicted); a new kernel could {kernel}")
            }
            Self::Try(remedy, _) | Self::Write(remedy) => remedy.text.clone(),
            Self::Tried { iteration, speedup: Some(by) } => format!("tried: iteration {iteration}, {}", times(by)),
            Self::Tried { iteration, speedup: None } => format!("tried: iteration {iteration}, not correct"),
            Self::Nothing if finding.rule == "at-the-floor" => "nothing: the floor is near".to_owned(),
            // With several launches, the diagnosis proposes to fuse them.
            Self::Nothing if finding.rule == "launch-bound" => "nothing: one launch is needed in any case".to_owned(),
            Self::Nothing => format!("none of its parameters removes it; a new kernel could {}", finding.kernel_change),
        }
    }
}
