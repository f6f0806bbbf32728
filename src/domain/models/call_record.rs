//! Calls of language models, as a session records them.

use serde::{Deserialize, Serialize};

use super::call::{CallPurpose, ModelRequest, Usage};
use super::money::MicroUsd;
use crate::domain::claims::approach::Approach;
use crate::domain::ids::IterationId;

/// The number of a call, unique over all sessions of a store and increasing with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub i64);

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallSubject {
    /// Approaches, ranked.
    Plan,
    /// The code of an approach.
    Code {
        /// The approach.
        approach: Box<Approach>,
    },
    /// A correction of an earlier answer.
    Repair {
        /// The approach.
        approach: Box<Approach>,
        /// The call whose answer failed.
        answer: CallId,
        /// How it failed: a mistake in the answer, the compiler's message or where outputs differ.
        problem: String,
        /// The iteration that failed. None if the answer came to none.
        iteration: Option<IterationId>,
        /// Counts the corrections of one approach, from 1.
        round: u32,
    },
    /// The same once more, with what the model asked to see.
    Informed {
        /// What was asked.
        subject: Box<Self>,
        /// What the model wants to see, as it has written it.
        wants: Vec<String>,
        /// Counts the rounds of one question, from 1.
        rounds: u32,
    },
}

impl CallSubject {
    /// Returns the purpose of such a call.
    pub fn purpose(&self) -> CallPurpose {
        match self {
            Self::Plan => CallPurpose::Plan,
            Self::Code { .. } => CallPurpose::Code,
            Self::Repair { .. } => CallPurpose::Repair,
            Self::Informed { subject, .. } => subject.purpose(),
        }
    }

    /// Returns the approach that a call is about. None for a plan.
    pub fn approach(&self) -> Option<&Approach> {
        match self {
            Self::Plan => None,
            Self::Code { approach } | Self::Repair { approach, .. } => Some(approach),
            Self::Informed { subject, .. } => subject.approach(),
        }
    }

    /// Returns how many corrections the approach has had with this call.
    pub fn round(&self) -> u32 {
        match self {
            Self::Repair { round, .. } => *round,
            Self::Informed { subject, .. } => subject.round(),
            Self::Plan | Self::Code { .. } => 0,
        }
    }

    /// Returns the question itself, without what the model asked to see.
    pub fn question(&self) -> &Self {
        match self {
            Self::Informed { subject, .. } => subject,
            other => other,
        }
    }

    /// Returns what the model has asked to see.
    pub fn wants(&self) -> &[String] {
        match self {
            Self::Informed { wants, .. } => wants,
            _ => &[],
        }
    }

    /// Returns the same question with more that the model asks to see. None if it has asked `most` times.
    pub fn informed(&self, more: Vec<String>, most: u32) -> Option<Self> {
        let (mut wants, rounds) = match self {
            Self::Informed { wants, rounds, .. } => (wants.clone(), *rounds + 1),
            _ => (Vec::new(), 1),
        };
        wants.extend(more);
        let subject = Box::new(self.question().clone());
        (rounds <= most).then_some(Self::Informed { subject, wants, rounds })
    }
}

/// A call that begins: recorded before anything is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct CallBegun {
    /// Its number.
    pub call: CallId,
    /// Counts the session's calls for this purpose.
    pub ordinal: u64,
    /// The provider's name of the model.
    pub model: String,
    /// What it asks for.
    pub subject: CallSubject,
    /// The maximum cost. This amount of the budget is reserved until the call has ended.
    pub reserve: MicroUsd,
    /// Iterations that had ended.
    pub after: u64,
    /// Whether it repeats a call whose answer was lost.
    pub is_retry: bool,
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CallEnded {
    /// Its number.
    pub call: CallId,
    /// The answer, or why there is none.
    pub outcome: CallOutcome,
    /// The cost, or the reserve if the cost is not known.
    pub cost: MicroUsd,
    /// Whether the cost is known. It is not if the answer never came, or the provider's counts cannot be right.
    pub cost_is_known: bool,
    /// What it probably cost, if the cost is not known and the bytes of the answer were counted.
    pub estimate: Option<MicroUsd>,
    /// The tokens, as far as the provider counted them.
    pub usage: Option<Usage>,
    /// From the first attempt to the end of the answer.
    pub latency_ms: u64,
    /// How often the request was sent.
    pub attempts: u32,
    /// Iterations that had ended.
    pub after: u64,
}

