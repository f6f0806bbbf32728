//! What the device said of a variant.

use serde::{Deserialize, Serialize};

use super::check::Check;
use super::comparison::Comparison;
use super::correctness::Correctness;
use super::ids::CaseName;
use super::profile::Profile;
use super::regime::Regime;
use super::timing::Timing;

/// What became of an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// Correct on every case it was tried on, and timed.
    Measured,
    /// It does not render, or NVRTC refuses the source, or the driver refuses the result.
    RejectedByCompiler {
        /// The first error.
        message: String,
    },
    /// An output is wrong.
    Wrong {
        /// The case on which it is.
        case: CaseName,
        /// What caught it.
        check: Check,
        /// What is wrong with it.
        message: String,
    },
    /// A launch failed or took the device down.
    Crashed {
        /// The case on which it did.
        case: CaseName,
        /// The driver's word for it.
        message: String,
    },
    /// The device did not answer in time.
    TimedOut {
        /// The case on which it did not.
        case: CaseName,
        /// What was being done, and for how long.
        message: String,
    },
    /// It looked right but broke a rule of the evaluation.
    Cheated {
        /// The case on which it was caught.
        case: CaseName,
        /// What caught it.
        check: Check,
        /// How.
        message: String,
    },
    /// Given up before the device was touched.
    Pruned {
        /// Why it was not worth the device's time.
        message: String,
    },
}

impl Outcome {
    /// Every kind of outcome, in the order in which reports count them.
    pub const KINDS: [&str; 7] =
        ["measured", "rejected_by_compiler", "wrong", "crashed", "timed_out", "cheated", "pruned"];

    /// Returns the kind as the store, the reports and the JSON contract name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::RejectedByCompiler { .. } => "rejected_by_compiler",
            Self::Wrong { .. } => "wrong",
            Self::Crashed { .. } => "crashed",
            Self::TimedOut { .. } => "timed_out",
            Self::Cheated { .. } => "cheated",
            Self::Pruned { .. } => "pruned",
        }
    }

    /// Returns the case on which it went wrong, if it went wrong on one.
    pub fn case(&self) -> Option<&str> {
        match self {
            Self::Wrong { case, .. }
            | Self::Crashed { case, .. }
            | Self::TimedOut { case, .. }
            | Self::Cheated { case, .. } => Some(case),
            _ => None,
        }
    }

    /// Returns the check that caught it, if one did.
    pub fn check(&self) -> Option<Check> {
        match self {
            Self::Wrong { check, .. } | Self::Cheated { check, .. } => Some(*check),
            _ => None,
        }
    }

    /// Returns what there is to say beyond the kind.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Measured => None,
            Self::RejectedByCompiler { message }
            | Self::Wrong { message, .. }
            | Self::Crashed { message, .. }
            | Self::TimedOut { message, .. }
            | Self::Cheated { message, .. }
            | Self::Pruned { message } => Some(message),
        }
    }

    /// Returns the same to be changed.
    pub fn message_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Measured => None,
            Self::RejectedByCompiler { message }
            | Self::Wrong { message, .. }
            | Self::Crashed { message, .. }
            | Self::TimedOut { message, .. }
            | Self::Cheated { message, .. }
            | Self::Pruned { message } => Some(message),
        }
    }
}

/// What was found on one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The case's name.
    pub case: CaseName,
    /// State of the caches in which it was timed.
    #[serde(default)]
    pub regime: Regime,
    /// How close the output came.
    pub correctness: Correctness,
    /// The short measurement that every variant gets. Its samples are few when it could not win.
    pub screening: Option<Timing>,
    /// The long measurement on fresh inputs that only a variant gets which screening says is faster.
    pub confirmation: Option<Timing>,
    /// The comparison in which the confirmation was taken, where the device replays.
    pub comparison: Option<Comparison>,
    /// Blocks (CTAs) of the plan's largest launch, to hold against the device's SMs.
    pub ctas: u64,
    /// How the time came about, where the device modelled it.
    pub profile: Option<Profile>,
}

impl Measurement {
    /// Takes over what a comparison found of the challenger.
    pub fn confirm(&mut self, comparison: Comparison) {
        self.confirmation = comparison.challenger().map(|challenger| challenger.timing.clone());
        self.comparison = Some(comparison);
    }

    /// Returns the time to report: the confirmed one where there is one.
    pub fn best_timing(&self) -> Option<&Timing> {
        self.confirmation.as_ref().or(self.screening.as_ref())
    }
}

/// Everything that is known of a variant after its evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// What became of it.
    pub outcome: Outcome,
    /// What was found, case by case, as far as it got.
    pub measurements: Vec<Measurement>,
    /// Seconds for which it occupied the device.
    pub device_s: f64,
}

impl Evaluation {
    /// Makes an evaluation that ended before the device was touched.
    pub fn without_device(outcome: Outcome) -> Self {
        Self { outcome, measurements: Vec::new(), device_s: 0.0 }
    }
}
