//! Messages between the supervisor and a worker: plain data, which both sides import.
//!
//! A change of them is another [`VERSION`](crate::runner::frames::VERSION).

use serde::{Deserialize, Serialize};

use crate::domain::artifact::Artifact;
use crate::domain::correctness::Correctness;
use crate::domain::device::DeviceInfo;
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::domain::ids::CaseName;
use crate::domain::measuring::Measuring;
use crate::domain::op::Dtype;
use crate::domain::plan::LaunchPlan;
use crate::domain::timing::Timing;
use crate::domain::workload::{Case, Tolerance};
use crate::runner::frames::Message;

/// What a worker is asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Open the device. Asked first, by who may use it: it costs the device a context.
    Open,
    /// Check the device with a compiled [self-check](crate::runner::self_check).
    SelfCheck(Box<Artifact>),
    /// Evaluate a compiled variant.
    Evaluate(Box<EvaluateRequest>),
    /// Run the acceptance checks on a variant that is about to win.
    Accept(Box<AcceptanceRequest>),
    /// Take a variant in as a participant of a comparison: load it beside those that are in, check it on fresh inputs,
    /// and get ready to sample it.
    Enter(Box<EnterRequest>),
    /// Replay a participant so many times, and once more before, which is not counted: another participant ran
    /// meanwhile and has pushed this one's instructions, and its data where it is timed warm, out of the caches.
    Sample {
        /// The participant, counted from 0 in the order of entry.
        participant: usize,
        /// Replays.
        samples: usize,
    },
    /// Look at what no participant may change, and say how close this one's output came.
    Check {
        /// The participant.
        participant: usize,
    },
    /// Time a plan that uses workspaces only, such as a measurement of the device's own ceilings.
    Time(Box<TimeRequest>),
}

/// A session says nothing that it should not.
impl Message for Request {}

/// Everything that a device needs to know to evaluate a variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EvaluateRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op's name.
    pub op: String,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The largest errors that count as correct.
    pub tolerance: Tolerance,
    /// The cases with their plans, in the order in which to try them.
    pub cases: Vec<CaseRequest>,
    /// How to measure.
    pub measuring: Measuring,
    /// Where the inputs come from: another seed is other inputs. Variants that share them share what is slow to draw.
    pub input_seed: u64,
    /// Where all comes from that no other variant was given: contents after timing and of a confirmation, and where checks look.
    pub own_seed: u64,
}

/// One case of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseRequest {
    /// The case.
    pub case: Case,
    /// The variant's plan on it.
    pub plan: LaunchPlan,
    /// The incumbent's median, if there is an incumbent.
    pub incumbent_ns: Option<f64>,
    /// What to check instead where the case is too much work for a device that models its times: the counts come from a
    /// sample of the case's own blocks then.
    pub scaled: Option<PlannedCase>,
}

/// A case with the variant's plan on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedCase {
    /// The case.
    pub case: Case,
    /// The variant's plan on it.
    pub plan: LaunchPlan,
}

/// Everything that a device needs to know to run the acceptance checks on a variant that is about to win.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AcceptanceRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op's name.
    pub op: String,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The largest errors that count as correct on probes, on hidden cases, and on what it is timed on.
    pub tolerance: Tolerance,
    /// The largest errors on random inputs of the case itself, where a winner may have to be better than correct.
    pub accuracy: Tolerance,
    /// The case that it is about to win, or the scaled one where a device models its times.
    pub case: PlannedCase,
    /// Cases that are not in the workload.
    pub hidden: Vec<PlannedCase>,
    /// How to measure.
    pub measuring: Measuring,
    /// Where the inputs come from.
    pub input_seed: u64,
}

/// A variant that enters a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnterRequest {
    /// The compiled variant.
    pub artifact: Artifact,
    /// The op's name.
    pub op: String,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The largest errors that count as correct.
    pub tolerance: Tolerance,
    /// The case, with the regime in which to time it.
    pub case: Case,
    /// The variant's plan on it.
    pub plan: LaunchPlan,
    /// How to measure.
    pub measuring: Measuring,
    /// Where the inputs come from: participants with the same seed get the same inputs.
    pub input_seed: u64,
}

/// A plan to be timed by itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimeRequest {
    /// The compiled kernels.
    pub artifact: Artifact,
    /// Launches whose arguments are workspaces and scalars.
    pub plan: LaunchPlan,
    /// Samples to take.
    pub samples: usize,
    /// The shortest sample.
    pub min_sample_ns: f64,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Said once, first: the device, which is not open yet, or why there is none in one sentence.
    Hello(Result<DeviceInfo, String>),
    /// The device is open, or why it is not in one sentence.
    Opened(Result<(), String>),
    /// The device does what it should.
    Well,
    /// A step on the device begins: the supervisor's deadline starts anew.
    Step {
        /// The case's name.
        case: CaseName,
        /// What is being done.
        doing: String,
    },
    /// A launch begins within the step: a deadline of its own.
    Launch,
    /// Replays begin, or go on, each of which is expected to take so long: a deadline of their own.
    Replay {
        /// How long as many launches by themselves took, in seconds.
        expected_s: f64,
    },
    /// The step goes on after a launch or replays: its deadline starts anew.
    StepGoesOn,
    /// The variant is evaluated.
    Evaluated(Evaluation),
    /// The variant passed its acceptance checks.
    Accepted(Accepted),
    /// The variant is in the comparison.
    Entered(Entered),
    /// The participant was replayed: nanoseconds of one execution, a value per replay.
    Sampled(Vec<f64>),
    /// How close the participant's output came, in every block.
    Checked(Correctness),
    /// The plan is timed.
    Timed(Timing),
    /// The variant failed: an outcome of what was entered, sampled, checked or timed.
    Failed(Outcome),
    /// The machine failed.
    Broken(String),
}

impl Message for Reply {
    fn free_texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Hello(Err(text)) | Self::Opened(Err(text)) | Self::Broken(text) => vec![text],
            Self::Evaluated(Evaluation { outcome, .. }) | Self::Failed(outcome) => {
                outcome.message_mut().into_iter().collect()
            }
            // Names, which are ours or the workload's, and numbers.
            Self::Hello(Ok(_))
            | Self::Opened(Ok(()))
            | Self::Well
            | Self::Step { .. }
            | Self::Launch
            | Self::Replay { .. }
            | Self::StepGoesOn
            | Self::Accepted(_)
            | Self::Entered(_)
            | Self::Sampled(_)
            | Self::Checked(_)
            | Self::Timed(_) => Vec::new(),
        }
    }
}

/// What the acceptance checks found of a variant that passed it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Checks of outputs that it passed.
    pub outputs: usize,
    /// Its time on contents that it never saw over that on the same ones again and again; none where times are modelled.
    pub slowdown: Option<f64>,
}

/// What is known of a variant that has entered a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Entered {
    /// How close its output came when it was checked.
    pub correctness: Correctness,
    /// Executions in one replay; a sample is the replay's time over it.
    pub launches_per_sample: u32,
    /// How long a replay takes.
    pub replay_ns: f64,
}
