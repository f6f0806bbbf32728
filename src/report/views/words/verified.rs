//! How the results were verified, and what to know about their figures.

use std::collections::BTreeSet;

use crate::domain::device::TimeSource;
use crate::domain::device::machine::Throttle;
use crate::domain::measurement::floor::TOLERANCE;
use crate::domain::record::Status;
use crate::report::contract::{Case, Excerpt, Report};
use crate::report::views::format::{counted, either, percent, relative_error};

/// The most cases to name.
const MAX_NAMED: usize = 3;

/// Says what was checked, and how steady the machine was.
pub(in crate::report::views) fn verified(report: &Report) -> String {
    if report.session.time_source == TimeSource::Recorded {
        return "Nothing was checked: the recording was trusted, with its times and its failures. No output was compared \
                with an oracle, and no winner was committed."
            .to_owned();
    }
    let worst = report.correctness.iter().filter_map(|one| one.relative_l2).reduce(f64::max);
    let Some(worst) = worst else { return "No variant was correct.".to_owned() };
    let confirmed = report.cases.iter().filter(|case| case.confirmed).count();
    let mut sentences = vec![format!(
        "Every winner against float64 (worst relative error {}), {confirmed} of {} on held-out inputs.",
        relative_error(worst),
        report.cases.len()
    )];
    if report.session.time_source == TimeSource::Measured {
        sentences.extend(machine(&report.cases));
    }
    let commits: BTreeSet<&String> = report.cases.iter().filter_map(|case| case.commit.as_ref()).collect();
    if let Some(first) = commits.first() {
        let short = |commit: &str| commit.chars().take(10).collect::<String>();
        let more = if commits.len() > 1 { format!(" and {} more", commits.len() - 1) } else { String::new() };
        sentences.push(format!("Committed: {}{more}; optloop reproduce {0} measures again.", short(first)));
    }
    sentences.join(" ")
}

fn machine(cases: &[Case]) -> Vec<String> {
    let compared = || cases.iter().filter_map(|case| case.comparison.as_ref());
    let mut sentences = Vec::new();
    let noise = compared().filter_map(|comparison| comparison.noise);
    if let (Some(lo), Some(hi)) = (noise.clone().reduce(f64::min), noise.reduce(f64::max)) {
        sentences.push(format!("A/A noise {}.", either(percent(lo), percent(hi))));
    }
    let machines = || compared().filter_map(|comparison| comparison.machine.as_ref());
    let clocks = machines().filter_map(|machine| machine.sm_clock_range_mhz);
    if let (Some(lo), Some(hi)) = (clocks.clone().map(|[lo, _]| lo).min(), clocks.map(|[_, hi]| hi).max()) {
        let steady = if lo == hi { format!("steady at {lo} MHz") } else { format!("{lo} to {hi} MHz") };
        let throttled: Vec<&Throttle> = machines().flat_map(|machine| &machine.throttle).collect();
        let throttled =
            throttled.first().map_or("no throttling".to_owned(), |one| format!("throttling ({})", one.name()));
        sentences.push(format!("Clocks {steady}, {throttled}."));
    }
    sentences
}

/// Returns what a reader must know about the figures before using them, one sentence each.
pub(in crate::report::views) fn notes(report: &Report) -> Vec<String> {
    let named = |which: &dyn Fn(&Case) -> bool| -> Option<String> {
        let all: Vec<&str> = report.cases.iter().filter(|case| which(case)).map(|case| case.case.as_str()).collect();
        let more = all.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!all.is_empty()).then(|| format!("{}{more}", all[..all.len().min(MAX_NAMED)].join(", ")))
    };
    let session = &report.session;
    let mut notes = Vec::new();
    notes.extend((session.status != Status::Finished).then(|| {
        let why = session.stop_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("The session is {}{why}.", session.status.name())
    }));
    notes.extend(
        named(&|case| case.best_us.is_none())
            .map(|cases| format!("No correct variant on {cases}: optloop history {} says why.", session.id)),
    );
    let is_below = |case: &Case| case.share_of_floor.is_some_and(|share| share * (1.0 - TOLERANCE) > 1.0);
    notes.extend(named(&is_below).map(|cases| {
        format!("Faster than the floor on {cases}: the measurement or the peaks are wrong, so rely on neither.")
    }));
    let is_alone = |case: &Case| case.best_us.is_some() && case.baseline.is_none();
    let can_compare = session.time_source == TimeSource::Measured;
    notes.extend(named(&is_alone).filter(|_| can_compare).map(|cases| format!("No baseline was timed on {cases}.")));
    let is_disturbed = |case: &Case| case.comparison.as_ref().is_some_and(|one| !one.others.is_empty());
    notes.extend(named(&is_disturbed).map(|cases| format!("Other processes used the GPU while {cases} was timed.")));
    notes.extend(report.no_counters.as_ref().map(|why| format!("Hardware counters could not be read: {why}")));
    if !report.left_out.is_empty() {
        let families: Vec<&str> = report.left_out.iter().map(|one| one.family.as_str()).collect();
        notes.push(format!("Broken families were left out: {}.", families.join(", ")));
    }
    notes.extend(report.excerpt.map(excerpt));
    notes
}

/// Says what the report rests on, where the session has too many iterations to read them all.
fn excerpt(Excerpt { iterations, in_full, wins_left_out, .. }: Excerpt) -> String {
    let wins = match wins_left_out {
        0 => String::new(),
        left_out => format!(" {} not listed.", counted(left_out as usize, "older win")),
    };
    format!(
        "Counts, costs, phases and best times are about all {iterations} iterations; parameters, claims and causes rest on \
         {in_full} of them, so what is called untried may be among the others.{wins}"
    )
}
