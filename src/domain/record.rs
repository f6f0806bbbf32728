//! What the store remembers, as plain data. Reports are made from it.

pub mod excerpt;
pub mod gain;
pub mod journal;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::budget::cost::{Spent, UnknownCosts};
use super::budget::phase::{PhaseTime, StepTimes};
use super::budget::stop::EarlyEnd;
use super::claims::hypothesis::Score;
use super::code::ablation::Ablation;
use super::code::artifact::KernelResources;
use super::code::counters::{CountedBaseline, Counters};
use super::code::launched::LaunchedKernel;
use super::code::profile::Profile;
use super::compute::Compute;
use super::device::gpu_state::Graphs;
use super::device::regime::Regime;
use super::device::{DeviceInfo, TimeSource};
use super::family::Family;
use super::family::plan::{LaunchShape, Preparation};
use super::ids::{CaseName, IterationId, SessionId};
use super::measurement::comparison::Comparison;
use super::measurement::correctness::Correctness;
use super::measurement::evaluation::{Measurement, Outcome};
use super::measurement::verdict::{Decision, Verdict};
use super::op::Dtype;
use super::proposal::Rationale;
use super::proposal::lessons::Lessons;
use super::proposal::origin::Origin;
use super::statistics::timing::Timing;
use super::variant::{Params, VariantHash};
use super::workload::{Case, Workload};

use excerpt::{Excerpt, Totals, Used};

/// The machine and the software that a session runs on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The device with its limits and peaks.
    pub device: DeviceInfo,
    /// Version of the compiler.
    pub nvrtc: String,
    /// Version of optloop.
    pub optloop: String,
    /// Version of PyTorch, where there is one.
    pub torch: Option<String>,
    /// Operating system and CPU of the host.
    pub host: String,
}

impl Environment {
    /// Describes this machine and its software. PyTorch's version is known once the baselines are timed.
    pub fn here(device: DeviceInfo, nvrtc: &str, torch: Option<String>) -> Self {
        Self {
            device,
            nvrtc: nvrtc.to_owned(),
            optloop: env!("CARGO_PKG_VERSION").to_owned(),
            torch,
            host: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Has not ended.
    Running,
    /// Has not ended, but its process has died. The store cannot know that, so it has no such status: see
    /// [`SessionSummary::mark_killed`].
    Killed,
    /// Its budget was used up.
    Finished,
    /// Stopped by a person; it can be resumed.
    Interrupted,
    /// Ended by a fault of the machine.
    Failed,
}

impl Status {
    /// Returns the name that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Killed => "killed",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// It searches for faster kernels within a budget.
    Search,
    /// It holds what a person had measured by hand. It searches nothing, wins nothing and cannot be resumed, and lists leave it
    /// out unless asked.
    Single,
}

impl SessionKind {
    /// Returns the name that the store uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Single => "single",
        }
    }
}

/// The request of a session beyond its summary: everything that resuming it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionScope {
    /// Names of the families to search.
    pub families: Vec<String>,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The precision in which kernels may multiply.
    #[serde(default, skip_serializing_if = "Compute::is_dtype")]
    pub compute: Compute,
    /// The selected cases, with their dimensions.
    pub cases: Vec<Case>,
    /// Hashes of the meaning of its files; none for sessions recorded before this was kept.
    #[serde(default)]
    pub meaning: Option<ContentHashes>,
    /// The families that would have been searched if they were not broken. Empty for sessions recorded before this was
    /// kept.
    #[serde(default)]
    pub left_out: Vec<FamilyLeftOut>,
    /// What language models are told of earlier sessions. None if they are told nothing, and for sessions recorded before this was
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lessons: Option<Lessons>,
}

/// A family that a session does without because it is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyLeftOut {
    /// The family.
    pub family: String,
    /// Its first mistake, with the file.
    pub reason: String,
}

/// Hashes of what the files of a session mean. Results found under different hashes are not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHashes {
    /// Hash of the workload without its cases.
    pub workload: String,
    /// Hash of each searched family and of the initial kernel's family, by name.
    pub families: BTreeMap<String, String>,
}

impl ContentHashes {
    /// Returns the hashes of the workload and of the families that a session uses.
    pub fn of(workload: &Workload, families: &[Family], searched: &[String]) -> Self {
        let used =
            families.iter().filter(|family| searched.contains(&family.name) || workload.starts_from(&family.name));
        let families = used.map(|family| (family.name.clone(), family.content_hash.clone())).collect();
        Self { workload: workload.content_hash(), families }
    }
}

