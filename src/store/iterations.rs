//! Writes iterations. They begin before the device is touched, and finish in one transaction.

use sqlx::{Row, SqliteConnection};

use super::columns::{now, pack, signed, text, to_json};
use super::sessions::{known, record_cost};
use super::{Flush, Store, StoreError, artifacts, claims, comparisons, resume};
use crate::domain::budget::cost::Spent;
use crate::domain::budget::phase::StepTimes;
use crate::domain::claims::hypothesis::Score;
use crate::domain::claims::prediction::Crps;
use crate::domain::code::artifact::Artifact;
use crate::domain::code::profile::Profile;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::{Evaluation, Measurement};
use crate::domain::measurement::verdict::{Decision, Verdict};
use crate::domain::proposal::Proposal;
use crate::domain::record::journal::Disqualified;
use crate::domain::statistics::timing::Timing;

/// Everything that is known about an iteration when it ends.
#[derive(Debug, Clone, Copy)]
pub struct Finish<'a> {
    /// The compiled variant, if it compiled.
    pub artifact: Option<&'a Artifact>,
    /// The compiler's log, if it did not.
    pub compile_log: Option<&'a str>,
    /// How the variant is launched, by case.
    pub plans: &'a [(&'a str, &'a LaunchPlan)],
    /// The device's results.
    pub evaluation: &'a Evaluation,
    /// The decision on each case.
    pub decisions: &'a [Decision],
    /// The speed-up with which the hypothesis is compared.
    pub actual_speedup: Option<f64>,
    /// The score of the hypothesis.
    pub score: Score,
    /// The proper scores of its prediction. None if nothing was predicted or found.
    pub crps: Option<Crps>,
    /// The cost of the iteration: its own share, not the session's.
    pub spent: Spent,
    /// Wall time since the previous record, in seconds: the iteration's share of the session.
    pub wall_s: f64,
    /// How much of it each kind of step took.
    pub steps: StepTimes,
    /// The suggestions that were left out since the iteration before it ended.
    pub left_out: u64,
    /// The device that has screened it, if that only screens: its UUID, or as it was selected if it has none.
    pub lane: Option<&'a str>,
    /// The variants that are disqualified from now on.
    pub disqualified: &'a [Disqualified],
}

impl Store {
    /// Records that an iteration begins. Returns its number, which is unique over all sessions.
    pub async fn begin(&self, session: SessionId, proposal: &Proposal) -> Result<IterationId, StoreError> {
        self.write(async |connection| insert(connection, session, proposal).await).await
    }

    /// Records everything about an iteration that ended, and the variants that it disqualifies, all or nothing. After
    /// this, the iteration never changes.
    pub async fn finish(&self, iteration: IterationId, finish: &Finish<'_>) -> Result<(), StoreError> {
        let session: Option<SessionId> = sqlx::query_scalar("SELECT session_id FROM iterations WHERE id = ?")
            .bind(iteration)
            .fetch_optional(&self.pool)
            .await?;
        let Some(session) = session else { return Err(self.unknown_iteration(iteration).await?) };
        // The next iteration's begin flushes it. Winners are committed to git before that.
        let has_winner = finish.decisions.iter().any(|decision| decision.verdict == Verdict::Improved);
        let flush = if has_winner { Flush::Now } else { Flush::WithTheNext };
        self.write_flushed(flush, async |connection| {
            complete(connection, session, iteration, finish).await?;
            for out in finish.disqualified {
                insert_disqualification(connection, out).await?;
            }
            Ok(())
        })
        .await
    }

    /// Records the commit of a winner on a case. The first commit stays: a final may restore a winner that was
    /// committed before.
    pub async fn link_commit(&self, iteration: IterationId, case: &str, commit: &str) -> Result<(), StoreError> {
        self.link(iteration, case, commit, false).await
    }

    /// Records the commit in which an earlier session has committed the very winner that an iteration measured again.
    pub async fn link_earlier_commit(
        &self,
        iteration: IterationId,
        case: &str,
        commit: &str,
    ) -> Result<(), StoreError> {
        self.link(iteration, case, commit, true).await
    }

