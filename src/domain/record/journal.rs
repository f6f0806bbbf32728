//! What happens in a session, as a sequence of records.
//!
//! The journal is a session's only source of facts. A live session and a resumed one apply the same records, in the
//! order in which the store wrote them.

use std::time::Duration;

use crate::domain::budget::cost::Spent;
use crate::domain::code::CodeFigures;
use crate::domain::code::ablation::Ablated;
use crate::domain::code::counters::{Counted, CountedBaseline};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::measurement::verdict::Decision;
use crate::domain::models::call_record::{CallBegun, CallEnded};
use crate::domain::proposal::{Proposal, Rationale};
use crate::domain::record::{Baseline, CaseRecord, Final, IterationRecord};
use crate::domain::variant::{Params, VariantHash};
use crate::domain::workload::Case;

/// One fact about a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The session continues after it ended unfinished.
    Resumed {
        /// The wall time used before.
        used: Duration,
    },
    /// A baseline has been timed.
    Baseline(Baseline),
    /// An iteration has begun.
    Begun(Box<Begun>),
    /// An iteration has ended.
    Concluded(Box<Concluded>),
    /// A variant is disqualified on a case.
    Disqualified(Disqualified),
    /// The final comparison of a case has been held.
    Final(Box<Final>),
    /// The winner of a case has been committed.
    Committed {
        /// The iteration that measured the winner.
        iteration: IterationId,
        /// The case.
        case: CaseName,
    },
    /// Hardware counters have been read, or could not be.
    Counted(Box<Counted>),
    /// Hardware counters of a baseline have been read, or could not be.
    CountedBaseline(Box<CountedBaseline>),
    /// A variant has been timed without each kind of instruction.
    Ablated(Box<Ablated>),
    /// Money and device time that belong to no single iteration.
    Booked(Spent),
    /// A call of a language model has begun.
    CallBegun(Box<CallBegun>),
    /// A call of a language model has ended. Its cost is booked in a separate record.
    CallEnded(Box<CallEnded>),
}

/// An iteration that begins: recorded before the device is touched.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// Its number.
    pub iteration: IterationId,
    /// The variant's family.
    pub family: String,
    /// The variant's parameters.
    pub params: Params,
    /// The variant's name.
    pub hash: VariantHash,
    /// The cases to try it on.
    pub cases: Vec<Case>,
    /// Why it is tried.
    pub rationale: Rationale,
    /// What the compiler reported; none if the variant did not compile.
    pub code: Option<CodeFigures>,
}

/// An iteration that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Concluded {
    /// Its number.
    pub iteration: IterationId,
    /// What the device reported.
    pub outcome: Outcome,
    /// The measurements and decisions of that time, case by case. A later change of a verdict is a separate record.
    pub case_results: Vec<CaseRecord>,
    /// What it cost.
    pub spent: Spent,
    /// Wall time since the record before it.
    pub wall: Duration,
    /// The part of it for which the device was at work on it.
    pub device: Duration,
}

/// A disqualified variant on a case: it failed there on held-out inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disqualified {
    /// An iteration that measured the variant.
    pub iteration: IterationId,
    /// The variant.
    pub hash: VariantHash,
    /// The case.
    pub case: CaseName,
    /// The failure.
    pub reason: String,
}

impl Begun {
    /// Makes the record of a proposal that begins as an iteration, with what the compiler reported.
    pub fn of(iteration: IterationId, proposal: &Proposal, code: Option<CodeFigures>) -> Self {
        let Proposal { variant, cases, rationale, .. } = proposal;
        Self {
            iteration,
            family: variant.family.clone(),
            params: variant.params.clone(),
            hash: variant.hash.clone(),
            cases: cases.clone(),
            rationale: rationale.clone(),
            code,
        }
    }

    /// Makes the record of a stored iteration's beginning.
    pub fn recorded(record: &IterationRecord) -> Self {
        Self {
            iteration: record.id,
            family: record.family.clone(),
            params: record.params.clone(),
            hash: record.hash.clone(),
            cases: record.cases.clone(),
            rationale: record.rationale.clone(),
            code: CodeFigures::of(&record.kernels),
        }
    }
}

impl Concluded {
    /// Combines an evaluation with its decisions.
    pub fn of(
        iteration: IterationId,
        evaluation: &Evaluation,
        decisions: &[Decision],
        spent: Spent,
        wall: Duration,
    ) -> Self {
        let decided = |case: &str| decisions.iter().find(|decision| decision.case == case);
        let measured = evaluation.measurements.iter().map(|found| CaseRecord::of(found, decided(&found.case)));
        let reached = |case: &str| evaluation.measurements.iter().any(|found| found.case == case);
        let unmeasured = decisions.iter().filter(|decision| !reached(&decision.case)).map(CaseRecord::unmeasured);
        Self {
            iteration,
            outcome: evaluation.outcome.clone(),
            case_results: measured.chain(unmeasured).collect(),
            spent,
            wall,
            device: Duration::try_from_secs_f64(evaluation.device_s).unwrap_or_default(),
        }
    }

    /// Makes the record of a stored iteration's end; none if it never ended. `case_results` are those of that time.
    pub fn recorded(record: &IterationRecord, case_results: Vec<CaseRecord>) -> Option<Self> {
        Some(Self {
            iteration: record.id,
            outcome: record.outcome.clone()?,
            case_results,
            spent: record.cost,
            wall: Duration::try_from_secs_f64(record.wall_s.unwrap_or_default()).unwrap_or_default(),
            device: Duration::try_from_secs_f64(record.device_s.unwrap_or_default()).unwrap_or_default(),
        })
    }
}
