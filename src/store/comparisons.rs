//! Comparisons. They are written with the iteration that they confirm, or at a session's end, and never change.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use super::columns::{
    correctness, count, json, name, optional_json, pack, required, signed, text, timing, to_json, unpack,
};
use super::questions::Of;
use super::{Store, StoreError};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::comparison::{Comparison, Participant};
use crate::domain::record::Final;
use crate::domain::statistics::Ratio;

/// What a comparison belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    /// It confirms an iteration on a case.
    Iteration(IterationId),
    /// It settles a case at the end of a session.
    Final {
        /// The session.
        session: SessionId,
        /// The iteration whose variant is the case's best after it.
        winner: IterationId,
    },
}

/// Comparisons of iterations, by iteration and case.
pub(super) type ByIteration = HashMap<(IterationId, CaseName), Comparison>;

impl Store {
    /// Records the comparison that settled a case at a session's end, with the iteration whose variant is the best
    /// after it.
    pub async fn record_final(
        &self,
        session: SessionId,
        comparison: &Comparison,
        winner: IterationId,
    ) -> Result<(), StoreError> {
        let owner = Owner::Final { session, winner };
        self.write(async |connection| record(connection, owner, comparison).await).await
    }

    /// Reads the comparisons of iterations.
    pub(super) async fn comparisons(&self, of: &Of) -> Result<ByIteration, StoreError> {
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT c.* FROM comparisons c JOIN iterations i ON i.id = c.iteration_id WHERE {}",
            of.condition()
        )))
        .fetch_all(&self.pool)
        .await?;
        let mut comparisons = HashMap::new();
        for row in &rows {
            let key = (row.try_get("iteration_id")?, row.try_get("case_name")?);
            comparisons.insert(key, self.comparison(row).await?);
        }
        Ok(comparisons)
    }

    /// Reads the finals of a session, oldest first.
    pub(super) async fn finals_of(&self, session: SessionId) -> Result<Vec<Final>, StoreError> {
        let finals = self.finals_with_ids(session).await?;
        Ok(finals.into_iter().map(|(_, last)| last).collect())
    }

    /// Reads the finals of a session, by the id of the comparison.
    pub(super) async fn finals_by_id(&self, session: SessionId) -> Result<HashMap<String, Final>, StoreError> {
        let finals = self.finals_with_ids(session).await?;
        Ok(finals.into_iter().map(|(id, last)| (id.to_string(), last)).collect())
    }

    async fn finals_with_ids(&self, session: SessionId) -> Result<Vec<(i64, Final)>, StoreError> {
        let rows = sqlx::query("SELECT * FROM comparisons WHERE session_id = ? ORDER BY id")
            .bind(session)
            .fetch_all(&self.pool)
            .await?;
        let mut finals = Vec::new();
        for row in &rows {
            let last = Final { comparison: self.comparison(row).await?, winner: row.try_get("winner_id")? };
            finals.push((row.try_get("id")?, last));
        }
        Ok(finals)
    }

    /// Reads a comparison, given its own row.
    async fn comparison(&self, row: &SqliteRow) -> Result<Comparison, StoreError> {
        let participants = sqlx::query("SELECT * FROM participants WHERE comparison_id = ? ORDER BY position")
            .bind(row.try_get::<i64, _>("id")?)
            .fetch_all(&self.pool)
            .await?;
        Ok(Comparison {
            conditions: json(row, "conditions")?,
            participants: participants.iter().map(participant).collect::<Result<_, _>>()?,
            group_size: required(count(row, "group_size")?, "group_size")?,
            discarded_rounds: required(count(row, "discarded_rounds")?, "discarded_rounds")?,
            winners_curse: row.try_get("winners_curse")?,
            floor_ns: row.try_get("floor_ns")?,
            others: json(row, "others")?,
            wall_s: row.try_get("wall_s")?,
        })
    }
}