/// What serves as the baseline of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// A program that a user would use instead, such as PyTorch.
    Program,
    /// The initial kernel, where no program can be timed.
    InitialKernel,
}

impl BaselineKind {
    /// Returns the name that the store uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::InitialKernel => "initial_kernel",
        }
    }
}

/// What a user would use instead of a variant, timed on a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    /// The case's name.
    pub case: CaseName,
    /// The name of the timed kernel or program, for display.
    pub name: String,
    /// Whether a program was timed or the initial kernel stands in for it.
    pub kind: BaselineKind,
    /// State of the caches in which it was timed.
    pub regime: Regime,
    /// Its time, from graph replay or from a model.
    pub timing: Timing,
    /// Median time of a call without a graph in nanoseconds, including the host's work: what a user without graphs
    /// sees.
    pub eager_ns: Option<f64>,
    /// Relative error of the whole output against the float64 oracle.
    pub relative_l2: Option<f64>,
    /// The kernels of a call, in order. Empty if they are not known.
    pub kernels: Vec<LaunchedKernel>,
}

impl Baseline {
    /// Names the variant of a workload's initial kernel that is the baseline where no program can be timed: the first
    /// correct one, which is the default configuration unless that is wrong.
    pub fn initial_kernel_name(time_source: TimeSource, initial_kernel: &str, origin: Option<&Origin>) -> String {
        let which = if origin == Some(&Origin::InitialKernel) { "default" } else { "first correct" };
        format!("{}, the {which} configuration of {initial_kernel}", time_source.name())
    }

    /// Tells whether the initial kernel stands in for a program.
    pub fn is_initial_kernel(&self) -> bool {
        self.kind == BaselineKind::InitialKernel
    }
}

/// The comparison that settled a case after the last iteration of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Final {
    /// The comparison of the incumbent, its near ties and the baseline.
    pub comparison: Comparison,
    /// The iteration whose variant is the best of the case after the comparison.
    pub winner: IterationId,
}

/// A session, its counts and its costs: a row of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionSummary {
    /// Number of the session.
    pub id: SessionId,
    /// What it is for.
    pub kind: SessionKind,
    /// Name of the workload.
    pub workload: String,
    /// Names of the selected cases.
    pub cases: Vec<CaseName>,
    /// The proposer's name.
    pub proposer: String,
    /// Seed of the proposer's random choices.
    pub seed: u64,
    /// Product name of the device.
    pub device: String,
    /// The number of such devices that it was started on. Those beside the first only screen.
    pub devices: u64,
    /// Where the oracle of its op is computed, if it is to be on a GPU: `cuda:0`, or the CPU and why.
    pub oracle_on: Option<String>,
    /// Whether times are measured or modelled.
    pub time_source: TimeSource,
    /// State of the graphs of the processes that were timed.
    pub graphs: Graphs,
    /// The session's status.
    pub status: Status,
    /// Why the session ended, for people.
    pub stop_reason: Option<String>,
    /// Why its search ended before its budget was spent. None if it did not, or while it runs.
    pub early_end: Option<EarlyEnd>,
    /// When it started.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Wall time allowed, in seconds.
    pub budget_s: f64,
    /// Money allowed, in US dollars; none if unlimited.
    pub max_cost_usd: Option<f64>,
    /// Iterations allowed.
    pub max_iterations: Option<u64>,
    /// Wall time used, in seconds.
    pub wall_s: Option<f64>,
    /// How often the session was resumed.
    pub resumptions: u64,
    /// Iterations begun.
    pub iterations: u64,
    /// Iterations begun that never ended.
    pub unfinished: u64,
    /// Confirmed improvements that the session has found, counted per case. A committed winner that was measured again
    /// does not count.
    pub wins: u64,
    /// The largest speed-up of a win over what the session began with on its case: the committed winner as measured
    /// again, else the first correct variant.
    pub best_speedup: Option<f64>,
    /// Its 95% interval, low and high, if one run timed both. None if it is the quotient of two runs.
    pub best_speedup_ci: Option<[f64; 2]>,
    /// What the session cost.
    pub cost: Spent,
}

