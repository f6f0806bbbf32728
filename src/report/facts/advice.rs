//! What to do after a session. An experiment that should pay comes first: it takes seconds, and a search profits from what it
//! shows. Then come more of this search, more values, the families that have hardly been tried, a new kernel, and an end.

use super::contract::{Advice, Case, Diagnosis, Edge, NextExperiment, Outlook, ParameterEffect, Step, StepKind};
use super::little_tried::{self, LittleTried};
use super::{ReportInput, edges, experiment, limit};
use crate::domain::budget::stop::EarlyEnd;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::record::{IterationRecord, SessionRecord, Status};
use crate::domain::statistics::median;

/// The expected factor over all cases from which more of the same search is recommended: twice what a comparison resolves on one
/// case.
const WORTH_GOING_ON: f64 = 1.01;

/// The expected factor over all cases from which families that have hardly been tried are searched: what a comparison resolves.
const WORTH_A_FAMILY: f64 = 1.005;

/// The distance from the floor, as a geometric mean, from which a new kernel is recommended.
const WORTH_A_KERNEL: f64 = 1.5;

/// The lead of a baseline over our winner from which a case is behind.
const BEHIND: f64 = 1.02;

/// What a session leaves open.
struct Open<'a> {
    /// Whether every variant failed, so that nothing was timed.
    has_only_failed: bool,
    /// Why its search ended before its budget was spent. None if it did not.
    early_end: Option<EarlyEnd>,
    /// The best values at an end of their lists, if everything else was tried.
    edges: Vec<Edge>,
    /// The families that have hardly been tried.
    little_tried: Vec<LittleTried<'a>>,
    /// The distance to the floor, as a geometric mean.
    room: Option<f64>,
    /// The case on which a baseline is farthest ahead of our winner. None if none is.
    behind: Option<&'a Case>,
}

impl<'a> Open<'a> {
    fn of(cases: &'a [Case], input: &ReportInput<'a>) -> Self {
        let early_end = input.record.session.early_end;
        let is_exhausted = early_end == Some(EarlyEnd::NothingLeft);
        let has_failed = |one: &IterationRecord| {
            one.outcome.as_ref().is_some_and(|outcome| !matches!(outcome, Outcome::Pruned { .. }))
        };
        let has_failed =
            input.record.session.status == Status::Failed || input.record.iterations.iter().any(has_failed);
        let has_only_failed = cases.iter().all(|case| case.best_us.is_none()) && has_failed;
        Self {
            has_only_failed,
            early_end,
            edges: if is_exhausted { edges::of(cases, input.record) } else { Vec::new() },
            little_tried: if is_exhausted { Vec::new() } else { little_tried::of(cases, input) },
            room: room(cases),
            behind: furthest_behind(cases),
        }
    }
}

/// Decides what to do.
pub(super) fn of(
    cases: &[Case],
    effects: &[ParameterEffect],
    diagnoses: &[Diagnosis],
    outlook: Option<&Outlook>,
    input: &ReportInput<'_>,
) -> Advice {
    let open = Open::of(cases, input);
    let kind = without_experiment(outlook, &open, cases.len());
    let then = Step {
        families: match kind {
            StepKind::AnotherFamily => open.little_tried.iter().map(|one| one.name.to_owned()).collect(),
            _ => Vec::new(),
        },
        edges: if kind == StepKind::WiderValues { open.edges.clone() } else { Vec::new() },
        case: (kind == StepKind::NewKernel)
            .then(|| for_kernel(cases, diagnoses, &open))
            .flatten()
            .map(|one| one.case.clone()),
        expected: expected(kind, outlook, &open, cases.len()),
        ..priced(
            kind,
            input.record,
            input.record.session.wall_s.filter(|_| !matches!(kind, StepKind::Mend | StepKind::Stop)),
        )
    };
    match experiment::promising(cases, effects, input).filter(|_| !open.has_only_failed) {
        None => Advice { next: then, then: None },
        Some(experiment) => Advice { next: of_experiment(experiment, cases.len(), input.record), then: Some(then) },
    }
}

