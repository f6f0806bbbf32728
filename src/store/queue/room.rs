//! Room on the disk for the next submission.
//!
//! A commit that needs no more pages than an earlier one may pass on a disk that is too full for a submission. To commit as
//! much as a submission has would take the room that it finds. So a transaction writes that much to SQLite's log and is
//! rolled back: the log keeps its length, and the next transaction writes to the same place.

use sqlx::{SqliteConnection, SqlitePool};

use crate::store::StoreError;
use crate::store::transaction::undone;

/// More than a submission takes, in bytes: a request has 64 KiB, and each index a page or two. As the cache keeps some pages
/// back, not all of this reaches the log.
const BYTES: i64 = 256 << 10;

/// Extends the log by the room that a submission needs, unless it has that. Fails where a submission would.
pub(super) async fn keep(pool: &SqlitePool) -> Result<(), StoreError> {
    undone(pool, async |connection: &mut SqliteConnection| {
        // Pages that do not fit into the cache go to the log before the end of a transaction.
        sqlx::raw_sql("PRAGMA cache_size = 1").execute(&mut *connection).await?;
        let filled = fill(connection).await;
        sqlx::raw_sql("PRAGMA cache_size = -2000").execute(connection).await?;
        filled
    })
    .await
}

async fn fill(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::raw_sql("CREATE TABLE room (bytes BLOB)").execute(&mut *connection).await?;
    sqlx::query("INSERT INTO room VALUES (zeroblob(?))").bind(BYTES).execute(connection).await?;
    Ok(())
}
