//! Sessions: when and where they ran, on which budget, and what they cost.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row};

use super::columns::{count, json, name, now, optional_json, pack, required, signed, text, timing, to_json};
use super::{Store, StoreError};
use crate::domain::budget::Budget;
use crate::domain::budget::cost::Spent;
use crate::domain::budget::stop::EarlyEnd;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::record::{Baseline, Environment, SessionKind, SessionScope, SessionSummary, Status};

/// What is known about a session when it starts.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// What it is for.
    pub kind: SessionKind,
    /// Name of the workload.
    pub workload: String,
    /// Name of the proposer.
    pub proposer: String,
    /// Seed of the proposer's random choices.
    pub seed: u64,
    /// The limits.
    pub budget: Budget,
    /// The rest of its request.
    pub asked: SessionScope,
    /// Every setting in force.
    pub config: serde_json::Value,
    /// Where it runs.
    pub environment: Environment,
    /// Its devices that only screen, as they were selected, such as `cuda:1`.
    pub lanes: Vec<String>,
    /// Where the oracle of its op is computed, if it is to be on a GPU: `cuda:0`, or the CPU and why.
    pub oracle_on: Option<String>,
    /// The submission that it was started for. None if a person started it.
    pub submission: Option<String>,
}

impl Store {
    /// Records the start of a session and returns its number.
    pub async fn begin_session(&self, session: &NewSession) -> Result<SessionId, StoreError> {
        let Budget { wall, max_cost_usd, max_iterations } = session.budget;
        let query = sqlx::query_scalar(
            "INSERT INTO sessions (environment_id, kind, workload, proposer, seed, budget_s, max_cost_usd, max_iterations,
                                   cases, asked, config, lanes, oracle_on, submission, started_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        );
        let max_iterations = max_iterations.map(|most| signed("max_iterations", most)).transpose()?;
        let cases: Vec<_> = session.asked.cases.iter().map(|case| &case.name).collect();
        let (cases, asked) = (to_json("cases", &cases)?, to_json("asked", &session.asked)?);
        let config = to_json("config", &session.config)?;
        let lanes = (!session.lanes.is_empty()).then(|| to_json("lanes", &session.lanes)).transpose()?;
        self.write(async |connection| {
            let id = query
                .bind(environment_id(connection, &session.environment).await?)
                .bind(session.kind.name())
                .bind(&session.workload)
                .bind(&session.proposer)
                .bind(session.seed.cast_signed())
                .bind(wall.as_secs_f64())
                .bind(max_cost_usd)
                .bind(max_iterations)
                .bind(cases)
                .bind(asked)
                .bind(config)
                .bind(lanes)
                .bind(session.oracle_on.as_deref().map(text))
                .bind(&session.submission)
                .bind(now()?)
                .fetch_one(connection)
                .await?;
            Ok(id)
        })
        .await
    }

    /// Returns what a session was asked for. None if that was not kept yet.
    pub async fn scope(&self, session: SessionId) -> Result<Option<SessionScope>, StoreError> {
        let row = sqlx::query("SELECT asked FROM sessions WHERE id = ?").bind(session).fetch_one(&self.pool).await?;
        optional_json(&row, "asked")
    }

    /// Records the end of a session, with the reason and whether its search ended before its budget was spent. `spent` is the
    /// total of the whole session. Anything beyond its iterations' costs, such as the idle time of a rented device, becomes a
    /// cost of the session itself.
    pub async fn end_session(
        &self,
        session: SessionId,
        status: Status,
        (stop_reason, early_end): (&str, Option<EarlyEnd>),
        wall: Duration,
        spent: Spent,
    ) -> Result<(), StoreError> {
        let known = self.session(session).await?.cost;
        let rest = Spent {
            gpu_s: (spent.gpu_s - known.gpu_s).max(0.0),
            gpu_usd: (spent.gpu_usd - known.gpu_usd).max(0.0),
            llm_usd: (spent.llm_usd - known.llm_usd).max(0.0),
        };
        self.write(async |connection| {
            sqlx::query(
                "UPDATE sessions SET status = ?, stop_reason = ?, early_end = ?, ended_at = ?, wall_s = ? WHERE id = ?",
            )
            .bind(status.name())
            .bind(text(stop_reason))
            .bind(early_end.map(EarlyEnd::name))
            .bind(now()?)
            .bind(wall.as_secs_f64())
            .bind(session)
            .execute(&mut *connection)
            .await?;
            record_cost(connection, session, None, rest).await?;
            Ok(())
        })
        .await
    }

