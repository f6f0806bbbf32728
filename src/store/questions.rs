//! Reads whole sessions and iterations, for reports and for the command line.

use std::collections::HashMap;

use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row};

use super::columns::{correctness, count, json, name, optional_json, outcome, required, timing};
use super::phases::step_times;
use super::sessions::cost;
use super::{ArtifactRecord, Store, StoreError, claims};
use crate::domain::family::plan::{LaunchPlan, LaunchShape, Preparation};
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::measurement::comparison::Comparison;
use crate::domain::proposal::Rationale;
use crate::domain::record::{CaseRecord, IterationRecord, SessionKind, SessionRecord, SessionSummary};
use crate::domain::variant::VariantHash;

/// An iteration with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IterationDetail {
    /// The iteration.
    pub iteration: IterationRecord,
    /// The session that it belongs to.
    pub session: SessionSummary,
    /// The rendered source.
    pub source: String,
    /// The parent's source.
    pub parent_source: Option<String>,
    /// The compiled variant. None if it did not compile.
    pub artifact: Option<ArtifactRecord>,
    /// The compiler's log, if it did not compile.
    pub compile_log: Option<String>,
}

/// Which verdicts to read.
#[derive(Clone, Copy)]
pub(super) enum Verdicts {
    /// The current ones: rejected, if the variant was disqualified later.
    AsTheyStand,
    /// The ones from when the iteration ended.
    AsDecided,
}

impl Verdicts {
    fn column(self) -> &'static str {
        match self {
            Self::AsTheyStand => "stands",
            Self::AsDecided => "verdict",
        }
    }
}

/// Which iterations to read.
pub(super) enum Of {
    Session(SessionId),
    Iteration(IterationId),
    These(Vec<IterationId>),
}

