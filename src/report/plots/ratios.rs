//! The ratio of each case to its baseline, with its interval.

use super::canvas::{Ink, cut, svg};
use super::chart::{Chart, Room, Shape};
use super::scale::Axis;
use super::{Figure, Panel};
use crate::report::contract::{Case, Ratio, Report};
use crate::report::format::{NOTHING, times, us};
use crate::report::table::Table;
use crate::report::two::Two;

/// Pixels of the wide and of the narrow drawing.
const WIDTHS: [(u32, usize); 2] = [(760, 34), (360, 17)];

/// Pixels of a row.
const ROW: u32 = 24;

/// Draws the ratios. None without a baseline to compare with.
pub(in crate::report) fn ratios(report: &Report, source: &str) -> Option<Figure> {
    let known = |case: &'_ Case| -> Option<Ratio> {
        case.ratio_to_baseline.filter(|_| case.baseline.as_ref().is_some_and(|one| !one.is_initial_kernel))
    };
    let with_program: Vec<(&Case, Ratio)> = report.cases.iter().filter_map(|case| Some((case, known(case)?))).collect();
    let (rows, over) = match with_program.is_empty() {
        false => (with_program, "the best baseline"),
        // Modelled times have no other baseline.
        true => {
            let of = |case: &'_ Case| case.ratio_to_baseline.or(case.ratio_to_start);
            (
                report.cases.iter().filter_map(|case| Some((case, of(case)?))).collect(),
                "the workload's initial kernel, because no baseline program was timed",
            )
        }
    };
    if rows.is_empty() {
        return None;
    }
    let named: Vec<(&str, Ratio)> = rows.iter().map(|(case, ratio)| (case.case.as_str(), *ratio)).collect();
    let title = format!("The ratio of each case to {over}, with its 95% interval");
    let panel = rows_of(&named, "times as fast as the baseline, log scale", &title);
    Some(Figure {
        id: "ratios",
        title: "Ratio to the baseline".to_owned(),
        caption: format!(
            "How many times as fast our best variant is as {over}. Right of the line at 1, ours is faster. A bar is the 95% \
             interval. A filled dot was measured in turns in one run; an open circle was not, so changes of the machine are \
             not in its interval."
        ),
        source: source.to_owned(),
        panels: vec![panel],
        table: table(&rows),
    })
}

/// Draws the ratio of each case in two sessions. None if none may be compared.
pub(in crate::report) fn two(two: &Two, source: &str) -> Option<Figure> {
    let rows: Vec<(&str, Ratio)> =
        two.cases.iter().filter_map(|case| Some((case.case.as_str(), case.ratio?))).collect();
    let label = format!("time in session {} / time in session {}, log scale", two.a.id, two.b.id);
    (!rows.is_empty()).then(|| Figure {
        id: "ratios",
        title: "Ratio of the best times".to_owned(),
        caption: "Right of the line at 1, the second session is faster. A bar is the 95% interval. Two runs took the times, so \
                  changes of the machine in between are not in it."
            .to_owned(),
        source: source.to_owned(),
        panels: vec![rows_of(&rows, &label, "The ratio of the best times of each case in two sessions")],
        table: Table::default(),
    })
}

/// Draws a row with its interval for each ratio.
fn rows_of(rows: &[(&str, Ratio)], label: &str, title: &str) -> Panel {
    let ends = |ratio: &Ratio| [ratio.lo, ratio.hi, Some(ratio.estimate)];
    let values = rows.iter().flat_map(|(_, ratio)| ends(ratio)).flatten().chain([1.0]);
    let x = Axis::log(values, label);
    let draw = |(width, letters): (u32, usize)| {
        let names: Vec<String> = rows.iter().map(|(case, _)| cut(case, letters)).collect();
        let y = Axis::rows(rows.len());
        svg((width, rows.len() as u32 * ROW + 52), title, |area| {
            let chart = Chart::new(area, (&x, &y), Room::beside(&names), Some(&names))?;
            chart.upright(1.0, Ink::Baseline)?;
            for (row, (_, ratio)) in rows.iter().enumerate() {
                let row = row as f64;
                if let Some(interval) = ratio.lo.zip(ratio.hi) {
                    chart.interval(interval, row, 0, Ink::Ours)?;
                }
                let shape = if ratio.paired { Shape::Dot } else { Shape::Ring };
                chart.point((ratio.estimate, row), (0, 0), Ink::Ours, shape)?;
            }
            Ok(())
        })
    };
    let [wide, narrow] = WIDTHS.map(draw);
    Panel::at_two_widths(wide, narrow)
}

fn table(rows: &[(&Case, Ratio)]) -> Table {
    let end = |end: Option<f64>| end.map_or_else(|| NOTHING.to_owned(), times);
    let row = |(case, ratio): &(&Case, Ratio)| {
        let baseline = case.baseline.as_ref();
        vec![
            case.case.to_string(),
            case.best_us.map_or_else(|| NOTHING.to_owned(), us),
            baseline.map_or_else(|| NOTHING.to_owned(), |baseline| us(baseline.us)),
            baseline.map_or_else(|| NOTHING.to_owned(), |baseline| baseline.name.clone()),
            times(ratio.estimate),
            end(ratio.lo),
            end(ratio.hi),
            if ratio.paired { "yes" } else { "no" }.to_owned(),
        ]
    };
    let headings = ["Case", ">Ours (µs)", ">Baseline (µs)", "Baseline", ">Ratio", ">95% from", ">95% to", "In one run"];
    Table::new(&headings, rows.iter().map(row))
}