    /// Records where the winners of a session go: the reference that gets their commit (`none` if the user wants none), and
    /// the reference that keeps them until then.
    pub async fn note_target(
        &self,
        session: SessionId,
        commit_to: &str,
        kept_under: Option<&str>,
    ) -> Result<(), StoreError> {
        sqlx::query("UPDATE sessions SET commit_to = ?, kept_under = ? WHERE id = ?")
            .bind(commit_to)
            .bind(kept_under)
            .bind(session)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Notes the wall time that a running session has used, over all its resumptions.
    pub async fn note_used(&self, session: SessionId, used: Duration) -> Result<(), StoreError> {
        sqlx::query("UPDATE sessions SET used_s = ? WHERE id = ?")
            .bind(used.as_secs_f64())
            .bind(session)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Returns the references under which sessions keep or have kept their winners, the oldest session first.
    pub async fn kept_under(&self) -> Result<Vec<(SessionId, String)>, StoreError> {
        let rows = sqlx::query("SELECT id, kept_under FROM sessions WHERE kept_under IS NOT NULL ORDER BY id")
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok((row.try_get("id")?, row.try_get("kept_under")?))).collect()
    }

    /// Replaces the environment of a session, once more is known about it.
    pub async fn amend_environment(&self, session: SessionId, environment: &Environment) -> Result<(), StoreError> {
        self.write(async |connection| {
            let environment = environment_id(connection, environment).await?;
            sqlx::query("UPDATE sessions SET environment_id = ? WHERE id = ?")
                .bind(environment)
                .bind(session)
                .execute(connection)
                .await?;
            Ok(())
        })
        .await
    }

    /// Records the times of a case's baselines in a session, all or none. A second time of the same baseline is
    /// refused.
    pub async fn record_baselines(&self, session: SessionId, baselines: &[Baseline]) -> Result<(), StoreError> {
        self.write(async |connection| {
            for baseline in baselines {
                record_baseline(connection, session, baseline).await?;
            }
            Ok(())
        })
        .await
    }

    /// Returns every session that searched, oldest first.
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let mut all = self.all_sessions().await?;
        all.retain(|session| session.kind == SessionKind::Search);
        Ok(all)
    }

    /// Returns every session, oldest first, with those that hold what was measured by hand.
    pub async fn all_sessions(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.summaries(None).await
    }

    /// Returns the sessions that have not ended, whether they have a process or not.
    pub async fn unended(&self) -> Result<BTreeSet<SessionId>, StoreError> {
        let ids: Vec<SessionId> =
            sqlx::query_scalar("SELECT id FROM sessions WHERE status = 'running'").fetch_all(&self.pool).await?;
        Ok(ids.into_iter().collect())
    }

    /// Reads a session by its number.
    pub async fn session(&self, id: SessionId) -> Result<SessionSummary, StoreError> {
        match self.summaries(Some(&[id])).await?.pop() {
            Some(summary) => Ok(summary),
            None => Err(self.unknown_session(id).await?),
        }
    }

