//! Messages between the supervisor and a worker: plain data that both sides import.
//!
//! Every change to them needs a new [`VERSION`](crate::runner::frames::VERSION).

use serde::{Deserialize, Serialize};

use crate::domain::code::artifact::Artifact;
use crate::domain::compute::Compute;
use crate::domain::device::DeviceInfo;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::ids::CaseName;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::measurement::settings::Measuring;
use crate::domain::op::{Dims, Dtype, OpSource, show_dims};
use crate::domain::statistics::timing::Timing;
use crate::domain::workload::{Case, Tolerance, Workload};
use crate::runner::frames::Message;

/// What the name of a step on a hidden shape begins with. The shape's sizes follow.
pub const HIDDEN_STEP: &str = "hidden ";

/// Says on which hidden shape something happened.
pub fn on_hidden_shape(dims: &str, message: &str) -> String {
    format!("on {dims}, which is not in the workload: {message}")
}

/// A request to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum WorkerRequest {
    /// Open the device. Sent first, once the supervisor may use the device, because opening creates a context there.
    Open,
    /// Check the device with a compiled [self-check](crate::runner::self_check).
    SelfCheck(Box<Artifact>),
    /// Evaluate a compiled variant.
    Evaluate(Box<EvaluateRequest>),
    /// Run the acceptance checks on a variant that is about to win.
    Accept(Box<AcceptanceRequest>),
    /// Add a variant to the comparison: load it in addition to the others, check it on fresh inputs, and prepare it for
    /// sampling.
    Enter(Box<EnterRequest>),
    /// Replay a participant this many times, after one uncounted replay. Another participant ran meanwhile and has
    /// evicted this one's instructions, and its data in the warm regime, from the caches.
    Sample {
        /// The participant's number, counted from 0 in the order of entry.
        participant: usize,
        /// Number of replays.
        samples: usize,
    },
    /// Check the data that no participant may change, and report this participant's output error.
    Check {
        /// The participant's number.
        participant: usize,
    },
    /// Time a plan without checks: a measurement of the device's own peaks, or an ablated kernel.
    Time(Box<TimeRequest>),
}

/// The session sends no secrets.
impl Message for WorkerRequest {}

/// Everything that a device needs to evaluate a variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EvaluateRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op.
    pub op: OpSource,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The precision in which the variant may multiply.
    pub compute: Compute,
    /// The largest errors that count as correct.
    pub tolerance: Tolerance,
    /// The cases with their plans, in the order to try them.
    pub cases: Vec<CaseRequest>,
    /// How to measure.
    pub measuring: Measuring,
    /// Seed of the inputs. Variants with the same seed share the inputs, because they are slow to draw.
    pub input_seed: u64,
    /// Seed of the inputs that later variants will share, if it is near. Other threads draw them ahead.
    pub later_input_seed: Option<u64>,
    /// Seed of the data that one variant only gets: confirmation inputs, the sets that checks inspect, and held-out inputs
    /// for this variant or a later one.
    pub own_seed: u64,
    /// The time for all cases, in seconds. A case that may not end within it is not begun, except for the first one.
    /// `None` is no limit.
    pub within_s: Option<f64>,
    /// Whether a variant is dropped once it is [far behind](crate::domain::measurement::verdict::Policy::is_dropped): it is not timed on the
    /// cases that are left, and a case on which it is clearly slower ends without the check on held-out inputs.
    pub drops_slow: bool,
    /// Whether a device that models its times also models them without each cause of lost time. Such times are for
    /// explanations, and are not confirmed. Other devices ignore it.
    pub explain: bool,
}

/// One case of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseRequest {
    /// The case.
    pub case: Case,
    /// The variant's plan for it.
    pub plan: LaunchPlan,
    /// The incumbent's median time; `None` without an incumbent.
    pub incumbent_ns: Option<f64>,
    /// A smaller case to check where the case is too much work for a device that models its times. The model's counts
    /// then come from a sample of the case's own blocks. `None` checks the case itself.
    pub scaled: Option<PlannedCase>,
}

/// A case with the variant's plan for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedCase {
    /// The case.
    pub case: Case,
    /// The variant's plan for it.
    pub plan: LaunchPlan,
}

