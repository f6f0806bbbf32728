//! Heat maps of factors: effects by case, and interactions of parameters.

use std::collections::BTreeSet;

use plotters::prelude::{Rectangle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::canvas::{Area, Drawn, Ink, cut, svg, text};
use super::{Figure, Panel};
use crate::report::contract::{Interaction, Report};
use crate::report::format::times;
use crate::report::table::Table;

/// Pixels of a cell.
const CELL: (u32, u32) = (64, 26);

/// Letters of a row's name.
const LETTERS: usize = 36;

/// Pixels of a letter.
const LETTER: u32 = 7;

/// The strongest colour of a cell. Text stays readable on it.
const STRONGEST: f64 = 0.5;

/// The factor with the strongest colour.
const FULL: f64 = 2.0;

/// A table of factors. A factor above 1 is good.
pub(super) struct Heat {
    /// Names of the rows.
    pub(super) rows: Vec<String>,
    /// Names of the columns.
    pub(super) columns: Vec<String>,
    /// The factors by row and column.
    pub(super) cells: Vec<Vec<Option<f64>>>,
}

/// Returns the colour of a factor, and how strong it is.
fn shade(factor: f64) -> (Ink, f64) {
    let strength = (factor.ln().abs() / FULL.ln()).min(1.0) * STRONGEST;
    (if factor >= 1.0 { Ink::Ours } else { Ink::Baseline }, strength)
}

/// Draws a heat map. It is as wide as its columns need. Columns are numbered, and a list above the cells names them.
pub(super) fn panel(heat: &Heat, title: &str) -> Panel {
    let names: Vec<String> = heat.rows.iter().map(|name| cut(name, LETTERS)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
    let left = longest * LETTER + 12;
    let above = heading_height(heat);
    let size = (left + heat.columns.len() as u32 * CELL.0 + 8, above + heat.rows.len() as u32 * CELL.1 + 8);
    let svg = svg(size, title, |area| draw(area, heat, &names, (left as i32, above as i32)));
    Panel { title: String::new(), svg, narrow: None, natural_width: true }
}

/// Names of columns are written upwards.
fn heading_height(heat: &Heat) -> u32 {
    let longest = heat.columns.iter().map(|name| cut(name, LETTERS).chars().count()).max().unwrap_or(0) as u32;
    longest * LETTER + 12
}

fn draw(area: &Area<'_>, heat: &Heat, names: &[String], (left, above): (i32, i32)) -> Drawn {
    let (width, height) = (CELL.0 as i32, CELL.1 as i32);
    for (column, name) in heat.columns.iter().enumerate() {
        let place = (left + column as i32 * width + width / 2, above - 8);
        let upwards = text(Ink::Text, HPos::Left).transform(plotters::style::FontTransform::Rotate270);
        area.draw(&Text::new(cut(name, LETTERS), place, upwards))?;
    }
    for (row, cells) in heat.cells.iter().enumerate() {
        let top = above + row as i32 * height;
        area.draw(&Text::new(names[row].clone(), (left - 8, top + height / 2), text(Ink::Text, HPos::Right)))?;
        for (column, cell) in cells.iter().enumerate() {
            let x = left + column as i32 * width;
            let corners = [(x + 1, top + 1), (x + width - 1, top + height - 1)];
            match cell {
                Some(factor) => {
                    let (ink, strength) = shade(*factor);
                    area.draw(&Rectangle::new(corners, ink.at(strength).filled()))?;
                    area.draw(&Rectangle::new(corners, Ink::Grid.color().stroke_width(1)))?;
                    let middle = (x + width / 2, top + height / 2);
                    area.draw(&Text::new(times(*factor), middle, text(Ink::Text, HPos::Center)))?;
                }
                None => area.draw(&Rectangle::new(corners, Ink::Grid.color().stroke_width(1)))?,
            }
        }
    }
    Ok(())
}

/// Returns the cells of a heat map as a table.
pub(super) fn table(heat: &Heat, head: &'static str) -> Table {
    let cells = heat.rows.iter().zip(&heat.cells).flat_map(|(row, cells)| {
        let known = heat.columns.iter().zip(cells);
        known.filter_map(move |(column, factor)| Some(vec![row.clone(), column.clone(), times((*factor)?)]))
    });
    Table::new(&[head, "With", ">Factor"], cells)
}

/// Draws the interactions of parameters, a heat map for each family. None without one beyond the noise.
pub(in crate::report) fn interactions(report: &Report, source: &str) -> Option<Figure> {
    let all = &report.parameters.interactions;
    let families: BTreeSet<&str> = all.iter().map(|one| one.family.as_str()).collect();
    let panels: Vec<Panel> = families.into_iter().map(|family| of_family(family, all)).collect();
    let row = |one: &Interaction| {
        let [first, second] = &one.parameters;
        vec![
            one.family.clone(),
            format!("{} {} → {}", first.parameter, first.from, first.to),
            format!("{} {} → {}", second.parameter, second.from, second.to),
            times(one.factor),
            one.quadruples.to_string(),
        ]
    };
    let headings = ["Family", "Change", "With", ">Joint over individual effects", ">Quadruples"];
    (!panels.is_empty()).then(|| Figure {
        id: "interactions",
        title: "Interactions of parameters".to_owned(),
        caption: "The joint effect of two changes over the product of their single effects: of each pair of parameters, the \
                  strongest beyond twice the noise. Blue and above 1: the two changes help each other. Orange and below 1: \
                  they spoil each other. Empty: no interaction was found. The table has the values."
            .to_owned(),
        source: source.to_owned(),
        panels,
        table: Table::new(&headings, all.iter().map(row)),
    })
}

fn of_family(family: &str, all: &[Interaction]) -> Panel {
    let own: Vec<&Interaction> = all.iter().filter(|one| one.family == family).collect();
    let names: BTreeSet<&str> = own.iter().flat_map(|one| one.parameters.iter().map(|one| &*one.parameter)).collect();
    let of = |a: &str, b: &str| {
        let is_pair = |one: &&&Interaction| {
            let [first, second] = &one.parameters;
            (first.parameter == a && second.parameter == b) || (first.parameter == b && second.parameter == a)
        };
        own.iter().find(is_pair).map(|one| one.factor)
    };
    let names: Vec<&str> = names.into_iter().collect();
    let heat = Heat {
        rows: names.iter().map(|name| (*name).to_owned()).collect(),
        columns: names.iter().map(|name| (*name).to_owned()).collect(),
        cells: names.iter().map(|row| names.iter().map(|column| of(row, column)).collect()).collect(),
    };
    Panel { title: family.to_owned(), ..panel(&heat, &format!("Interactions of the parameters of {family}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::contract::ParameterValues;
    use crate::report::tests::{record, report};

    #[test]
    fn a_stronger_factor_has_a_stronger_colour_up_to_a_limit() {
        assert_eq!(shade(1.0), (Ink::Ours, 0.0));
        assert_eq!(shade(2.0), (Ink::Ours, STRONGEST));
        assert_eq!(shade(0.01), (Ink::Baseline, STRONGEST));
        assert!(shade(1.2).1 < shade(1.5).1 && shade(1.0 / 1.2).1 == shade(1.2).1);
    }

    #[test]
    fn an_interaction_is_on_both_sides_of_the_diagonal() {
        let mut report = report(&record());
        assert_eq!(interactions(&report, "measured"), None);
        let values = |parameter: &str| ParameterValues { parameter: parameter.to_owned(), from: 1, to: 2 };
        report.parameters.interactions = vec![Interaction {
            family: "tiled".to_owned(),
            parameters: [values("WARPS"), values("STAGES")],
            factor: 0.8,
            quadruples: 3,
        }];
        let figure = interactions(&report, "measured").unwrap();
        assert_eq!(figure.panels[0].svg.matches("0.80×").count(), 2);
        assert_eq!(figure.table.rows.len(), 1);
    }
}