    /// Reads the session that was started for a submission. None if it has not begun.
    pub async fn session_of(&self, submission: &str) -> Result<Option<SessionSummary>, StoreError> {
        let id: Option<SessionId> = sqlx::query_scalar("SELECT id FROM sessions WHERE submission = ?")
            .bind(submission)
            .fetch_optional(&self.pool)
            .await?;
        match id {
            Some(id) => self.session(id).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads the session that started last, of those that search.
    pub async fn latest_session(&self) -> Result<SessionSummary, StoreError> {
        let newest: Option<SessionId> =
            sqlx::query_scalar("SELECT MAX(id) FROM sessions WHERE kind = 'search'").fetch_one(&self.pool).await?;
        self.session(newest.ok_or(StoreError::NoSessions)?).await
    }

    /// Returns the total cost of all sessions.
    pub async fn cumulative_cost(&self) -> Result<Spent, StoreError> {
        let row = sqlx::query(
            "SELECT TOTAL(seconds) FILTER (WHERE kind = 'gpu') AS gpu_s,
                    TOTAL(usd) FILTER (WHERE kind = 'gpu') AS gpu_usd,
                    TOTAL(usd) FILTER (WHERE kind = 'llm') AS llm_usd
             FROM costs",
        )
        .fetch_one(&self.pool)
        .await?;
        cost(&row)
    }

    /// Reads the environment of a session.
    pub async fn environment_of(&self, session: SessionId) -> Result<Environment, StoreError> {
        let row =
            sqlx::query("SELECT e.* FROM environments e JOIN sessions s ON s.environment_id = e.id WHERE s.id = ?")
                .bind(session)
                .fetch_one(&self.pool)
                .await?;
        Ok(Environment {
            device: json(&row, "device")?,
            nvrtc: row.try_get("nvrtc")?,
            optloop: row.try_get("optloop")?,
            torch: row.try_get("torch")?,
            host: row.try_get("host")?,
        })
    }

    /// Reads the baselines of a session, the fastest of each case first.
    pub(super) async fn baselines_of(&self, session: SessionId) -> Result<Vec<Baseline>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM baselines WHERE session_id = ? ORDER BY case_name COLLATE natural_order, median_ns",
        )
        .bind(session)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Baseline {
                    case: row.try_get("case_name")?,
                    name: row.try_get("name")?,
                    kind: required(name(row, "kind")?, "kind")?,
                    regime: required(name(row, "regime")?, "regime")?,
                    timing: required(timing(row, "")?, "raw_ns")?,
                    eager_ns: row.try_get("eager_ns")?,
                    relative_l2: row.try_get("relative_l2")?,
                    kernels: optional_json(row, "kernels")?.unwrap_or_default(),
                })
            })
            .collect()
    }

    /// Reads these sessions, or all, oldest first.
    pub(super) async fn summaries(&self, ids: Option<&[SessionId]>) -> Result<Vec<SessionSummary>, StoreError> {
        let ids = ids.map(|ids| to_json("ids", ids)).transpose()?;
        let chosen = |column: &str| match ids {
            Some(_) => format!("{column} IN (SELECT value FROM json_each(?1))"),
            None => "?1 IS NULL".to_owned(),
        };
        // Other sessions may have numbers between those of these.
        let outermost = |pick: &str| {
            format!(
                "(SELECT {pick}((SELECT {pick}(id) FROM iterations INDEXED BY iterations_listed WHERE session_id = one.value))
                  FROM json_each(?1) one)"
            )
        };
        let wins_of = match ids {
            Some(_) => format!(
                "{} AND m.iteration_id >= {} AND m.iteration_id <= {}",
                chosen("i.session_id"),
                outermost("MIN"),
                outermost("MAX")
            ),
            None => chosen(""),
        };
        let (costs_of, of_these) = (chosen("session_id"), chosen("s.id"));
        let rows = sqlx::query(AssertSqlSafe(format!(
            // A committed winner that was measured again is not a win, nor is what it beat later: that was on the way to it.
            // See `is_win` of the report, which follows the same rule.
            // Without MATERIALIZED, SQLite computes them again for each session.
            "WITH found AS MATERIALIZED (
                 SELECT i.session_id, i.id, i.purpose, m.case_name, m.verdict, m.best_ns,
                        CASE WHEN i.origin_kind = 'committed_winner'
                             THEN (SELECT COALESCE(json_array_length(o.origin, '$.cases'), 0) = 0
                                          OR EXISTS (SELECT 1 FROM json_each(o.origin, '$.cases') WHERE value = m.case_name)
                                   FROM iterations o WHERE o.id = i.id)
                             ELSE 0 END AS remeasured
                 FROM measurements m INDEXED BY measurements_won
                 CROSS JOIN iterations i INDEXED BY iterations_facts ON i.id = m.iteration_id
                 WHERE {wins_of} AND m.verdict IN ('start', 'improved')
                   AND NOT EXISTS (SELECT 1 FROM disqualifications d
                                   WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)),
             wins AS MATERIALIZED (
                 SELECT * FROM found w WHERE verdict = 'improved' AND NOT remeasured
                   AND NOT (purpose = 'remeasurement'
                            AND EXISTS (SELECT 1 FROM found k
                                        WHERE k.session_id = w.session_id AND k.case_name = w.case_name
                                          AND k.remeasured AND k.verdict = 'improved' AND k.id > w.id))),
             best AS MATERIALIZED (SELECT session_id, case_name, id, MIN(best_ns) AS ns FROM wins GROUP BY session_id, case_name),
             began AS MATERIALIZED (SELECT session_id, case_name, id, MIN(best_ns) AS ns FROM found
                       WHERE verdict = 'start' OR remeasured GROUP BY session_id, case_name),
             gains AS (
                 SELECT best.session_id, began.ns / best.ns AS apart,
                        (SELECT 100 * c.id + p.position FROM comparisons c
                         JOIN participants own ON own.comparison_id = c.id AND own.position = 0
                                               AND own.iteration_id = best.id
                         JOIN participants p ON p.comparison_id = c.id AND p.iteration_id = began.id
                                             AND p.role <> 'control' AND p.ratio IS NOT NULL
                         WHERE (c.iteration_id = best.id OR c.session_id = best.session_id)
                           AND c.case_name = best.case_name
                         ORDER BY c.id DESC LIMIT 1) AS place
                 FROM best JOIN began USING (session_id, case_name)),
             paired AS (
                 SELECT gains.session_id, COALESCE(p.ratio, gains.apart) AS ratio, p.ratio_lo, p.ratio_hi
                 FROM gains LEFT JOIN participants p ON p.comparison_id = gains.place / 100 AND p.position = gains.place % 100),
             top AS MATERIALIZED
                 (SELECT session_id, MAX(ratio) AS ratio, ratio_lo, ratio_hi FROM paired GROUP BY session_id),
             won AS MATERIALIZED (SELECT session_id, COUNT(*) AS wins FROM wins GROUP BY session_id),
             spent AS MATERIALIZED (
                 SELECT session_id, TOTAL(seconds) FILTER (WHERE kind = 'gpu') AS gpu_s,
                        TOTAL(usd) FILTER (WHERE kind = 'gpu') AS gpu_usd, TOTAL(usd) FILTER (WHERE kind = 'llm') AS llm_usd
                 FROM costs INDEXED BY costs_by_session WHERE {costs_of} GROUP BY session_id)
             SELECT s.*, 1 + COALESCE(json_array_length(s.lanes), 0) AS devices, e.device_name, e.time_source, e.graphs,
                    (SELECT COUNT(*) FROM resumptions WHERE session_id = s.id) AS resumptions,
                    -- Ordinals count from 1: this is one look into an index.
                    COALESCE((SELECT MAX(ordinal) FROM iterations WHERE session_id = s.id), 0) AS iterations,
                    (SELECT COUNT(*) FROM iterations WHERE session_id = s.id AND ended_at IS NULL) AS unfinished,
                    COALESCE(won.wins, 0) AS wins,
                    top.ratio AS best_speedup, top.ratio_lo AS best_lo, top.ratio_hi AS best_hi,
                    COALESCE(spent.gpu_s, 0.0) AS gpu_s, COALESCE(spent.gpu_usd, 0.0) AS gpu_usd,
                    COALESCE(spent.llm_usd, 0.0) AS llm_usd
             FROM sessions s JOIN environments e ON e.id = s.environment_id LEFT JOIN top ON top.session_id = s.id
             LEFT JOIN won ON won.session_id = s.id LEFT JOIN spent ON spent.session_id = s.id
             WHERE {of_these}
             ORDER BY s.id"
        )))
        .bind(&ids)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(summary).collect()
    }

    pub(super) async fn unknown_session(&self, id: SessionId) -> Result<StoreError, StoreError> {
        let row = sqlx::query("SELECT MIN(id) AS first, MAX(id) AS last FROM sessions").fetch_one(&self.pool).await?;
        let known = known("sessions", row.try_get("first")?, row.try_get("last")?);
        Ok(StoreError::UnknownSession { id, known })
    }
}

