//! How long each kind of work of a session takes.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::columns::{name, required};
use super::{Store, StoreError};
use crate::domain::budget::phase::{PhaseTime, StepTimes};
use crate::domain::ids::SessionId;

impl Store {
    /// Records the time of work that belongs to no iteration.
    pub async fn record_phase(&self, session: SessionId, time: &PhaseTime) -> Result<(), StoreError> {
        let StepTimes { waiting_s, screening_s, acceptance_s, sanitizer_s, comparison_s } = time.steps;
        sqlx::query(
            "INSERT INTO phases (session_id, phase, case_name, wall_s, waiting_s, screening_s, acceptance_s, sanitizer_s,
                                 comparison_s)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(session)
        .bind(time.phase.name())
        .bind(&time.case)
        .bind(time.wall_s)
        .bind(waiting_s)
        .bind(screening_s)
        .bind(acceptance_s)
        .bind(sanitizer_s)
        .bind(comparison_s)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Reads the times of a session's work that belongs to no iteration, oldest first.
    pub(super) async fn phases_of(&self, session: SessionId) -> Result<Vec<PhaseTime>, StoreError> {
        let rows = sqlx::query("SELECT * FROM phases WHERE session_id = ? ORDER BY id")
            .bind(session)
            .fetch_all(&self.pool)
            .await?;
        let phase = |row: &SqliteRow| {
            Ok(PhaseTime {
                phase: required(name(row, "phase")?, "phase")?,
                case: row.try_get("case_name")?,
                wall_s: row.try_get("wall_s")?,
                steps: required(step_times(row)?, "acceptance_s")?,
            })
        };
        rows.iter().map(phase).collect()
    }
}

/// Reads the columns of step times. None for a row from before they were kept.
pub(super) fn step_times(row: &SqliteRow) -> Result<Option<StepTimes>, StoreError> {
    let Some(acceptance_s) = row.try_get("acceptance_s")? else { return Ok(None) };
    Ok(Some(StepTimes {
        waiting_s: row.try_get("waiting_s")?,
        screening_s: row.try_get("screening_s")?,
        acceptance_s,
        sanitizer_s: row.try_get("sanitizer_s")?,
        comparison_s: row.try_get("comparison_s")?,
    }))
}
