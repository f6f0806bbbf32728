//! Findings of a diagnosis: why a variant is slow on a case, with the evidence for and against, and what to change.

use serde::Serialize;

use super::origin::Change;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::variant::Params;

/// The names of the rules of the diagnosis, which findings, remedies and manifests use. The rules themselves are the
/// agent's.
pub const RULES: [&str; 21] = [
    "serialised-grid",
    "too-few-blocks",
    "partial-wave",
    "uneven-blocks",
    "idle-warps",
    "idle-lanes",
    "tensor-cores-unused",
    "bank-conflicts",
    "scattered-access",
    "narrow-loads",
    "redundant-loads",
    "index-arithmetic",
    "excess-instructions",
    "cache-misses",
    "spills",
    "barriers",
    "special-functions",
    "stalls",
    "latency-bound",
    "launch-bound",
    "at-the-floor",
];

/// A cause of lost time in a variant on one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The iteration that measured the variant; none for a kernel that belongs to no session.
    pub iteration: Option<IterationId>,
    /// The variant's family.
    pub family: String,
    /// The case on which it is slow.
    pub case: CaseName,
    /// The name of the rule that found it, such as `bank-conflicts`.
    pub rule: &'static str,
    /// The cause in one sentence, with its most telling figure.
    pub cause: String,
    /// How the cause makes the kernel slow, in one sentence.
    pub mechanism: &'static str,
    /// What a kernel without the cause would do, where no parameter removes it. A phrase that begins with a verb.
    pub kernel_change: &'static str,
    /// Whether the gain would follow only from a model that is far off for this variant, so that it is not known.
    pub model_is_off: bool,
    /// The figures for and against the cause, the strongest first.
    pub evidence: Vec<Evidence>,
    /// How sure the diagnosis is.
    pub confidence: Confidence,
    /// How many times as fast the variant could be without the cause, at least 1: what an experiment showed, else an estimate.
    /// For modelled times, the estimate is an upper bound.
    pub gain: f64,
    /// What would remove the cause, the most promising first.
    pub remedies: Vec<Remedy>,
    /// What the session's own times say about it.
    pub tested: CauseTest,
}

impl Finding {
    /// Returns the weight by which findings are ranked: the logarithm of the possible gain, less where the diagnosis is
    /// unsure.
    pub fn weight(&self) -> f64 {
        self.gain.max(1.0).ln() * self.confidence.weight()
    }
}

/// A figure that supports or contradicts a cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Where the figure comes from.
    pub source: EvidenceSource,
    /// Whether it supports the cause.
    pub supports: bool,
    /// The figure in words.
    pub text: String,
}

/// Where a figure comes from, the most reliable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    /// The variant without one kind of instruction, timed on the GPU.
    Ablation,
    /// The hardware counters of the GPU, read by Nsight Compute.
    HardwareCounters,
    /// What the virtual GPU counted.
    VirtualCounters,
    /// An experiment that the session ran for this question.
    Experiment,
    /// Times of the same variant on several cases.
    Times,
    /// The compiler's resource report and instructions.
    Compiler,
    /// The launch plan, the workload and the device.
    Launch,
}

impl EvidenceSource {
    /// Returns the words that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ablation => "ablation",
            Self::HardwareCounters => "hardware counters",
            Self::VirtualCounters => "virtual counters",
            Self::Experiment => "experiment",
            Self::Times => "times",
            Self::Compiler => "compiler",
            Self::Launch => "launch",
        }
    }
}

/// How sure a diagnosis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// One indirect sign.
    Low,
    /// A direct figure, or several signs.
    Medium,
    /// A direct figure that nothing contradicts, or an experiment.
    High,
}

impl Confidence {
    /// Returns the word that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Returns the weight of a gain of this confidence.
    pub fn weight(self) -> f64 {
        match self {
            Self::Low => 0.15,
            Self::Medium => 0.6,
            Self::High => 1.0,
        }
    }
}

/// A change that would remove a cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// The change in words.
    pub text: String,
    /// The family to use; the variant's own if only parameters change.
    pub family: String,
    /// The configuration to try; none if the change needs a new kernel.
    pub params: Option<Params>,
}

/// What the session's times say about a cause of lost time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseTest {
    /// Whether the cause has survived.
    pub status: CauseStatus,
    /// The iteration that lacks the cause: of several, the one with the largest speed-up, or the median one of pairs of other
    /// variants. None if none does.
    pub iteration: Option<IterationId>,
    /// The parameters that this iteration changed. Empty if its family is another one.
    pub changes: Vec<Change>,
    /// The time with the cause over that without it.
    pub speedup: Option<f64>,
    /// The gain that the diagnosis estimated before it knew of the experiment.
    pub expected: f64,
    /// How many pairs of variants show it.
    pub pairs: u64,
    /// Whether the counts of both variants show that the change removed the cause.
    pub counted: bool,
    /// The rules of the other causes of the variant that could account for the same speed-up.
    pub shared_with: Vec<&'static str>,
}

impl CauseTest {
    /// Makes the test of a cause of which no experiment is known.
    pub fn none(expected: f64, is_possible: bool) -> Self {
        let status = if is_possible { CauseStatus::NotTested } else { CauseStatus::NoExperiment };
        Self {
            status,
            iteration: None,
            changes: Vec::new(),
            speedup: None,
            expected,
            pairs: 0,
            counted: false,
            shared_with: Vec::new(),
        }
    }
}

/// Whether a cause has survived its experiments, in the order in which causes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseStatus {
    /// Without the cause, the variant was faster by at least half of the expected gain, or by any that is no noise where counts
    /// show that the change removed the cause. Only one parameter changed, and no other cause of the variant could account for
    /// that.
    Confirmed,
    /// Without the cause, the variant was as much faster. Several parameters or the family changed, other causes could account
    /// for it, or one parameter gained so much more that other causes must have a part. So some of the gain may be theirs.
    Supported,
    /// Several parameters or the family changed, and the variant was so much faster that other causes must have a part.
    Inconclusive,
    /// No iteration removed the cause, though a configuration of the same family may.
    NotTested,
    /// No configuration of the same family removes the cause, so no experiment was found.
    NoExperiment,
    /// Without the cause, the variant was not that much faster.
    NotConfirmed,
}
