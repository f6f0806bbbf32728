//! Renders a report as one HTML file that loads nothing and runs no script. Text is escaped by the templates in
//! `templates/reports/html/`. The style sheet is allowed by its hash, and nothing else is.

mod markup;
mod page;
mod tables;
mod views;

use tera::Context;

use super::ledger::{Entry, Ledger};
use super::plots::{self, Figure};
use super::two::Two;
use super::{Report, ReportError, markdown};
use crate::domain::device::TimeSource;

/// Renders a report.
pub(super) fn render(report: &Report) -> Result<String, ReportError> {
    let mut context = markdown::context(report)?;
    let source = source(report);
    context.insert("source", &source);
    context.insert("time_source", report.session.time_source.name());
    context.insert("tiles", &views::tiles(report));
    context.insert("figures", &figures(report, &source));
    context.insert("lineage_views", &views::lineages(report));
    for (name, table) in tables::all(report) {
        context.insert(name, &table);
    }
    page::render("report.html", context)
}

impl Ledger {
    /// Writes the ledger as one HTML file, with pictures.
    pub fn to_html(&self) -> Result<String, ReportError> {
        let mut context = Context::new();
        context.insert("sentence", &self.sentence());
        context.insert("table", &self.table());
        context.insert("time_source", "");
        let sums = |sum: fn(&Entry) -> f64| -> Vec<(f64, f64)> {
            self.sessions.iter().map(|entry| (entry.row.session.0 as f64, sum(entry))).collect()
        };
        let cost = ("cost", "Cumulative cost", "US dollars");
        let wins = ("wins", "Cumulative wins", "wins");
        let drawn = [
            plots::ledger(
                cost,
                "What all sessions up to each one cost: device and language models.",
                &sums(|one| one.cumulative_usd),
            ),
            plots::ledger(
                wins,
                "Improvements that all sessions up to each one have found, measured and modelled ones together.",
                &sums(|one| one.cumulative_wins as f64),
            ),
        ];
        context.insert("figures", &drawn.into_iter().flatten().collect::<Vec<_>>());
        page::render("ledger.html", context)
    }
}

impl Two {
    /// Writes the comparison as one HTML file, with a picture.
    pub fn to_html(&self) -> Result<String, ReportError> {
        let mut context = Context::new();
        context.insert("a", &self.a);
        context.insert("b", &self.b);
        context.insert("sentence", &self.sentence());
        context.insert("note", Two::NOTE);
        context.insert("time_source", self.b.time_source.name());
        context.insert("setup_table", &self.setup_table());
        context.insert("case_table", &self.case_table());
        context.insert("figures", &plots::two(self, self.b.time_source.name()).into_iter().collect::<Vec<_>>());
        page::render("two.html", context)
    }
}

/// Says where times come from, in a few words.
fn source(report: &Report) -> String {
    match report.session.time_source {
        TimeSource::Measured => format!("measured on {}", report.session.device),
        TimeSource::Modelled => "modelled, no GPU ran".to_owned(),
        TimeSource::Recorded => "recorded, nothing ran".to_owned(),
    }
}

/// Draws the pictures. Those without figures are left out.
fn figures(report: &Report, source: &str) -> Vec<Figure> {
    let drawn = [
        plots::over_time(report, source),
        plots::over_cost(report, source),
        plots::ratios(report, source),
        plots::roofline(report, source),
        plots::effects(report, source),
        plots::effects_by_case(report, source),
        plots::interactions(report, source),
        plots::samples(report, source),
        plots::predictions(report, source),
    ];
    drawn.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