impl CallEnded {
    /// Returns what counts as spent. The rest of the cost stays withheld from the budget.
    pub fn spent(&self) -> MicroUsd {
        self.estimate.unwrap_or(self.cost)
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum CallOutcome {
    /// The model answered.
    Answered {
        /// The answer: a JSON object that is not checked.
        answer: serde_json::Value,
        /// What the model wrote.
        text: String,
    },
    /// The call failed.
    Failed {
        /// The kind of failure, as the store names it.
        kind: String,
        /// One sentence.
        message: String,
        /// Whether the endpoint cannot be used for the rest of the session, as without a key.
        is_final: bool,
    },
    /// Its process died, or the session ended, before an answer came.
    Lost,
}

impl CallOutcome {
    /// Returns the name that the store and the reports use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answered { .. } => "answered",
            Self::Failed { .. } => "failed",
            Self::Lost => "lost",
        }
    }
}

/// A recorded call, for users and programs. docs/models.md describes the fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallSummary {
    /// Its number.
    pub call: CallId,
    /// What it was for.
    pub purpose: CallPurpose,
    /// Counts the session's calls for this purpose.
    pub ordinal: u64,
    /// The provider's name of the model.
    pub model: String,
    /// The claim of the approach that it was about. None for a plan.
    pub claim: Option<String>,
    /// Whether it repeats a call whose answer was lost.
    pub is_retry: bool,
    /// Iterations that had ended when it began.
    pub asked_after: u64,
    /// How it ended. None while it runs, or if its process died.
    pub status: Option<&'static str>,
    /// The kind of failure.
    pub error_kind: Option<String>,
    /// Why it failed, in a sentence.
    pub message: Option<String>,
    /// The tokens, as far as the provider counted them.
    pub usage: Option<Usage>,
    /// The most that it could cost.
    pub reserve_micro_usd: MicroUsd,
    /// The cost, or the reserve if the cost is not known.
    pub cost_micro_usd: MicroUsd,
    /// Whether the cost is known.
    pub cost_is_known: bool,
    /// What it probably cost, if the cost is not known and the bytes of the answer were counted.
    pub estimate_micro_usd: Option<MicroUsd>,
    /// From the first attempt to the end of the answer.
    pub latency_ms: Option<u64>,
    /// How often the request was sent.
    pub attempts: Option<u32>,
    /// Iterations that had ended when its answer was taken.
    pub answered_after: Option<u64>,
}

impl CallSummary {
    /// Sums up a call. One that has not ended counts at its reserve.
    pub fn of(begun: &CallBegun, ended: Option<&CallEnded>) -> Self {
        let (error_kind, message) = match ended.map(|ended| &ended.outcome) {
            Some(CallOutcome::Failed { kind, message, .. }) => (Some(kind.clone()), Some(message.clone())),
            _ => (None, None),
        };
        Self {
            call: begun.call,
            purpose: begun.subject.purpose(),
            ordinal: begun.ordinal,
            model: begun.model.clone(),
            claim: begun.subject.approach().map(|approach| approach.claim.clone()),
            is_retry: begun.is_retry,
            asked_after: begun.after,
            status: ended.map(|ended| ended.outcome.name()),
            error_kind,
            message,
            usage: ended.and_then(|ended| ended.usage),
            reserve_micro_usd: begun.reserve,
            cost_micro_usd: ended.map_or(begun.reserve, |ended| ended.cost),
            cost_is_known: ended.is_some_and(|ended| ended.cost_is_known),
            estimate_micro_usd: ended.and_then(|ended| ended.estimate),
            latency_ms: ended.map(|ended| ended.latency_ms),
            attempts: ended.map(|ended| ended.attempts),
            answered_after: ended.map(|ended| ended.after),
        }
    }
}

/// The text of a call: what was sent, and what came back.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// The request.
    pub request: ModelRequest,
    /// What the model wrote. None if it did not answer.
    pub text: Option<String>,
}
