//! The ratio of each case in two sessions, with its interval.

use super::Figure;
use super::canvas::{Ink, cut, svg};
use super::chart::{Chart, Room, Shape};
use super::scale::Axis;
use crate::report::contract::{Ratio, Two};
use crate::report::views::table::Table;

/// Pixels of the wide and of the narrow drawing.
const WIDTHS: [(u32, usize); 2] = [(760, 34), (360, 17)];

/// Pixels of a row.
const ROW: u32 = 24;

/// Draws the ratio of each case in two sessions. None if none may be compared.
pub(in crate::report::views) fn two(two: &Two, source: &str) -> Option<Figure> {
    let rows: Vec<(&str, Ratio)> =
        two.cases.iter().filter_map(|case| Some((case.case.as_str(), case.ratio?))).collect();
    let label = format!("time in session {} / time in session {}, log scale", two.a.id, two.b.id);
    let [wide, narrow] = rows_of(&rows, &label, "The ratio of the best times of each case in two sessions");
    (!rows.is_empty()).then(|| Figure {
        id: "ratios",
        title: "Ratio of the best times".to_owned(),
        caption: "Right of the line at 1, the second session is faster. A bar is the 95% interval. Two runs took the times, so \
                  changes of the machine in between are not in it."
            .to_owned(),
        source: source.to_owned(),
        wide,
        narrow,
        table: Table::default(),
    })
}

/// Draws a row with its interval for each ratio.
fn rows_of(rows: &[(&str, Ratio)], label: &str, title: &str) -> [String; 2] {
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
    WIDTHS.map(draw)
}
