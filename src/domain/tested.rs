//! Whether an experiment has confirmed a cause of lost time: a change that removes the cause makes the variant faster.

use serde::Serialize;

use super::evaluation::Outcome;
use super::finding::Finding;
use super::ids::{CaseName, IterationId};
use super::origin::{Change, Origin, Purpose};
use super::record::IterationRecord;

/// The least speed-up that confirms a cause. Two screening runs of one kernel spanned 2.7% on an
/// H200.
const MIN_SPEEDUP: f64 = 1.03;

/// The share of the expected gain, as a logarithm, that confirms a cause. Few changes remove the whole cause.
const MIN_GAIN_SHARE: f64 = 0.5;

/// The power of the expected gain from which more than its cause has gone away.
const MORE: f64 = 1.25;

/// The power of the expected gain from which a speed-up must have other causes, too: as far above the gain as
/// [`MIN_GAIN_SHARE`] is below it.
const FAR_MORE: f64 = 1.5;

/// What experiments say about a cause of lost time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseTest {
    /// Whether the cause has survived.
    pub status: CauseStatus,
    /// The iteration that removed the cause: of several, the one with the largest speed-up. None if none did.
    pub iteration: Option<IterationId>,
    /// The parameters that this iteration changed. Empty if its family is another one.
    pub changes: Vec<Change>,
    /// The case on which it was timed: the finding's, else another one that both variants were timed on.
    pub case: Option<CaseName>,
    /// The explained variant's time over that iteration's.
    pub speedup: Option<f64>,
    /// The gain that the finding expects.
    pub expected: f64,
    /// The rules of the other causes of the variant that could account for the same speed-up.
    pub shared_with: Vec<&'static str>,
}

/// Whether a cause has survived its experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseStatus {
    /// Without the cause, the variant was faster by at least half of the expected gain. Only one parameter changed, and no
    /// other cause of the variant could account for that.
    Confirmed,
    /// Without the cause, the variant was as much faster. Several parameters or the family changed, other causes could account
    /// for it, or one parameter gained so much more that other causes must have a part. So some of the gain may be theirs.
    Supported,
    /// Several parameters or the family changed, and the variant was so much faster that other causes must have a part.
    Inconclusive,
    /// Without the cause, the variant was not that much faster.
    NotConfirmed,
    /// No iteration removed the cause, though a configuration of the same family may.
    NotTested,
    /// No configuration of the same family removes the cause, so no experiment was found.
    NoExperiment,
}

/// Judges a cause by the iterations that removed it: remedies of its rule that were derived from the explained variant,
/// and configurations of the same family that the finding itself proposes.
pub fn judge(finding: &Finding, iterations: &[IterationRecord]) -> CauseTest {
    let explained = iterations.iter().find(|one| Some(one.id) == finding.iteration);
    let trials = explained.into_iter().flat_map(|explained| {
        let removing = iterations.iter().filter(move |one| removes(finding, explained, one, iterations));
        removing.filter_map(move |one| trial(finding, explained, one))
    });
    let rank = |trial: &(IterationId, CaseName, f64)| (trial.1 == finding.case, trial.2);
    let best = trials.max_by(|a, b| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)));
    let changes = best.as_ref().and_then(|(id, ..)| {
        let trial = iterations.iter().find(|one| one.id == *id)?;
        explained.filter(|own| own.family == trial.family).map(|own| Change::between(&own.params, &trial.params))
    });
    let changes = changes.unwrap_or_default();
    let status = match &best {
        None if finding.remedies.iter().any(|one| one.family == finding.family && one.params.is_some()) => {
            CauseStatus::NotTested
        }
        None => CauseStatus::NoExperiment,
        Some((.., speedup)) if *speedup < needed(finding.gain) => CauseStatus::NotConfirmed,
        Some((.., speedup)) => match (changes.len() == 1, is_far_more(*speedup, finding.gain)) {
            (true, false) => CauseStatus::Confirmed,
            (true, true) | (false, false) => CauseStatus::Supported,
            (false, true) => CauseStatus::Inconclusive,
        },
    };
    let (iteration, case, speedup) = best.map_or((None, None, None), |(id, case, by)| (Some(id), Some(case), Some(by)));
    CauseTest { status, iteration, changes, case, speedup, expected: finding.gain, shared_with: Vec::new() }
}