fn of_experiment(experiment: NextExperiment, cases: usize, record: &SessionRecord) -> Step {
    // It costs as much as a comparison of this session, or as an iteration without one.
    let comparisons = record.iterations.iter().flat_map(|one| &one.measurements);
    let comparisons: Vec<f64> = comparisons.filter_map(|found| found.comparison.as_ref()?.wall_s).collect();
    let whole: Vec<f64> = record.iterations.iter().filter_map(|one| one.wall_s).collect();
    let seconds = median(&comparisons).or_else(|| median(&whole));
    let expected = Some((experiment.expected.ln() / cases as f64).exp());
    Step { experiment: Some(experiment), expected, ..priced(StepKind::Experiment, record, seconds) }
}

/// Returns a step with what it costs, at the rate of the session.
fn priced(kind: StepKind, record: &SessionRecord, seconds: Option<f64>) -> Step {
    let session = &record.session;
    let usd_per_s = session.wall_s.filter(|wall_s| *wall_s > 0.0).map(|wall_s| session.cost.gpu_usd / wall_s);
    Step {
        kind,
        experiment: None,
        families: Vec::new(),
        edges: Vec::new(),
        case: None,
        expected: None,
        seconds,
        usd: seconds.zip(usd_per_s).map(|(seconds, usd_per_s)| seconds * usd_per_s),
    }
}

fn without_experiment(outlook: Option<&Outlook>, open: &Open<'_>, cases: usize) -> StepKind {
    if open.has_only_failed {
        return StepKind::Mend;
    }
    // A search that ended by itself has said what the rest of it promises.
    if open.early_end.is_none() && outlook.is_none_or(|outlook| outlook.expected >= WORTH_GOING_ON) {
        return StepKind::GoOn;
    }
    if !open.edges.is_empty() {
        return StepKind::WiderValues;
    }
    let is_worth = |family: &LittleTried<'_>| family.expected(cases).is_none_or(|factor| factor >= WORTH_A_FAMILY);
    if open.little_tried.iter().any(is_worth) {
        return StepKind::AnotherFamily;
    }
    let is_far = open.room.is_some_and(|room| room >= WORTH_A_KERNEL);
    if is_far || open.behind.is_some() { StepKind::NewKernel } else { StepKind::Stop }
}

fn expected(kind: StepKind, outlook: Option<&Outlook>, open: &Open<'_>, cases: usize) -> Option<f64> {
    match kind {
        StepKind::GoOn => outlook.map(|outlook| outlook.expected),
        // One search finds the best of them.
        StepKind::AnotherFamily => open.little_tried.iter().filter_map(|one| one.expected(cases)).reduce(f64::max),
        _ => None,
    }
}

/// Returns the case for which a new kernel promises most: where a baseline shows what is possible, else where a cause does, else the
/// one farthest from its floor.
fn for_kernel<'a>(cases: &'a [Case], diagnoses: &[Diagnosis], open: &Open<'a>) -> Option<&'a Case> {
    let far = |case: &&Case| case.roofline.as_ref().and_then(|roofline| roofline.times_of_floor).unwrap_or(1.0);
    let farthest = || cases.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
    open.behind.or_else(|| limit::most_to_gain(cases, diagnoses)).or_else(farthest)
}

fn furthest_behind(cases: &[Case]) -> Option<&Case> {
    let measured = cases.iter().filter(|case| case.baseline.as_ref().is_some_and(|one| !one.is_initial_kernel));
    let behind = measured.filter_map(|case| Some((1.0 / case.ratio_to_baseline?.estimate, case)));
    behind.filter(|(lead, _)| *lead >= BEHIND).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, case)| case)
}

