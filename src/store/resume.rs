//! Reads what a session needs to continue after its process has died.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::{Row, SqliteConnection};

use super::columns::{json, now, optional_json, to_json};
use super::{Store, StoreError};
use crate::domain::family::plan::LaunchPlan;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::record::journal::Record;
use crate::domain::record::{SessionKind, SessionRecord, SessionScope, SessionSummary, Status};
use crate::domain::variant::{Variant, VariantHash};

/// A session that ended, cleanly or not, with everything that a resumption needs.
#[derive(Debug, Clone)]
pub struct Past {
    /// The record of the session.
    pub record: SessionRecord,
    /// The same facts in the order in which they were recorded.
    pub journal: Vec<Record>,
    /// The rest of its request.
    pub asked: SessionScope,
    /// Every setting in force at its start.
    pub config: serde_json::Value,
    /// Its devices that only screen, as they were selected.
    pub lanes: Vec<String>,
    /// Wall time that it has used.
    pub used: Duration,
    /// The reference that gets the commit of its winners, `none` if there is to be none. None if it is not on record.
    pub commit_to: Option<String>,
    /// The reference that keeps its winners until then.
    pub kept_under: Option<String>,
}

impl Past {
    /// Returns the wall time that the session is allowed.
    pub fn budget(&self) -> Duration {
        Duration::try_from_secs_f64(self.record.session.budget_s).unwrap_or(Duration::MAX)
    }
}

/// The variant of an iteration, and its launch plans by case.
pub type Launched = (Variant, HashMap<CaseName, LaunchPlan>);

impl Store {
    /// Reads the newest session that is not finished.
    pub async fn latest_unfinished(&self) -> Result<SessionSummary, StoreError> {
        let newest: Option<SessionId> =
            sqlx::query_scalar("SELECT MAX(id) FROM sessions WHERE status <> ? AND kind = 'search'")
                .bind(Status::Finished.name())
                .fetch_one(&self.pool)
                .await?;
        match newest {
            Some(id) => self.session(id).await,
            None => Err(self.latest_session().await.err().unwrap_or(StoreError::AllFinished)),
        }
    }

    /// Reads everything that a resumption of a session needs.
    pub async fn past(&self, id: SessionId) -> Result<Past, StoreError> {
        let record = self.session_record(id).await?;
        if record.session.kind == SessionKind::Single {
            return Err(StoreError::Single { id });
        }
        // Not computed from instants: clocks jump, and the time of a process's death is unknown.
        let row = sqlx::query(
            "SELECT s.asked, s.config, s.lanes, s.commit_to, s.kept_under,
                    COALESCE(s.wall_s, MAX(COALESCE(s.used_s, 0.0), COALESCE(r.used_s, 0)
                        + (SELECT TOTAL(wall_s) FROM iterations
                           WHERE session_id = s.id AND ordinal > COALESCE(r.begun, 0))
                        + (SELECT TOTAL(c.wall_s) FROM counters c JOIN iterations i ON i.id = c.iteration_id
                           WHERE i.session_id = s.id AND c.begun > COALESCE(r.begun, 0))
                        + (SELECT TOTAL(wall_s) FROM baseline_counters
                           WHERE session_id = s.id AND begun > COALESCE(r.begun, 0))
                        + (SELECT TOTAL(a.wall_s) FROM ablations a JOIN iterations i ON i.id = a.iteration_id
                           WHERE i.session_id = s.id AND a.begun > COALESCE(r.begun, 0)))) AS used_s
             FROM sessions s LEFT JOIN resumptions r ON r.session_id = s.id
                  AND r.number = (SELECT MAX(number) FROM resumptions WHERE session_id = s.id)
             WHERE s.id = ?",
        )
        .bind(id)
        .fetch_one(&self.pool)
        .await?;
        let asked = optional_json(&row, "asked")?.ok_or(StoreError::TooOld { id })?;
        let used = Duration::try_from_secs_f64(row.try_get("used_s")?).unwrap_or(Duration::MAX);
        let journal = self.journal(&record).await?;
        let (commit_to, kept_under) = (row.try_get("commit_to")?, row.try_get("kept_under")?);
        let (config, lanes) = (json(&row, "config")?, optional_json(&row, "lanes")?.unwrap_or_default());
        Ok(Past { record, journal, asked, config, lanes, used, commit_to, kept_under })
    }

    /// Records that a session is resumed, with the time used so far and the budget from now on.
    pub async fn resume_session(&self, id: SessionId, used: Duration, budget: Duration) -> Result<(), StoreError> {
        self.write(async |connection| {
            sqlx::query(
                "INSERT INTO resumptions (session_id, number, resumed_at, used_s, begun)
                 SELECT ?1, (SELECT COUNT(*) + 1 FROM resumptions WHERE session_id = ?1), ?2, ?3,
                        (SELECT COALESCE(MAX(ordinal), 0) FROM iterations WHERE session_id = ?1)",
            )
            .bind(id)
            .bind(now()?)
            .bind(used.as_secs_f64())
            .execute(&mut *connection)
            .await?;
            sqlx::query(
                "UPDATE sessions SET status = 'running', stop_reason = NULL, early_end = NULL, ended_at = NULL, wall_s = NULL,
                                     budget_s = ? WHERE id = ?",
            )
            .bind(budget.as_secs_f64())
            .bind(id)
            .execute(&mut *connection)
            .await?;
            Ok(())
        })
        .await
    }

    /// Reads the variant of an iteration, with its recorded launch plans.
    pub async fn launched(&self, iteration: IterationId) -> Result<Launched, StoreError> {
        let row = sqlx::query("SELECT family, params, hash, source FROM iterations WHERE id = ?")
            .bind(iteration)
            .fetch_one(&self.pool)
            .await?;
        let variant = Variant {
            family: row.try_get("family")?,
            params: json(&row, "params")?,
            hash: VariantHash(row.try_get("hash")?),
            source: row.try_get("source")?,
        };
        let rows = sqlx::query(
            "SELECT m.case_name, p.plan FROM measurements m JOIN plans p ON p.hash = m.plan_hash
             WHERE m.iteration_id = ?",
        )
        .bind(iteration)
        .fetch_all(&self.pool)
        .await?;
        let plans = rows.iter().map(|row| Ok((row.try_get("case_name")?, json(row, "plan")?)));
        Ok((variant, plans.collect::<Result<_, StoreError>>()?))
    }
}

/// Records a launch plan and returns its key. Equal plans are stored once.
pub(super) async fn record_plan(connection: &mut SqliteConnection, plan: &LaunchPlan) -> Result<String, StoreError> {
    let text = to_json("plan", plan)?;
    let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
    sqlx::query("INSERT INTO plans (hash, plan) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING")
        .bind(&hash)
        .bind(text)
        .execute(connection)
        .await?;
    Ok(hash)
}
