//! Contests: written with the iteration that they confirm, or at a session's end, and never changed.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::columns::{
    correctness, count, json, name, optional_json, pack, required, signed, text, timing, to_json, unpack,
};
use super::{Store, StoreError};
use crate::domain::contest::{Contest, Entrant};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::record::Final;
use crate::domain::statistics::Ratio;

/// What a contest belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    /// To confirm an iteration on a case.
    Iteration(IterationId),
    /// To settle a case at the end of a session.
    Final {
        /// The session.
        session: SessionId,
        /// The iteration whose variant is the best of the case after it.
        winner: IterationId,
    },
}

/// Contests of iterations, by iteration and case.
pub(super) type ByIteration = HashMap<(IterationId, CaseName), Contest>;

impl Store {
    /// Records the contest that settled a case at a session's end, with the iteration whose variant is the best after it.
    pub async fn record_final(
        &self,
        session: SessionId,
        contest: &Contest,
        winner: IterationId,
    ) -> Result<(), StoreError> {
        let owner = Owner::Final { session, winner };
        self.write(async |connection| record(connection, owner, contest).await).await
    }

    /// Reads the contests of the iterations of a session, or of one iteration.
    pub(super) async fn contests(
        &self,
        session: Option<SessionId>,
        iteration: Option<IterationId>,
    ) -> Result<ByIteration, StoreError> {
        let rows = sqlx::query(
            "SELECT c.* FROM contests c JOIN iterations i ON i.id = c.iteration_id
             WHERE i.session_id = ?1 OR i.id = ?2",
        )
        .bind(session)
        .bind(iteration)
        .fetch_all(&self.pool)
        .await?;
        let mut contests = HashMap::new();
        for row in &rows {
            let key = (row.try_get("iteration_id")?, row.try_get("case_name")?);
            contests.insert(key, self.contest(row).await?);
        }
        Ok(contests)
    }

    /// Reads the finals of a session, oldest first.
    pub(super) async fn finals_of(&self, session: SessionId) -> Result<Vec<Final>, StoreError> {
        let finals = self.finals_with_ids(session).await?;
        Ok(finals.into_iter().map(|(_, last)| last).collect())
    }

    /// Reads the same by the id of the contest.
    pub(super) async fn finals_by_id(&self, session: SessionId) -> Result<HashMap<String, Final>, StoreError> {
        let finals = self.finals_with_ids(session).await?;
        Ok(finals.into_iter().map(|(id, last)| (id.to_string(), last)).collect())
    }

    async fn finals_with_ids(&self, session: SessionId) -> Result<Vec<(i64, Final)>, StoreError> {
        let rows = sqlx::query("SELECT * FROM contests WHERE session_id = ? ORDER BY id")
            .bind(session)
            .fetch_all(&self.pool)
            .await?;
        let mut finals = Vec::new();
        for row in &rows {
            let last = Final { contest: self.contest(row).await?, winner: row.try_get("winner_id")? };
            finals.push((row.try_get("id")?, last));
        }
        Ok(finals)
    }

    /// Reads a contest whose own row is at hand.
    async fn contest(&self, row: &SqliteRow) -> Result<Contest, StoreError> {
        let entrants = sqlx::query("SELECT * FROM entrants WHERE contest_id = ? ORDER BY position")
            .bind(row.try_get::<i64, _>("id")?)
            .fetch_all(&self.pool)
            .await?;
        Ok(Contest {
            conditions: json(row, "conditions")?,
            entrants: entrants.iter().map(entrant).collect::<Result<_, _>>()?,
            block: required(count(row, "block")?, "block")?,
            discarded_rounds: required(count(row, "discarded_rounds")?, "discarded_rounds")?,
            shrinkage: row.try_get("shrinkage")?,
            floor_ns: row.try_get("floor_ns")?,
            others: json(row, "others")?,
            wall_s: row.try_get("wall_s")?,
        })
    }
}

