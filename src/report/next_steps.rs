//! Suggests what to try next, by rules over the data. No rule claims more than the data shows.

use std::collections::BTreeSet;

use super::contract::{Case, Predictions, Report};
use super::format::{percent, times};
use super::{ReportInput, excluded, format};
use crate::domain::device::TimeSource;
use crate::domain::floor::TOLERANCE;
use crate::domain::ids::SessionId;
use crate::domain::verdict::Verdict;

/// A difference from a baseline that no user would notice.
const LITTLE: f64 = 0.005;

/// Suggests what to try next, most important first.
pub(super) fn suggest(report: &Report, input: &ReportInput<'_>) -> Vec<String> {
    let mut steps = Vec::new();
    steps.extend(report.cases.iter().filter_map(|case| without_result(case, report.session.id)));
    steps.extend(report.cases.iter().filter_map(below_floor));
    steps.extend(report.cases.iter().filter_map(|case| slower_than_baseline(case, report.session.time_source)));
    let of = |which: fn(&Case, &Report) -> bool| report.cases.iter().filter(move |case| which(case, report));
    steps.extend(without_win(of(is_start), "no variant was faster than the first correct one"));
    steps.extend(without_win(of(is_remeasured), "nothing beat the committed winner that the session began with"));
    steps.extend(untried_families(input));
    steps.extend(optimistic(&report.predictions));
    steps.extend(without_baseline(&report.cases));
    steps.extend(uncommitted(report));
    if report.session.time_source == TimeSource::Modelled {
        let step = "All times are modelled: run a session on a GPU before you rely on them. It measures the winners \
                    of other devices first, including virtual ones.";
        steps.push(step.to_owned());
    }
    if report.session.time_source == TimeSource::Recorded {
        let step = "All times are from a recording, which was trusted: time the best configuration with its kernel before \
                    you rely on it.";
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

fn slower_than_baseline(case: &Case, time_source: TimeSource) -> Option<String> {
    let (ratio, baseline) = (case.ratio_to_baseline?, case.baseline.as_ref()?);
    let noise = case.comparison.as_ref().and_then(|comparison| comparison.noise).unwrap_or(0.0);
    if ratio.paired && ratio.estimate < 1.0 && ratio.hi.is_some_and(|hi| hi >= 1.0 - noise) {
        return Some(format!("`{}` is tied with {}: the two differ by less than the noise.", case.case, baseline.name));
    }
    let not_in_one_run = if ratio.paired || time_source != TimeSource::Measured { "" } else { " (not in one run)" };
    if (1.0 - LITTLE..1.0).contains(&ratio.estimate) {
        return Some(format!("`{}` takes as long as {}, to within 0.5%{not_in_one_run}.", case.case, baseline.name));
    }
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

/// Names the cases without a win in one sentence.
fn without_win<'a>(cases: impl Iterator<Item = &'a Case>, why: &str) -> Option<String> {
    let named: Vec<String> = cases.map(|case| format!("`{}`", case.case)).collect();
    (!named.is_empty()).then(|| format!("No win on {}: {why}.", named.join(", ")))
}

/// Returns whether the best variant of a case is the committed winner that the session began with.
fn is_remeasured(case: &Case, report: &Report) -> bool {
    report.remeasured.iter().any(|again| again.case == case.case && Some(again.iteration) == case.iteration)
}

fn untried_families(input: &ReportInput<'_>) -> Option<String> {
    let measured: BTreeSet<&str> = input
        .record
        .iterations
        .iter()
        .filter(|iteration| iteration.measurements.iter().any(|measurement| measurement.best_timing().is_some()))
        .map(|iteration| iteration.family.as_str())
        .collect();
    // A family that no case fits is told with its reasons, as excluded.
    let fits = |family: &str| input.record.session.cases.iter().any(|case| excluded::can_compute(input, family, case));
    let untried = input.families.iter().map(|family| family.name.as_str());
    let untried = untried.filter(|family| !measured.contains(family) && fits(family));
    let untried: Vec<_> = untried.map(|family| format!("`{family}`")).collect();
    (!untried.is_empty()).then(|| format!("Never timed in this session: {}.", untried.join(", ")))
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
    if report.session.time_source == TimeSource::Recorded {
        // Its winners never are.
        return None;
    }
    let missing: Vec<_> = report
        .cases
        .iter()
        .filter(|case| case.confirmed && case.commit.is_none())
        .filter(|case| !is_start(case, report) && !is_remeasured(case, report))
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

#[cfg(test)]
mod tests {
    use super::super::tests::{families, input, record};
    use super::*;

    #[test]
    fn a_family_that_cannot_compute_any_case_is_not_suggested() {
        let record = record();
        let mut families = families();
        let untried = |families: &[_]| untried_families(&ReportInput { families, ..input(&record) });
        assert_eq!(untried(&families).as_deref(), Some("Never timed in this session: `split-k`."));
        let why = |case: &str| (case.into(), vec!["D must be 64".to_owned()]);
        families[1].excluded = vec![why("b1h1s128"), why("b8h8s512")];
        assert!(untried(&families).is_some(), "it fits one case");
        families[1].excluded = record.session.cases.iter().map(|case| why(case)).collect();
        assert_eq!(untried(&families), None);
    }
}
