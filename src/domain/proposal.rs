//! What a proposer wants to be tried next.

use serde::{Deserialize, Serialize};

use super::hypothesis::Hypothesis;
use super::ids::{CaseName, IterationId};
use super::origin::{Origin, Purpose};
use super::variant::{Params, Variant, VariantHash};
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
    /// The iteration whose variant this one was changed from, or which it confirms.
    pub parent: Option<IterationId>,
    /// Why it is run.
    pub purpose: Purpose,
    /// Where its configuration comes from.
    pub origin: Origin,
}

/// A proposal before its source is rendered: what a proposer that searches a family's space comes up with.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// The family's name.
    pub family: String,
    /// The point of its space.
    pub params: Params,
    /// The cases on which the point is valid. They agree on everything that is rendered into the source.
    pub cases: Vec<Case>,
    /// The claim, with its prediction.
    pub hypothesis: Hypothesis,
    /// The iteration whose variant this one was changed from.
    pub parent: Option<IterationId>,
    /// Why it is run: screening, but for the initial kernel and the winners of earlier sessions.
    pub purpose: Purpose,
    /// Where the point comes from.
    pub origin: Origin,
}

/// The committed winner of a case, from an earlier session.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownWinner {
    /// The case that it won.
    pub case: CaseName,
    /// Its family.
    pub family: String,
    /// The point of the family's space.
    pub params: Params,
    /// The hash of the committed source.
    pub hash: VariantHash,
    /// The device on which it won.
    pub device: String,
    /// Its confirmed time there, in microseconds.
    pub median_us: f64,
    /// Whether it won on a device of the session's kind, so that it is one to be beaten. Else it is a suggestion to try
    /// and no more: times of two devices say nothing about each other.
    pub here: bool,
}