impl Of {
    /// Returns the condition that a row `i` of the table `iterations` is one of them.
    pub(super) fn condition(&self) -> String {
        match self {
            Self::Session(id) => format!("i.session_id = {id}"),
            Self::Iteration(id) => format!("i.id = {id}"),
            Self::These(ids) => {
                format!("i.id IN ({})", ids.iter().map(IterationId::to_string).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl Store {
    /// Reads a session with everything that a report needs.
    pub async fn session_record(&self, id: SessionId) -> Result<SessionRecord, StoreError> {
        Ok(SessionRecord { iterations: self.iterations(&Of::Session(id)).await?, ..self.frame(id).await? })
    }

    /// Reads a session without its iterations.
    pub(super) async fn frame(&self, id: SessionId) -> Result<SessionRecord, StoreError> {
        let is_listed = |other: &SessionSummary| other.id == id || other.kind == SessionKind::Search && other.id < id;
        let ledger: Vec<SessionSummary> = self.all_sessions().await?.into_iter().filter(is_listed).collect();
        // Unknown numbers have an error of their own.
        let session = match ledger.last().filter(|last| last.id == id) {
            Some(last) => last.clone(),
            None => self.session(id).await?,
        };
        let scope = self.scope(id).await?;
        Ok(SessionRecord {
            session,
            environment: self.environment_of(id).await?,
            baselines: self.baselines_of(id).await?,
            baseline_counters: self.baseline_counters_of(id).await?,
            iterations: Vec::new(),
            excerpt: None,
            finals: self.finals_of(id).await?,
            phases: self.phases_of(id).await?,
            no_counters: self.no_counters(id).await?,
            suggestions_left_out: self.suggestions_left_out(id).await?,
            unknown_costs: self.unknown_costs(id).await?,
            compute: scope.as_ref().map(|scope| scope.compute).unwrap_or_default(),
            left_out: scope.map(|scope| scope.left_out).unwrap_or_default(),
            ledger,
        })
    }

    async fn suggestions_left_out(&self, id: SessionId) -> Result<u64, StoreError> {
        let left_out: i64 =
            sqlx::query_scalar("SELECT COALESCE(SUM(suggestions), 0) FROM suggestions_left_out WHERE session_id = ?")
                .bind(id)
                .fetch_one(&self.pool)
                .await?;
        Ok(left_out.cast_unsigned())
    }

    /// Fails unless a session is on record. Reading one would count its iterations.
    pub async fn require_session(&self, id: SessionId) -> Result<(), StoreError> {
        let found: Option<i64> =
            sqlx::query_scalar("SELECT 1 FROM sessions WHERE id = ?").bind(id).fetch_optional(&self.pool).await?;
        match found {
            Some(_) => Ok(()),
            None => Err(self.unknown_session(id).await?),
        }
    }

    /// Fails unless an iteration is on record.
    pub async fn require_iteration(&self, id: IterationId) -> Result<(), StoreError> {
        let found: Option<i64> =
            sqlx::query_scalar("SELECT 1 FROM iterations WHERE id = ?").bind(id).fetch_optional(&self.pool).await?;
        match found {
            Some(_) => Ok(()),
            None => Err(self.unknown_iteration(id).await?),
        }
    }

    /// Reads everything about an iteration.
    pub async fn iteration(&self, id: IterationId) -> Result<IterationDetail, StoreError> {
        let Some(iteration) = self.iterations(&Of::Iteration(id)).await?.pop() else {
            return Err(self.unknown_iteration(id).await?);
        };
        let row = sqlx::query(
            "SELECT i.source, i.compile_log, parent.source AS parent_source
             FROM iterations i LEFT JOIN iterations parent ON parent.id = i.parent_id WHERE i.id = ?",
        )
        .bind(id)
        .fetch_one(&self.pool)
        .await?;
        Ok(IterationDetail {
            session: self.session(iteration.session).await?,
            source: row.try_get("source")?,
            parent_source: row.try_get("parent_source")?,
            artifact: self.artifact_of(id).await?,
            compile_log: row.try_get("compile_log")?,
            iteration,
        })
    }

    /// Reads the iterations of a session after one of them, oldest first, at most so many.
    pub async fn iterations_after(
        &self,
        session: SessionId,
        last: Option<IterationId>,
        most: u32,
    ) -> Result<Vec<IterationRecord>, StoreError> {
        let next = sqlx::query_scalar(
            "SELECT id FROM iterations INDEXED BY iterations_listed WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?",
        );
        let next = next.bind(session).bind(last.map_or(0, |id| id.0)).bind(most).fetch_all(&self.pool).await?;
        self.iterations(&Of::These(next)).await
    }

    /// Reads some iterations, oldest first.
    pub(super) async fn iterations(&self, of: &Of) -> Result<Vec<IterationRecord>, StoreError> {
        let rows = sqlx::query(AssertSqlSafe(format!(
            // Not all columns: a source has some kilobytes.
            "SELECT i.id, i.session_id, i.ordinal, i.proposer, i.purpose, i.origin, i.family, i.params, i.hash, i.parent_id,
                    i.cases, i.started_at, i.ended_at, i.outcome, i.outcome_case, i.outcome_message, i.outcome_check,
                    i.device_s, i.wall_s, i.waiting_s, i.screening_s, i.acceptance_s, i.sanitizer_s, i.comparison_s,
                    a.kernels, h.claim, h.evidence, h.mechanism, h.case_name, h.predicted_median, h.predicted_lo,
                    h.predicted_hi, h.strength, h.model_mean, h.model_sd, h.tuned_lo, h.tuned_hi, h.relative_to,
                    h.reference, h.actual, h.score,
                    (SELECT TOTAL(seconds) FROM costs WHERE iteration_id = i.id AND kind = 'gpu') AS gpu_s,
                    (SELECT TOTAL(usd) FROM costs WHERE iteration_id = i.id AND kind = 'gpu') AS gpu_usd,
                    (SELECT TOTAL(usd) FROM costs WHERE iteration_id = i.id AND kind = 'llm') AS llm_usd
             FROM iterations i JOIN hypotheses h ON h.iteration_id = i.id
             LEFT JOIN artifacts a ON a.key = i.artifact_key
             WHERE {}
             ORDER BY i.id",
            of.condition()
        )))
        .fetch_all(&self.pool)
        .await?;
        let mut records = rows.iter().map(iteration_record).collect::<Result<Vec<_>, _>>()?;
        let mut measurements = self.measurements(of, Verdicts::AsTheyStand).await?;
        for record in &mut records {
            record.measurements = measurements.remove(&record.id).unwrap_or_default();
        }
        Ok(records)
    }

    /// Reads the results of a session's iterations, or of one iteration, case by case.
    pub(super) async fn measurements(
        &self,
        of: &Of,
        verdicts: Verdicts,
    ) -> Result<HashMap<IterationId, Vec<CaseRecord>>, StoreError> {
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT m.*, x.profile AS explanation, c.commit_id, COALESCE(c.earlier, 0) AS earlier,
                    (SELECT MIN(by.session_id) FROM commits made JOIN iterations by ON by.id = made.iteration_id
                     WHERE made.commit_id = c.commit_id AND made.case_name = c.case_name AND made.earlier = 0
                       AND by.session_id < i.session_id AND c.earlier) AS found_in,
                    COALESCE((SELECT 'rejected' FROM disqualifications d
                              WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name), m.verdict) AS stands
             FROM measurements m JOIN iterations i ON i.id = m.iteration_id
             LEFT JOIN commits c ON c.iteration_id = m.iteration_id AND c.case_name = m.case_name
             LEFT JOIN explanations x ON x.iteration_id = m.iteration_id AND x.case_name = m.case_name
             WHERE {}
             ORDER BY m.iteration_id, m.case_name COLLATE natural_order",
            of.condition()
        )))
        .fetch_all(&self.pool)
        .await?;
        let mut by_iteration: HashMap<IterationId, Vec<CaseRecord>> = HashMap::new();
        let shapes = self.shapes(of).await?;
        let mut comparisons = self.comparisons(of).await?;
        let mut counters = self.counters(of).await?;
        let mut ablated = self.ablations(of).await?;
        for row in &rows {
            let id: IterationId = row.try_get("iteration_id")?;
            let comparison = comparisons.remove(&(id, row.try_get("case_name")?));
            let counted = counters.remove(&(id, row.try_get("case_name")?));
            let counters = counted.and_then(|counted| counted.counters.ok());
            let ablations = ablated.remove(&(id, row.try_get("case_name")?)).map(|ablated| ablated.ablations);
            let plan: Option<String> = row.try_get("plan_hash")?;
            by_iteration.entry(id).or_default().push(CaseRecord {
                shape: plan.and_then(|plan| shapes.get(&plan).copied()),
                counters,
                ablations: ablations.unwrap_or_default(),
                ..case_record(row, comparison, verdicts)?
            });
        }
        Ok(by_iteration)
    }

    /// Reads which launches do most of the work, by the hashes of the plans. Many measurements have the same plan, so each is read
    /// once.
    async fn shapes(&self, of: &Of) -> Result<HashMap<String, LaunchShape>, StoreError> {
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT hash, plan FROM plans
             WHERE hash IN (SELECT m.plan_hash FROM measurements m JOIN iterations i ON i.id = m.iteration_id WHERE {})",
            of.condition()
        )))
        .fetch_all(&self.pool)
        .await?;
        let shape = |row: &SqliteRow| Ok((row.try_get("hash")?, json::<LaunchPlan>(row, "plan")?.shape()));
        rows.iter().map(shape).collect()
    }
}

