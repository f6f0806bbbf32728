//! What the device reported about a variant.

use serde::{Deserialize, Serialize};

use super::check::Check;
use super::comparison::Comparison;
use super::correctness::Correctness;
use crate::domain::code::profile::Profile;
use crate::domain::device::regime::Regime;
use crate::domain::family::plan::{LaunchShape, Preparation};
use crate::domain::ids::CaseName;
use crate::domain::statistics::timing::Timing;

/// The result of an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The variant is correct on every case that it was tried on, and timed.
    Measured,
    /// The variant does not render, NVRTC refuses the source, or the driver refuses the result.
    RejectedByCompiler {
        /// The first error.
        message: String,
    },
    /// An output is wrong.
    Wrong {
        /// The case with the wrong output.
        case: CaseName,
        /// The check that caught it.
        check: Check,
        /// What is wrong with the output.
        message: String,
    },
    /// A launch failed or took the device down.
    Crashed {
        /// The case on which the launch failed.
        case: CaseName,
        /// The driver's error message.
        message: String,
        /// The line of the variant's source, if the device knows it.
        #[serde(default)]
        line: Option<u32>,
    },
    /// The device did not answer in time.
    TimedOut {
        /// The case on which the device did not answer.
        case: CaseName,
        /// What the device was doing, and for how long.
        message: String,
    },
    /// The variant looked right but broke a rule of the evaluation.
    Cheated {
        /// The case on which the variant was caught.
        case: CaseName,
        /// The check that caught it.
        check: Check,
        /// How the rule was broken.
        message: String,
    },
    /// The device has too little memory for the variant's buffers.
    OutOfMemory {
        /// The case whose buffers do not fit.
        case: CaseName,
        /// How much is needed.
        message: String,
    },
    /// The virtual GPU does not model what the variant does, which says nothing about the variant.
    NotModelled {
        /// The case that was launched.
        case: CaseName,
        /// What is not modelled.
        message: String,
    },
    /// The variant was given up before the device was touched.
    Pruned {
        /// Why it was not worth the device's time.
        message: String,
    },
}

impl Outcome {
    /// Every kind of outcome, in the order of the counts in reports.
    pub const KINDS: [&str; 9] = [
        "measured",
        "rejected_by_compiler",
        "wrong",
        "crashed",
        "timed_out",
        "cheated",
        "out_of_memory",
        "not_modelled",
        "pruned",
    ];

    /// Returns the name of the kind in the store, the reports and the JSON contract.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::RejectedByCompiler { .. } => "rejected_by_compiler",
            Self::Wrong { .. } => "wrong",
            Self::Crashed { .. } => "crashed",
            Self::TimedOut { .. } => "timed_out",
            Self::Cheated { .. } => "cheated",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::NotModelled { .. } => "not_modelled",
            Self::Pruned { .. } => "pruned",
        }
    }

    /// Returns the case on which the variant failed, if there is one.
    pub fn case(&self) -> Option<&str> {
        match self {
            Self::Wrong { case, .. }
            | Self::Crashed { case, .. }
            | Self::TimedOut { case, .. }
            | Self::Cheated { case, .. }
            | Self::OutOfMemory { case, .. }
            | Self::NotModelled { case, .. } => Some(case),
            _ => None,
        }
    }

    /// Returns the check that caught the variant, if there is one.
    pub fn check(&self) -> Option<Check> {
        match self {
            Self::Wrong { check, .. } | Self::Cheated { check, .. } => Some(*check),
            _ => None,
        }
    }

    /// Tells whether the variant was tried and failed, which is the kernel's fault.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Measured | Self::OutOfMemory { .. } | Self::NotModelled { .. } | Self::Pruned { .. })
    }

    /// Tells whether an output was wrong, on ordinary inputs of the case. Then the source or the compiler is at fault.
    pub fn is_wrong_result(&self) -> bool {
        matches!(self, Self::Wrong { check: Check::Accuracy | Check::Finite | Check::Written, .. })
    }

    /// Attributes a wrong output to the compiler, because a virtual GPU computes the right one from the same PTX.
    pub fn of_machine_code(self) -> Self {
        match self {
            Self::Wrong { case, message, .. } => {
                let message = format!(
                    "{message}; the virtual GPU computes the right output from the same PTX, so the machine code does \
                     not do what the PTX says"
                );
                Self::Wrong { case, check: Check::MachineCode, message }
            }
            other => other,
        }
    }

    /// Returns the details beyond the kind.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Measured => None,
            Self::RejectedByCompiler { message }
            | Self::Wrong { message, .. }
            | Self::Crashed { message, .. }
            | Self::TimedOut { message, .. }
            | Self::Cheated { message, .. }
            | Self::OutOfMemory { message, .. }
            | Self::NotModelled { message, .. }
            | Self::Pruned { message } => Some(message),
        }
    }

    /// Returns a mutable reference to the details.
    pub fn message_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Measured => None,
            Self::RejectedByCompiler { message }
            | Self::Wrong { message, .. }
            | Self::Crashed { message, .. }
            | Self::TimedOut { message, .. }
            | Self::Cheated { message, .. }
            | Self::OutOfMemory { message, .. }
            | Self::NotModelled { message, .. }
            | Self::Pruned { message } => Some(message),
        }
    }
}

/// The measurements on one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The case's name.
    pub case: CaseName,
    /// State of the caches in which it was timed.
    #[serde(default)]
    pub regime: Regime,
    /// How close the output came to the oracle.
    pub correctness: Correctness,
    /// The screening time, which every variant gets. It has few samples if the variant could not win.
    pub screening: Option<Timing>,
    /// The longer measurement on held-out inputs. Only a variant that screening finds faster gets one.
    pub confirmation: Option<Timing>,
    /// The comparison that took the confirmation, on a device that replays.
    pub comparison: Option<Comparison>,
    /// Blocks (CTAs) of the plan's largest launch, to relate to the device's SMs.
    pub ctas: u64,
    /// The launch that does most of the work. None for a recording.
    #[serde(default)]
    pub shape: Option<LaunchShape>,
    /// What was prepared once for the weights, before the time. None if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Preparation>,
    /// What the virtual GPU counted, where the time is modelled.
    pub profile: Option<Profile>,
}

impl Measurement {
    /// Takes the challenger's results from a comparison.
    pub fn confirm(&mut self, comparison: Comparison) {
        self.confirmation = comparison.challenger().map(|challenger| challenger.timing.clone());
        self.comparison = Some(comparison);
    }

    /// Returns the time to report: the confirmed time, else the screened one.
    pub fn best_timing(&self) -> Option<&Timing> {
        self.confirmation.as_ref().or(self.screening.as_ref())
    }
}

/// The results of evaluating a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The result of the iteration.
    pub outcome: Outcome,
    /// The measurements, case by case, up to the one where the evaluation ended.
    pub measurements: Vec<Measurement>,
    /// Seconds for which the variant occupied the device.
    pub device_s: f64,
}

impl Evaluation {
    /// Makes an evaluation that ended before the device was touched.
    pub fn without_device(outcome: Outcome) -> Self {
        Self { outcome, measurements: Vec::new(), device_s: 0.0 }
    }
}
