//! The JSON contract of a report, described in `docs/report-schema.md`. Fields are only ever added within a version.

mod advice;
mod breakdown;
mod case;
mod diagnosis;
mod explanation;
mod lead;
mod ledger;
mod path;
mod predictions;
mod progress;
mod ratio;
mod two;

use indexmap::IndexMap;
use serde::Serialize;

pub use advice::{Advice, Edge, NextExperiment, Outlook, Step, StepKind};
pub use breakdown::{Breakdown, Line, Without};
pub use case::{Baseline, Case, Comparison, Limit, NearTie, TimedBaseline, WinnersCurse};
pub use diagnosis::{Diagnosed, Diagnosis, DiagnosisOf, Next};
pub use explanation::{
    CaseEffect, Change, Excluded, ImprovedBy, ParameterEffect, Parameters, PhaseCost, Phases, Roofline, Scaling,
    ScalingPoint, ScalingTime, WinningFamily,
};
pub use lead::{Count, Counts, CyclePart, Cycles, Lead, LeadEvidence, Longer, Over, OverKind, Parts};
pub use ledger::{Entry, Ledger};
pub use path::{ConfigurationPath, PathStep};
pub use predictions::{Calibration, Claim, Kept, Pay, Predictions, Refuted};
pub use progress::{Progress, ProgressStep};
pub use ratio::Ratio;
pub use two::{Both, Difference, Two};

use crate::domain::budget::cost::{Spent, UnknownCosts};
use crate::domain::budget::stop::EarlyEnd;
use crate::domain::claims::hypothesis::Score;
use crate::domain::compute::Compute;
use crate::domain::device::TimeSource;
use crate::domain::device::gpu_state::Graphs;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::verdict::Verdict;
use crate::domain::op::Dims;
use crate::domain::record::{FamilyLeftOut, Status};
use crate::domain::variant::Params;

/// The version of the contract.
pub const SCHEMA: &str = "optloop.report/5";

/// What a session found, what it cost and what to try next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version of the contract: `optloop.report/5`.
    pub schema: &'static str,
    /// The session.
    pub session: Session,
    /// The machine and the software.
    pub environment: Environment,
    /// What each dimension of the cases means, by name. Empty if that is not known.
    pub dims: IndexMap<&'static str, &'static str>,
    /// Every selected case, in the workload's order. Figures that do not exist are null.
    pub cases: Vec<Case>,
    /// All baselines that were timed before the first comparison, the fastest of each case first.
    pub baselines: Vec<TimedBaseline>,
    /// How the times of winners changed from screening to their comparison; null without one.
    pub winners_curse: Option<WinnersCurse>,
    /// `total`, `unfinished`, and a count per kind of outcome.
    pub iterations: IndexMap<&'static str, u64>,
    /// What the report rests on, if the session has too many iterations to read them all. Null if all were read.
    pub excerpt: Option<Excerpt>,
    /// How many wrong or cheating variants each check caught. Checks that caught none are left out.
    pub caught: IndexMap<&'static str, u64>,
    /// The first correct variant of each case and every confirmed improvement that the session has found, oldest first.
    pub wins: Vec<Win>,
    /// The winners of earlier sessions that the session began with, measured again. They are not wins of this session.
    pub remeasured: Vec<Remeasured>,
    /// Every claim, oldest first.
    pub hypotheses: Vec<Claim>,
    /// How many claims were in range, and how many variants were faster.
    pub predictions: Predictions,
    /// How well the predicted ranges held, by kind and by predicted speed-up.
    pub calibration: Calibration,
    /// Why the initial kernel and the best variants are slow. Empty if the rules found nothing.
    pub diagnoses: Vec<Diagnosis>,
    /// What the time of the initial kernel consists of, on the case where it is farthest from the floor. Null if it was not
    /// ablated.
    pub first_breakdown: Option<Breakdown>,
    /// Why the session could not read hardware counters. Null if it read some, or did not try.
    pub no_counters: Option<String>,
    /// How exact the best variant of each case is.
    pub correctness: Vec<Exactness>,
    /// The winners that were committed.
    pub committed: Vec<Committed>,
    /// What was spent.
    pub cost: Cost,
    /// How times depend on one size while all others stay the same.
    pub scaling: Vec<Scaling>,
    /// The winners against what the session began with, other families and the fastest baselines, in the order of the
    /// cases.
    pub leads: Vec<Lead>,
    /// The paths between two configurations of a family that the session walked to their ends: from the initial kernel to the
    /// best configuration of its family, and from the default configuration of a winner's family to the winner.
    pub paths: Vec<ConfigurationPath>,
    /// Where the winners of the improved cases come from.
    pub improved_by: ImprovedBy,
    /// What the parameters are worth.
    pub parameters: Parameters,
    /// The gains of the two halves of the search. Null if it was too short to tell.
    pub outlook: Option<Outlook>,
    /// What to do next.
    pub advice: Advice,
    /// The families that won a case.
    pub winning_families: Vec<WinningFamily>,
    /// The families that cannot compute some of the cases.
    pub excluded: Vec<Excluded>,
    /// The suggestions that the session left out before they were compiled, because they had no chance to be the fastest.
    pub suggestions_left_out: u64,
    /// The families that the session did without, because they were broken.
    pub left_out: Vec<FamilyLeftOut>,
    /// Time and cost by phase. Null while the session runs.
    pub phases: Option<Phases>,
    /// How the best time of each case developed.
    pub progress: Vec<Progress>,
}

impl Report {
    /// Returns the diagnosis of the initial kernel, if there is one.
    pub fn initial_diagnosis(&self) -> Option<&Diagnosis> {
        self.diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)
    }
}

