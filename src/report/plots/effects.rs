//! What the parameters are worth.

use std::collections::BTreeSet;

use super::canvas::{Ink, cut, svg};
use super::chart::{Chart, Room, Shape};
use super::heat::{self, Heat};
use super::scale::Axis;
use super::{Figure, Panel};
use crate::report::contract::{ParameterEffect, Report};
use crate::report::format::times;
use crate::report::table::Table;

/// The most changes to draw: those with the largest effects.
const MAX: usize = 24;

/// Pixels and letters of a name, of the wide and of the narrow drawing.
const WIDTHS: [(u32, usize); 2] = [(760, 44), (360, 20)];

/// Pixels of a row.
const ROW: u32 = 24;

/// The most cases that a heat map has as columns.
const MAX_COLUMNS: usize = 12;

/// Returns the changes to draw, the best first.
fn drawn(report: &Report) -> Vec<&ParameterEffect> {
    let mut effects: Vec<&ParameterEffect> =
        report.parameters.effects.iter().filter(|effect| effect.verdict != "few").collect();
    if effects.is_empty() {
        effects = report.parameters.effects.iter().collect();
    }
    effects.sort_by(|a, b| b.effect.ln().abs().total_cmp(&a.effect.ln().abs()));
    effects.truncate(MAX);
    effects.sort_by(|a, b| b.effect.total_cmp(&a.effect));
    effects
}

fn name(effect: &ParameterEffect) -> String {
    format!("{} {} → {} ({})", effect.parameter, effect.from, effect.to, effect.family)
}

/// Draws the effects of changes of one parameter. None if no pair of configurations shows one.
pub(in crate::report) fn effects(report: &Report, source: &str) -> Option<Figure> {
    let effects = drawn(report);
    if effects.is_empty() {
        return None;
    }
    let noise = report.parameters.noise;
    let values = effects.iter().flat_map(|one| [one.lower_quartile, one.effect, one.upper_quartile]);
    let x = Axis::log(values.chain([1.0]), "time before / time after, log scale");
    let draw = |(width, letters): (u32, usize)| {
        let names: Vec<String> = effects.iter().map(|effect| cut(&name(effect), letters)).collect();
        let y = Axis::rows(effects.len());
        let title = "The effect of each change of a parameter on the time";
        svg((width, effects.len() as u32 * ROW + 52), title, |area| {
            let chart = Chart::new(area, (&x, &y), Room::beside(&names), Some(&names))?;
            chart.upright(1.0, Ink::Muted)?;
            for (row, effect) in effects.iter().enumerate() {
                let (ink, shape) = look(effect.verdict);
                chart.interval((effect.lower_quartile, effect.upper_quartile), row as f64, 0, ink)?;
                chart.point((effect.effect, row as f64), (0, 0), ink, shape)?;
            }
            Ok(())
        })
    };
    let [wide, narrow] = WIDTHS.map(draw);
    let all = report.parameters.effects.len();
    let some =
        if all > effects.len() { format!(" {} of {all} changes are drawn.", effects.len()) } else { String::new() };
    let noise = noise.map_or_else(String::new, |noise| {
        format!(" Two screening runs of one variant differ by up to {}.", crate::report::format::percent(noise))
    });
    Some(Figure {
        id: "effects",
        title: "Effects of the parameters".to_owned(),
        caption: format!(
            "Each row changes one parameter and nothing else. Right of 1, the change helps. The mark is the median over pairs of \
             configurations on the same case, and the bar their middle half. Dot: helps. Cross: hurts. Square: depends on \
             the case. Open circle: within the noise, or mixed.{noise}{some}"
        ),
        source: source.to_owned(),
        panels: vec![Panel::at_two_widths(wide, narrow)],
        table: table(report),
    })
}

fn look(verdict: &str) -> (Ink, Shape) {
    match verdict {
        "helps" => (Ink::Ours, Shape::Dot),
        "hurts" => (Ink::Baseline, Shape::Cross),
        "depends" => (Ink::Fourth, Shape::Square),
        _ => (Ink::Muted, Shape::Ring),
    }
}

fn table(report: &Report) -> Table {
    let row = |one: &ParameterEffect| {
        vec![
            name(one),
            times(one.effect),
            times(one.lower_quartile),
            times(one.upper_quartile),
            format!("{} on {}", one.pairs, one.cases),
            one.verdict.to_owned(),
        ]
    };
    let headings = ["Change", ">Effect", ">Lower quartile", ">Upper quartile", ">Pairs on cases", "Verdict"];
    Table::new(&headings, report.parameters.effects.iter().map(row))
}

/// Draws the effect of each change on each case. None with fewer than two cases.
pub(in crate::report) fn effects_by_case(report: &Report, source: &str) -> Option<Figure> {
    let effects = drawn(report);
    let known: BTreeSet<&str> =
        effects.iter().flat_map(|effect| effect.by_case.iter().map(|one| one.case.as_str())).collect();
    let cases = report.cases.iter().map(|case| case.case.as_str()).filter(|case| known.contains(case));
    let cases: Vec<&str> = cases.take(MAX_COLUMNS).collect();
    if cases.len() < 2 {
        return None;
    }
    let cell = |effect: &ParameterEffect, case: &str| {
        effect.by_case.iter().find(|one| one.case == *case).map(|one| one.effect)
    };
    let heat = Heat {
        rows: effects.iter().map(|effect| name(effect)).collect(),
        columns: cases.iter().map(|case| (*case).to_owned()).collect(),
        cells: effects.iter().map(|effect| cases.iter().map(|case| cell(effect, case)).collect()).collect(),
    };
    let left_out = known.len() - cases.len();
    let some = if left_out > 0 { format!(" {left_out} more cases are left out.") } else { String::new() };
    Some(Figure {
        id: "effects-by-case",
        title: "Effects by case".to_owned(),
        caption: format!(
            "Time before / time after for each change and case. Blue and above 1: the change helps there. Orange and below 1: it \
             hurts. An empty cell was not tried.{some}"
        ),
        source: source.to_owned(),
        panels: vec![heat::panel(&heat, "The effect of each change on each case")],
        table: heat::table(&heat, "Change"),
    })
}
