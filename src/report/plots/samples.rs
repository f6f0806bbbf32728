//! How the samples of each kernel are distributed.

use super::canvas::{Ink, cut, svg};
use super::chart::{Chart, Room, Shape};
use super::scale::Axis;
use super::{Figure, Panel};
use crate::report::contract::{Distribution, Report, Sampled};
use crate::report::format::us;
use crate::report::table::Table;

/// Pixels of a drawing's width, and of a row.
const WIDTH: u32 = 360;
const ROW: u32 = 40;

/// The most cases to draw.
const MAX_CASES: usize = 24;

/// Letters of a name.
const LETTERS: usize = 14;

/// Draws the samples of each case. None if no case was sampled often enough, as where times are modelled by counts.
pub(in crate::report) fn samples(report: &Report, source: &str) -> Option<Figure> {
    let panels: Vec<Panel> = report.distributions.iter().take(MAX_CASES).map(panel).collect();
    let left_out = report.distributions.len() - panels.len();
    let some = if left_out > 0 { format!(" {left_out} more cases are in the table only.") } else { String::new() };
    (!panels.is_empty()).then(|| Figure {
        id: "samples",
        title: "Distributions of the samples".to_owned(),
        caption: format!(
            "One sample is the time of one execution, from one replay of a graph. The box is the middle half of the samples, the \
             line inside is the median, and the whiskers reach from 5% to 95%. Dots are up to 60 samples, the first at the \
             top. The control (A/A) is the best variant again: what differs between the two is noise. The baseline is drawn \
             unless it would compress the others; the table has its figures.{some}"
        ),
        source: source.to_owned(),
        panels,
        table: table(report),
    })
}

/// The factor over the best median from which a distribution is left out of the drawing. The others would be a line.
const FAR: f64 = 3.0;

fn panel(distribution: &Distribution) -> Panel {
    let best = distribution.sampled.first().map_or(0.0, |best| best.quantiles_us[2]);
    let near = |one: &&Sampled| one.quantiles_us[2] <= best * FAR;
    let drawn: Vec<&Sampled> = distribution.sampled.iter().filter(near).collect();
    // Most samples decide what is drawn, not the slowest one: the machine did something else then.
    let values = drawn.iter().flat_map(|one| one.quantiles_us);
    let x = Axis::log(values, "µs for one execution");
    let names: Vec<String> = drawn.iter().map(|one| cut(&shown(one), LETTERS)).collect();
    let y = Axis::rows(drawn.len());
    let title = format!("{}: the samples of {}", distribution.case, names.join(", "));
    let svg = svg((WIDTH, drawn.len() as u32 * ROW + 52), &title, |area| {
        let chart = Chart::new(area, (&x, &y), Room::beside(&names), Some(&names))?;
        for (row, one) in drawn.iter().enumerate() {
            let (row, ink) = (row as f64, ink(one.role));
            let count = one.some_us.len().max(1) as f64;
            for (place, sample) in one.some_us.iter().enumerate() {
                let inside = (x.from..=x.to).contains(sample);
                if inside {
                    let down = (place as f64 / count * 26.0) as i32 - 13;
                    chart.point((*sample, row), (0, down), ink, Shape::Speck)?;
                }
            }
            let [low, lower, median, upper, high] = one.quantiles_us;
            chart.interval((low, high), row, 0, ink)?;
            chart.bar((lower, upper), row, 8, (Ink::Paper, 1.0))?;
            chart.bar((lower, upper), row, 8, (ink, 0.45))?;
            chart.bar((median, median), row, 11, (Ink::Text, 1.0))?;
        }
        Ok(())
    });
    Panel { title: format!("{} ({})", distribution.case, distribution.from), svg, narrow: None, natural_width: false }
}

fn ink(role: &str) -> Ink {
    match role {
        "best" => Ink::Ours,
        "baseline" => Ink::Baseline,
        "control" => Ink::Bound,
        _ => Ink::Fourth,
    }
}

fn shown(one: &Sampled) -> String {
    match one.role {
        "best" => "ours".to_owned(),
        "control" => "control (A/A)".to_owned(),
        "baseline" => one.name.clone(),
        role => role.replace('_', " "),
    }
}

fn table(report: &Report) -> Table {
    let row = |distribution: &Distribution, one: &Sampled| {
        let mut row = vec![distribution.case.to_string(), shown(one), one.name.clone(), one.samples.to_string()];
        row.extend(one.quantiles_us.map(us));
        row
    };
    let rows = report.distributions.iter().flat_map(|one| one.sampled.iter().map(move |sampled| row(one, sampled)));
    let headings = ["Case", "Role", "What", ">Samples", ">5% (µs)", ">25%", ">Median", ">75%", ">95%"];
    Table::new(&headings, rows)
}
