//! Ablations of variants: their times without each kind of instruction, and the lines of the source from which these come.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row};

use super::columns::{count, now, required, signed, text};
use super::questions::Of;
use super::sessions::record_cost;
use super::{Store, StoreError};
use crate::domain::budget::cost::Spent;
use crate::domain::code::ablation::{Ablated, Ablation, Removed, SourceLine, control_ns};
use crate::domain::ids::{CaseName, IterationId, SessionId};

/// Ablations by iteration and case.
pub(super) type AblatedByCase = HashMap<(IterationId, CaseName), Ablated>;

impl Store {
    /// Records the ablations of a variant on a case, with what they cost the session.
    pub async fn record_ablations(
        &self,
        session: SessionId,
        ablated: &Ablated,
        spent: Spent,
    ) -> Result<(), StoreError> {
        let Ablated { iteration, case, ablations, wall_s } = ablated;
        let control_ns = control_ns(ablations);
        self.write(async |connection| {
            for (place, ablation) in ablations.iter().enumerate() {
                let Ablation { removed, places, diverting, kept, time_ns, lines } = ablation;
                sqlx::query(
                    "INSERT INTO ablations (iteration_id, case_name, place, removed, places, diverting, kept, time_ns,
                                            control_ns, problem, begun, wall_s, ablated_at)
                     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, COALESCE(MAX(ordinal), 0), ?11, ?12
                     FROM iterations WHERE session_id = ?13",
                )
                .bind(iteration)
                .bind(case)
                .bind(signed("place", place)?)
                .bind(removed.name())
                .bind(places)
                .bind(diverting)
                .bind(kept)
                .bind(time_ns.as_ref().ok())
                .bind(control_ns)
                .bind(time_ns.as_ref().err().map(|problem| text(problem)))
                .bind(if place == 0 { *wall_s } else { 0.0 })
                .bind(now()?)
                .bind(session)
                .execute(&mut *connection)
                .await?;
                for (place, SourceLine { line, text, places, time_ns }) in lines.iter().enumerate() {
                    sqlx::query(
                        "INSERT INTO ablated_lines (iteration_id, case_name, removed, place, line, text, places, time_ns)
                         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    )
                    .bind(iteration)
                    .bind(case)
                    .bind(removed.name())
                    .bind(signed("place", place)?)
                    .bind(line)
                    .bind(text)
                    .bind(places)
                    .bind(time_ns)
                    .execute(&mut *connection)
                    .await?;
                }
            }
            record_cost(connection, session, None, spent).await
        })
        .await
    }

    /// Reads the ablations of iterations.
    pub(super) async fn ablations(&self, of: &Of) -> Result<AblatedByCase, StoreError> {
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT a.* FROM ablations a JOIN iterations i ON i.id = a.iteration_id
             WHERE {}
             ORDER BY a.iteration_id, a.case_name COLLATE natural_order, a.place",
            of.condition()
        )))
        .fetch_all(&self.pool)
        .await?;
        let mut found = AblatedByCase::new();
        rows.iter().try_for_each(|row| add(&mut found, row))?;
        let lines = sqlx::query(AssertSqlSafe(format!(
            "SELECT l.* FROM ablated_lines l JOIN iterations i ON i.id = l.iteration_id
             WHERE {}
             ORDER BY l.iteration_id, l.case_name, l.removed, l.place",
            of.condition()
        )))
        .fetch_all(&self.pool)
        .await?;
        lines.iter().try_for_each(|row| add_line(&mut found, row))?;
        Ok(found)
    }
}

/// Adds a row to the ablations of its variant on its case.
fn add(found: &mut AblatedByCase, row: &SqliteRow) -> Result<(), StoreError> {
    let (iteration, case): (IterationId, CaseName) = (row.try_get("iteration_id")?, row.try_get("case_name")?);
    let key = (iteration, case.clone());
    let ablated = found.entry(key).or_insert(Ablated { iteration, case, ablations: Vec::new(), wall_s: 0.0 });
    ablated.wall_s += row.try_get::<f64, _>("wall_s")?;
    let time_ns: Option<f64> = row.try_get("time_ns")?;
    let problem: Option<String> = row.try_get("problem")?;
    ablated.ablations.push(Ablation {
        removed: required(Removed::named(row.try_get("removed")?), "removed")?,
        places: required(count(row, "places")?, "places")?,
        diverting: required(count(row, "diverting")?, "diverting")?,
        kept: required(count(row, "kept")?, "kept")?,
        time_ns: time_ns.ok_or_else(|| problem.unwrap_or_default()),
        lines: Vec::new(),
    });
    Ok(())
}

/// Adds a row to the lines of its kind of instruction.
fn add_line(found: &mut AblatedByCase, row: &SqliteRow) -> Result<(), StoreError> {
    let key = (row.try_get("iteration_id")?, row.try_get("case_name")?);
    let removed = required(Removed::named(row.try_get("removed")?), "removed")?;
    let ablations = found.get_mut(&key).into_iter().flat_map(|ablated| &mut ablated.ablations);
    let Some(ablation) = ablations.into_iter().find(|ablation| ablation.removed == removed) else { return Ok(()) };
    ablation.lines.push(SourceLine {
        line: required(count(row, "line")?, "line")?,
        text: row.try_get("text")?,
        places: required(count(row, "places")?, "places")?,
        time_ns: row.try_get("time_ns")?,
    });
    Ok(())
}
