//! The best time of each case over time and over cost.

use plotters::style::text_anchor::HPos;

use super::canvas::{Ink, svg};
use super::chart::{Chart, Room, Shape};
use super::scale::Axis;
use super::{Figure, Panel};
use crate::report::contract::{Case, Progress, ProgressStep, Report, Tried};
use crate::report::format::{duration, us, usd};
use crate::report::table::Table;

/// Pixels of a drawing.
const SIZE: (u32, u32) = (360, 220);

/// The most cases to draw: those with the largest gains.
const MAX_CASES: usize = 24;

/// Least cost to draw, in US dollars. Less is none.
const MIN_COST: f64 = 1e-6;

/// What the horizontal axis is.
struct Along {
    label: &'static str,
    of_step: fn(&ProgressStep) -> f64,
    of_tried: fn(&Tried) -> f64,
}

/// Draws the best times over the session's time. None without a correct variant.
pub(in crate::report) fn over_time(report: &Report, source: &str) -> Option<Figure> {
    let minutes = report.session.wall_s.is_some_and(|wall_s| wall_s >= 600.0);
    let along = match minutes {
        true => Along { label: "minutes", of_step: |step| step.at_s / 60.0, of_tried: |tried| tried.at_s / 60.0 },
        false => Along { label: "seconds", of_step: |step| step.at_s, of_tried: |tried| tried.at_s },
    };
    let caption = caption(report, "the session's wall time");
    figure(report, source, &along, ("best-over-time", "Best time over the session", &caption))
}

/// Draws the best times over the session's cost. None if it cost nothing.
pub(in crate::report) fn over_cost(report: &Report, source: &str) -> Option<Figure> {
    let along = Along { label: "US dollars", of_step: |step| step.cost_usd, of_tried: |tried| tried.cost_usd };
    let caption = caption(report, "what the iterations had cost") + " A final is at the cost of the whole session.";
    let costs = report.session.cost_usd >= MIN_COST;
    costs.then(|| figure(report, source, &along, ("best-over-cost", "Best time over cost", &caption))).flatten()
}

fn caption(report: &Report, over: &str) -> String {
    let shown = report.progress.len().min(MAX_CASES);
    let left_out = match report.progress.len() - shown {
        0 => String::new(),
        others => {
            format!(" Only the {shown} cases with the largest gains are drawn; the other {others} are in the table.")
        }
    };
    format!(
        "The line is the best time of each case over {over}. An open circle is the final comparison. Small dots are some \
         of the variants that were tried. Dashed lines are the best baseline and the floor, which no correct kernel \
         beats.{left_out}"
    )
}

fn figure(report: &Report, source: &str, along: &Along, words: (&'static str, &str, &str)) -> Option<Figure> {
    let (id, title, caption) = words;
    let case = |progress: &Progress| report.cases.iter().find(|case| case.case == progress.case);
    let gain = |progress: &Progress| case(progress).and_then(|case| case.speedup_over_start).unwrap_or(1.0);
    let mut drawn: Vec<&Progress> = report.progress.iter().collect();
    // Stable, so that cases without a gain stay in the workload's order.
    drawn.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    drawn.truncate(MAX_CASES);
    drawn.sort_by_key(|one| report.progress.iter().position(|other| std::ptr::eq(other, *one)));
    let panels: Vec<Panel> = drawn.into_iter().filter_map(|one| Some(panel(one, case(one)?, along))).collect();
    (!panels.is_empty()).then(|| Figure {
        id,
        title: title.to_owned(),
        caption: caption.to_owned(),
        source: source.to_owned(),
        panels,
        table: table(&report.progress),
    })
}

fn panel(progress: &Progress, case: &Case, along: &Along) -> Panel {
    let baseline = case.baseline.as_ref().filter(|baseline| !baseline.is_initial_kernel);
    let steps = &progress.steps;
    let times = || steps.iter().map(|step| step.us).chain(progress.tried.iter().map(|tried| tried.us));
    let bounds = [baseline.map(|baseline| baseline.us), case.floor_us].into_iter().flatten();
    let y = Axis::log(times().chain(bounds), "µs, log scale");
    let ends = steps.iter().map(along.of_step).chain(progress.tried.iter().map(along.of_tried));
    let x = Axis::from_zero(ends, along.label);
    let last = steps.last().map(|step| us(step.us)).unwrap_or_default();
    let title = format!("{}: best time over {}, now {last} µs", case.case, along.label);
    let svg = svg(SIZE, &title, |area| {
        let chart = Chart::new(area, (&x, &y), Room { left: 46, right: 14 }, None)?;
        for tried in &progress.tried {
            chart.point(((along.of_tried)(tried), tried.us), (0, 0), Ink::Muted, Shape::Speck)?;
        }
        if let Some(floor_us) = case.floor_us {
            chart.level(floor_us, Ink::Bound)?;
            chart.label((x.to, floor_us), (-4, -8), (Ink::Bound, HPos::Right), "floor")?;
        }
        if let Some(baseline) = baseline {
            chart.level(baseline.us, Ink::Baseline)?;
            chart.label((x.to, baseline.us), (-4, -8), (Ink::Baseline, HPos::Right), "best baseline")?;
        }
        chart.line(staircase(steps, along, x.to), Ink::Ours, 3)?;
        for step in steps {
            let shape = if step.kind == "final" { Shape::Ring } else { Shape::Dot };
            chart.point(((along.of_step)(step), step.us), (0, 0), Ink::Ours, shape)?;
        }
        Ok(())
    });
    Panel { title: case.case.to_string(), svg, narrow: None, natural_width: false }
}

/// Returns the corners of a line that keeps each best time until the next one.
fn staircase(steps: &[ProgressStep], along: &Along, end: f64) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for step in steps {
        let x = (along.of_step)(step);
        corners.extend(corners.last().map(|(_, before)| (x, *before)));
        corners.push((x, step.us));
    }
    corners.extend(corners.last().map(|(_, last)| (end, *last)));
    corners
}

fn table(progress: &[Progress]) -> Table {
    let row = |one: &Progress, step: &ProgressStep| {
        vec![
            one.case.to_string(),
            step.kind.to_owned(),
            duration(step.at_s),
            usd(step.cost_usd),
            us(step.us),
            step.family.clone(),
            step.iteration.to_string(),
        ]
    };
    let rows = progress.iter().flat_map(|one| one.steps.iter().map(|step| row(one, step)));
    let headings = ["Case", "Step", ">After", ">Cost", ">Time (µs)", "Family", ">Iteration"];
    Table::new(&headings, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, report};

    #[test]
    fn the_best_time_stays_until_the_next_one() {
        let report = report(&record());
        let along = Along { label: "seconds", of_step: |step| step.at_s, of_tried: |tried| tried.at_s };
        let corners = staircase(&report.progress[0].steps, &along, 12.0);
        assert_eq!(corners, [(3.0, 80.0), (6.0, 80.0), (6.0, 64.0), (9.0, 64.0), (9.0, 50.0), (12.0, 50.0)]);
        assert_eq!(staircase(&[], &along, 12.0), []);
    }

    #[test]
    fn each_case_with_a_correct_variant_has_a_drawing_and_cost_is_drawn_if_there_is_any() {
        let mut report = report(&record());
        let titles = |figure: &Figure| figure.panels.iter().map(|panel| panel.title.clone()).collect::<Vec<_>>();
        assert_eq!(titles(&over_time(&report, "measured").unwrap()), ["b1h1s128", "b8h8s512"]);
        assert!(over_cost(&report, "measured").is_some());
        report.session.cost_usd = 0.0;
        assert_eq!(over_cost(&report, "modelled"), None);
    }
}
