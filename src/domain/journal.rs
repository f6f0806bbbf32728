//! What happens in a session, as a sequence of records.
//!
//! A session knows what is on record and nothing else. The live session and a resumed one apply the same records, in the
//! order in which the store took them.

use std::time::Duration;

use super::cost::Spent;
use super::evaluation::{Evaluation, Outcome};
use super::hypothesis::Hypothesis;
use super::ids::{CaseName, IterationId};
use super::origin::{Origin, Purpose};
use super::proposal::Proposal;
use super::record::{Baseline, CaseRecord, Final, IterationRecord};
use super::variant::{Params, VariantHash};
use super::verdict::Decision;
use super::workload::Case;

/// One fact about a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The session goes on after it had ended unfinished.
    Resumed {
        /// The wall time used until then.
        used: Duration,
    },
    /// A baseline is timed.
    Baseline(Baseline),
    /// An iteration begins.
    Begun(Box<Begun>),
    /// An iteration has ended.
    Concluded(Box<Concluded>),
    /// A variant is out of the running on a case.
    Disqualified(Disqualified),
    /// The final comparison of a case was held.
    Final(Box<Final>),
    /// The winner of a case is committed.
    Committed {
        /// The iteration that measured it.
        iteration: IterationId,
        /// The case.
        case: CaseName,
    },
    /// Money and device time that no single iteration accounts for.
    Booked(Spent),
}

/// An iteration that begins: recorded before the device is touched.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// Its number.
    pub iteration: IterationId,
    /// Why it is run.
    pub purpose: Purpose,
    /// Where its configuration comes from.
    pub origin: Origin,
    /// The variant's family.
    pub family: String,
    /// The variant's parameters.
    pub params: Params,
    /// The variant's name.
    pub hash: VariantHash,
    /// The cases to try it on.
    pub cases: Vec<Case>,
    /// The claim that it tests.
    pub hypothesis: Hypothesis,
}

/// An iteration that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Concluded {
    /// Its number.
    pub iteration: IterationId,
    /// What the device said.
    pub outcome: Outcome,
    /// What was found and decided then, case by case. What became of a verdict later is a record of its own.
    pub findings: Vec<CaseRecord>,
    /// What it cost.
    pub spent: Spent,
    /// Wall time since the record before it.
    pub wall: Duration,
}

/// A variant that is out of the running on a case: it failed there on inputs that it had not met before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disqualified {
    /// An iteration that measured it.
    pub iteration: IterationId,
    /// The variant.
    pub hash: VariantHash,
    /// The case.
    pub case: CaseName,
    /// What it failed with.
    pub reason: String,
}

impl Begun {
    /// Describes a proposal that begins as an iteration.
    pub fn of(iteration: IterationId, proposal: &Proposal) -> Self {
        let Proposal { variant, cases, hypothesis, purpose, origin, .. } = proposal;
        Self {
            iteration,
            purpose: *purpose,
            origin: origin.clone(),
            family: variant.family.clone(),
            params: variant.params.clone(),
            hash: variant.hash.clone(),
            cases: cases.clone(),
            hypothesis: hypothesis.clone(),
        }
    }

    /// Describes an iteration of the record.
    pub fn recorded(record: &IterationRecord) -> Self {
        Self {
            iteration: record.id,
            purpose: record.purpose,
            origin: record.origin.clone(),
            family: record.family.clone(),
            params: record.params.clone(),
            hash: record.hash.clone(),
            cases: record.cases.clone(),
            hypothesis: record.hypothesis.clone(),
        }
    }
}

impl Concluded {
    /// Describes an evaluation with what was decided.
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
            findings: measured.chain(unmeasured).collect(),
            spent,
            wall,
        }
    }

    /// Describes an iteration of the record as it was concluded; none if it never was. `findings` are those of that time.
    pub fn recorded(record: &IterationRecord, findings: Vec<CaseRecord>) -> Option<Self> {
        Some(Self {
            iteration: record.id,
            outcome: record.outcome.clone()?,
            findings,
            spent: record.cost,
            wall: Duration::try_from_secs_f64(record.wall_s.unwrap_or_default()).unwrap_or_default(),
        })
    }
}