/// Everything that a device needs to run the acceptance checks on a variant that is about to win.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AcceptanceRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op.
    pub op: OpSource,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The precision in which the variant may multiply.
    pub compute: Compute,
    /// The largest errors that count as correct on probes, on hidden cases and on timed inputs.
    pub tolerance: Tolerance,
    /// The largest errors on random inputs of the case itself. A winner may have to meet a tighter limit there.
    pub accuracy: Tolerance,
    /// The case that the variant is about to win, or a scaled one on a device that models its times.
    pub case: PlannedCase,
    /// Cases that are not in the workload.
    pub hidden: Vec<PlannedCase>,
    /// Shapes of which only the ends are computed, on a device that models its times.
    pub far: Vec<FarCase>,
    /// Whether to check inputs unlike ordinary random ones, too.
    pub probes: bool,
    /// The only checks to run. `None` runs all that a winner must pass.
    pub only: Option<AcceptancePart>,
    /// The time for probes of the case, in seconds. None is begun after it. `None` is no limit.
    pub within_s: Option<f64>,
    /// How to measure.
    pub measuring: Measuring,
    /// Seed of the inputs.
    pub input_seed: u64,
}

impl AcceptanceRequest {
    /// Makes the request of all checks of a case, without further shapes.
    pub fn of(artifact: &Artifact, workload: &Workload, case: PlannedCase, measuring: Measuring, seed: u64) -> Self {
        Self {
            artifact: artifact.clone(),
            op: workload.op.source(),
            dtype: workload.dtype,
            compute: workload.compute,
            tolerance: workload.tolerance,
            accuracy: workload.tolerance,
            case,
            hidden: Vec::new(),
            far: Vec::new(),
            probes: true,
            only: None,
            within_s: None,
            measuring,
            input_seed: seed,
        }
    }
}

/// A shape of which only the ends are computed, with the variant's plan for it: its offsets in bytes do not fit 32 bits, or its grid
/// has stopped growing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FarCase {
    /// The shape.
    pub planned: PlannedCase,
    /// The large dimension.
    pub dim: String,
    /// How many of its first and of its last indices are looked at.
    pub window: i64,
    /// Whether the last blocks of the grid write the last indices, if the first ones write the first.
    pub ends_last: bool,
    /// Whether the grid has stopped growing: its blocks must do the work of several.
    pub is_capped: bool,
    /// Whether the oracle must show first that the indices are independent of each other.
    pub is_assumed: bool,
}

/// A part of the acceptance checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcceptancePart {
    /// The hidden shapes, with some probes on each, and the one with offsets beyond 32 bits.
    Hidden,
    /// The probes of the case.
    Probes,
}

/// A variant that enters a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnterRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op.
    pub op: OpSource,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The precision in which the variant may multiply.
    pub compute: Compute,
    /// The largest errors that count as correct.
    pub tolerance: Tolerance,
    /// The case, with the regime to time it in.
    pub case: Case,
    /// The variant's plan for it.
    pub plan: LaunchPlan,
    /// How to measure.
    pub measuring: Measuring,
    /// Seed of the inputs. Participants with the same seed get the same inputs.
    pub input_seed: u64,
}

/// A plan to time on its own. Nothing is checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimeRequest {
    /// The compiled kernels.
    pub artifact: Artifact,
    /// The launches.
    pub plan: LaunchPlan,
    /// The problem that the plan solves, with the regime to time it in. `None` if it uses workspaces only.
    pub problem: Option<ProblemRequest>,
    /// Number of samples.
    pub samples: usize,
    /// The shortest sample, in nanoseconds.
    pub min_sample_ns: f64,
    /// Seed of the inputs.
    pub seed: u64,
}

/// A plan to execute for a profiler.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// The compiled kernels.
    pub artifact: Artifact,
    /// The launches.
    pub plan: LaunchPlan,
    /// The problem that the plan solves. `None` if it uses workspaces only.
    pub problem: Option<ProblemRequest>,
    /// Whether to profile it with empty caches.
    pub cold: bool,
    /// Seed of the inputs.
    pub seed: u64,
}

