//! The sentences of a report's page: plain text from facts.

mod causes;
mod leads;
mod next;
mod verified;

use super::format::{counted, duration, either, times, usd};
use crate::domain::device::TimeSource;
use crate::domain::history::tested::is_more;
use crate::domain::proposal::finding::{CauseStatus, CauseTest};
use crate::report::contract::{Case, Limit, Report};

pub(super) use causes::lines;
pub(super) use leads::{doing, explanation};
pub(super) use next::next;
pub(super) use verified::{notes, verified};

/// Returns the headline: what improved over what the session began with, and by how much.
pub(super) fn headline(report: &Report) -> String {
    let improved = report.cases.iter().filter(|case| case.change.as_ref().is_some_and(|change| change.improved));
    let count = improved.clone().count();
    let gains: Vec<f64> = improved.clone().filter_map(|case| Some(case.change.as_ref()?.ratio?.estimate)).collect();
    let over = over(improved);
    let by = span(&gains).map(|(lo, hi)| format!(", by {}{over}", either(times(lo), times(hi)))).unwrap_or_default();
    let of = match report.cases.iter().all(|case| case.best_us.is_none()) {
        true => "no variant was correct".to_owned(),
        false => format!("{count} of {} improved{by}", counted(report.cases.len(), "case")),
    };
    format!("{} on {}: {of}", report.session.workload, report.session.device)
}

/// Says what the improved cases have beaten, where that is the same for all.
fn over<'a>(improved: impl Iterator<Item = &'a Case>) -> &'static str {
    let mut began: Vec<&str> = improved.filter_map(|case| Some(case.change.as_ref()?.began_with)).collect();
    let count = began.len();
    began.dedup();
    match (&began[..], count) {
        (["committed_winner"], 1) => " over the committed winner",
        (["committed_winner"], _) => " over the committed winners",
        (["first_variant"], _) => " over the initial kernel",
        _ => "",
    }
}

/// Says what the session took, how it stands against the baseline, and when it last found something.
pub(super) fn standing(report: &Report) -> String {
    let session = &report.session;
    let took = session.wall_s.map_or_else(|| "Not ended".to_owned(), duration);
    let tried = report.iterations.get("total").copied().unwrap_or_default();
    let times = match session.time_source {
        TimeSource::Measured => "times are measured",
        TimeSource::Modelled => "times are modelled: no GPU ran",
        TimeSource::Recorded => "times are recorded: nothing ran",
    };
    let on = if session.devices > 1 { format!(" on {} devices", session.devices) } else { String::new() };
    let (tried, cost) = (counted(tried as usize, "iteration"), usd(session.cost_usd));
    let mut sentences = vec![format!("{took}{on}, {tried}, {cost}; {times}.")];
    sentences.extend(against_baselines(report));
    let quiet = report.outlook.as_ref().and_then(|outlook| outlook.since_last_gain_s);
    sentences.extend(fruitless(report));
    sentences.extend(quiet.map(|seconds| format!("Nothing improved in the last {}.", duration(seconds.round()))));
    sentences.join(" ")
}

/// Says that nothing was found, and whether there was a search. None if a case improved, or if nothing was correct.
fn fruitless(report: &Report) -> Option<String> {
    let is_improved = |case: &Case| case.change.as_ref().is_some_and(|change| change.improved);
    if report.cases.iter().any(is_improved) || report.cases.iter().all(|case| case.best_us.is_none()) {
        return None;
    }
    Some(match report.outlook {
        Some(_) => "Nothing faster was found.".to_owned(),
        None => "It searched too little to tell whether anything is faster.".to_owned(),
    })
}

/// Says how the cases stand against their fastest baselines. None without one.
fn against_baselines(report: &Report) -> Option<String> {
    let measured = report.cases.iter().filter(|case| case.baseline.as_ref().is_some_and(|one| !one.is_initial_kernel));
    let ratios: Vec<f64> = measured.filter_map(|case| Some(case.ratio_to_baseline?.estimate)).collect();
    let (lo, hi) = span(&ratios)?;
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let ahead = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let which = match (ahead, ratios.len()) {
        (1, 1) => "The case is".to_owned(),
        (ahead, all) if ahead == all => format!("All {all} cases are"),
        (ahead, all) => format!("{ahead} of {all} cases {}", if ahead == 1 { "is" } else { "are" }),
    };
    let mean = if ratios.len() > 1 { format!(", geometric mean {}", times(mean)) } else { String::new() };
    Some(format!("{which} ahead of the fastest baseline ({}{mean}).", either(times(lo), times(hi))))
}

