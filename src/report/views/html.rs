//! Renders a report as one HTML file that loads nothing and runs no script. Text is escaped by the templates in
//! `templates/reports/html/`. The style sheet is allowed by its hash, and nothing else is.

mod page;

use tera::Context;

use super::plots::{self, Figure};
use super::{case_table, evidence, markdown, two};
use crate::domain::device::TimeSource;
use crate::report::ReportError;
use crate::report::contract::{Entry, Ledger, Report, Two};

/// Renders a report.
pub(super) fn render(report: &Report) -> Result<String, ReportError> {
    let mut context = markdown::page(report);
    let source = source(report);
    let session = &report.session;
    context.insert("title", &format!("{} on {}: session {}", session.workload, session.device, session.id));
    context.insert("status", session.status.name());
    context.insert("stop_reason", &session.stop_reason);
    context.insert("version", &report.environment.optloop);
    context.insert("source", &source);
    context.insert("time_source", session.time_source.name());
    context.insert("figure", &plots::over_time(report, &source));
    context.insert("case_table", &case_table::all(report));
    context.insert("sections", &evidence::sections(report));
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
        context.insert("note", two::NOTE);
        context.insert("time_source", self.b.time_source.name());
        context.insert("setup_table", &self.setup_table());
        context.insert("case_table", &self.case_table());
        let figures: Vec<Figure> = plots::two(self, self.b.time_source.name()).into_iter().collect();
        context.insert("figures", &figures);
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

#[cfg(test)]
mod tests;
