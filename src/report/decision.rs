//! What to do after a session. One decision gives the recommendation, the next experiment and the options, so that they
//! never disagree.

use super::choice::Kind;
use super::contract::{Case, Choice, Diagnosis, Experiment, Outlook, ParameterEffect, Report};
use super::format::times;
use super::little_tried::LittleTried;
use super::options::{self, Open};
use super::{ReportInput, experiment, kernel_idea, price};
use crate::domain::device::TimeSource;

/// The expected gain over all cases from which more of the same search is recommended, for as long again: the least
/// speed-up that is worth a commit.
const WORTH_GOING_ON: f64 = 1.01;

/// The expected gain over all cases from which another family is recommended if it was timed: what a comparison resolves.
const WORTH_A_FAMILY: f64 = 1.005;

/// The distance from the floor, as a geometric mean, from which a new kernel is recommended.
const WORTH_A_KERNEL: f64 = 1.5;

/// What to do after a session.
pub(super) struct Decision {
    /// The next experiment, if the recommended option is one: a configuration to measure, or a kernel to write.
    pub(super) experiment: Option<Experiment>,
    /// The options. One of them is recommended.
    pub(super) options: Vec<Choice>,
}

/// Decides what to do. An experiment that should pay comes first: it takes seconds, and a search profits from what it
/// shows. Then come more of this search, the families that have hardly been tried, a new kernel, and an end.
pub(super) fn decide(
    cases: &[Case],
    effects: &[ParameterEffect],
    diagnoses: &[Diagnosis],
    outlook: Option<&Outlook>,
    input: &ReportInput<'_>,
) -> Decision {
    let open = Open::of(cases, input);
    let promising = experiment::promising(cases, effects, input).filter(|_| !open.has_only_failed);
    let recommended = recommended(promising.is_some(), outlook, &open, cases.len());
    let then = recommended_without_experiment(outlook, &open, cases.len());
    let mut options = options::of(cases, promising.as_ref(), outlook, diagnoses, &open, input);
    // The first of a kind is the best.
    let first_of = |options: &[Choice], kind: Kind| options.iter().position(|choice| choice.kind == kind.name());
    if let Some(first) = first_of(&options, recommended) {
        options[first].recommended = true;
    }
    if let Some(next) = first_of(&options, then).filter(|_| then != recommended) {
        options[next].then = true;
    }
    let experiment = match recommended {
        Kind::Experiment => promising,
        Kind::NewKernel => experiment::new_kernel(cases, diagnoses),
        Kind::Mend | Kind::GoOn | Kind::WiderValues | Kind::AnotherFamily | Kind::Stop => None,
    };
    Decision { experiment, options }
}

fn recommended(has_experiment: bool, outlook: Option<&Outlook>, open: &Open<'_>, cases: usize) -> Kind {
    if has_experiment { Kind::Experiment } else { recommended_without_experiment(outlook, open, cases) }
}

fn recommended_without_experiment(outlook: Option<&Outlook>, open: &Open<'_>, cases: usize) -> Kind {
    if open.has_only_failed {
        return Kind::Mend;
    }
    // A search that ended by itself has said what the rest of it promises.
    if open.early_end.is_none() && outlook.is_none_or(|outlook| outlook.factor[1] >= WORTH_GOING_ON) {
        return Kind::GoOn;
    }
    if !open.edges.is_empty() {
        return Kind::WiderValues;
    }
    let is_worth = |family: &LittleTried<'_>| family.expected(cases).is_none_or(|factor| factor >= WORTH_A_FAMILY);
    if open.little_tried.iter().any(is_worth) {
        return Kind::AnotherFamily;
    }
    let is_far = open.room.is_some_and(|room| room >= WORTH_A_KERNEL);
    if is_far || open.is_behind { Kind::NewKernel } else { Kind::Stop }
}

/// Says in one sentence what to do, for the summary.
pub(super) fn recommendation(report: &Report) -> String {
    let words = |choice: &Choice| match choice.kind {
        "experiment" => report.next_experiment.as_ref().map(first_experiment).unwrap_or_default(),
        "go_on" => "continue this search".to_owned(),
        "another_family" => format!("stop tuning the winners, and {}", choice.what),
        "mend" | "wider_values" => choice.what.clone(),
        "new_kernel" => new_kernel(report, choice),
        // Nothing else is known of a recording.
        _ if report.session.time_source == TimeSource::Recorded => {
            "stop: more of this search is expected to gain little".to_owned()
        }
        _ if is_near(report) => "stop: the cases are near their floors".to_owned(),
        _ => "stop: more of this search is expected to gain little".to_owned(),
    };
    let first = report.options.iter().find(|choice| choice.recommended).map(words);
    let then = report.options.iter().find(|choice| choice.then).map(words);
    let said = [first, then].into_iter().flatten().collect::<Vec<_>>().join(", then ");
    match report.session.time_source {
        TimeSource::Modelled if report.cases.iter().any(|case| case.best_us.is_some()) => {
            format!("{said}; confirm the modelled times on a GPU")
        }
        _ => said,
    }
}

