//! The numbers of a session's iterations, as conditions of queries. Tables that only know iterations are read by them.

use sqlx::Row;

use super::{Store, StoreError};
use crate::domain::ids::SessionId;

/// The numbers of a session's iterations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    /// The session.
    pub(super) session: SessionId,
    /// The ordinal of its last iteration: how many it has.
    pub(super) count: u64,
    first: i64,
    last: i64,
    /// Whether another session has numbers between the first and the last one: it ran before this one was resumed.
    is_mixed: bool,
}

impl Numbers {
    /// Returns the condition that a column holds one of the numbers.
    pub(super) fn hold(&self, column: &str) -> String {
        let Self { session, first, last, .. } = self;
        let within = format!("{column} BETWEEN {first} AND {last}");
        match self.is_mixed {
            false => within,
            true => format!(
                "{within} AND (SELECT own.session_id FROM iterations own INDEXED BY iterations_facts
                               WHERE own.id = {column}) = {session}"
            ),
        }
    }

    /// Returns numbers of the session's iterations in their order (the first is 1), spread evenly, with the first and the
    /// last one.
    pub(super) fn evenly(&self, most: u64) -> Vec<u64> {
        let most = most.clamp(2, self.count.max(2));
        (0..most).map(|place| 1 + place * self.count.saturating_sub(1) / (most - 1)).collect()
    }
}

impl Store {
    /// Returns the numbers of a session's iterations.
    pub(super) async fn numbers(&self, session: SessionId) -> Result<Numbers, StoreError> {
        let row = sqlx::query(
            // Each is one look into an index. Ordinals count from 1.
            "SELECT COALESCE((SELECT MAX(ordinal) FROM iterations WHERE session_id = ?1), 0) AS count,
                    COALESCE((SELECT MIN(id) FROM iterations INDEXED BY iterations_listed WHERE session_id = ?1), 0) AS first,
                    COALESCE((SELECT MAX(id) FROM iterations INDEXED BY iterations_listed WHERE session_id = ?1), 0) AS last",
        )
        .bind(session)
        .fetch_one(&self.pool)
        .await?;
        let (count, first, last): (i64, i64, i64) =
            (row.try_get("count")?, row.try_get("first")?, row.try_get("last")?);
        let is_mixed = last - first + 1 != count;
        Ok(Numbers { session, count: count.cast_unsigned(), first, last, is_mixed })
    }
}
