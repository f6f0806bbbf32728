//! Hardware counters of variants, launch by launch, or why there are none.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row};

use super::columns::{now, optional_json, required, signed, text, to_json};
use super::questions::Of;
use super::sessions::record_cost;
use super::{Store, StoreError};
use crate::domain::budget::cost::Spent;
use crate::domain::code::counters::{Counted, Counters, LaunchCounters};
use crate::domain::ids::{CaseName, IterationId, SessionId};

/// Counters by iteration and case.
pub(super) type ByCase = HashMap<(IterationId, CaseName), Counted>;

/// Counters as rows: one for each launch, or one without a launch that says why there are none.
pub(super) struct Rows<'a> {
    /// The program that read them.
    pub tool: Option<&'a str>,
    /// Why there are none.
    pub problem: Option<&'a str>,
    /// The launch of each row.
    pub launches: Vec<Option<&'a LaunchCounters>>,
}

impl<'a> Rows<'a> {
    /// Makes the rows of counters.
    pub fn of(counters: &'a Result<Counters, String>) -> Self {
        match counters {
            Ok(Counters { tool, launches }) => {
                Self { tool: Some(tool), problem: None, launches: launches.iter().map(Some).collect() }
            }
            Err(problem) => Self { tool: None, problem: Some(problem), launches: vec![None] },
        }
    }
}

impl Store {
    /// Records the counters of a variant on a case, or why there are none, with what they cost the session.
    pub async fn record_counters(&self, session: SessionId, counted: &Counted, spent: Spent) -> Result<(), StoreError> {
        let Counted { iteration, case, counters, wall_s } = counted;
        let Rows { tool, problem, launches } = Rows::of(counters);
        self.write(async |connection| {
            for (place, launch) in launches.iter().enumerate() {
                sqlx::query(
                    "INSERT INTO counters (iteration_id, case_name, launch, tool, kernel, metrics, problem, begun, wall_s,
                                           counted_at)
                     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, COALESCE(MAX(ordinal), 0), ?8, ?9
                     FROM iterations WHERE session_id = ?10",
                )
                .bind(iteration)
                .bind(case)
                .bind(signed("launch", place)?)
                .bind(tool)
                .bind(launch.map(|launch| &launch.kernel))
                .bind(launch.map(|launch| to_json("metrics", launch)).transpose()?)
                .bind(problem.map(text))
                .bind(if place == 0 { *wall_s } else { 0.0 })
                .bind(now()?)
                .bind(session)
                .execute(&mut *connection)
                .await?;
            }
            record_cost(connection, session, None, spent).await
        })
        .await
    }

    /// Returns why a session has no counters, or no more of them.
    pub(super) async fn no_counters(&self, session: SessionId) -> Result<Option<String>, StoreError> {
        let problem = sqlx::query_scalar(
            "SELECT c.problem FROM counters c JOIN iterations i ON i.id = c.iteration_id
             WHERE i.session_id = ? AND c.problem IS NOT NULL ORDER BY c.rowid DESC LIMIT 1",
        );
        Ok(problem.bind(session).fetch_optional(&self.pool).await?)
    }

    /// Reads the counters of iterations.
    pub(super) async fn counters(&self, of: &Of) -> Result<ByCase, StoreError> {
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT c.* FROM counters c JOIN iterations i ON i.id = c.iteration_id
             WHERE {}
             ORDER BY c.iteration_id, c.case_name COLLATE natural_order, c.launch",
            of.condition()
        )))
        .fetch_all(&self.pool)
        .await?;
        let mut found = ByCase::new();
        rows.iter().try_for_each(|row| add(&mut found, row))?;
        Ok(found)
    }
}

/// Adds a launch to the counters of its variant on its case.
fn add(found: &mut ByCase, row: &SqliteRow) -> Result<(), StoreError> {
    let (iteration, case): (IterationId, CaseName) = (row.try_get("iteration_id")?, row.try_get("case_name")?);
    let counted = match found.entry((iteration, case.clone())) {
        std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::hash_map::Entry::Vacant(entry) => {
            entry.insert(Counted { iteration, case, counters: without_launches(row)?, wall_s: 0.0 })
        }
    };
    add_launch(row, &mut counted.counters, &mut counted.wall_s)
}

/// Reads what all launches have in common: their tool, or why there are none.
pub(super) fn without_launches(row: &SqliteRow) -> Result<Result<Counters, String>, StoreError> {
    let tool = row.try_get::<Option<_>, _>("tool")?.unwrap_or_default();
    let problem: Option<String> = row.try_get("problem")?;
    Ok(problem.map_or(Ok(Counters { tool, launches: Vec::new() }), Err))
}

/// Adds the launch of a row, and its time.
pub(super) fn add_launch(
    row: &SqliteRow,
    counters: &mut Result<Counters, String>,
    wall_s: &mut f64,
) -> Result<(), StoreError> {
    *wall_s += row.try_get::<f64, _>("wall_s")?;
    if let Ok(counters) = counters {
        counters.launches.push(required(optional_json(row, "metrics")?, "metrics")?);
    }
    Ok(())
}
