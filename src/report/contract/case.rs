//! What a report says of a case.

use serde::Serialize;

use super::Variant;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::machine::MachineSummary;
use crate::domain::profile::Profile;
use crate::domain::regime::Regime;

/// What was reached on a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Name.
    pub case: CaseName,
    /// Time of the session's first correct variant.
    pub start_us: Option<f64>,
    /// Time of the best variant.
    pub best_us: Option<f64>,
    /// 95% interval of that time's median, low and high.
    pub best_ci_us: Option<[f64; 2]>,
    /// Whether that time comes from a confirmation on fresh inputs.
    pub confirmed: bool,
    /// State of the caches in which it was timed.
    pub regime: Option<Regime>,
    /// What a user would use instead.
    pub baseline: Option<Baseline>,
    /// `ratio_to_start.estimate`.
    pub speedup_over_start: Option<f64>,
    /// The start's time over the best one; null where the two may not be compared.
    pub ratio_to_start: Option<Ratio>,
    /// `ratio_to_baseline.estimate`.
    pub speedup_over_baseline: Option<f64>,
    /// The baseline's time over the best one; null where the two may not be compared.
    pub ratio_to_baseline: Option<Ratio>,
    /// No correct kernel on the device is faster; null if the workload no longer has the case.
    pub floor_us: Option<f64>,
    /// The best variant.
    pub variant: Option<Variant>,
    /// The iteration that brought it.
    pub iteration: Option<IterationId>,
    /// Its commit.
    pub commit: Option<String>,
    /// The rate it reaches, counting the work that the case needs.
    pub gflops: Option<f64>,
    /// `floor_us / best_us`: 1 is the floor itself.
    pub share_of_floor: Option<f64>,
    /// Its rate over the device's arithmetic peak.
    pub share_of_peak: Option<f64>,
    /// Blocks of its largest launch.
    pub ctas: Option<u64>,
    /// Streaming multiprocessors to fill.
    pub sms: u32,
    /// The comparison that gave the time of the best variant; null where it was timed alone.
    pub comparison: Option<Comparison>,
    /// What a virtual GPU counted of the best variant; null where times are measured.
    pub profile: Option<Profile>,
}

/// A time over the best variant's: above 1, the best variant is the faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The estimate.
    pub estimate: f64,
    /// Lower end of its 95% interval; null where a side that was timed alone has too few samples for one.
    pub lo: Option<f64>,
    /// Upper end.
    pub hi: Option<f64>,
    /// Whether the two were timed in turns in one run; if not, whatever changed on the machine in between is in the estimate and
    /// not in the interval.
    pub paired: bool,
}

/// What there is to know of the comparison behind a case's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// `final`, held when the iterations were over, or `confirmation`.
    pub kind: &'static str,
    /// Samples of the best variant in the rounds that count.
    pub samples: u64,
    /// Rounds that count: a group of samples of each participant.
    pub rounds: u64,
    /// Rounds thrown away because the GPU was throttled.
    pub discarded_rounds: u64,
    /// How far from 1 the interval of the challenger over itself reaches (A/A control); null without a control.
    pub noise: Option<f64>,
    /// What the GPU was doing while it ran the best variant.
    pub machine: Option<MachineSummary>,
    /// What it was doing while it ran the baseline.
    pub baseline_machine: Option<MachineSummary>,
    /// Energy of one execution of the best variant.
    pub energy_j: Option<f64>,
    /// Energy of one execution of the baseline.
    pub baseline_energy_j: Option<f64>,
    /// Other processes that were on the GPU.
    pub others: Vec<String>,
    /// Of a final, the other variants that were within the noise of the best before it.
    pub near_ties: Vec<NearTie>,
}

/// A variant that was too near to the best for a single measurement to part them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NearTie {
    /// The iteration that brought it.
    pub iteration: Option<IterationId>,
    /// Its family and the hash of its source.
    pub name: String,
    /// Its time.
    pub us: f64,
    /// Its time over the best variant's.
    pub ratio: Option<Ratio>,
}

/// What a user would use instead, on a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    /// What was timed.
    pub name: String,
    /// Its time.
    pub us: f64,
    /// 95% interval of the time's median, low and high; null for fewer than three samples.
    pub ci_us: Option<[f64; 2]>,
    /// Whether it is the workload's reference kernel, for want of anything that a user would use.
    pub is_initial_kernel: bool,
}

/// A baseline as it was timed on a case before the first iteration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimedBaseline {
    /// The case.
    pub case: CaseName,
    /// What was timed.
    pub name: String,
    /// State of the caches.
    pub regime: Regime,
    /// Its time by graph replay.
    pub us: f64,
    /// 95% interval of the time's median, low and high; null for fewer than three samples.
    pub ci_us: Option<[f64; 2]>,
    /// Its time without a graph, the host's work with it.
    pub eager_us: Option<f64>,
    /// Its error over the whole output.
    pub relative_l2: Option<f64>,
}

/// How the times of winners changed from screening to their comparison, over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WinnersCurse {
    /// Winners that were held in a comparison.
    pub winners: u64,
    /// Median of the time in the comparison over the time in screening: above 1, they had looked faster than they are.
    pub median: f64,
    /// The largest of them.
    pub worst: f64,
}
