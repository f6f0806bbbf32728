//! What the first screen and the lineages show.

use serde::Serialize;

use crate::report::contract::{Diff, Lineage, LineageStep, Report};
use crate::report::format::{duration, times, us, usd};

/// A figure that is read first.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Tile {
    name: &'static str,
    value: String,
    more: String,
}

/// Returns the figures that are read first.
pub(super) fn tiles(report: &Report) -> Vec<Tile> {
    let improved = report.cases.iter().filter(|case| case.change.as_ref().is_some_and(|change| change.improved));
    let gains: Vec<f64> = improved.filter_map(|case| Some(case.change.as_ref()?.ratio?.estimate)).collect();
    let known = report.cases.iter().filter(|case| case.baseline.as_ref().is_some_and(|one| !one.is_initial_kernel));
    let ratios: Vec<f64> = known.filter_map(|case| Some(case.ratio_to_baseline?.estimate)).collect();
    let session = &report.session;
    let mut tiles = vec![Tile {
        name: "Cases improved",
        value: format!("{} of {}", gains.len(), report.cases.len()),
        more: mean(&gains).map(|mean| format!("{} in the geometric mean", times(mean))).unwrap_or_default(),
    }];
    tiles.extend(mean(&ratios).map(|mean| Tile {
        name: "Baseline / ours",
        value: times(mean),
        more: format!("geometric mean of {}", count(ratios.len(), "case")),
    }));
    tiles.push(Tile {
        name: "Iterations",
        value: report.iterations.get("total").copied().unwrap_or_default().to_string(),
        more: count(report.wins.iter().filter(|win| win.verdict.name() == "improved").count(), "win"),
    });
    tiles.push(Tile {
        name: "Time",
        value: session.wall_s.map_or_else(|| "running".to_owned(), duration),
        more: format!("of {}", duration(session.budget_s)),
    });
    let llm = report.cost.session.llm_usd;
    tiles.push(Tile {
        name: "Cost",
        value: usd(session.cost_usd),
        more: if llm > 0.0 { format!("{} for language models", usd(llm)) } else { String::new() },
    });
    tiles
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn mean(factors: &[f64]) -> Option<f64> {
    let sum: f64 = factors.iter().map(|factor| factor.ln()).sum();
    (!factors.is_empty()).then(|| (sum / factors.len() as f64).exp())
}

/// A lineage, ready to show.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct LineageView<'a> {
    head: String,
    left_out: u64,
    steps: Vec<StepView<'a>>,
}

/// A step of a lineage, ready to show.
#[derive(Debug, PartialEq, Serialize)]
struct StepView<'a> {
    iteration: i64,
    kind: &'a str,
    family: &'a str,
    changes: &'a [String],
    claim: &'a str,
    us: Option<String>,
    factor: Option<String>,
    diff: Option<DiffView<'a>>,
}

/// A difference of two sources, ready to show.
#[derive(Debug, PartialEq, Serialize)]
struct DiffView<'a> {
    added: u64,
    removed: u64,
    cut: bool,
    lines: Vec<Line<'a>>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Line<'a> {
    /// The class of the line: empty for a line that both sources have.
    kind: &'static str,
    text: &'a str,
}

/// Returns the lineages.
pub(super) fn lineages(report: &Report) -> Vec<LineageView<'_>> {
    report.lineages.iter().map(lineage).collect()
}

fn lineage(lineage: &Lineage) -> LineageView<'_> {
    let steps = &lineage.steps;
    let before = |place: usize| place.checked_sub(1).and_then(|place| steps[place].us);
    let known: Vec<f64> = steps.iter().filter_map(|step| step.us).collect();
    let times = known.first().zip(known.last()).filter(|_| known.len() > 1);
    let times = times.map(|(first, last)| format!(", from {} to {} µs", us(*first), us(*last))).unwrap_or_default();
    LineageView {
        head: format!("{}: {}{times}", lineage.case, count(steps.len(), "step")),
        left_out: lineage.left_out,
        steps: steps.iter().enumerate().map(|(place, one)| step(one, before(place))).collect(),
    }
}

fn step(step: &LineageStep, before_us: Option<f64>) -> StepView<'_> {
    StepView {
        iteration: step.iteration.0,
        kind: step.kind,
        family: &step.family,
        changes: &step.changes,
        claim: &step.claim,
        us: step.us.map(us),
        factor: before_us.zip(step.us).map(|(before, now)| times(before / now)),
        diff: step.diff.as_ref().map(diff),
    }
}

fn diff(diff: &Diff) -> DiffView<'_> {
    let kind = |line: &str| match line.as_bytes().first() {
        Some(b'+') => "added",
        Some(b'-') => "removed",
        Some(b'@') => "place",
        _ => "",
    };
    let lines = diff.text.lines().map(|text| Line { kind: kind(text), text }).collect();
    DiffView { added: diff.added, removed: diff.removed, cut: diff.cut, lines }
}
