//! Draws the pictures of a report as SVG. Pure: figures in, markup out.

mod canvas;
mod chart;
mod effects;
mod heat;
mod ledger;
mod predictions;
mod progress;
mod ratios;
mod roofline;
mod samples;
mod scale;

use serde::Serialize;

use super::table::Table;

pub(super) use effects::{effects, effects_by_case};
pub(super) use heat::interactions;
pub(super) use ledger::ledger;
pub(super) use predictions::predictions;
pub(super) use progress::{over_cost, over_time};
pub(super) use ratios::{ratios, two};
pub(super) use roofline::roofline;
pub(super) use samples::samples;

/// A picture with its words: what a template needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    /// Its place in the page, for links.
    pub(super) id: &'static str,
    /// What it shows.
    pub(super) title: String,
    /// How to read it. Markdown.
    pub(super) caption: String,
    /// Whether times are measured or modelled, in a few words.
    pub(super) source: String,
    /// The drawings, side by side.
    pub(super) panels: Vec<Panel>,
    /// The figures that are drawn.
    pub(super) table: Table,
}

/// One drawing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Panel {
    /// Its heading. Empty for the only drawing of a figure.
    pub(super) title: String,
    /// The drawing.
    pub(super) svg: String,
    /// The same for a narrow screen, if it differs.
    pub(super) narrow: Option<String>,
    /// Whether it keeps its width, and scrolls where there is no room for it.
    pub(super) natural_width: bool,
}

impl Panel {
    /// Makes the only drawing of a figure, with another one for a narrow screen.
    fn at_two_widths(svg: String, narrow: String) -> Self {
        Self { title: String::new(), svg, narrow: Some(narrow), natural_width: false }
    }
}
