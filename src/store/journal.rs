//! Reads the journal of a session: its records in the order in which they were written.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::ablations::AblatedByCase;
use super::columns::{name, required};
use super::counters::ByCase;
use super::questions::{Of, Verdicts};
use super::sessions::cost;
use super::{Store, StoreError};
use crate::domain::budget::cost::Spent;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::models::call_record::{CallBegun, CallEnded};
use crate::domain::record::journal::{Begun, Concluded, Disqualified, Record};
use crate::domain::record::{CaseRecord, Final, IterationRecord, SessionRecord};

/// The kinds of records, as the schema names them.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Resumed,
    Baseline,
    Begun,
    Concluded,
    Disqualified,
    Final,
    Committed,
    Booked,
    Counted,
    CountedBaseline,
    Ablated,
    CallBegun,
    CallEnded,
}

/// The facts to which the rows of a journal refer.
struct Referents<'r> {
    record: &'r SessionRecord,
    iterations: HashMap<IterationId, &'r IterationRecord>,
    /// The verdicts of the time, not the current ones.
    findings: HashMap<IterationId, Vec<CaseRecord>>,
    /// By the id of the comparison.
    finals: HashMap<String, Final>,
    /// By the id of the cost.
    booked: HashMap<String, Spent>,
    /// By the number of the resumption.
    used: HashMap<String, Duration>,
    reasons: HashMap<(IterationId, CaseName), String>,
    counters: ByCase,
    ablations: AblatedByCase,
    /// By the id of the call.
    calls: HashMap<String, (CallBegun, Option<CallEnded>)>,
}

impl Store {
    /// Reads the journal of a session, given its record.
    pub async fn journal(&self, record: &SessionRecord) -> Result<Vec<Record>, StoreError> {
        let session = record.session.id;
        let rows = sqlx::query("SELECT * FROM journal WHERE session_id = ? ORDER BY seq")
            .bind(session)
            .fetch_all(&self.pool)
            .await?;
        let mut referents = Referents {
            record,
            iterations: record.iterations.iter().map(|iteration| (iteration.id, iteration)).collect(),
            findings: self.measurements(&Of::Session(session), Verdicts::AsDecided).await?,
            finals: self.finals_by_id(session).await?,
            booked: self.booked(session).await?,
            used: self.used(session).await?,
            reasons: self.reasons(session).await?,
            counters: self.counters(&Of::Session(session)).await?,
            ablations: self.ablations(&Of::Session(session)).await?,
            calls: self.calls_by_id(session).await?,
        };
        rows.iter().map(|row| referents.record_of(row)).collect()
    }

    async fn booked(&self, session: SessionId) -> Result<HashMap<String, Spent>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, IIF(kind = 'gpu', seconds, 0.0) AS gpu_s, IIF(kind = 'gpu', usd, 0.0) AS gpu_usd,
                    IIF(kind = 'llm', usd, 0.0) AS llm_usd
             FROM costs WHERE session_id = ? AND iteration_id IS NULL",
        )
        .bind(session)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| Ok((row.try_get::<i64, _>("id")?.to_string(), cost(row)?))).collect()
    }

    async fn used(&self, session: SessionId) -> Result<HashMap<String, Duration>, StoreError> {
        let rows = sqlx::query("SELECT number, used_s FROM resumptions WHERE session_id = ?")
            .bind(session)
            .fetch_all(&self.pool)
            .await?;
        let used = |row: &SqliteRow| {
            let used = Duration::try_from_secs_f64(row.try_get("used_s")?).unwrap_or(Duration::MAX);
            Ok((row.try_get::<i64, _>("number")?.to_string(), used))
        };
        rows.iter().map(used).collect()
    }

    async fn reasons(&self, session: SessionId) -> Result<HashMap<(IterationId, CaseName), String>, StoreError> {
        let rows = sqlx::query(
            "SELECT d.iteration_id, d.case_name, d.reason FROM disqualifications d
             JOIN iterations i ON i.id = d.iteration_id WHERE i.session_id = ?",
        )
        .bind(session)
        .fetch_all(&self.pool)
        .await?;
        let reason =
            |row: &SqliteRow| Ok(((row.try_get("iteration_id")?, row.try_get("case_name")?), row.try_get("reason")?));
        rows.iter().map(reason).collect()
    }
}

impl<'r> Referents<'r> {
    fn record_of(&mut self, row: &SqliteRow) -> Result<Record, StoreError> {
        let detail = || row.try_get::<String, _>("detail");
        let case = || row.try_get::<CaseName, _>("case_name");
        Ok(match required(name(row, "kind")?, "kind")? {
            Kind::Resumed => Record::Resumed { used: required(self.used.remove(&detail()?), "detail")? },
            Kind::Baseline => {
                let (case, name) = (case()?, detail()?);
                let baseline = self.record.baselines.iter().find(|found| found.case == case && found.name == name);
                Record::Baseline(required(baseline, "detail")?.clone())
            }
            Kind::Begun => Record::Begun(Box::new(Begun::recorded(self.iteration(row)?))),
            Kind::Concluded => {
                let iteration = self.iteration(row)?;
                let findings = self.findings.remove(&iteration.id).unwrap_or_default();
                Record::Concluded(Box::new(required(Concluded::recorded(iteration, findings), "outcome")?))
            }
            Kind::Disqualified => {
                let (iteration, case) = (self.iteration(row)?, case()?);
                let reason = required(self.reasons.remove(&(iteration.id, case.clone())), "iteration_id")?;
                Record::Disqualified(Disqualified {
                    iteration: iteration.id,
                    hash: iteration.hash.clone(),
                    case,
                    reason,
                })
            }
            Kind::Final => Record::Final(Box::new(required(self.finals.remove(&detail()?), "detail")?)),
            Kind::Committed => Record::Committed { iteration: self.iteration(row)?.id, case: case()? },
            Kind::Counted => {
                let key = (self.iteration(row)?.id, case()?);
                Record::Counted(Box::new(required(self.counters.remove(&key), "iteration_id")?))
            }
            Kind::CountedBaseline => {
                let (case, name) = (case()?, detail()?);
                let counters = &self.record.baseline_counters;
                let counted = counters.iter().find(|found| found.case == case && found.name == name);
                Record::CountedBaseline(Box::new(required(counted, "detail")?.clone()))
            }
            Kind::Ablated => {
                let key = (self.iteration(row)?.id, case()?);
                Record::Ablated(Box::new(required(self.ablations.remove(&key), "iteration_id")?))
            }
            Kind::CallBegun => {
                let (begun, _) = required(self.calls.get(&detail()?), "detail")?;
                Record::CallBegun(Box::new(begun.clone()))
            }
            Kind::CallEnded => {
                let (_, ended) = required(self.calls.remove(&detail()?), "detail")?;
                Record::CallEnded(Box::new(required(ended, "status")?))
            }
            Kind::Booked => Record::Booked(required(self.booked.remove(&detail()?), "detail")?),
        })
    }

    fn iteration(&self, row: &SqliteRow) -> Result<&'r IterationRecord, StoreError> {
        required(self.iterations.get(&row.try_get("iteration_id")?).copied(), "iteration_id")
    }
}