impl SessionSummary {
    /// Marks a session that has not ended and has no process.
    pub fn mark_killed(&mut self) {
        self.status = Status::Killed;
        self.stop_reason = Some(match self.kind {
            SessionKind::Search => format!("its process is gone; continue it with optloop resume {}", self.id),
            SessionKind::Single => "its process is gone".to_owned(),
        });
    }
}

/// A session with everything that a report needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionRecord {
    /// The session.
    pub session: SessionSummary,
    /// The machine and the software.
    pub environment: Environment,
    /// The baselines of its cases.
    pub baselines: Vec<Baseline>,
    /// The hardware counters of baselines, and why there are none of others.
    pub baseline_counters: Vec<CountedBaseline>,
    /// Its iterations, oldest first: all of them, unless there is an excerpt.
    pub iterations: Vec<IterationRecord>,
    /// What `iterations` holds of a session that has too many to read them all, and figures about all of them.
    pub excerpt: Option<Excerpt>,
    /// The finals of its cases, oldest first. The last final of a case counts.
    pub finals: Vec<Final>,
    /// The time of work that belongs to no iteration, oldest first. Empty for sessions recorded before this was kept.
    pub phases: Vec<PhaseTime>,
    /// Why there are no hardware counters, or no more of them. None if nothing went wrong.
    pub no_counters: Option<String>,
    /// The suggestions that it did not have compiled, because they had no chance to be the fastest.
    pub suggestions_left_out: u64,
    /// The families that it did without because they were broken.
    pub left_out: Vec<FamilyLeftOut>,
    /// The precision in which its kernels could multiply.
    pub compute: Compute,
    /// Its calls of language models whose cost is not known.
    pub unknown_costs: UnknownCosts,
    /// Every session up to this one, oldest first.
    pub ledger: Vec<SessionSummary>,
}

impl SessionRecord {
    /// Returns figures about all iterations of the session.
    pub fn totals(&self) -> Cow<'_, Totals> {
        match &self.excerpt {
            None => Cow::Owned(Totals::of(&self.iterations)),
            Some(excerpt) => Cow::Borrowed(&excerpt.totals),
        }
    }

    /// Returns each iteration with what the session had used when it was on record.
    pub fn with_used(&self) -> impl Iterator<Item = (&IterationRecord, Used)> {
        let mut sum = Used::default();
        self.iterations.iter().enumerate().map(move |(place, iteration)| {
            sum.wall_s += iteration.wall_s.unwrap_or_default();
            sum.usd += iteration.cost.total_usd();
            let used = self.excerpt.as_ref().map_or(sum, |excerpt| excerpt.used[place]);
            (iteration, used)
        })
    }

    /// Returns iterations that were not selected for what came of them: all, or those spread evenly over the session.
    pub fn unselected(&self) -> impl Iterator<Item = &IterationRecord> {
        let is_even = |one: &&IterationRecord| self.excerpt.as_ref().is_none_or(|own| own.even.contains(&one.id));
        self.iterations.iter().filter(is_even)
    }
}

/// An iteration without its source and logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IterationRecord {
    /// Number of the iteration.
    pub id: IterationId,
    /// Number of its session.
    pub session: SessionId,
    /// Its position in the session, counted from 1.
    pub ordinal: i64,
    /// The proposer's name.
    pub proposer: String,
    /// Why it was tried.
    #[serde(flatten)]
    pub rationale: Rationale,
    /// The variant's family.
    pub family: String,
    /// The variant's parameters.
    pub params: Params,
    /// The variant's name.
    pub hash: VariantHash,
    /// What each of its kernels uses; empty if it did not compile.
    pub kernels: Vec<KernelResources>,
    /// The cases to try it on.
    pub cases: Vec<Case>,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// What the device reported; none for an iteration that never ended.
    pub outcome: Option<Outcome>,
    /// The measured speed-up.
    pub actual: Option<f64>,
    /// The score of the hypothesis; none for an iteration that never ended.
    pub score: Option<Score>,
    /// What was measured and decided, case by case.
    pub measurements: Vec<CaseRecord>,
    /// Seconds for which it occupied the device.
    pub device_s: Option<f64>,
    /// Seconds since the previous iteration was recorded, else since the session began or was resumed.
    pub wall_s: Option<f64>,
    /// The share of each kind of step in it; none for an iteration that never ended or was recorded before this was
    /// kept.
    pub steps: Option<StepTimes>,
    /// What the iteration cost.
    pub cost: Spent,
}

