//! Draws the pictures of a report as SVG. Pure: figures in, markup out.

mod canvas;
mod chart;
mod ledger;
mod progress;
mod ratios;
mod scale;

use serde::Serialize;

use super::table::Table;

pub(super) use ledger::ledger;
pub(super) use progress::over_time;
pub(super) use ratios::two;

/// A picture with its words: what a template needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    /// Its place in the page, for links.
    pub(super) id: &'static str,
    /// What it shows.
    pub(super) title: String,
    /// How to read it.
    pub(super) caption: String,
    /// Whether times are measured or modelled, in a few words.
    pub(super) source: String,
    /// The drawing.
    pub(super) wide: String,
    /// The same for a narrow screen.
    pub(super) narrow: String,
    /// The figures that are drawn. Empty where a table beside the picture has them.
    pub(super) table: Table,
}
