//! What was predicted against what came of it.

use super::canvas::{Ink, svg};
use super::chart::{Chart, Room, Shape};
use super::scale::Axis;
use super::{Figure, Panel};
use crate::domain::hypothesis::Score;
use crate::report::contract::{Claim, Report};
use crate::report::format::times;
use crate::report::table::Table;

/// The most claims to draw, evenly chosen.
const MAX: usize = 400;

/// The most claims to draw with their ranges, which would hide each other.
const MAX_RANGES: usize = 60;

/// The most claims in the table.
const MAX_ROWS: usize = 100;

/// Pixels of the wide and of the narrow drawing.
const SIZES: [(u32, u32); 2] = [(760, 420), (360, 340)];

/// A claim with its predicted median and the outcome.
struct Outcome<'a> {
    claim: &'a Claim,
    range: [f64; 2],
    predicted: f64,
    actual: f64,
    score: Score,
}

/// Draws predictions against outcomes. None if no claim has both.
pub(in crate::report) fn predictions(report: &Report, source: &str) -> Option<Figure> {
    let all: Vec<Outcome<'_>> = report.hypotheses.iter().filter_map(outcome).collect();
    if all.is_empty() {
        return None;
    }
    let drawn: Vec<&Outcome<'_>> = all.iter().step_by(all.len().div_ceil(MAX)).collect();
    let outcomes = drawn.iter().flat_map(|one| [one.predicted, one.actual]);
    let ranges = drawn.iter().flat_map(|one| one.range).filter(|_| drawn.len() <= MAX_RANGES);
    let values: Vec<f64> = outcomes.chain(ranges).chain([1.0]).collect();
    let x = Axis::log(values.iter().copied(), "predicted speed-up, log scale");
    let y = Axis::log(values.iter().copied(), "actual speed-up, log scale");
    let draw = |size: (u32, u32)| {
        svg(size, "Predicted against actual speed-ups of the claims", |area| {
            let chart = Chart::new(area, (&x, &y), Room { left: 46, right: 16 }, None)?;
            chart.upright(1.0, Ink::Grid)?;
            chart.line([(x.from, 1.0), (x.to, 1.0)], Ink::Grid, 2)?;
            chart.dashed([(x.from, x.from), (x.to, x.to)], Ink::Muted)?;
            for one in drawn.iter().filter(|_| drawn.len() <= MAX_RANGES) {
                chart.line(one.range.map(|end| (end, one.actual)), look(one.score).0, 1)?;
            }
            for one in &drawn {
                let (ink, shape) = look(one.score);
                chart.point((one.predicted, one.actual), (0, 0), ink, shape)?;
            }
            Ok(())
        })
    };
    let [wide, narrow] = SIZES.map(draw);
    let some = match drawn.len() == all.len() {
        true => String::new(),
        false => format!(" {} of {} claims are drawn, chosen at even intervals.", drawn.len(), all.len()),
    };
    let bars = if drawn.len() <= MAX_RANGES { " A bar is the predicted 80% range." } else { "" };
    Some(Figure {
        id: "predictions",
        title: "Prediction against outcome".to_owned(),
        caption: format!(
            "Each mark is a claim, made before its experiment: the predicted speed-up over a named earlier variant, and the actual \
             one. On the dashed line, the prediction was right. Above the line at 1, the variant was faster. Dot: in the \
             predicted range. Triangle: better than predicted. Cross: worse.{bars}{some}"
        ),
        source: source.to_owned(),
        panels: vec![Panel::at_two_widths(wide, narrow)],
        table: table(&all),
    })
}

fn outcome(claim: &Claim) -> Option<Outcome<'_>> {
    let (range, actual, score) = (claim.predicted?, claim.actual?, claim.score?);
    // An older optloop predicted a range without a median.
    let predicted = claim.predicted_median.unwrap_or_else(|| (range[0] * range[1]).sqrt());
    let is_known = predicted > 0.0 && actual > 0.0 && matches!(score, Score::InRange | Score::Above | Score::Below);
    is_known.then_some(Outcome { claim, range, predicted, actual, score })
}

fn look(score: Score) -> (Ink, Shape) {
    match score {
        Score::Above => (Ink::Bound, Shape::Triangle),
        Score::Below => (Ink::Baseline, Shape::Cross),
        _ => (Ink::Ours, Shape::Dot),
    }
}

fn table(all: &[Outcome<'_>]) -> Table {
    let mut best: Vec<&Outcome<'_>> = all.iter().collect();
    let by_actual = |a: &&Outcome<'_>, b: &&Outcome<'_>| b.actual.total_cmp(&a.actual);
    if best.len() > MAX_ROWS {
        // Sorting all of a million claims for a hundred rows would take longer than drawing them.
        best.select_nth_unstable_by(MAX_ROWS, by_actual);
        best.truncate(MAX_ROWS);
    }
    best.sort_by(by_actual);
    let row = |one: &&Outcome<'_>| {
        vec![
            one.claim.iteration.to_string(),
            one.claim.case.to_string(),
            one.claim.claim.clone(),
            times(one.predicted),
            format!("{} to {}", times(one.range[0]), times(one.range[1])),
            times(one.actual),
            one.score.name().replace('_', " "),
        ]
    };
    let headings = [">Iteration", "Case", "Claim", ">Predicted", ">80% range", ">Actual", "Score"];
    Table::new(&headings, best.iter().map(row))
}
