//! Suggests what to try next, by rules over the data. No rule claims more than the data shows.

use std::collections::{BTreeMap, BTreeSet};

use super::contract::{Case, Predictions, Report};
use super::format::{percent, times};
use super::{ReportInput, format};
use crate::domain::device::TimeSource;
use crate::domain::floor::TOLERANCE;
use crate::domain::ids::SessionId;
use crate::domain::record::IterationRecord;
use crate::domain::variant::Params;
use crate::domain::verdict::Verdict;

/// The most parameters to name. More would be no advice.
const TOP_PARAMETERS: usize = 3;

/// Fewest tries of a parameter for its mean to say anything.
const MIN_TRIES: usize = 2;

/// Suggests what to try next, most important first.
pub(super) fn suggest(report: &Report, input: &ReportInput<'_>) -> Vec<String> {
    let mut steps = Vec::new();
    steps.extend(report.cases.iter().filter_map(|case| without_result(case, report.session.id)));
    steps.extend(report.cases.iter().filter_map(below_floor));
    steps.extend(furthest_from_floor(&report.cases));
    steps.extend(report.cases.iter().filter_map(|case| slower_than_baseline(case, report.session.time_source)));
    steps.extend(report.cases.iter().filter(|case| is_start(case, report)).map(without_win));
    steps.extend(report.cases.iter().filter(|case| is_remeasured(case, report)).map(without_find));
    steps.extend(untried_families(input));
    steps.extend(paying_parameters(&input.record.iterations));
    steps.extend(optimistic(&report.predictions));
    steps.extend(without_baseline(&report.cases));
    steps.extend(uncommitted(report));
    if report.session.time_source == TimeSource::Modelled {
        let step = "All times are modelled: run a session on a GPU before you rely on them. It measures the winners \
                    of other devices first, including virtual ones.";
        steps.push(step.to_owned());
    }
    steps
}

fn without_result(case: &Case, session: SessionId) -> Option<String> {
    case.best_us.is_none().then(|| {
        format!("`{0}` has no correct variant yet: see `optloop history {session} --case {0}` for why.", case.case)
    })
}

fn below_floor(case: &Case) -> Option<String> {
    let share = case.share_of_floor.filter(|share| share * (1.0 - TOLERANCE) > 1.0)?;
    let shown = percent(share);
    Some(format!(
        "`{}` is faster than its floor ({shown} of it): the measurement or the ceilings are wrong, so rely on neither.",
        case.case
    ))
}

fn furthest_from_floor(cases: &[Case]) -> Option<String> {
    let share = |case: &Case| case.share_of_floor;
    let furthest = cases
        .iter()
        .filter(|case| share(case).is_some())
        .min_by(|a, b| share(a).unwrap_or(1.0).total_cmp(&share(b).unwrap_or(1.0)))?;
    let share = furthest.share_of_floor?;
    // Within a tenth of the floor, there is little left to gain.
    (share < 0.9).then(|| {
        let busy = furthest.ctas.filter(|&ctas| ctas * 2 <= u64::from(furthest.sms)).map_or_else(String::new, |ctas| {
            format!("; it launches {ctas} blocks on {} SMs, so most of the device is idle", furthest.sms)
        });
        format!("`{}` is furthest from its floor: the best time is {} of it{busy}.", furthest.case, times(1.0 / share))
    })
}

fn slower_than_baseline(case: &Case, time_source: TimeSource) -> Option<String> {
    let (ratio, baseline) = (case.ratio_to_baseline?, case.baseline.as_ref()?);
    let noise = case.comparison.as_ref().and_then(|comparison| comparison.noise).unwrap_or(0.0);
    if ratio.paired && ratio.estimate < 1.0 && ratio.hi.is_some_and(|hi| hi >= 1.0 - noise) {
        return Some(format!("`{}` is tied with {}: the two differ by less than the noise.", case.case, baseline.name));
    }
    let not_in_one_run = if ratio.paired || time_source == TimeSource::Modelled { "" } else { " (not in one run)" };
    (ratio.estimate < 1.0).then(|| {
        format!(
            "`{}` still takes {} as long as {}{not_in_one_run}.",
            case.case,
            times(1.0 / ratio.estimate),
            baseline.name
        )
    })
}

