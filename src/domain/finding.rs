//! What a diagnosis finds, for reports.

use super::ids::IterationId;

/// A pathology of a variant, with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The iteration that shows it.
    pub iteration: IterationId,
    /// The variant's family.
    pub family: String,
    /// The name of the rule that found it.
    pub rule: &'static str,
    /// How bad the pathology is. Comparable within a rule only; larger is worse.
    pub severity: f64,
    /// The figures that show it.
    pub evidence: String,
}
