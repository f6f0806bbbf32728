//! Reads rows of the queue.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::domain::submission::{Submission, SubmissionId};
use crate::error::Error;
use crate::store::StoreError;
use crate::store::columns::{count, json, name, required};

pub(super) fn submission(row: &SqliteRow) -> Result<Submission, StoreError> {
    let lane: Option<String> = row.try_get("lane")?;
    let lane = lane.map(|lane| lane.parse()).transpose();
    Ok(Submission {
        id: SubmissionId(row.try_get("id")?),
        uid: row.try_get("uid")?,
        project: row.try_get("project")?,
        request: json(row, "request")?,
        device: row.try_get("device")?,
        priority: row.try_get("priority")?,
        client: row.try_get("client")?,
        state: required(name(row, "state")?, "state")?,
        asked: name(row, "asked")?,
        lane: lane.map_err(|error: Error| StoreError::Unreadable { what: "lane", message: error.to_string() })?,
        session: row.try_get("session")?,
        attempts: required(count(row, "attempts")?, "attempts")?,
        iterations: required(count(row, "iterations")?, "iterations")?,
        not_before_ms: row.try_get("not_before_ms")?,
        reason: row.try_get("reason")?,
        submitted_at: row.try_get("submitted_at")?,
        started_at: row.try_get("started_at")?,
        ended_at: row.try_get("ended_at")?,
    })
}