fn entrant(row: &SqliteRow) -> Result<Entrant, StoreError> {
    Ok(Entrant {
        role: required(name(row, "role")?, "role")?,
        name: row.try_get("name")?,
        iteration: row.try_get("iteration_id")?,
        timing: required(timing(row, "")?, "raw_ns")?,
        blocks_ns: unpack(row.try_get("blocks_ns")?),
        correctness: correctness(row)?,
        machine: optional_json(row, "machine")?,
        energy_j: row.try_get("energy_j")?,
    })
}

/// Writes a contest with its entrants. The caller holds the transaction.
pub(super) async fn record(
    connection: &mut SqliteConnection,
    owner: Owner,
    contest: &Contest,
) -> Result<(), StoreError> {
    let (iteration, session, winner) = match owner {
        Owner::Iteration(iteration) => (Some(iteration), None, None),
        Owner::Final { session, winner } => (None, Some(session), Some(winner)),
    };
    let rounds = contest.challenger().map_or(0, |challenger| challenger.blocks_ns.len());
    let row = sqlx::query(
        "INSERT INTO contests (iteration_id, session_id, winner_id, case_name, conditions, entrants, block, rounds,
                               discarded_rounds, noise, shrinkage, floor_ns, others, wall_s)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
    )
    .bind(iteration)
    .bind(session)
    .bind(winner)
    .bind(&contest.conditions.case)
    .bind(to_json("conditions", &contest.conditions)?)
    .bind(signed("entrants", contest.entrants.len())?)
    .bind(signed("block", contest.block)?)
    .bind(signed("rounds", rounds)?)
    .bind(signed("discarded_rounds", contest.discarded_rounds)?)
    .bind(contest.noise())
    .bind(contest.shrinkage)
    .bind(contest.floor_ns)
    .bind(to_json("others", &contest.others)?)
    .bind(contest.wall_s)
    .fetch_one(&mut *connection)
    .await?;
    let id: i64 = row.try_get("id")?;
    for (position, entrant) in contest.entrants.iter().enumerate() {
        // Over itself the challenger is 1, which says nothing.
        let ratio = if position == 0 { None } else { contest.over_challenger(entrant) };
        record_entrant(connection, id, signed("position", position)?, entrant, ratio).await?;
    }
    Ok(())
}

async fn record_entrant(
    connection: &mut SqliteConnection,
    contest: i64,
    position: i64,
    entrant: &Entrant,
    ratio: Option<Ratio>,
) -> Result<(), StoreError> {
    let (timing, correctness) = (&entrant.timing, entrant.correctness);
    sqlx::query(
        "INSERT INTO entrants (contest_id, position, role, name, iteration_id, samples, launches_per_sample, median_ns,
             ci_lo_ns, ci_hi_ns, raw_ns, blocks_ns, ratio, ratio_lo, ratio_hi, relative_l2, worst_row, rows_checked,
             rows, machine, energy_j)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(contest)
    .bind(position)
    .bind(entrant.role.name())
    .bind(text(&entrant.name))
    .bind(entrant.iteration)
    .bind(signed("samples", timing.samples_ns.len())?)
    .bind(i64::from(timing.launches_per_sample))
    .bind(timing.median_ns)
    .bind(timing.interval_ns.lo)
    .bind(timing.interval_ns.hi)
    .bind(pack(&timing.samples_ns))
    .bind(pack(&entrant.blocks_ns))
    .bind(ratio.map(|ratio| ratio.estimate))
    .bind(ratio.map(|ratio| ratio.interval.lo))
    .bind(ratio.map(|ratio| ratio.interval.hi))
    .bind(correctness.map(|found| found.relative_l2))
    .bind(correctness.map(|found| found.worst_row))
    .bind(correctness.map(|found| signed("rows_checked", found.rows_checked)).transpose()?)
    .bind(correctness.map(|found| signed("rows", found.rows)).transpose()?)
    .bind(entrant.machine.as_ref().map(|machine| to_json("machine", machine)).transpose()?)
    .bind(entrant.energy_j)
    .execute(connection)
    .await?;
    Ok(())
}