fn participant(row: &SqliteRow) -> Result<Participant, StoreError> {
    Ok(Participant {
        role: required(name(row, "role")?, "role")?,
        name: row.try_get("name")?,
        iteration: row.try_get("iteration_id")?,
        timing: required(timing(row, "")?, "raw_ns")?,
        groups_ns: unpack(row.try_get("groups_ns")?),
        correctness: correctness(row)?,
        machine: optional_json(row, "machine")?,
        energy_j: row.try_get("energy_j")?,
        graph_node_ns: row.try_get("graph_node_ns")?,
        wrong: None,
    })
}

/// Writes a comparison with its participants. The caller holds the transaction.
pub(super) async fn record(
    connection: &mut SqliteConnection,
    owner: Owner,
    comparison: &Comparison,
) -> Result<(), StoreError> {
    let (iteration, session, winner) = match owner {
        Owner::Iteration(iteration) => (Some(iteration), None, None),
        Owner::Final { session, winner } => (None, Some(session), Some(winner)),
    };
    let rounds = comparison.challenger().map_or(0, |challenger| challenger.groups_ns.len());
    let row = sqlx::query(
        "INSERT INTO comparisons (iteration_id, session_id, winner_id, case_name, conditions, participants, group_size, rounds,
                               discarded_rounds, noise, winners_curse, floor_ns, others, wall_s)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
    )
    .bind(iteration)
    .bind(session)
    .bind(winner)
    .bind(&comparison.conditions.case)
    .bind(to_json("conditions", &comparison.conditions)?)
    .bind(signed("participants", comparison.participants.len())?)
    .bind(signed("group_size", comparison.group_size)?)
    .bind(signed("rounds", rounds)?)
    .bind(signed("discarded_rounds", comparison.discarded_rounds)?)
    .bind(comparison.noise())
    .bind(comparison.winners_curse)
    .bind(comparison.floor_ns)
    .bind(to_json("others", &comparison.others)?)
    .bind(comparison.wall_s)
    .fetch_one(&mut *connection)
    .await?;
    let id: i64 = row.try_get("id")?;
    for (position, participant) in comparison.participants.iter().enumerate() {
        // The challenger's ratio to itself is always 1.
        let ratio = if position == 0 { None } else { comparison.over_challenger(participant) };
        record_participant(connection, id, signed("position", position)?, participant, ratio).await?;
    }
    Ok(())
}

async fn record_participant(
    connection: &mut SqliteConnection,
    comparison: i64,
    position: i64,
    participant: &Participant,
    ratio: Option<Ratio>,
) -> Result<(), StoreError> {
    let (timing, correctness) = (&participant.timing, participant.correctness);
    sqlx::query(
        "INSERT INTO participants (comparison_id, position, role, name, iteration_id, samples, launches_per_sample, median_ns,
             ci_lo_ns, ci_hi_ns, raw_ns, groups_ns, ratio, ratio_lo, ratio_hi, relative_l2, worst_row, rows_checked,
             rows, machine, energy_j, graph_node_ns)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(comparison)
    .bind(position)
    .bind(participant.role.name())
    .bind(text(&participant.name))
    .bind(participant.iteration)
    .bind(signed("samples", timing.samples_ns.len())?)
    .bind(i64::from(timing.launches_per_sample))
    .bind(timing.median_ns)
    .bind(timing.interval_ns.lo)
    .bind(timing.interval_ns.hi)
    .bind(pack(&timing.samples_ns))
    .bind(pack(&participant.groups_ns))
    .bind(ratio.map(|ratio| ratio.estimate))
    .bind(ratio.map(|ratio| ratio.interval.lo))
    .bind(ratio.map(|ratio| ratio.interval.hi))
    .bind(correctness.map(|found| found.relative_l2))
    .bind(correctness.map(|found| found.worst_row))
    .bind(correctness.map(|found| signed("rows_checked", found.rows_checked)).transpose()?)
    .bind(correctness.map(|found| signed("rows", found.rows)).transpose()?)
    .bind(participant.machine.as_ref().map(|machine| to_json("machine", machine)).transpose()?)
    .bind(participant.energy_j)
    .bind(participant.graph_node_ns)
    .execute(connection)
    .await?;
    Ok(())
}
