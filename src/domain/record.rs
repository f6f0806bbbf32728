//! What the store remembers, as plain data: what reports are made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use super::correctness::Correctness;
use super::cost::Spent;
use super::device::{DeviceInfo, TimeSource};
use super::evaluation::{Measurement, Outcome};
use super::family::Family;
use super::hypothesis::{Hypothesis, Score};
use super::ids::{CaseName, IterationId, SessionId};
use super::op::Dtype;
use super::origin::{Origin, Purpose};
use super::profile::Profile;
use super::regime::Regime;
use super::timing::Timing;
use super::variant::{Params, VariantHash};
use super::verdict::{Decision, Verdict};
use super::workload::{Case, Workload};

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

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not ended; with no process behind it, optloop died.
    Running,
    /// Its budget is spent.
    Finished,
    /// Stopped by a person; it may go on later.
    Interrupted,
    /// Ended by a broken machine.
    Failed,
}

impl Status {
    /// Returns the name that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// What a session was asked, beside what its summary says: what it takes to go on later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionScope {
    /// Names of the families to search.
    pub families: Vec<String>,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The selected cases, with their dimensions.
    pub cases: Vec<Case>,
    /// What its files meant; none for those recorded before this was kept.
    #[serde(default)]
    pub meaning: Option<Meaning>,
}

/// What the files of a session mean, as hashes: what is found under others is not held against what was found under these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meaning {
    /// Of the workload, but for its cases.
    pub workload: String,
    /// By name: of each family that is searched, and of the reference.
    pub families: BTreeMap<String, String>,
}

impl Meaning {
    /// Returns what a workload and the families that a session uses of all mean now.
    pub fn of(workload: &Workload, families: &[Family], searched: &[String]) -> Self {
        let used =
            families.iter().filter(|family| searched.contains(&family.name) || family.name == workload.initial_kernel);
        let families = used.map(|family| (family.name.clone(), family.meaning.clone())).collect();
        Self { workload: workload.meaning(), families }
    }
}

/// What stands for the baseline of a case.
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
    /// What was timed, for people.
    pub name: String,
    /// Whether a program was timed, or the initial kernel stands in.
    pub kind: BaselineKind,
    /// State of the caches in which it was timed.
    pub regime: Regime,
    /// Its time by graph replay, or modelled.
    pub timing: Timing,
    /// Median time of a call without a graph, the host's work with it, as a user without graphs sees it.
    pub eager_ns: Option<f64>,
    /// How far its output is from the float64 oracle, over the whole of it.
    pub relative_l2: Option<f64>,
}

impl Baseline {
    /// Names the default configuration of a workload's reference family, which is the baseline where no program can be timed.
    pub fn initial_kernel_name(time_source: TimeSource, initial_kernel: &str) -> String {
        format!("{}, the default configuration of {initial_kernel}", time_source.name())
    }

    /// Tells whether the initial kernel stands in for a program.
    pub fn is_initial_kernel(&self) -> bool {
        self.kind == BaselineKind::InitialKernel
    }
}

/// What settled a case when the iterations of a session were over.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Final {
    /// The comparison of all that were too near to each other.
    pub comparison: Comparison,
    /// The iteration whose variant is the best of the case after it.
    pub winner: IterationId,
}

/// A session, its counts and its costs: a row of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionSummary {
    /// Number of the session.
    pub id: SessionId,
    /// Name of the workload.
    pub workload: String,
    /// Names of the selected cases.
    pub cases: Vec<CaseName>,
    /// Who suggested variants.
    pub proposer: String,
    /// Seed of the proposer's random choices.
    pub seed: u64,
    /// Product name of the device.
    pub device: String,
    /// Whether its times are measured or modelled.
    pub time_source: TimeSource,
    /// Where it stands.
    pub status: Status,
    /// Why it ended.
    pub stop_reason: Option<String>,
    /// When it started.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Wall time allowed.
    pub budget_s: f64,
    /// Money allowed.
    pub max_cost_usd: Option<f64>,
    /// Iterations allowed.
    pub max_iterations: Option<u64>,
    /// Wall time used.
    pub wall_s: Option<f64>,
    /// How often it went on after it had ended without being finished.
    pub resumptions: u64,
    /// Iterations begun.
    pub iterations: u64,
    /// Iterations begun that did not end.
    pub unfinished: u64,
    /// Confirmed improvements, counted per case.
    pub wins: u64,
    /// The largest speed-up of a case over the session's first correct variant of it.
    pub best_speedup: Option<f64>,
    /// What it cost.
    pub cost: Spent,
}

