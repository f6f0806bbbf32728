//! Why kernels are slow, as the contract gives it.

use serde::Serialize;

use crate::domain::ids::{CaseName, IterationId};
use crate::domain::proposal::finding::{Finding, Remedy};

/// The diagnosis of a variant on a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Which variant it is.
    pub of: DiagnosisOf,
    /// The iteration that measured it.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
    /// The variant's family.
    pub family: String,
    /// What makes it slow: what experiments confirmed first, what they refuted last.
    pub findings: Vec<Diagnosed>,
}

/// Which variant a diagnosis is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisOf {
    /// The initial kernel, on the case where it is farthest from the floor.
    InitialKernel,
    /// The best variant of the case.
    BestVariant,
}

/// A cause of lost time, and what is left to do about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosed {
    /// The cause, as the diagnosis found it.
    #[serde(flatten)]
    pub finding: Finding,
    /// What is left to do about it.
    pub next: Next,
}

/// What is left to do about a cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Next {
    /// A configuration that the session did not try on the case.
    Try {
        /// The configuration.
        remedy: Remedy,
        /// The median of the predicted speed-up. Null without a prediction.
        expected: Option<f64>,
    },
    /// Something that no configuration does: a kernel has to be written or changed.
    Write {
        /// What to write.
        remedy: Remedy,
    },
    /// Every configuration that should remove the cause was tried. This is the one that came out best.
    Tried {
        /// The iteration that tried it.
        iteration: IterationId,
        /// The explained variant's time over its own. Null if it was not correct.
        speedup: Option<f64>,
    },
    /// The diagnosis knows no change of a configuration against it.
    Nothing,
}
