//! The part of a report on one case.

use serde::Serialize;

use super::breakdown::Breakdown;
use super::{Change, Ratio, Roofline, Variant};
use crate::domain::code::counters::Counters;
use crate::domain::code::launched::LaunchedKernel;
use crate::domain::code::profile::Profile;
use crate::domain::device::machine::MachineSummary;
use crate::domain::device::regime::Regime;
use crate::domain::family::plan::Preparation;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::op::Dims;

/// The results on a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Name.
    pub case: CaseName,
    /// Its dimensions. Empty if the workload no longer has the case.
    pub dims: Dims,
    /// Time of the session's first correct variant.
    pub start_us: Option<f64>,
    /// Time of the best variant.
    pub best_us: Option<f64>,
    /// 95% interval of that time's median, low and high.
    pub best_ci_us: Option<[f64; 2]>,
    /// Whether that time comes from a confirmation on held-out inputs.
    pub confirmed: bool,
    /// State of the caches in which it was timed.
    pub regime: Option<Regime>,
    /// The baseline.
    pub baseline: Option<Baseline>,
    /// `ratio_to_start.estimate`.
    pub speedup_over_start: Option<f64>,
    /// The start's time over the best one. Null if the two may not be compared.
    pub ratio_to_start: Option<Ratio>,
    /// `ratio_to_baseline.estimate`.
    pub speedup_over_baseline: Option<f64>,
    /// The baseline's time over the best one. Null if the two may not be compared.
    pub ratio_to_baseline: Option<Ratio>,
    /// No correct kernel on the device is faster than this. Null if the workload no longer has the case.
    pub floor_us: Option<f64>,
    /// The best variant.
    pub variant: Option<Variant>,
    /// The iteration that measured it.
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
    /// What the best variant prepared once for the weights, which is in no time. Absent if it prepared nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Preparation>,
    /// The comparison that gave the time of the best variant. Null where it was timed alone.
    pub comparison: Option<Comparison>,
    /// The counts of a virtual GPU for the best variant. Null where times are measured.
    pub profile: Option<Profile>,
    /// The hardware counters of the best variant. Null where they were not read.
    pub counters: Option<Counters>,
    /// What the time of the best variant consists of. Null if it was not ablated.
    pub breakdown: Option<Breakdown>,
    /// What the session began with, and what became of it. Null without a correct variant.
    pub change: Option<Change>,
    /// What the case needs, and how near the best variant comes to each peak. Null if the workload no longer has the
    /// case.
    pub roofline: Option<Roofline>,
    /// What limits the best variant. Null without a time.
    pub limit: Option<Limit>,
    /// The parameters that decide what overlaps in the best variant, and of which no other value that was timed with all else
    /// equal is faster.
    pub exhausted: Vec<String>,
}

/// What limits the best variant of a case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Limit {
    /// The first cause of lost time that no experiment refuted.
    Cause {
        /// The rule that found it.
        rule: &'static str,
        /// How many times as fast the variant could be without it: an estimate, or what an experiment showed.
        gain: f64,
    },
    /// Arithmetic or bandwidth: the variant is near the peak.
    Ceiling {
        /// `arithmetic`, `L2` or `memory`.
        of: &'static str,
        /// The share of the peak that it reaches.
        share: f64,
    },
    /// The launch, which no kernel is without.
    Launch {
        /// Its share of the time.
        share: f64,
    },
    /// Multiprocessors without a block.
    IdleSms {
        /// Blocks of the largest launch.
        blocks: u64,
    },
    /// Nothing that was counted or measured.
    Unknown,
}

/// The comparison behind a case's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// `final`, held after the iterations, or `confirmation`.
    pub kind: &'static str,
    /// Samples of the best variant in the rounds that count.
    pub samples: u64,
    /// Rounds that count: a group of samples of each participant.
    pub rounds: u64,
    /// Rounds discarded because the GPU was throttled, or because the graphs of two participants were in different states.
    pub discarded_rounds: u64,
    /// The distance from 1 of the challenger's interval over itself (A/A control). Null without a control.
    pub noise: Option<f64>,
    /// The state of the GPU while it ran the best variant.
    pub machine: Option<MachineSummary>,
    /// The state of the GPU while it ran the baseline.
    pub baseline_machine: Option<MachineSummary>,
    /// Energy of one execution of the best variant.
    pub energy_j: Option<f64>,
    /// Energy of one execution of the baseline.
    pub baseline_energy_j: Option<f64>,
    /// The control of the best variant's process: an empty kernel as a node of a graph, in nanoseconds.
    pub graph_node_ns: Option<f64>,
    /// The same for the baseline's. Null if its program does not report it.
    pub baseline_graph_node_ns: Option<f64>,
    /// Other processes that were on the GPU.
    pub others: Vec<String>,
    /// For a final: the other variants that were within the noise of the earlier best.
    pub near_ties: Vec<NearTie>,
}

/// A variant that was too close to the best for a single measurement to separate them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NearTie {
    /// The iteration that measured it.
    pub iteration: Option<IterationId>,
    /// Its family and the hash of its source.
    pub name: String,
    /// Its time.
    pub us: f64,
    /// Its time over the best variant's.
    pub ratio: Option<Ratio>,
}

/// A baseline on a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    /// Its name.
    pub name: String,
    /// Its time.
    pub us: f64,
    /// 95% interval of the time's median, low and high; null for fewer than three samples.
    pub ci_us: Option<[f64; 2]>,
    /// Whether it is the workload's initial kernel, because there is no other baseline.
    pub is_initial_kernel: bool,
    /// The kernels that a call launches. Empty if they are not known.
    pub kernels: Vec<LaunchedKernel>,
}

/// A baseline's time on a case before the first comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimedBaseline {
    /// The case.
    pub case: CaseName,
    /// Its name.
    pub name: String,
    /// State of the caches.
    pub regime: Regime,
    /// Its time by graph replay.
    pub us: f64,
    /// 95% interval of the time's median, low and high; null for fewer than three samples.
    pub ci_us: Option<[f64; 2]>,
    /// Its time without a graph, including the host's work.
    pub eager_us: Option<f64>,
    /// Its error over the whole output.
    pub relative_l2: Option<f64>,
    /// The kernels that a call launches. Empty if they are not known.
    pub kernels: Vec<LaunchedKernel>,
}

/// How the times of winners changed from screening to their comparison, over all winners.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WinnersCurse {
    /// Winners that had a comparison.
    pub winners: u64,
    /// Median of the time in the comparison over the time in screening. Above 1, winners looked faster in screening
    /// than they are.
    pub median: f64,
    /// The largest of these ratios.
    pub worst: f64,
}
