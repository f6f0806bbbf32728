//! Writes to a file as one: all of them, or none.
//!
//! A statement on a pool commits by itself, and sqlx does not report an error of that commit once it has returned a row.
//! On a full disk, a statement with `RETURNING` would thus return a row that is not stored. So every statement that
//! writes and returns rows runs in [`write`], which commits before it returns.

use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

use super::StoreError;

/// When a transaction reaches the disk. Either way, it is complete for all readers, and survives the end of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    /// At once, which takes milliseconds.
    Now,
    /// With the next one that is flushed. A power cut before that undoes it.
    WithTheNext,
}

/// A connection in a transaction. A future that is dropped within a transaction closes its connection, which undoes the
/// transaction. Otherwise the next user of the connection would write into the old transaction and lose its own writes.
struct Begun {
    connection: PoolConnection<Sqlite>,
    ended: bool,
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}

/// Does several writes as one. What it returns is stored.
///
/// sqlx's own transactions do not fit: a full disk makes SQLite end the transaction by itself. After that, sqlx counts
/// one too many and refuses to begin another.
pub(super) async fn write<T>(
    pool: &SqlitePool,
    flush: Flush,
    writes: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut begun = Begun { connection: pool.acquire().await?, ended: false };
    let connection = &mut *begun.connection;
    if flush == Flush::WithTheNext {
        sqlx::raw_sql("PRAGMA synchronous = NORMAL").execute(&mut *connection).await?;
    }
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let written = match writes(connection).await {
        Ok(written) => sqlx::raw_sql("COMMIT").execute(&mut *connection).await.map(|_| written).map_err(Into::into),
        Err(error) => Err(error),
    };
    if written.is_err() {
        // The transaction may have ended already. The first error is the one to report.
        let _ = sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await;
    }
    if flush == Flush::WithTheNext {
        sqlx::raw_sql("PRAGMA synchronous = FULL").execute(connection).await?;
    }
    begun.ended = true;
    written
}

/// Does several writes and undoes them. What they return or fail with is returned.
pub(super) async fn undone<T>(
    pool: &SqlitePool,
    writes: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut begun = Begun { connection: pool.acquire().await?, ended: false };
    let connection = &mut *begun.connection;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let written = writes(connection).await;
    // A failure may have ended the transaction already.
    let _ = sqlx::raw_sql("ROLLBACK").execute(connection).await;
    begun.ended = true;
    written
}
