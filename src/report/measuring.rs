//! Table rows and sentences on how a report's figures were measured.

use super::contract::{Case, Comparison, Ratio, Report, WinnersCurse};
use super::format::{self, NOTHING};
use crate::domain::device::TimeSource;
use crate::domain::machine::MachineSummary;
use crate::domain::record::Status;
use crate::domain::state::Graphs;
use crate::domain::statistics::median;

/// The headings of [`rows`]. A leading `>` is for figures.
pub(super) const HEADINGS: [&str; 11] = [
    "Case",
    "Held as",
    ">Rounds",
    ">Discarded",
    ">Samples",
    ">Noise (A/A)",
    ">SM clock (MHz)",
    ">Power (W)",
    ">Temperature (°C)",
    "Throttled by",
    ">Energy (mJ)",
];

/// Returns a row for every case whose figures come from a comparison.
pub(super) fn rows(report: &Report) -> Vec<[String; HEADINGS.len()]> {
    report.cases.iter().filter_map(|case| Some(row(case, case.comparison.as_ref()?))).collect()
}

fn row(case: &Case, comparison: &Comparison) -> [String; HEADINGS.len()] {
    let machine = comparison.machine.as_ref();
    let clocks = machine.and_then(|machine| machine.sm_clock_range_mhz);
    let millijoules = |joules: f64| format::us(joules * 1000.0);
    let throttle = machine.map(|machine| {
        let reasons: Vec<_> = machine.throttle.iter().map(|reason| reason.name()).collect();
        if reasons.is_empty() { "nothing".to_owned() } else { reasons.join(", ") }
    });
    [
        case.case.to_string(),
        comparison.kind.to_owned(),
        comparison.rounds.to_string(),
        comparison.discarded_rounds.to_string(),
        comparison.samples.to_string(),
        or_nothing(comparison.noise.map(format::percent)),
        or_nothing(clocks.map(|[lo, hi]| if lo == hi { lo.to_string() } else { format!("{lo} to {hi}") })),
        or_nothing(machine.and_then(|machine| machine.power_w).map(|power| format!("{power:.0}"))),
        or_nothing(machine.and_then(|machine| machine.temperature_c).map(|celsius| celsius.to_string())),
        or_nothing(throttle),
        versus(comparison.energy_j.map(millijoules), comparison.baseline_energy_j.map(millijoules)),
    ]
}

/// Formats the median clock of the SMs for the best variant and the baseline of a case.
pub(super) fn clocks(case: &Case) -> String {
    let clock = |machine: &Option<MachineSummary>| machine.as_ref()?.sm_clock_mhz.map(|mhz| format!("{mhz:.0}"));
    let comparison = case.comparison.as_ref();
    versus(
        comparison.and_then(|comparison| clock(&comparison.machine)),
        comparison.and_then(|c| clock(&c.baseline_machine)),
    )
}

/// Formats a ratio. A measured ratio says if its sides are from different runs, since its interval would claim too
/// much.
pub(super) fn ratio(ratio: Option<Ratio>, time_source: TimeSource) -> String {
    let Some(ratio) = ratio else { return NOTHING.to_owned() };
    match time_source {
        TimeSource::Modelled | TimeSource::Recorded => format::times(ratio.estimate),
        // The same variant on both sides.
        TimeSource::Measured if (ratio.lo, ratio.hi) == (Some(1.0), Some(1.0)) => format::times(1.0),
        TimeSource::Measured if ratio.paired => with_interval(ratio),
        TimeSource::Measured => format!("{} (not in one run)", format::of_two_runs(ratio.estimate)),
    }
}

/// Returns the notes on the figures beside the table, one sentence each.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let compared = || report.cases.iter().filter_map(|case| Some((case, case.comparison.as_ref()?)));
    let mut notes: Vec<String> = report.winners_curse.map(changed_since_screening).into_iter().collect();
    notes.extend(compared().flat_map(|(case, comparison)| settled(case, comparison)));
    notes.extend(graphs(report));
    notes.extend(without_final(report));
    let disturbed = compared().filter(|(_, comparison)| !comparison.others.is_empty());
    notes.extend(disturbed.map(|(case, comparison)| {
        format!("Other processes used the GPU while `{}` was timed: {}.", case.case, comparison.others.join(", "))
    }));
    notes
}

