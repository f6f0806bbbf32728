//! What clients of a session ask for, and what they are told.

use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::domain::claims::approach::Approach;
use crate::domain::device::TimeSource;
use crate::domain::family::Family;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::comparison::Comparison;
use crate::error::Result;

/// What a client asks for.
pub enum Ask {
    /// To evaluate a kernel.
    Evaluate(Box<Offer>),
    /// To confirm an iteration now: the acceptance checks on shapes and inputs that are drawn for it, and the comparison with the
    /// incumbent.
    Submit(IterationId),
    /// To search the parameters of a family.
    Tune {
        /// The family.
        family: String,
        /// How many configurations to try.
        configurations: u64,
    },
    /// To have two iterations take turns on a case.
    Compare(Versus),
    /// To time an iteration without kinds of instructions and on scaled cases, as far as that is not known.
    Experiment(IterationId),
    /// To see something.
    Look(Look),
    /// To end the session: finals, commit and report.
    Finish,
}

impl Ask {
    /// Tells whether the session answers by using the device at once, instead of planning to.
    pub(super) fn uses_device(&self) -> bool {
        matches!(self, Self::Compare(_) | Self::Experiment(_))
    }
}

/// Two iterations that are to be compared on a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versus {
    /// The one in question.
    pub iteration: IterationId,
    /// The other one.
    pub with: IterationId,
    /// The case.
    pub case: CaseName,
}

/// A kernel that a client offers.
pub struct Offer {
    /// The client's name.
    pub client: String,
    /// What it claims.
    pub approach: Approach,
    /// The code, in the form of a language model's answer.
    pub code: Value,
}

/// What a client may see.
pub enum Look {
    /// Where the session stands, and nothing else.
    Standing,
    /// The op, the cases, the device and the families.
    Task,
    /// The manifest and the template of a family.
    Family(String),
    /// The rendered source of an iteration.
    Source(IterationId),
    /// What was tried on a case, or on all.
    History(Option<CaseName>),
    /// The findings about an iteration.
    Findings(IterationId),
    /// The machine code of lines of an iteration's source.
    MachineCode(IterationId, String),
    /// The times of an iteration without kinds of instructions, and on scaled cases.
    Experiments(IterationId),
    /// What tuning has found.
    Tuned(String),
}

/// An answer.
pub struct Answer {
    /// What was asked for. The error is a sentence for the client.
    pub result: Result<Answered>,
    /// Where the session stands.
    pub standing: Standing,
}

/// What a client is told.
#[derive(Clone)]
pub enum Answered {
    /// A kernel was evaluated, in this iteration.
    Evaluated(IterationId, Box<Family>),
    /// The kernel was evaluated before, in this iteration.
    Known(IterationId),
    /// Two iterations were compared. None where times do not vary.
    Compared(Option<Box<Comparison>>),
    /// What it asked to see.
    Seen(Value),
}

/// What is used, what is left, and the record of each case.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    /// What the session has used.
    pub spent: Amounts,
    /// What is left of its budget. Null where there is no limit.
    pub left: Amounts,
    /// The fastest variant of each case.
    pub record: Vec<OnRecord>,
}

/// Amounts of a budget.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Amounts {
    /// Seconds.
    pub seconds: Option<f64>,
    /// US dollars.
    pub usd: Option<f64>,
    /// Iterations.
    pub iterations: Option<u64>,
}

/// The fastest variant of a case.
#[derive(Debug, Clone, Serialize)]
pub struct OnRecord {
    /// The case.
    pub case: CaseName,
    /// Its iteration.
    pub iteration: IterationId,
    /// Its family.
    pub family: String,
    /// Its time, in microseconds.
    pub us: f64,
    /// Where the time comes from.
    pub time_source: TimeSource,
    /// Whether it is the incumbent: confirmed, and committed at the end of the session if the session has found it.
    pub is_confirmed: bool,
}

/// Where an answer goes.
pub(super) type Reply = oneshot::Sender<Answer>;