fn iteration_record(row: &SqliteRow) -> Result<IterationRecord, StoreError> {
    Ok(IterationRecord {
        id: row.try_get("id")?,
        session: row.try_get("session_id")?,
        ordinal: row.try_get("ordinal")?,
        proposer: row.try_get("proposer")?,
        family: row.try_get("family")?,
        params: json(row, "params")?,
        hash: VariantHash(row.try_get("hash")?),
        kernels: optional_json(row, "kernels")?.unwrap_or_default(),
        cases: json(row, "cases")?,
        started_at: row.try_get("started_at")?,
        ended_at: row.try_get("ended_at")?,
        outcome: outcome(row)?,
        rationale: Rationale {
            hypothesis: claims::hypothesis(row)?,
            parent: row.try_get("parent_id")?,
            purpose: required(name(row, "purpose")?, "purpose")?,
            origin: json(row, "origin")?,
        },
        actual: row.try_get("actual")?,
        score: name(row, "score")?,
        measurements: Vec::new(),
        device_s: row.try_get("device_s")?,
        wall_s: row.try_get("wall_s")?,
        steps: step_times(row)?,
        cost: cost(row)?,
    })
}

fn preparation(row: &SqliteRow) -> Result<Option<Preparation>, StoreError> {
    let Some(bytes) = count(row, "prepared_bytes")? else { return Ok(None) };
    Ok(Some(Preparation { bytes, ns: row.try_get("preparation_ns")? }))
}

fn case_record(row: &SqliteRow, comparison: Option<Comparison>, verdicts: Verdicts) -> Result<CaseRecord, StoreError> {
    Ok(CaseRecord {
        case: row.try_get("case_name")?,
        regime: required(name(row, "regime")?, "regime")?,
        correctness: correctness(row)?,
        ctas: count(row, "ctas")?,
        shape: None,
        preparation: preparation(row)?,
        screening: timing(row, "screening_")?,
        confirmation: timing(row, "confirmation_")?,
        comparison,
        profile: optional_json(row, "profile")?,
        explanation: optional_json(row, "explanation")?,
        counters: None,
        ablations: Vec::new(),
        verdict: name(row, verdicts.column())?,
        speedup: row.try_get("speedup")?,
        commit: row.try_get("commit_id")?,
        is_earlier: row.try_get("earlier")?,
        found_in: row.try_get("found_in")?,
    })
}