/// A session with everything that a report needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionRecord {
    /// The session.
    pub session: SessionSummary,
    /// Where it ran.
    pub environment: Environment,
    /// What a user would use instead, the fastest of each case first.
    pub baselines: Vec<Baseline>,
    /// Its iterations, oldest first.
    pub iterations: Vec<IterationRecord>,
    /// What settled its cases at the end, oldest first; a case that was settled twice has its last one as its own.
    pub finals: Vec<Final>,
    /// Every session up to this one, oldest first.
    pub ledger: Vec<SessionSummary>,
}

/// An iteration without its source and logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IterationRecord {
    /// Number of the iteration.
    pub id: IterationId,
    /// Number of its session.
    pub session: SessionId,
    /// Its place in the session, from 1.
    pub ordinal: i64,
    /// Who proposed it.
    pub proposer: String,
    /// Why it was run.
    pub purpose: Purpose,
    /// Where its configuration came from.
    pub origin: Origin,
    /// The variant's family.
    pub family: String,
    /// The variant's parameters.
    pub params: Params,
    /// The variant's name.
    pub hash: VariantHash,
    /// The iteration whose variant this one was changed from, or which it confirms.
    pub parent: Option<IterationId>,
    /// The cases to try it on.
    pub cases: Vec<Case>,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// What the device said; none for an iteration that never ended.
    pub outcome: Option<Outcome>,
    /// What was claimed before the experiment.
    pub hypothesis: Hypothesis,
    /// The speed-up found.
    pub actual: Option<f64>,
    /// What became of the claim; none for an iteration that never ended.
    pub score: Option<Score>,
    /// What was found and decided, case by case.
    pub measurements: Vec<CaseRecord>,
    /// Time for which it occupied the device.
    pub device_s: Option<f64>,
    /// Time from proposal to record.
    pub wall_s: Option<f64>,
    /// What it cost.
    pub cost: Spent,
}

/// What was found and decided on one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseRecord {
    /// The case's name.
    pub case: CaseName,
    /// State of the caches in which it was timed.
    pub regime: Regime,
    /// How close the output came; none if it could not be compared.
    pub correctness: Option<Correctness>,
    /// Blocks of the largest launch.
    pub ctas: Option<u64>,
    /// The short measurement.
    pub screening: Option<Timing>,
    /// The long measurement on fresh inputs.
    pub confirmation: Option<Timing>,
    /// The comparison in which the confirmation was taken, where the device replays.
    pub comparison: Option<Comparison>,
    /// How the time came about, where the device modelled it.
    pub profile: Option<Profile>,
    /// What was decided.
    pub verdict: Option<Verdict>,
    /// The incumbent's time over this one.
    pub speedup: Option<f64>,
    /// The commit of the winner.
    pub commit: Option<String>,
}

impl CaseRecord {
    /// Records what was measured on a case, with what was decided.
    pub fn of(measurement: &Measurement, decision: Option<&Decision>) -> Self {
        let Measurement { case, regime, correctness, screening, confirmation, comparison, ctas, profile } =
            measurement.clone();
        Self {
            case,
            regime,
            correctness: Some(correctness),
            ctas: Some(ctas),
            screening,
            confirmation,
            comparison,
            profile,
            verdict: decision.map(|decision| decision.verdict),
            speedup: decision.and_then(|decision| decision.speedup),
            commit: None,
        }
    }

    /// Records what was decided on a case whose output could not even be compared.
    pub fn unmeasured(decision: &Decision) -> Self {
        Self {
            case: decision.case.clone(),
            regime: Regime::default(),
            correctness: None,
            ctas: None,
            screening: None,
            confirmation: None,
            comparison: None,
            profile: None,
            verdict: Some(decision.verdict),
            speedup: decision.speedup,
            commit: None,
        }
    }

    /// Returns the measurement behind it; none where the output could not be compared.
    pub fn measurement(&self) -> Option<Measurement> {
        Some(Measurement {
            case: self.case.clone(),
            regime: self.regime,
            correctness: self.correctness?,
            screening: self.screening.clone(),
            confirmation: self.confirmation.clone(),
            comparison: self.comparison.clone(),
            ctas: self.ctas?,
            profile: self.profile.clone(),
        })
    }

    /// Returns the time to report: the confirmed one where there is one.
    pub fn best_timing(&self) -> Option<&Timing> {
        self.confirmation.as_ref().or(self.screening.as_ref())
    }
}
