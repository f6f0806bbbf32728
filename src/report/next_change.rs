//! What to do about a cause of lost time: a change that was not tried, or why nothing is left to try.

use super::ReportInput;
use super::format::{either, times};
use crate::domain::finding::{Finding, Remedy};
use crate::domain::ids::IterationId;
use crate::domain::origin::Purpose;
use crate::domain::prediction::Prediction;
use crate::domain::record::IterationRecord;
use crate::domain::tested::screened_ns;
use crate::domain::variant::Params;

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

/// Says what a kernel without a cause would do. Where the family's own split of the reduction is slower, by a measurement
/// of the session or else by the prediction model, a new kernel's split is no idea.
pub(super) fn kernel_change(finding: &Finding, input: &ReportInput<'_>) -> &'static str {
    match finding.without_split {
        Some(without_split) if split_is_slower(finding, input) => without_split,
        _ => finding.kernel_change,
    }
}

/// Tells whether a remedy of the same family that splits the work more is slower on the case.
fn split_is_slower(finding: &Finding, input: &ReportInput<'_>) -> bool {
    let iterations = &input.record.iterations;
    let explained = iterations.iter().find(|one| Some(one.id) == finding.iteration);
    let facts = input.families.iter().find(|facts| facts.name == finding.family);
    let (Some(explained), Some(facts)) = (explained, facts) else { return false };
    let own = finding.remedies.iter().filter(|remedy| remedy.family == finding.family);
    let is_slower = |remedy: &Remedy| {
        let params = remedy.params.as_ref()?;
        let is_more = |one: &Params, name: &str| one.get(name) > explained.params.get(name);
        let split = facts.splits.iter().find(|name| is_more(params, name))?;
        let tried = iterations.iter().filter(|one| one.family == finding.family && is_more(&one.params, split));
        let best_ns = tried.filter_map(|one| screened_ns(one, &finding.case)).reduce(f64::min);
        Some(match best_ns.zip(screened_ns(explained, &finding.case)) {
            Some((best_ns, own_ns)) => best_ns > own_ns,
            None => (input.predict)(finding, remedy).is_some_and(is_hopeless),
        })
    };
    own.filter_map(is_slower).any(|is_slower| is_slower)
}

/// Says that a change against a cause was tried in vain.
pub(super) fn not_correct(iteration: IterationId) -> String {
    format!("tried, not correct (iteration {iteration})")
}

impl Next<'_> {
    /// Returns the iteration that tried the change, if its variant has no time on the case, because it was not correct.
    pub(super) fn failed(self) -> Option<IterationId> {
        match self {
            Self::Tried { iteration, speedup: None } => Some(iteration),
            _ => None,
        }
    }

    /// Returns the phrase for the cause.
    pub(super) fn text(self, finding: &Finding, input: &ReportInput<'_>) -> String {
        let kernel = kernel_change(finding, input);
        match self {
            Self::Try(remedy, Some(prediction)) if is_hopeless(prediction) => {
                let range = either(times(prediction.lo), times(prediction.hi));
                // The explanation of the parameter follows the change.
                let change = remedy.text.split(": ").next().unwrap_or_default();
                format!("no parameter helps ({change}: {range} predicted); a new kernel could {kernel}")
            }
            Self::Try(remedy, _) | Self::Write(remedy) => remedy.text.clone(),
            Self::Tried { iteration, speedup: Some(by) } => format!("tried: iteration {iteration}, {}", times(by)),
            // The experiment of the cause says which iteration that was.
            Self::Tried { speedup: None, .. } => format!("a new kernel could {kernel}"),
            Self::Nothing if finding.rule == "at-the-floor" => {
                format!("nothing: at most {} is left above the floor", times(finding.gain))
            }
            // With several launches, the diagnosis proposes to fuse them.
            Self::Nothing if finding.rule == "launch-bound" => {
                "not known: one launch is needed in any case, and no rule finds why the rest takes so long".to_owned()
            }
            Self::Nothing => format!("none of its parameters removes it; a new kernel could {kernel}"),
        }
    }
}