/// Takes back what one experiment cannot show: of several causes that each could account for its speed-up, it confirms
/// none. `tests` are those of all causes of one variant, each with its rule.
pub fn tell_apart(tests: &mut [(&'static str, &mut CauseTest)]) {
    let survived = |test: &CauseTest| match test.status {
        CauseStatus::Confirmed | CauseStatus::Supported => test.iteration,
        _ => None,
    };
    let shown: Vec<_> = tests.iter().map(|(rule, test)| (*rule, survived(test))).collect();
    for (rule, test) in tests {
        let Some(own) = survived(test) else { continue };
        let others = shown.iter().filter(|(other, by)| other != rule && *by == Some(own));
        test.shared_with = others.map(|(other, _)| *other).collect();
        if !test.shared_with.is_empty() {
            test.status = CauseStatus::Supported;
        }
    }
}

/// Returns the speed-up that confirms or supports a cause with an expected gain. Less is noise.
fn needed(gain: f64) -> f64 {
    gain.powf(MIN_GAIN_SHARE).max(MIN_SPEEDUP)
}

/// Tells whether a speed-up is larger than an expected gain beyond noise, so that more than its cause has gone away.
pub fn is_more(speedup: f64, expected: f64) -> bool {
    expected > 1.0 && speedup > expected.powf(MORE).max(expected * MIN_SPEEDUP)
}

/// Tells whether a speed-up is so much larger than an expected gain that it must have other causes, too.
fn is_far_more(speedup: f64, expected: f64) -> bool {
    is_more(speedup, expected) && speedup > expected.powf(FAR_MORE)
}

/// Tells whether an iteration removed a finding's cause from the explained variant.
fn removes(
    finding: &Finding,
    explained: &IterationRecord,
    one: &IterationRecord,
    iterations: &[IterationRecord],
) -> bool {
    let same_variant = |other: &IterationRecord| other.family == explained.family && other.params == explained.params;
    let parent = || iterations.iter().find(|other| Some(other.id) == one.parent);
    let is_remedy = matches!(&one.origin, Origin::Remedy { rule, .. } if *rule == finding.rule);
    let is_proposed = || {
        let own = finding.remedies.iter().filter(|remedy| remedy.family == explained.family);
        one.family == explained.family && own.into_iter().any(|remedy| remedy.params.as_ref() == Some(&one.params))
    };
    let is_timed = one.purpose == Purpose::Screening && one.outcome == Some(Outcome::Measured);
    is_timed && ((is_remedy && parent().is_some_and(same_variant)) || is_proposed())
}

/// Returns the speed-up of an iteration over the explained variant: on the finding's case, else on the first case that
/// both were timed on.
fn trial(
    finding: &Finding,
    explained: &IterationRecord,
    one: &IterationRecord,
) -> Option<(IterationId, CaseName, f64)> {
    let on = |case: &CaseName| Some(screened_ns(explained, case)? / screened_ns(one, case)?);
    let others = one.measurements.iter().map(|found| &found.case);
    let mut cases = std::iter::once(&finding.case).chain(others);
    cases.find_map(|case| Some((one.id, case.clone(), on(case)?)))
}

/// Returns the time of an iteration on a case: its screening run, which every iteration has, else its only time.
pub fn screened_ns(iteration: &IterationRecord, case: &str) -> Option<f64> {
    let found = iteration.measurements.iter().find(|found| found.case == case)?;
    Some(found.screening.as_ref().or_else(|| found.best_timing())?.median_ns)
}
