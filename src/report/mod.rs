//! Reports what a session found: the JSON contract, and Markdown. Pure: plain data in, text out.

mod baselines;
mod build;
mod calibration;
mod comparisons;
pub mod contract;
mod findings;
pub mod format;
mod markdown;
mod measuring;
mod next_steps;
pub mod profiles;
mod standing;
#[cfg(test)]
mod tests;

use crate::domain::conditions::Conditions;
use crate::domain::finding::Finding;
use crate::domain::ids::CaseName;
use crate::domain::record::SessionRecord;

pub use build::build;
pub use contract::Report;

/// The input of a report.
#[derive(Debug, Clone, Copy)]
pub struct ReportInput<'a> {
    /// The store's record of the session.
    pub record: &'a SessionRecord,
    /// Facts that follow from the workload and the device, for each case.
    pub facts: &'a [CaseFacts],
    /// Names of the families that could have been tried.
    pub families: &'a [String],
    /// The findings of the session's diagnosis.
    pub findings: &'a [Finding],
}

/// Facts that follow from a case and a device. The caller computes them, because the store knows no ops.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseFacts {
    /// The case's name.
    pub case: CaseName,
    /// The conditions of its times.
    pub conditions: Conditions,
    /// No correct kernel is faster than this, in nanoseconds.
    pub floor_ns: f64,
    /// Floating-point operations that the case needs.
    pub flop: f64,
    /// The device's arithmetic peak for the workload's dtype, in FLOP/s.
    pub peak_flops: f64,
}

/// The reason why a report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The Markdown template does not render.
    #[error("the report's template does not render: {0}")]
    Template(#[from] tera::Error),
    /// The report cannot be serialised.
    #[error("the report does not serialise: {0}")]
    Json(#[from] serde_json::Error),
}

impl Report {
    /// Writes the report as JSON.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes the report as Markdown.
    pub fn to_markdown(&self) -> Result<String, ReportError> {
        markdown::render(self)
    }
}
