//! What the device said of a variant.

use serde::{Deserialize, Serialize};

use super::check::Check;
use super::contest::Contest;
use super::profile::Profile;
use super::regime::Regime;
use super::sampling::LEAST_SAMPLES;
use super::statistics::{Interval, median, median_interval};

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
        case: String,
        /// What caught it.
        check: Check,
        /// What is wrong with it.
        message: String,
    },
    /// A launch failed or took the device down.
    Crashed {
        /// The case on which it did.
        case: String,
        /// The driver's word for it.
        message: String,
    },
    /// The device did not answer in time.
    TimedOut {
        /// The case on which it did not.
        case: String,
        /// What was being done, and for how long.
        message: String,
    },
    /// It looked right but broke a rule of the evaluation.
    Cheated {
        /// The case on which it was caught.
        case: String,
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

/// How close an output came to the float64 reference. Errors are relative to the scale of the output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Correctness {
    /// `‖out − ref‖₂ / ‖ref‖₂`.
    pub relative_l2: f64,
    /// The same for the worst row.
    pub worst_row: f64,
    /// Rows compared with the reference.
    pub rows_checked: usize,
    /// Rows of the output; every one is scanned for NaN, Inf and unwritten elements.
    pub rows: usize,
}

/// Times of one plan on one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Nanoseconds of one execution of the plan, a value per graph replay.
    pub samples_ns: Vec<f64>,
    /// Executions of the plan in one replay; a sample is the replay's time divided by it.
    pub launches_per_sample: u32,
    /// Median of the samples.
    pub median_ns: f64,
    /// 95% bootstrap interval of the median.
    pub interval_ns: Interval,
}

impl Timing {
    /// Takes over a modelled time: one value, computed and so without noise, for one execution of the plan. Its interval is
    /// the time itself; how far the model is from a real device, it does not say.
    pub fn modelled(ns: f64) -> Self {
        Self { samples_ns: vec![ns], launches_per_sample: 1, median_ns: ns, interval_ns: Interval { lo: ns, hi: ns } }
    }

    /// Summarises samples. `None` for no samples.
    pub fn of(samples_ns: Vec<f64>, launches_per_sample: u32) -> Option<Self> {
        let median_ns = median(&samples_ns)?;
        let interval_ns = median_interval(&samples_ns)?;
        Some(Self { samples_ns, launches_per_sample, median_ns, interval_ns })
    }

    /// Returns the interval to show; none for too few samples to have one, and so none of a modelled time.
    pub fn shown_interval_ns(&self) -> Option<Interval> {
        (self.samples_ns.len() >= LEAST_SAMPLES).then_some(self.interval_ns)
    }

    /// Returns the same in microseconds, low and high.
    pub fn shown_ci_us(&self) -> Option<[f64; 2]> {
        self.shown_interval_ns().map(|Interval { lo, hi }| [lo / 1e3, hi / 1e3])
    }
}

/// What was found on one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The case's name.
    pub case: String,
    /// State of the caches in which it was timed.
    #[serde(default)]
    pub regime: Regime,
    /// How close the output came.
    pub correctness: Correctness,
    /// The short measurement that every variant gets. Its samples are few when it could not win.
    pub screening: Option<Timing>,
    /// The long measurement on fresh inputs that only a variant gets which screening says is faster.
    pub confirmation: Option<Timing>,
    /// The contest in which the confirmation was taken, where the device replays.
    pub contest: Option<Contest>,
    /// Blocks (CTAs) of the plan's largest launch, to hold against the device's SMs.
    pub ctas: u64,
    /// How the time came about, where the device modelled it.
    pub profile: Option<Profile>,
}

impl Measurement {
    /// Takes over what a contest found of the challenger.
    pub fn confirm(&mut self, contest: Contest) {
        self.confirmation = contest.challenger().map(|challenger| challenger.timing.clone());
        self.contest = Some(contest);
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