    async fn link(&self, iteration: IterationId, case: &str, commit: &str, earlier: bool) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO commits (iteration_id, case_name, commit_id, earlier) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        )
        .bind(iteration)
        .bind(case)
        .bind(commit)
        .bind(earlier)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Records that an iteration's variant failed on a case after its verdict there. This applies to every iteration of
    /// the session with that variant. The first record stays.
    pub async fn disqualify(&self, out: &Disqualified) -> Result<(), StoreError> {
        self.write(async |connection| insert_disqualification(connection, out).await).await
    }

    /// Records what a virtual GPU counted to explain the time of an iteration on a case. The first record stays.
    pub async fn explain(&self, iteration: IterationId, case: &str, profile: &Profile) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO explanations (iteration_id, case_name, profile, explained_at) VALUES (?, ?, ?, ?)
             ON CONFLICT DO NOTHING",
        )
        .bind(iteration)
        .bind(case)
        .bind(to_json("profile", profile)?)
        .bind(now()?)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Returns an error with the numbers of the existing iterations.
    pub(super) async fn unknown_iteration(&self, id: IterationId) -> Result<StoreError, StoreError> {
        let row = sqlx::query("SELECT MIN(id) AS first, MAX(id) AS last FROM iterations").fetch_one(&self.pool).await?;
        let known = known("iterations", row.try_get("first")?, row.try_get("last")?);
        Ok(StoreError::UnknownIteration { id, known })
    }
}

async fn insert_disqualification(connection: &mut SqliteConnection, out: &Disqualified) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO disqualifications (iteration_id, case_name, reason, disqualified_at)
         SELECT m.iteration_id, m.case_name, ?3, ?4
         FROM iterations failed
         JOIN iterations i ON i.session_id = failed.session_id AND i.hash = failed.hash
         JOIN measurements m ON m.iteration_id = i.id
         WHERE failed.id = ?1 AND m.case_name = ?2 AND m.verdict <> 'rejected'
         ON CONFLICT DO NOTHING",
    )
    .bind(out.iteration)
    .bind(&out.case)
    .bind(text(&out.reason))
    .bind(now()?)
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes the row of an iteration that begins, with its claim.
async fn insert(
    connection: &mut SqliteConnection,
    session: SessionId,
    proposal: &Proposal,
) -> Result<IterationId, StoreError> {
    let variant = &proposal.variant;
    let row = sqlx::query(
        "INSERT INTO iterations (session_id, ordinal, proposer, family, params, hash, source, parent_id, cases,
                                 started_at, purpose, origin)
         SELECT ?1, COALESCE(MAX(ordinal), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
         FROM iterations WHERE session_id = ?1
         RETURNING id",
    )
    .bind(session)
    .bind(&proposal.proposer)
    .bind(&variant.family)
    .bind(to_json("params", &variant.params)?)
    .bind(&variant.hash.0)
    .bind(&variant.source)
    .bind(proposal.rationale.parent)
    .bind(to_json("cases", &proposal.cases)?)
    .bind(now()?)
    .bind(proposal.rationale.purpose.name())
    .bind(to_json("origin", &proposal.rationale.origin)?)
    .fetch_one(&mut *connection)
    .await?;
    let iteration: IterationId = row.try_get("id")?;
    claims::record(connection, iteration, proposal).await?;
    Ok(iteration)
}

/// Completes the row of an iteration that ended.
async fn complete(
    connection: &mut SqliteConnection,
    session: SessionId,
    iteration: IterationId,
    finish: &Finish<'_>,
) -> Result<(), StoreError> {
    if let Some(artifact) = finish.artifact {
        artifacts::record(connection, artifact).await?;
    }
    for measurement in &finish.evaluation.measurements {
        let decision = finish.decisions.iter().find(|decision| decision.case == measurement.case);
        let plan = finish.plans.iter().find(|(case, _)| *case == measurement.case).map(|(_, plan)| *plan);
        record_measurement(connection, iteration, measurement, plan, decision).await?;
    }
    for decision in finish.decisions {
        if !finish.evaluation.measurements.iter().any(|m| m.case == decision.case) {
            record_decision(connection, iteration, decision).await?;
        }
    }
    record_outcome(connection, iteration, finish).await?;
    claims::score(connection, iteration, finish.actual_speedup, finish.score, finish.crps).await?;
    record_cost(connection, session, Some(iteration), finish.spent).await?;
    if finish.left_out > 0 {
        record_left_out(connection, session, iteration, finish.left_out).await?;
    }
    Ok(())
}

async fn record_left_out(
    connection: &mut SqliteConnection,
    session: SessionId,
    iteration: IterationId,
    suggestions: u64,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO suggestions_left_out (iteration_id, session_id, suggestions) VALUES (?, ?, ?)")
        .bind(iteration)
        .bind(session)
        .bind(signed("suggestions", suggestions)?)
        .execute(connection)
        .await?;
    Ok(())
}

