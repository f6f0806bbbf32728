//! The recommendation: what to do, what it should gain, and one command.

use crate::domain::device::TimeSource;
use crate::domain::record::Status;
use crate::report::contract::{Edge, NextExperiment, Report, Step, StepKind};
use crate::report::views::format::{duration, times, usd};

/// The most cases to name in a command. With more of them, it searches all cases of the workload.
const MAX_CASES: usize = 6;

/// A recommendation in words.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(in crate::report::views) struct Next {
    /// What to do.
    pub(in crate::report::views) what: String,
    /// The command. None if there is nothing to run.
    pub(in crate::report::views) command: Option<String>,
    /// What it should gain and cost, and what to do otherwise.
    pub(in crate::report::views) then: String,
}

/// Says what to do next.
pub(in crate::report::views) fn next(report: &Report) -> Next {
    let Step { expected, seconds, usd: cost, experiment, kind, .. } = &report.advice.next;
    let gain = match (experiment, expected) {
        (Some(one), _) => Some(format!("{} expected", times(one.expected))),
        (None, Some(factor)) if *factor > 1.0 => Some(format!("{factor:.3}× expected over all cases")),
        _ => None,
    };
    let took = seconds.filter(|_| !matches!(kind, StepKind::Mend | StepKind::Stop)).map(|seconds| {
        match cost.filter(|cost| *cost > 0.0) {
            Some(cost) => format!("{} and {}", duration(seconds.round()), usd(cost)),
            None => duration(seconds.round()),
        }
    });
    let told: Vec<String> = [gain, took].into_iter().flatten().collect();
    let told = if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) };
    let otherwise =
        report.advice.then.as_ref().map(|then| format!(", else {}", what(then, report))).unwrap_or_default();
    let modelled = match report.session.time_source {
        TimeSource::Modelled if *kind != StepKind::Mend => " Confirm modelled times on a GPU.",
        _ => "",
    };
    let command = (report.session.time_source != TimeSource::Recorded).then(|| command(report)).flatten();
    Next { what: what(&report.advice.next, report), command, then: format!("{told}{otherwise}.{modelled}") }
}

fn what(step: &Step, report: &Report) -> String {
    match step.kind {
        StepKind::Mend if report.session.status == Status::Failed => "mend what the session failed on".to_owned(),
        StepKind::Mend => "mend the kernel: every variant failed".to_owned(),
        StepKind::Experiment => step.experiment.as_ref().map(experiment).unwrap_or_default(),
        StepKind::GoOn => "continue this search".to_owned(),
        StepKind::WiderValues => step.edges.first().map(wider).unwrap_or_default(),
        StepKind::AnotherFamily => format!("search {}, hardly tried so far", step.families.join(" and ")),
        StepKind::NewKernel => match step.case.as_ref().map(|case| (case, is_behind(report, case))) {
            Some((case, true)) => format!("write a new kernel for {case}, where a baseline is ahead"),
            Some((case, false)) => format!("write a new kernel for {case}, far from its floor"),
            None => "write a new kernel".to_owned(),
        },
        StepKind::Stop => "stop".to_owned(),
    }
}

fn is_behind(report: &Report, case: &str) -> bool {
    let case = report.cases.iter().find(|one| one.case == *case);
    case.and_then(|case| case.ratio_to_baseline).is_some_and(|ratio| ratio.estimate < 1.0)
}

fn experiment(of: &NextExperiment) -> String {
    let changes: Vec<String> =
        of.changes.iter().map(|one| format!("{} {} to {}", one.parameter, one.from, one.to)).collect();
    match (&of.of_case, changes.is_empty()) {
        (Some(other), _) => format!("try the winner of {other} on {}", of.case),
        (None, false) => format!("try {} on {}", changes.join(" and "), of.case),
        (None, true) => format!("try {} on {}", of.family, of.case),
    }
}

fn wider(Edge { family, parameter, value, is_largest, .. }: &Edge) -> String {
    let (end, more) = if *is_largest { ("largest", "larger") } else { ("smallest", "smaller") };
    format!("add {more} values of {parameter} to {family}, whose best one, {value}, is the {end}; then search again")
}

/// Returns the command of the recommended step. None if there is nothing to run.
fn command(report: &Report) -> Option<String> {
    let next = &report.advice.next;
    let workload = &report.session.workload;
    let search = |families: &[String]| {
        let cases: Vec<String> = report.cases.iter().map(|case| format!(" --case {}", case.case)).collect();
        let cases = if cases.len() <= MAX_CASES { cases.concat() } else { String::new() };
        let families: Vec<String> = families.iter().map(|family| format!(" --family {family}")).collect();
        let budget = report.session.budget_s.round();
        format!("optloop start --workload {workload}{cases}{} --budget {budget}s", families.concat())
    };
    match next.kind {
        StepKind::Mend => Some(format!("optloop check {workload}")),
        StepKind::Experiment => next.experiment.as_ref().map(|one| bench(one, workload)),
        StepKind::GoOn => Some(search(&[])),
        StepKind::AnotherFamily => Some(search(&next.families)),
        StepKind::WiderValues => next.edges.first().map(|edge| format!("optloop check {}", edge.family)),
        StepKind::NewKernel => {
            let case = report.cases.iter().find(|case| Some(&case.case) == next.case.as_ref())?;
            Some(format!("optloop diagnose {} --case {}", case.iteration?, case.case))
        }
        StepKind::Stop => {
            let commit = report.cases.iter().find_map(|case| case.commit.as_ref())?;
            Some(format!("optloop reproduce {}", &commit[..10.min(commit.len())]))
        }
    }
}

fn bench(NextExperiment { family, params, case, against, .. }: &NextExperiment, workload: &str) -> String {
    let params: Vec<String> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let against = against.map(|iteration| format!(" --against {iteration}")).unwrap_or_default();
    format!("optloop bench {family}:{} --workload {workload} --case {case}{against}", params.join(","))
}
