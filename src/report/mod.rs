//! Reports what a session found: facts (the JSON contract), and views of them (Markdown, HTML, CSV). Pure: plain data in,
//! text out. Facts know no words, and views read nothing but facts.

pub mod contract;
mod facts;
#[cfg(test)]
mod tests;
mod views;

use indexmap::IndexMap;

use crate::domain::claims::prediction::Prediction;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::conditions::Conditions;
use crate::domain::measurement::floor::Limiter;
use crate::domain::op::DimSpec;
use crate::domain::proposal::finding::{Finding, Remedy};
use crate::domain::record::{IterationRecord, SessionRecord};
use crate::domain::variant::Params;

pub use contract::Report;
pub use facts::{beaten_winners, best_of_case, build, ledger, two};
pub use views::{csv, format, profiles};

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
