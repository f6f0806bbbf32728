//! Reports what a session found: the JSON contract, and Markdown. Pure: plain data in, text out.

mod advantage;
mod baseline_kernels;
mod baselines;
mod beaten;
mod began;
mod breakdown;
mod build;
mod calibration;
mod candidate;
mod changes;
mod choice;
mod comparisons;
mod confidence;
pub mod contract;
mod counted_lead_text;
mod counted_leads;
mod credits;
pub mod csv;
mod cycle_parts;
mod decision;
mod divided;
mod edges;
mod effort;
mod excluded;
mod exhausted;
mod experiment;
mod findings;
mod fixed_time;
mod forecast;
pub mod format;
mod gains;
mod grids;
mod html;
mod improved_by;
mod interactions;
mod kernel_idea;
mod ladder;
pub mod ledger;
mod limiter;
mod limits;
mod little_tried;
mod markdown;
mod measuring;
mod merged;
mod model_check;
mod next_change;
mod next_steps;
mod not_options;
mod options;
mod outlook;
mod pairs;
mod parameters;
mod paths;
mod phases;
mod pictures;
mod plots;
mod price;
pub mod profiles;
mod reasons;
mod rivals;
mod roofline;
mod rungs;
mod scaling;
mod scaling_text;
mod source_lines;
mod standing;
mod summary;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod transfer;
mod tuned_alone;
pub mod two;
mod two_text;
mod undivided;
mod unexplained;

use indexmap::IndexMap;

use crate::domain::conditions::Conditions;
use crate::domain::finding::{Finding, Remedy};
use crate::domain::floor::Limiter;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::op::DimSpec;
use crate::domain::prediction::Prediction;
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::variant::Params;

pub use beaten::beaten_winners;
pub use build::build;
pub use contract::Report;
pub use standing::best_of_case;

/// Predicts claims again as if they had been made right after an earlier iteration.
pub type KnownAfter<'a> = dyn Fn(IterationId, &[&IterationRecord]) -> Vec<Option<Prediction>> + 'a;

/// The input of a report.
#[derive(Clone, Copy)]
pub struct ReportInput<'a> {
    /// The store's record of the session.
    pub record: &'a SessionRecord,
    /// Facts that follow from the workload and the device, for each case.
    pub facts: &'a [CaseFacts],
    /// The families that compute the session's op, searched or not.
    pub families: &'a [FamilyFacts],
    /// The dimensions of the workload's op.
    pub dims: &'a [DimSpec],
    /// The dimensions whose entries are independent of each other, such as batch and heads.
    pub independent_dims: &'a [&'a str],
    /// Tells whether a family, by name, can run a configuration on a case, by name.
    pub is_valid: &'a dyn Fn(&str, &Params, &str) -> bool,
    /// The findings of the session's diagnosis.
    pub findings: &'a [Finding],
    /// The findings about the committed winners that the session began with and beat.
    pub began: &'a [Finding],
    /// The sources of the best variants and of the iterations that they were changed from, by iteration.
    pub sources: &'a [(IterationId, String)],
    /// Predicts the speed-up of a finding's remedy over the variant that the finding explains.
    pub predict: &'a dyn Fn(&Finding, &Remedy) -> Option<Prediction>,
    /// Predicts claims again as if they had been made right after an earlier iteration.
    pub known_after: &'a KnownAfter<'a>,
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
    /// The share of that peak that FMA pipes reach without tensor cores. None if the peak is theirs.
    pub fma_share: Option<f64>,
    /// Fewest bytes that the inputs and the output have.
    pub bytes: f64,
    /// The part of the device that delivers these bytes in the case's cache regime: L2 or memory.
    pub bytes_from: Limiter,
    /// Its bandwidth in bytes/s.
    pub bandwidth: f64,
    /// The limit that sets the floor.
    pub floor_limiter: Limiter,
    /// The time of an empty launch in nanoseconds.
    pub launch_ns: f64,
}

/// Facts that follow from a family's manifest, the workload and the device.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyFacts {
    /// The family's name.
    pub name: String,
    /// What it does, in one sentence.
    pub about: String,
    /// Lines of its CUDA source that are not empty.
    pub lines: u64,
    /// What each of its parameters does.
    pub parameters: IndexMap<String, String>,
    /// Its parameters that divide a reduction among blocks, warps or threads.
    pub splits: Vec<String>,
    /// Its parameters that decide which loads, products and stores overlap.
    pub pipelining: Vec<String>,
    /// Whether its tensor cores read shared memory through descriptors (`wgmma`). A virtual GPU does not count these reads
    /// as wavefronts.
    pub reads_by_descriptor: bool,
    /// The cases that it cannot compute, with the reasons.
    pub excluded: Vec<(CaseName, Vec<String>)>,
}

/// The reason why a report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A template does not render.
    #[error("the report's template does not render: {0}")]
    Template(#[from] tera::Error),
    /// The report cannot be serialised.
    #[error("the report does not serialise: {0}")]
    Json(#[from] serde_json::Error),
    /// The report cannot be written as comma-separated values.
    #[error("the report cannot be written as CSV: {0}")]
    Csv(#[from] ::csv::Error),
    /// The report cannot be written.
    #[error("the report cannot be written: {0}")]
    Io(#[from] std::io::Error),
}

impl Report {
    /// Writes the report as JSON.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes a summary of at most two pages as Markdown, with links to the details.
    pub fn to_markdown(&self) -> Result<String, ReportError> {
        markdown::summary(self)
    }

    /// Writes the details that the summary leaves out, as Markdown.
    pub fn to_markdown_details(&self) -> Result<String, ReportError> {
        markdown::details(self)
    }

    /// Writes the report as one HTML file, with pictures.
    pub fn to_html(&self) -> Result<String, ReportError> {
        html::render(self)
    }
}
