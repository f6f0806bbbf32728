//! What a diagnosis finds, as reports tell it.

use super::ids::IterationId;

/// A pathology of a variant, with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The iteration that shows it.
    pub iteration: IterationId,
    /// The variant's family.
    pub family: String,
    /// Its name.
    pub rule: &'static str,
    /// How bad it is: comparable within a rule only, larger is worse.
    pub severity: f64,
    /// What was seen.
    pub evidence: String,
}