async fn record_outcome(
    connection: &mut SqliteConnection,
    iteration: IterationId,
    finish: &Finish<'_>,
) -> Result<(), StoreError> {
    let outcome = &finish.evaluation.outcome;
    let StepTimes { waiting_s, screening_s, acceptance_s, sanitizer_s, comparison_s } = finish.steps;
    sqlx::query(
        "UPDATE iterations SET ended_at = ?, outcome = ?, outcome_case = ?, outcome_check = ?, outcome_message = ?, compile_log = ?,
                               artifact_key = ?, device_s = ?, wall_s = ?, waiting_s = ?, screening_s = ?,
                               acceptance_s = ?, sanitizer_s = ?, comparison_s = ?, lane = ?
         WHERE id = ?",
    )
    .bind(now()?)
    .bind(outcome.kind())
    .bind(outcome.case())
    .bind(outcome.check().map(Check::name))
    .bind(outcome.message().map(text))
    .bind(finish.compile_log.map(text))
    .bind(finish.artifact.map(|artifact| &artifact.key))
    .bind(finish.evaluation.device_s)
    .bind(finish.wall_s)
    .bind(waiting_s)
    .bind(screening_s)
    .bind(acceptance_s)
    .bind(sanitizer_s)
    .bind(comparison_s)
    .bind(finish.lane)
    .bind(iteration)
    .execute(connection)
    .await?;
    Ok(())
}

async fn record_measurement(
    connection: &mut SqliteConnection,
    iteration: IterationId,
    measurement: &Measurement,
    plan: Option<&LaunchPlan>,
    decision: Option<&Decision>,
) -> Result<(), StoreError> {
    let plan = match plan {
        Some(plan) => Some(resume::record_plan(connection, plan).await?),
        None => None,
    };
    let Measurement {
        case,
        regime,
        correctness,
        screening,
        confirmation,
        comparison,
        ctas,
        preparation,
        profile,
        shape: _,
    } = measurement;
    let mut query = sqlx::query(
        "INSERT INTO measurements (iteration_id, case_name, relative_l2, worst_row, rows_checked, rows, ctas,
             prepared_bytes, preparation_ns, regime, profile, plan_hash, verdict, speedup,
             screening_samples, screening_launches_per_sample, screening_median_ns, screening_ci_lo_ns,
             screening_ci_hi_ns, screening_raw_ns,
             confirmation_samples, confirmation_launches_per_sample, confirmation_median_ns, confirmation_ci_lo_ns,
             confirmation_ci_hi_ns, confirmation_raw_ns)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(iteration)
    .bind(case)
    .bind(correctness.relative_l2)
    .bind(correctness.worst_row)
    .bind(signed("rows_checked", correctness.rows_checked)?)
    .bind(signed("rows", correctness.rows)?)
    .bind(signed("ctas", *ctas)?)
    .bind(preparation.map(|prepared| signed("prepared_bytes", prepared.bytes)).transpose()?)
    .bind(preparation.and_then(|prepared| prepared.ns))
    .bind(regime.name())
    .bind(profile.as_ref().map(|profile| to_json("profile", profile)).transpose()?)
    .bind(plan)
    .bind(decision.map(|decision| decision.verdict.name()))
    .bind(decision.and_then(|decision| decision.speedup));
    for timing in [screening.as_ref(), confirmation.as_ref()] {
        query = query
            .bind(timing.map(|timing| signed("samples", timing.samples_ns.len())).transpose()?)
            .bind(timing.map(|timing| i64::from(timing.launches_per_sample)))
            .bind(timing.map(|timing| timing.median_ns))
            .bind(timing.map(|timing| timing.interval_ns.lo))
            .bind(timing.map(|timing| timing.interval_ns.hi))
            .bind(timing.map(|Timing { samples_ns, .. }| pack(samples_ns)));
    }
    query.execute(&mut *connection).await?;
    if let Some(comparison) = comparison {
        comparisons::record(connection, comparisons::Owner::Iteration(iteration), comparison).await?;
    }
    Ok(())
}

/// Records a decision on a case whose output could not be compared.
async fn record_decision(
    connection: &mut SqliteConnection,
    iteration: IterationId,
    decision: &Decision,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO measurements (iteration_id, case_name, verdict, speedup) VALUES (?, ?, ?, ?)")
        .bind(iteration)
        .bind(&decision.case)
        .bind(decision.verdict.name())
        .bind(decision.speedup)
        .execute(connection)
        .await?;
    Ok(())
}
