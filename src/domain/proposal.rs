//! What a proposer wants to try next.

pub mod experiment;
pub mod finding;
pub mod lessons;
pub mod origin;

use std::path::PathBuf;

use serde::Serialize;

use self::origin::{Origin, Purpose};
use super::claims::hypothesis::Hypothesis;
use super::ids::{CaseName, IterationId};
use super::variant::{Params, Variant, VariantHash};
use super::workload::Case;

/// Why a variant is tried. It stays the same from a suggestion to the record of its iteration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rationale {
    /// Why the variant is run.
    pub purpose: Purpose,
    /// Where its configuration comes from.
    pub origin: Origin,
    /// The iteration whose variant this one changes or confirms.
    pub parent: Option<IterationId>,
    /// The claim, with its prediction, written down before the experiment.
    pub hypothesis: Hypothesis,
}

/// A rendered variant, the cases to try it on, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The proposer's name.
    pub proposer: String,
    /// The variant to try.
    pub variant: Variant,
    /// The cases to try it on. They agree on all dimensions that are rendered into the source.
    pub cases: Vec<Case>,
    /// Why it is tried.
    pub rationale: Rationale,
}

impl Proposal {
    /// Tells whether the search need not know how it does on every case if it is clearly slower on the first ones: it changes
    /// parameters of a known family.
    pub fn may_be_dropped(&self) -> bool {
        use Origin::{Coverage, FamilyDefault, Move, Opening, Random, Remedy, WarmStart};
        let is_of_search = matches!(
            &self.rationale.origin,
            FamilyDefault | Opening | Random | Move { .. } | Coverage { .. } | Remedy { .. } | WarmStart { .. }
        );
        is_of_search && self.rationale.purpose == Purpose::Screening
    }
}

/// A proposal before its source is rendered. Proposers that search a family's space make these.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// The family's name.
    pub family: String,
    /// The configuration to try.
    pub params: Params,
    /// The cases on which the configuration is valid. They agree on all dimensions that are rendered into the source.
    pub cases: Vec<Case>,
    /// Why it is tried. Its purpose is screening, except for the initial kernel and the winners of earlier sessions.
    pub rationale: Rationale,
}

/// The committed winner of a case, from an earlier session.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownWinner {
    /// The case that it won.
    pub case: CaseName,
    /// Its family.
    pub family: String,
    /// The configuration.
    pub params: Params,
    /// The hash of the committed source.
    pub hash: VariantHash,
    /// The path of its sidecar, relative to the project.
    pub sidecar: PathBuf,
    /// The device on which it won.
    pub device: String,
    /// Its confirmed time there, in microseconds. None if it was taken in another state of the graphs than the
    /// session's times.
    pub median_us: Option<f64>,
    /// Whether the winner comes from a device of the session's kind, and so must be beaten. Otherwise it is only a
    /// suggestion, because times of two devices cannot be compared.
    pub here: bool,
}

impl KnownWinner {
    /// Tells whether a configuration is the winner's.
    pub fn is(&self, family: &str, params: &Params) -> bool {
        self.family == family && self.params == *params
    }
}