/// Returns whether the best variant of a case is its first correct one.
fn is_start(case: &Case, report: &Report) -> bool {
    report
        .wins
        .iter()
        .any(|win| win.case == case.case && win.verdict == Verdict::Start && Some(win.iteration) == case.iteration)
}

fn without_win(case: &Case) -> String {
    format!("`{}` has no win: no variant was faster than its first correct one.", case.case)
}

/// Returns whether the best variant of a case is the committed winner that the session began with.
fn is_remeasured(case: &Case, report: &Report) -> bool {
    report.remeasured.iter().any(|again| again.case == case.case && Some(again.iteration) == case.iteration)
}

fn without_find(case: &Case) -> String {
    format!("`{}` has no win: nothing beat the winner that an earlier session committed.", case.case)
}

fn untried_families(input: &ReportInput<'_>) -> Option<String> {
    let measured: BTreeSet<&str> = input
        .record
        .iterations
        .iter()
        .filter(|iteration| iteration.measurements.iter().any(|measurement| measurement.best_timing().is_some()))
        .map(|iteration| iteration.family.as_str())
        .collect();
    let untried: Vec<_> =
        input.families.iter().filter(|family| !measured.contains(family.as_str())).map(|f| format!("`{f}`")).collect();
    (!untried.is_empty()).then(|| format!("Never timed in this session: {}.", untried.join(", ")))
}

/// Names the parameters whose change paid off most, by the claims in which nothing else changed.
fn paying_parameters(iterations: &[IterationRecord]) -> Option<String> {
    let mut logs: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for iteration in iterations {
        let reference =
            iteration.hypothesis.reference.iteration().and_then(|id| iterations.iter().find(|other| other.id == id));
        let (Some(actual), Some(reference)) = (iteration.actual, reference) else { continue };
        if let Some(parameter) = only_change(&reference.params, &iteration.params)
            && reference.family == iteration.family
        {
            logs.entry((&iteration.family, parameter)).or_default().push(actual.ln());
        }
    }
    let mut means: Vec<_> = logs
        .into_iter()
        .filter(|(_, logs)| logs.len() >= MIN_TRIES)
        .map(|(parameter, logs)| (parameter, (logs.iter().sum::<f64>() / logs.len() as f64).exp(), logs.len()))
        .filter(|(_, mean, _)| *mean > 1.0)
        .collect();
    means.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<_> = means
        .iter()
        .take(TOP_PARAMETERS)
        .map(|((family, parameter), mean, tries)| {
            format!("`{parameter}` of `{family}` ({}, the geometric mean of {tries} changes)", times(*mean))
        })
        .collect();
    (!named.is_empty()).then(|| format!("Most beneficial changes: {}.", named.join(", ")))
}

/// Returns the only parameter in which two configurations differ. None if several differ, or none does.
fn only_change<'a>(before: &Params, after: &'a Params) -> Option<&'a str> {
    let mut changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    match (changed.next(), changed.next()) {
        (Some((name, _)), None) => Some(name),
        _ => None,
    }
}

fn optimistic(predictions: &Predictions) -> Option<String> {
    let tested = predictions.in_range + predictions.above + predictions.below;
    (predictions.below * 2 > tested).then(|| {
        let share = percent(predictions.below as f64 / tested as f64);
        format!("{share} of the tested claims were below their predicted range: the predictions are too optimistic.")
    })
}

fn without_baseline(cases: &[Case]) -> Option<String> {
    let missing: Vec<_> =
        cases.iter().filter(|case| case.baseline.is_none()).map(|case| format!("`{}`", case.case)).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "No baseline was timed for {}, so it is unknown how these cases compare with the usual implementation.",
            missing.join(", ")
        )
    })
}

fn uncommitted(report: &Report) -> Option<String> {
    let missing: Vec<_> = report
        .cases
        .iter()
        .filter(|case| case.confirmed && case.commit.is_none() && !is_start(case, report))
        .map(|case| {
            format!(
                "`{}` (iteration {})",
                case.case,
                case.iteration.map_or_else(|| format::NOTHING.to_owned(), |iteration| iteration.to_string(),)
            )
        })
        .collect();
    (!missing.is_empty()).then(|| format!("Winners that are not committed: {}.", missing.join(", ")))
}
