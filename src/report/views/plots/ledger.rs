//! What all sessions cost, and what they gained.

use super::Figure;
use super::canvas::{Ink, svg};
use super::chart::{Chart, Room, Shape};
use super::scale::Axis;
use crate::report::views::table::Table;

/// Pixels of a drawing.
const SIZES: [(u32, u32); 2] = [(760, 300), (360, 260)];

/// The most sessions to mark. More marks hide the line.
const MAX_MARKS: usize = 60;

/// Draws a figure that grows from session to session, such as the cumulative cost in US dollars. `points` are the
/// session's number and the sum up to it.
pub(in crate::report::views) fn ledger(
    (id, title, label): (&'static str, &str, &str),
    caption: &str,
    points: &[(f64, f64)],
) -> Option<Figure> {
    let last = points.last()?.0;
    let x = Axis { from: points[0].0 - 0.5, to: last + 0.5, ..Axis::from_zero([last], "session") };
    let y = Axis::from_zero(points.iter().map(|(_, sum)| *sum), label);
    let corners = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let mut corners = Vec::new();
        for (session, sum) in points {
            corners.extend(corners.last().map(|(_, before): &(f64, f64)| (*session, *before)));
            corners.push((*session, *sum));
        }
        corners
    };
    let draw = |size: (u32, u32)| {
        svg(size, title, |area| {
            let chart = Chart::new(area, (&x, &y), Room { left: 56, right: 16 }, None)?;
            chart.line(corners(points), Ink::Ours, 3)?;
            for point in points.iter().filter(|_| points.len() <= MAX_MARKS) {
                chart.point(*point, (0, 0), Ink::Ours, Shape::Dot)?;
            }
            Ok(())
        })
    };
    let [wide, narrow] = SIZES.map(draw);
    Some(Figure {
        id,
        title: title.to_owned(),
        caption: caption.to_owned(),
        source: String::new(),
        wide,
        narrow,
        table: Table::default(),
    })
}