/// Returns the smallest and the largest of some figures. None without any.
fn span(figures: &[f64]) -> Option<(f64, f64)> {
    figures.iter().copied().reduce(f64::min).zip(figures.iter().copied().reduce(f64::max))
}

/// Says what limits the best variant of a case, with whether an experiment confirmed it.
pub(super) fn limit(case: &Case, report: &Report) -> String {
    match case.limit {
        None => super::format::NOTHING.to_owned(),
        Some(Limit::Cause { rule, .. }) => {
            let own =
                report.diagnoses.iter().filter(|one| one.case == case.case && Some(one.iteration) == case.iteration);
            let tested = own.flat_map(|one| &one.findings).find(|one| one.finding.rule == rule);
            let status = tested.map_or("not tested", |one| status(one.finding.tested.status));
            match rule {
                "at-the-floor" | "launch-bound" => words_of(rule),
                _ => format!("{} ({status})", words_of(rule)),
            }
        }
        Some(Limit::Ceiling { of, share }) => format!("{of}: {} of the ceiling", super::format::percent(share)),
        Some(Limit::Launch { share }) => format!("launch: {} of the time", super::format::percent(share)),
        Some(Limit::IdleSms { blocks }) => format!("{} on {} SMs", counted(blocks as usize, "block"), case.sms),
        Some(Limit::Unknown) => "not known".to_owned(),
    }
}

/// Returns the name of a rule as words: `bank conflicts`.
pub(super) fn words_of(rule: &str) -> String {
    rule.replace('-', " ")
}

/// Returns what experiments say about a cause in one or two words.
pub(super) fn status(status: CauseStatus) -> &'static str {
    match status {
        CauseStatus::Confirmed => "confirmed",
        CauseStatus::Supported => "supported",
        CauseStatus::Inconclusive => "inconclusive",
        CauseStatus::NotConfirmed => "refuted",
        CauseStatus::NotTested | CauseStatus::NoExperiment => "not tested",
    }
}

/// Says what experiments have shown about a cause: `confirmed: PAD 0 to 8 gained 1.85× (1.51× expected), iteration 12`.
pub(super) fn tested(tested: &CauseTest) -> String {
    let CauseTest { status: of, iteration, changes, speedup, expected, shared_with, pairs, .. } = tested;
    let word = status(*of);
    let (Some(iteration), Some(speedup)) = (iteration, speedup) else { return word.to_owned() };
    let changed: Vec<String> =
        changes.iter().take(2).map(|one| format!("{} {} to {}", one.parameter, one.from, one.to)).collect();
    let more = changes.len().saturating_sub(changed.len());
    let what = match (changed.is_empty(), more) {
        (true, _) => "another family".to_owned(),
        (false, 0) => changed.join(" and "),
        (false, more) => format!("{} and {more} more", changed.join(", ")),
    };
    let effect = match *speedup < 0.995 {
        true => format!("took {} as long", times(1.0 / speedup)),
        false => format!("gained {}", times(*speedup)),
    };
    let others = if *pairs > 1 { format!(" in the median of {pairs} pairs") } else { String::new() };
    let expects = match () {
        () if *expected <= 1.0 => String::new(),
        () if *of == CauseStatus::Supported && is_more(*speedup, *expected) => {
            format!(", of which this cause explains {}", times(*expected))
        }
        () => format!(" ({} expected)", times(*expected)),
    };
    let shared: Vec<String> = shared_with.iter().map(|rule| words_of(rule)).collect();
    let shared = if shared.is_empty() { String::new() } else { format!("; so could {}", shared.join(" and ")) };
    format!("{word}: {what} {effect}{others}{expects}, iteration {iteration}{shared}")
}
