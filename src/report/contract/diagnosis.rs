//! Why kernels are slow, as the contract gives it.

use serde::Serialize;

use crate::domain::finding::{Confidence, Evidence, Remedy};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::tested::CauseTest;

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
    /// What makes it slow, the most important first.
    pub findings: Vec<Finding>,
}

/// How the model of the virtual GPU compares with the leads that the session measured. Gains that only the model estimates
/// have low confidence where it derived fewer than half of these leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ModelCheck {
    /// Measured leads with counts of both kernels.
    pub leads: u64,
    /// Those that the model derived from the counts.
    pub explained: u64,
    /// Findings whose confidence is low because of that.
    pub lowered: u64,
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

/// A cause of lost time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// The cause in one sentence.
    pub cause: String,
    /// How it makes the kernel slow.
    pub mechanism: &'static str,
    /// What a kernel without the cause would do.
    pub kernel_change: String,
    /// What speaks for it and against it.
    pub evidence: Vec<Evidence>,
    /// How sure the diagnosis is.
    pub confidence: Confidence,
    /// How many times as fast the variant could be without it: an estimate.
    pub gain: f64,
    /// How that follows from figures: a formula with its numbers. Null where the evidence says it.
    pub derivation: Option<String>,
    /// What would remove it, the most promising first.
    pub remedies: Vec<Remedy>,
    /// What experiments of the session say about it.
    pub tested: CauseTest,
    /// The iteration that tried to remove it, if every variant that should was not correct. Null otherwise.
    pub failed: Option<IterationId>,
    /// Another family that already divides the case into more blocks, if the cause is that there are too few. Null
    /// otherwise.
    pub divided_by: Option<Divided>,
    /// Whether the gain would follow only from a model that is far off for this variant, so that it is not known.
    pub model_is_off: bool,
    /// What to do about it in one phrase: a change that was not tried, or why there is none.
    pub next: String,
}

/// A family whose best variant divides a case into more blocks than the best variant of the case does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divided {
    /// The family.
    pub family: String,
    /// Blocks of its largest launch.
    pub blocks: u64,
    /// Its time.
    pub us: f64,
    /// Its time over that of the best variant.
    pub times_as_long: f64,
    /// Whether the two took turns in one run.
    pub in_one_run: bool,
}