/// Returns the number of an environment, which it records if it is new.
async fn environment_id(connection: &mut sqlx::SqliteConnection, environment: &Environment) -> Result<i64, StoreError> {
    let hash = blake3::hash(to_json("environment", environment)?.as_bytes()).to_hex().to_string();
    // DO NOTHING would not return the existing row. DO UPDATE does.
    let id = sqlx::query_scalar(
        "INSERT INTO environments (hash, device, nvrtc, optloop, torch, host) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (hash) DO UPDATE SET hash = hash RETURNING id",
    )
    .bind(hash)
    .bind(to_json("device", &environment.device)?)
    .bind(&environment.nvrtc)
    .bind(&environment.optloop)
    .bind(environment.torch.as_deref().map(text))
    .bind(&environment.host)
    .fetch_one(connection)
    .await?;
    Ok(id)
}

async fn record_baseline(
    connection: &mut sqlx::SqliteConnection,
    session: SessionId,
    baseline: &Baseline,
) -> Result<(), StoreError> {
    let timing = &baseline.timing;
    let known = (!baseline.kernels.is_empty()).then_some(&baseline.kernels);
    let kernels = known.map(|kernels| to_json("kernels", kernels)).transpose()?;
    sqlx::query(
        "INSERT INTO baselines (session_id, case_name, name, samples, launches_per_sample, median_ns, ci_lo_ns,
                                ci_hi_ns, raw_ns, regime, eager_ns, relative_l2, kind, kernels)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(session)
    .bind(&baseline.case)
    .bind(text(&baseline.name))
    .bind(signed("samples", timing.samples_ns.len())?)
    .bind(i64::from(timing.launches_per_sample))
    .bind(timing.median_ns)
    .bind(timing.interval_ns.lo)
    .bind(timing.interval_ns.hi)
    .bind(pack(&timing.samples_ns))
    .bind(baseline.regime.name())
    .bind(baseline.eager_ns)
    .bind(baseline.relative_l2)
    .bind(baseline.kind.name())
    .bind(kernels)
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns a sentence with the numbers that exist.
pub(super) fn known(what: &str, first: Option<i64>, last: Option<i64>) -> String {
    match (first, last) {
        (Some(first), Some(last)) if first == last => format!("the only one is {first}"),
        (Some(first), Some(last)) => format!("the {what} are {first} to {last}"),
        _ => format!("there are no {what} yet: run `optloop start` first"),
    }
}

/// Records what was spent, with one row for each kind. A kind without cost has no row.
pub(super) async fn record_cost(
    connection: &mut sqlx::SqliteConnection,
    session: SessionId,
    iteration: Option<IterationId>,
    spent: Spent,
) -> Result<(), StoreError> {
    for (kind, seconds, usd) in [("gpu", spent.gpu_s, spent.gpu_usd), ("llm", 0.0, spent.llm_usd)] {
        if seconds > 0.0 || usd > 0.0 {
            sqlx::query("INSERT INTO costs (session_id, iteration_id, kind, seconds, usd) VALUES (?, ?, ?, ?, ?)")
                .bind(session)
                .bind(iteration)
                .bind(kind)
                .bind(seconds)
                .bind(usd)
                .execute(&mut *connection)
                .await?;
        }
    }
    Ok(())
}

/// Reads the columns of a sum of costs.
pub(super) fn cost(row: &SqliteRow) -> Result<Spent, StoreError> {
    Ok(Spent { gpu_s: row.try_get("gpu_s")?, gpu_usd: row.try_get("gpu_usd")?, llm_usd: row.try_get("llm_usd")? })
}

fn summary(row: &SqliteRow) -> Result<SessionSummary, StoreError> {
    Ok(SessionSummary {
        id: row.try_get("id")?,
        kind: required(name(row, "kind")?, "kind")?,
        workload: row.try_get("workload")?,
        cases: json(row, "cases")?,
        proposer: row.try_get("proposer")?,
        seed: row.try_get::<i64, _>("seed")?.cast_unsigned(),
        device: row.try_get("device_name")?,
        devices: required(count(row, "devices")?, "devices")?,
        oracle_on: row.try_get("oracle_on")?,
        time_source: required(name(row, "time_source")?, "time_source")?,
        graphs: required(name(row, "graphs")?, "graphs")?,
        status: required(name(row, "status")?, "status")?,
        stop_reason: row.try_get("stop_reason")?,
        early_end: row.try_get::<Option<&str>, _>("early_end")?.and_then(EarlyEnd::named),
        started_at: row.try_get("started_at")?,
        ended_at: row.try_get("ended_at")?,
        budget_s: row.try_get("budget_s")?,
        max_cost_usd: row.try_get("max_cost_usd")?,
        max_iterations: count(row, "max_iterations")?,
        wall_s: row.try_get("wall_s")?,
        resumptions: required(count(row, "resumptions")?, "resumptions")?,
        iterations: required(count(row, "iterations")?, "iterations")?,
        unfinished: required(count(row, "unfinished")?, "unfinished")?,
        wins: required(count(row, "wins")?, "wins")?,
        best_speedup: row.try_get("best_speedup")?,
        best_speedup_ci: row
            .try_get::<Option<f64>, _>("best_lo")?
            .zip(row.try_get("best_hi")?)
            .map(|(lo, hi)| [lo, hi]),
        cost: cost(row)?,
    })
}