/// Returns the geometric mean of the best times over the floors. None without a floor.
pub(super) fn room(cases: &[Case]) -> Option<f64> {
    let logs: Vec<f64> = cases.iter().filter_map(|case| Some(case.roofline.as_ref()?.times_of_floor?.ln())).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::super::little_tried::Behind;
    use super::*;
    use crate::report::tests::{record, record_ahead, report};

    fn outlook(expected: f64) -> Outlook {
        Outlook {
            since_last_gain_s: Some(0.5),
            early_gains: 5,
            late_gains: 1,
            half_s: 150.0,
            gain_size: Some(1.02),
            expected,
        }
    }

    #[test]
    fn gains_come_first_then_values_then_families_then_room() {
        let open = |families: usize, room| {
            let family = |_| LittleTried { name: "split-k", configurations: 0, behind: Vec::new() };
            let little_tried = (0..families).map(family).collect();
            let has_only_failed = false;
            Open { has_only_failed, early_end: None, edges: Vec::new(), little_tried, room: Some(room), behind: None }
        };
        let chosen = |expected: f64, open: &Open<'_>| without_experiment(Some(&outlook(expected)), open, 1);
        assert_eq!(chosen(1.02, &open(1, 9.0)), StepKind::GoOn);
        assert_eq!(chosen(1.0, &open(1, 9.0)), StepKind::AnotherFamily);
        assert_eq!(chosen(1.0, &open(0, 9.0)), StepKind::NewKernel);
        let mut timed = open(1, 9.0);
        let later = |gain| vec![Behind { factor: 1.1, later_gains: vec![gain; 3] }];
        timed.little_tried[0].behind = later(1.1);
        assert_eq!(chosen(1.0, &timed), StepKind::NewKernel, "the family is not expected to win");
        timed.little_tried[0].behind = later(1.2);
        assert_eq!(chosen(1.0, &timed), StepKind::AnotherFamily);
        assert_eq!(chosen(1.0, &open(0, 1.2)), StepKind::Stop);
        let ahead = report(&record());
        let behind = Open { behind: ahead.cases.first(), ..open(0, 1.2) };
        assert_eq!(chosen(1.0, &behind), StepKind::NewKernel, "a baseline is faster");
        assert_eq!(without_experiment(None, &open(0, 9.0), 1), StepKind::GoOn, "a search that has hardly begun");
        let failed = Open { has_only_failed: true, ..open(1, 9.0) };
        assert_eq!(without_experiment(None, &failed, 1), StepKind::Mend);
        let ended = Open { early_end: Some(EarlyEnd::NothingLeft), ..open(0, 9.0) };
        assert_eq!(chosen(1.02, &ended), StepKind::NewKernel, "the search ended by itself");
    }

    /// The best variant of the first case has `BLOCK` = 256, the largest of the values that were tried.
    #[test]
    fn a_search_that_ended_by_itself_is_not_to_be_continued() {
        let mut record = record();
        record.iterations.retain(|one| one.params["BLOCK"] <= 256);
        record.session.early_end = Some(EarlyEnd::NothingLeft);
        let next = report(&record).advice.next;
        assert_eq!(
            (next.kind, next.edges[0].parameter.as_str(), next.edges[0].value),
            (StepKind::WiderValues, "BLOCK", 256)
        );
        let mut failed = record.clone();
        failed.iterations.iter_mut().for_each(|one| one.measurements.clear());
        failed.session.status = Status::Failed;
        assert_eq!(report(&failed).advice.next.kind, StepKind::Mend);
        record.session.early_end = Some(EarlyEnd::TooLittleLeft);
        let next = report(&record).advice.next;
        assert_eq!((next.kind, &*next.families), (StepKind::AnotherFamily, &["split-k".to_owned()][..]));
    }

    #[test]
    fn a_new_kernel_is_for_the_case_that_is_behind_or_farthest_from_its_floor() {
        let case = |record| {
            let report = report(&record);
            let open = Open {
                has_only_failed: false,
                early_end: None,
                edges: Vec::new(),
                little_tried: Vec::new(),
                room: None,
                behind: furthest_behind(&report.cases),
            };
            for_kernel(&report.cases, &report.diagnoses, &open).unwrap().case.to_string()
        };
        assert_eq!([case(record()), case(record_ahead())], ["b1h1s128", "b8h8s512"]);
    }
}