impl IterationRecord {
    /// Returns the cases on which it was timed.
    pub fn timed_cases(&self) -> impl Iterator<Item = &str> + Clone {
        self.measurements.iter().filter(|found| found.best_timing().is_some()).map(|found| found.case.as_str())
    }
}

/// What was measured and decided on one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseRecord {
    /// The case's name.
    pub case: CaseName,
    /// State of the caches in which it was timed.
    pub regime: Regime,
    /// How close the output came to the oracle; none if it could not be compared.
    pub correctness: Option<Correctness>,
    /// Blocks (CTAs) of the largest launch.
    pub ctas: Option<u64>,
    /// The launch that does most of the work. None where its plan is not on record.
    #[serde(skip)]
    pub shape: Option<LaunchShape>,
    /// What was prepared once for the weights, before the time. None if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Preparation>,
    /// The time of the screening run.
    pub screening: Option<Timing>,
    /// The longer measurement on held-out inputs.
    pub confirmation: Option<Timing>,
    /// The comparison that took the confirmation, on a device that replays.
    pub comparison: Option<Comparison>,
    /// What the virtual GPU counted, where the time is modelled.
    pub profile: Option<Profile>,
    /// What a virtual GPU counted on the case to explain a measured time, if the session asked for it.
    pub explanation: Option<Profile>,
    /// The hardware counters, where a real GPU was asked for them.
    pub counters: Option<Counters>,
    /// The times without each kind of instruction, the control first. Empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ablations: Vec<Ablation>,
    /// The verdict on the case.
    pub verdict: Option<Verdict>,
    /// The incumbent's time over this variant's.
    pub speedup: Option<f64>,
    /// The commit of the winner.
    pub commit: Option<String>,
    /// Whether an earlier session made that commit, and this one measured its winner again.
    pub is_earlier: bool,
    /// That session, if the store has it.
    pub found_in: Option<SessionId>,
}

impl CaseRecord {
    /// Combines the measurement of a case with its decision.
    pub fn of(measurement: &Measurement, decision: Option<&Decision>) -> Self {
        let Measurement {
            case,
            regime,
            correctness,
            screening,
            confirmation,
            comparison,
            ctas,
            shape,
            preparation,
            profile,
        } = measurement.clone();
        Self {
            case,
            regime,
            correctness: Some(correctness),
            ctas: Some(ctas),
            shape,
            preparation,
            screening,
            confirmation,
            comparison,
            profile,
            explanation: None,
            counters: None,
            ablations: Vec::new(),
            verdict: decision.map(|decision| decision.verdict),
            speedup: decision.and_then(|decision| decision.speedup),
            commit: None,
            is_earlier: false,
            found_in: None,
        }
    }

    /// Makes the record of a case whose output could not be compared.
    pub fn unmeasured(decision: &Decision) -> Self {
        Self {
            case: decision.case.clone(),
            regime: Regime::default(),
            correctness: None,
            ctas: None,
            shape: None,
            preparation: None,
            screening: None,
            confirmation: None,
            comparison: None,
            profile: None,
            explanation: None,
            counters: None,
            ablations: Vec::new(),
            verdict: Some(decision.verdict),
            speedup: decision.speedup,
            commit: None,
            is_earlier: false,
            found_in: None,
        }
    }

    /// Returns the error of the output; none if it was not compared with the oracle.
    pub fn checked(&self) -> Option<&Correctness> {
        // A recording has no outputs to compare.
        self.correctness.as_ref().filter(|found| found.rows_checked > 0)
    }

    /// Returns the measurement in this record; none where the output could not be compared.
    pub fn measurement(&self) -> Option<Measurement> {
        Some(Measurement {
            case: self.case.clone(),
            regime: self.regime,
            correctness: self.correctness?,
            screening: self.screening.clone(),
            confirmation: self.confirmation.clone(),
            comparison: self.comparison.clone(),
            ctas: self.ctas?,
            shape: self.shape,
            preparation: self.preparation,
            profile: self.profile.clone(),
        })
    }

    /// Returns the time to report: the confirmed time, else the screened one.
    pub fn best_timing(&self) -> Option<&Timing> {
        self.confirmation.as_ref().or(self.screening.as_ref())
    }
}