/// The session sends no secrets.
impl Message for LaunchRequest {}

/// The problem of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProblemRequest {
    /// The op.
    pub op: OpSource,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The case.
    pub case: Case,
}

/// A reply of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum WorkerReply {
    /// The first reply, sent once: the device, not open yet, or one sentence on why there is none.
    Hello(Result<DeviceInfo, String>),
    /// The device is open, or one sentence on why it is not.
    Opened(Result<(), String>),
    /// The device passed its self-check.
    SelfCheckPassed,
    /// A step on the device begins. The supervisor's deadline restarts.
    Step {
        /// The case's name.
        case: CaseName,
        /// The action.
        doing: String,
    },
    /// A launch begins within the step, with a deadline of its own.
    Launch,
    /// Replays begin or continue, with a deadline of their own.
    Replay {
        /// Expected duration of one replay, or of those in a row, in seconds: the time that as many separate launches
        /// took.
        expected_s: f64,
    },
    /// The step continues after a launch or replays. Its deadline restarts.
    StepResumed,
    /// The variant is evaluated.
    Evaluated(Evaluation),
    /// The variant passed its acceptance checks.
    Accepted(Accepted),
    /// The variant entered the comparison.
    Entered(Entered),
    /// The participant was replayed.
    Sampled(SampleGroup),
    /// The error of the participant's output, the same in every sample group.
    Checked(Correctness),
    /// The plan is timed.
    Timed(Timing),
    /// The variant failed. The outcome of what was entered, sampled, checked or timed.
    Failed(Outcome),
    /// The op's oracle failed: one sentence. The worker can take other requests.
    OracleFailed(String),
    /// The machine failed.
    Broken(String),
}

impl Message for WorkerReply {
    fn free_texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Hello(Err(text)) | Self::Opened(Err(text)) | Self::OracleFailed(text) | Self::Broken(text) => {
                vec![text]
            }
            Self::Evaluated(Evaluation { outcome, .. }) | Self::Failed(outcome) => {
                outcome.message_mut().into_iter().collect()
            }
            Self::Accepted(Accepted { skipped, .. }) => skipped.iter_mut().map(|skipped| &mut skipped.why).collect(),
            // These hold numbers, and names of optloop or of the workload.
            Self::Hello(Ok(_))
            | Self::Opened(Ok(()))
            | Self::SelfCheckPassed
            | Self::Step { .. }
            | Self::Launch
            | Self::Replay { .. }
            | Self::StepResumed
            | Self::Entered(_)
            | Self::Sampled(_)
            | Self::Checked(_)
            | Self::Timed(_) => Vec::new(),
        }
    }
}

/// The results of the acceptance checks of a variant that passed them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Number of output checks that it passed.
    pub outputs: usize,
    /// The hidden shapes on which it could not be checked.
    pub skipped: Vec<Skipped>,
    /// Its time on held-out inputs over its time on repeated inputs; `None` where times are modelled.
    pub slowdown: Option<f64>,
}

/// A hidden shape on which a variant could not be checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The sizes.
    pub dims: Dims,
    /// Why, as part of a sentence.
    pub why: String,
}

impl Skipped {
    /// Makes one of a message that may name the shape.
    pub fn on(dims: Dims, message: &str) -> Self {
        let named = on_hidden_shape(&show_dims(&dims), "");
        Self { why: message.strip_prefix(&named).unwrap_or(message).to_owned(), dims }
    }
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not checked on {}: {}", show_dims(&self.dims), self.why)
    }
}

/// A group of samples that a participant took in its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleGroup {
    /// Nanoseconds per execution, one value per replay.
    pub samples_ns: Vec<f64>,
    /// The control: the time of an empty kernel as a node of a graph in the same turn, in nanoseconds. `None` if it was
    /// not measured.
    pub graph_node_ns: Option<f64>,
}

/// The results of a variant's entry into a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Entered {
    /// The error of its output in the check on entry.
    pub correctness: Correctness,
    /// Executions per replay. A sample is the replay's time divided by this.
    pub launches_per_sample: u32,
    /// Duration of a replay in nanoseconds.
    pub replay_ns: f64,
}
