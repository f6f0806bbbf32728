//! What a proposer wants to be tried next.

use serde::{Deserialize, Serialize};

use super::hypothesis::Hypothesis;
use super::variant::Variant;
use super::workload::Case;

/// A rendered variant, the cases to try it on, and the claim that it is to test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The proposer's name.
    pub proposer: String,
    /// What to try.
    pub variant: Variant,
    /// The cases to try it on. They agree on everything that is rendered into the source.
    pub cases: Vec<Case>,
    /// The claim, with its prediction.
    pub hypothesis: Hypothesis,
    /// The iteration whose variant this one was changed from.
    pub parent: Option<i64>,
}