/// How much of a session the report rests on. Counts, costs, times by phase and best times are about all iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Excerpt {
    /// Iterations of the session.
    pub iterations: u64,
    /// Iterations that were read in full.
    pub in_full: u64,
    /// How many of these are spread evenly over the session. Calibration rests on them alone.
    pub even: u64,
    /// Improvements that are not in `wins`, which has the latest.
    pub wins_left_out: u64,
}

/// The session of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Session {
    /// Number.
    pub id: SessionId,
    /// Its status.
    pub status: Status,
    /// Why it ended.
    pub stop_reason: Option<String>,
    /// `nothing_left` or `too_little_left` if its search ended before its budget was spent. Null otherwise.
    pub early_end: Option<EarlyEnd>,
    /// Name of the workload.
    pub workload: String,
    /// The precision in which kernels may multiply, and in which the baselines ran: `dtype` or `tf32`.
    pub compute: Compute,
    /// Name of the proposer.
    pub proposer: String,
    /// Seed of the proposer's random choices.
    pub seed: u64,
    /// Product name of the device.
    pub device: String,
    /// The number of such devices.
    pub devices: u64,
    /// Whether every time of the report is measured or modelled.
    pub time_source: TimeSource,
    /// Whether the processes that were timed had a graph that waits: `among_others`, or `alone`.
    pub graphs: Graphs,
    /// When it started, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Wall time allowed.
    pub budget_s: f64,
    /// How often it was resumed before it was finished.
    pub resumptions: u64,
    /// Wall time used; null while it runs.
    pub wall_s: Option<f64>,
    /// Seconds for which the device was held.
    pub gpu_s: f64,
    /// Its cost in US dollars, for the device and language models.
    pub cost_usd: f64,
}

/// The machine and software of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Environment {
    /// Product name of the device.
    pub device: String,
    /// NVRTC architecture.
    pub arch: String,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Driver version.
    pub driver: Option<String>,
    /// Compiler version.
    pub nvrtc: String,
    /// Version of optloop.
    pub optloop: String,
    /// PyTorch version.
    pub torch: Option<String>,
    /// Where the oracle was computed, if it was to be on a GPU.
    pub oracle_on: Option<String>,
    /// Operating system and CPU of the host.
    pub host: String,
    /// The source of the peaks behind floors and shares.
    pub peaks_source: String,
}

/// A variant of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variant {
    /// Family.
    pub family: String,
    /// Parameters.
    pub params: Params,
    /// Name: the hash of its source.
    pub hash: String,
}

/// A start or a confirmed improvement on a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Win {
    /// The iteration that measured it.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
    /// `start` or `improved`.
    pub verdict: Verdict,
    /// The variant.
    pub variant: Variant,
    /// Its time.
    pub us: f64,
    /// 95% interval of the time's median; null for fewer than three samples.
    pub ci_us: Option<[f64; 2]>,
    /// The time of the replaced incumbent over its own. Null for a start.
    pub speedup: Option<f64>,
    /// The same with its interval, if one run timed both.
    pub ratio: Option<Ratio>,
    /// The claim, made before the experiment.
    pub claim: String,
    /// The predicted speed-up, if the claim was about this case.
    pub predicted: Option<[f64; 2]>,
    /// The score of the claim.
    pub score: Option<Score>,
    /// The commit.
    pub commit: Option<String>,
}

/// A committed winner that was measured again and became the incumbent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remeasured {
    /// The iteration that measured it again.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
    /// The variant.
    pub variant: Variant,
    /// Its time now.
    pub us: f64,
    /// 95% interval of the time's median; null for fewer than three samples.
    pub ci_us: Option<[f64; 2]>,
    /// The device on which it was found.
    pub device: String,
    /// Its commit.
    pub commit: Option<String>,
    /// The session that found it, if it is in the same store.
    pub session: Option<SessionId>,
}

/// How exact the best variant of a case is, against the float64 oracle.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exactness {
    /// The case.
    pub case: CaseName,
    /// Error over the whole output, relative to its scale; null without a result.
    pub relative_l2: Option<f64>,
    /// Error of the worst row.
    pub worst_row: Option<f64>,
    /// Rows compared.
    pub rows_checked: Option<u64>,
    /// Rows of the output.
    pub rows: Option<u64>,
    /// The smaller dimensions on which it was checked, where the case is too much work for a virtual GPU. Null
    /// otherwise.
    pub checked_on: Option<Dims>,
}

/// A winner that was committed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Committed {
    /// The commit.
    pub commit: String,
    /// The iteration.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
}

/// What this session spent, and what all sessions up to it spent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// This session.
    pub session: Spent,
    /// Its calls of language models whose cost is not known.
    pub unknown: UnknownCosts,
    /// Every session up to this one, oldest first.
    pub ledger: Vec<LedgerRow>,
    /// The sum of the ledger.
    pub cumulative: Spent,
}

/// A session of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerRow {
    /// Number.
    pub session: SessionId,
    /// Name of the workload.
    pub workload: String,
    /// Its status.
    pub status: Status,
    /// Whether its times are measured or modelled.
    pub time_source: TimeSource,
    /// Wall time used.
    pub wall_s: Option<f64>,
    /// What it cost.
    pub cost: Spent,
    /// Confirmed improvements that it has found.
    pub wins: u64,
    /// The largest speed-up of these over what the session began with on the case: its committed winner, else the start.
    pub best_speedup: Option<f64>,
    /// Its 95% interval, low and high, if one run timed both. Null otherwise.
    pub best_speedup_ci: Option<[f64; 2]>,
}
