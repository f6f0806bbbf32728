//! Hardware counters of baselines, launch by launch, or why there are none.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::columns::{now, signed, text, to_json};
use super::counters::{Rows, add_launch, without_launches};
use super::sessions::record_cost;
use super::{Store, StoreError};
use crate::domain::budget::cost::Spent;
use crate::domain::code::counters::CountedBaseline;
use crate::domain::ids::{CaseName, SessionId};

impl Store {
    /// Records the counters of one call of a baseline, or why there are none, with what they cost the session.
    pub async fn record_baseline_counters(
        &self,
        session: SessionId,
        counted: &CountedBaseline,
        spent: Spent,
    ) -> Result<(), StoreError> {
        let CountedBaseline { case, name, counters, wall_s } = counted;
        let Rows { tool, problem, launches } = Rows::of(counters);
        self.write(async |connection| {
            for (place, launch) in launches.iter().enumerate() {
                sqlx::query(
                    "INSERT INTO baseline_counters (session_id, case_name, name, launch, tool, kernel, metrics, problem,
                                                    begun, wall_s, counted_at)
                     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, COALESCE(MAX(ordinal), 0), ?9, ?10
                     FROM iterations WHERE session_id = ?1",
                )
                .bind(session)
                .bind(case)
                .bind(name)
                .bind(signed("launch", place)?)
                .bind(tool)
                .bind(launch.map(|launch| &launch.kernel))
                .bind(launch.map(|launch| to_json("metrics", launch)).transpose()?)
                .bind(problem.map(text))
                .bind(if place == 0 { *wall_s } else { 0.0 })
                .bind(now()?)
                .execute(&mut *connection)
                .await?;
            }
            record_cost(connection, session, None, spent).await
        })
        .await
    }

    /// Reads the counters of a session's baselines.
    pub(super) async fn baseline_counters_of(&self, session: SessionId) -> Result<Vec<CountedBaseline>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM baseline_counters WHERE session_id = ?
             ORDER BY case_name COLLATE natural_order, name, launch",
        )
        .bind(session)
        .fetch_all(&self.pool)
        .await?;
        let mut found = Vec::new();
        rows.iter().try_for_each(|row| add(&mut found, row))?;
        Ok(found)
    }
}

/// Adds a launch to the counters of its call. The launches of a call follow each other.
fn add(found: &mut Vec<CountedBaseline>, row: &SqliteRow) -> Result<(), StoreError> {
    let (case, name): (CaseName, String) = (row.try_get("case_name")?, row.try_get("name")?);
    if !found.last().is_some_and(|last| last.case == case && last.name == name) {
        found.push(CountedBaseline { case, name, counters: without_launches(row)?, wall_s: 0.0 });
    }
    let Some(last) = found.last_mut() else { return Ok(()) };
    add_launch(row, &mut last.counters, &mut last.wall_s)
}