fn changed_since_screening(WinnersCurse { winners, median, worst }: WinnersCurse) -> String {
    let of = if winners == 1 { "the winner".to_owned() } else { format!("{winners} winners") };
    format!(
        "From its screening run to the comparison, the time of {of} changed by {} in the median and by {} at worst.",
        format::change(median),
        format::change(worst)
    )
}

/// Returns the sentences on the state of the graphs. None where no time depends on it, or where it was not measured.
fn graphs(report: &Report) -> Vec<String> {
    let compared = || report.cases.iter().filter_map(|case| Some((case, case.comparison.as_ref()?)));
    let us = |nodes_ns: Vec<f64>| median(&nodes_ns).map(|ns| format!("{:.2} us", ns / 1e3));
    let ours = us(compared().filter_map(|(_, comparison)| comparison.graph_node_ns).collect());
    let Some(ours) = ours.filter(|_| report.session.graphs == Graphs::AmongOthers) else { return Vec::new() };
    let its = us(compared().filter_map(|(_, comparison)| comparison.baseline_graph_node_ns).collect());
    let its = its.map(|us| format!(" and {us} in the baseline's")).unwrap_or_default();
    let mut sentences = vec![format!(
        "Each process had a graph that was not launched yet, as programs with several graphs do: an empty kernel took \
         {ours} as a node of a graph in ours{its}."
    )];
    let unknown = compared().filter(|(case, comparison)| {
        case.baseline.as_ref().is_some_and(|baseline| !baseline.is_initial_kernel)
            && comparison.baseline_graph_node_ns.is_none()
    });
    let unknown: Vec<String> = unknown.map(|(case, _)| format!("`{}`", case.case)).collect();
    if !unknown.is_empty() {
        sentences.push(format!(
            "The baseline of {} does not report the state of its graphs, so it may be the other one.",
            unknown.join(", ")
        ));
    }
    sentences
}

/// Returns a sentence on the cases that had no time for a final. None if the session did not finish.
fn without_final(report: &Report) -> Option<String> {
    let confirmed = |case: &&Case| case.comparison.as_ref().is_some_and(|comparison| comparison.kind == "confirmation");
    let cases: Vec<String> = report.cases.iter().filter(confirmed).map(|case| format!("`{}`", case.case)).collect();
    (report.session.status == Status::Finished && !cases.is_empty())
        .then(|| format!("There was no final for {}: the figures come from the confirmation.", cases.join(", ")))
}

/// Returns a sentence on the near ties that a final settled.
fn settled(case: &Case, comparison: &Comparison) -> Option<String> {
    if comparison.near_ties.is_empty() {
        return None;
    }
    let best = or_nothing(case.iteration.map(|iteration| format!("iteration {iteration}")));
    let noise = comparison.noise.unwrap_or(0.0);
    let near_ties = comparison.near_ties.iter().map(|near_tie| {
        let who =
            near_tie.iteration.map_or_else(|| near_tie.name.clone(), |iteration| format!("iteration {iteration}"));
        let took = near_tie.ratio.map_or_else(|| "has too few samples".to_owned(), |ratio| takes(ratio, noise));
        format!("{who} {took}")
    });
    let near_ties: Vec<String> = near_ties.collect();
    Some(format!("The final of `{}` left {best} as the best: {}.", case.case, near_ties.join(", ")))
}

/// Returns a phrase on a near tie's time. A faster one must win once more, on other inputs, because the fastest of
/// several looks faster than it is. If it loses, no slower one is tried.
fn takes(ratio: Ratio, noise: f64) -> String {
    let again = if ratio.hi.is_some_and(|hi| hi < 1.0 - noise) {
        ", but neither it nor a faster variant won again on other inputs"
    } else {
        ""
    };
    format!("takes {} as long{again}", with_interval(ratio))
}

fn with_interval(ratio: Ratio) -> String {
    let interval = ratio.lo.zip(ratio.hi);
    interval.map_or_else(|| format::times(ratio.estimate), |(lo, hi)| format::ratio(ratio.estimate, lo, hi))
}

/// Formats our figure beside the baseline's.
fn versus(ours: Option<String>, baseline: Option<String>) -> String {
    match (ours, baseline) {
        (None, None) => NOTHING.to_owned(),
        (ours, baseline) => format!("{} / {}", or_nothing(ours), or_nothing(baseline)),
    }
}

fn or_nothing(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.to_owned())
}
