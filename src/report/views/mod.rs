//! The views of a report: Markdown, HTML with charts, CSV. All words are here and in `templates/reports/`; the facts have
//! none. Text is escaped where it is written, so sentences and cells are plain text.

mod case_table;
pub mod csv;
mod evidence;
pub mod format;
mod html;
mod ledger;
mod markdown;
mod plots;
pub mod profiles;
mod table;
mod two;
mod words;

use super::ReportError;
use super::contract::Report;

impl Report {
    /// Writes the report as JSON.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes the report as one page of Markdown.
    pub fn to_markdown(&self) -> Result<String, ReportError> {
        markdown::render(self)
    }

    /// Writes the report as one HTML file: the same page with a chart, and the evidence in folded sections.
    pub fn to_html(&self) -> Result<String, ReportError> {
        html::render(self)
    }
}