/// Tells whether every case is so near its floor that a new kernel would gain little.
fn is_near(report: &Report) -> bool {
    let mut far = report.cases.iter().filter_map(|case| Some(case.best_us? / case.floor_us?)).peekable();
    far.peek().is_some() && far.fold(1.0, f64::max) < WORTH_A_KERNEL
}

/// Says what a new kernel could do, as the options have it, and from how many GPU hours on it pays.
fn new_kernel(report: &Report, choice: &Choice) -> String {
    let idea = kernel_idea::of(&report.cases, &report.diagnoses);
    let what = idea.map_or_else(|| "the next gain needs a new kernel idea".to_owned(), |idea| idea.what());
    match price::pays_from_hours(report, choice) {
        Some(hours) => format!("stop here, unless these kernels run for {hours} GPU hours or more: then {what}"),
        None => format!("stop tuning parameters; {what}"),
    }
}

fn first_experiment(experiment: &Experiment) -> String {
    let Experiment { case, change, before_us, after_us, .. } = experiment;
    // The phrase is up to the explanation of the change.
    let change = change.split(": ").next().unwrap_or(change);
    let expected = after_us.map(|[lo, hi]| {
        let (least, most) = (times(before_us / hi), times(before_us / lo));
        if least == most { format!(", expected {most}") } else { format!(", expected {least} to {most}") }
    });
    format!("try one change on `{case}` ({change}{})", expected.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::little_tried::Behind;
    use super::*;
    use crate::domain::stop::EarlyEnd;

    fn outlook(middle: f64) -> Outlook {
        Outlook {
            share_after_last_gain: Some(0.5),
            early_gains: 5,
            late_gains: 1,
            late_from_s: 150.0,
            late_s: 150.0,
            gain_size: Some(1.02),
            more_s: 300.0,
            expected_gains: 2.0,
            expected_gains_ci: [0.0, 7.4],
            factor: [1.0, middle, 1.01],
        }
    }

    #[test]
    fn experiments_come_first_then_gains_then_families_then_room() {
        let open = |families: usize, room| {
            let family = |_| LittleTried { name: "split-k", configurations: 0, behind: Vec::new() };
            let little_tried = (0..families).map(family).collect();
            let has_only_failed = false;
            Open {
                has_only_failed,
                early_end: None,
                edges: Vec::new(),
                little_tried,
                room: Some(room),
                is_behind: false,
            }
        };
        let chosen =
            |experiment, middle: f64, open: &Open<'_>| recommended(experiment, Some(&outlook(middle)), open, 1).name();
        assert_eq!(chosen(true, 1.02, &open(1, 9.0)), "experiment");
        assert_eq!(chosen(false, 1.02, &open(1, 9.0)), "go_on");
        assert_eq!(chosen(false, 1.0, &open(1, 9.0)), "another_family");
        assert_eq!(chosen(false, 1.0, &open(0, 9.0)), "new_kernel");
        let mut timed = open(1, 9.0);
        let later = |gain| {
            vec![Behind { case: "c", factor: 1.1, in_one_run: false, configurations: 9, later_gains: vec![gain; 3] }]
        };
        timed.little_tried[0].behind = later(1.1);
        assert_eq!(chosen(false, 1.0, &timed), "new_kernel", "the family is not expected to win");
        timed.little_tried[0].behind = later(1.2);
        assert_eq!(chosen(false, 1.0, &timed), "another_family");
        assert_eq!(chosen(false, 1.0, &open(0, 1.2)), "stop");
        let behind = Open { is_behind: true, ..open(0, 1.2) };
        assert_eq!(chosen(false, 1.0, &behind), "new_kernel", "a baseline is faster");
        assert_eq!(recommended(false, None, &open(0, 9.0), 1).name(), "go_on", "a search that has hardly begun");
        let ended = Open { early_end: Some(EarlyEnd::NothingLeft), ..open(0, 9.0) };
        assert_eq!(chosen(false, 1.02, &ended), "new_kernel", "the search ended by itself");
    }
}
