//! The memory of optloop: one SQLite file with every session, iteration and cost. All SQL lives in this module.
//!
//! A row is written before the device is touched and completed in one transaction when the iteration ends; what is
//! finished never changes, which triggers in the schema enforce.

mod artifacts;
mod backup;
mod columns;
#[cfg(test)]
mod comparison_tests;
mod comparisons;
mod error;
mod history;
mod ids;
mod iterations;
mod journal;
#[cfg(test)]
mod migration_tests;
mod migrations;
mod peaks;
mod questions;
mod readers;
mod resume;
mod sessions;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::LevelFilter;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Sqlite, SqliteConnection, SqlitePool};
use tempfile::TempDir;

pub use artifacts::ArtifactRecord;
pub use backup::Copied;
pub use error::StoreError;
pub use history::{Filter, HistoryRow, Sort};
pub use iterations::Finish;
use migrations::MIGRATIONS;
pub use questions::IterationDetail;
pub use resume::{Launched, Past};
pub use sessions::NewSession;

/// A store that is open.
#[derive(Debug, Clone)]
pub struct Store {
    pool: SqlitePool,
    /// Where the copy is that is read in the store's place, if one is.
    _copy: Option<Arc<TempDir>>,
}

/// What a writer must keep to.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest that the file may become.
    pub max_bytes: Option<u64>,
    /// How long a statement waits for another process's write.
    pub busy_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: None, busy_timeout: Duration::from_secs(30) }
    }
}

/// A connection in a transaction. Whoever is stopped in the middle of one closes it, which undoes the transaction: the next to
/// use the connection would write into it, and lose what it wrote.
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

/// SQLite's own size of a page, which the limit of a file is counted in.
const PAGE_BYTES: u64 = 4096;

/// Returns the last migration that this program knows.
fn newest_schema() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

impl Store {
    /// Opens a store for writing: creates the file and its folder where they are missing, and brings an older one up to date.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_within(path, &Limits::default()).await
    }

    /// Opens a store for writing within limits.
    pub async fn open_within(path: &Path, limits: &Limits) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| StoreError::of_io(error).opening(path))?;
        }
        Self::connect(path, limits).await.map_err(|error| error.opening(path))
    }

    async fn connect(path: &Path, limits: &Limits) -> Result<Self, StoreError> {
        let mut options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            // Readers such as `optloop history` do not block a running session, nor it them.
            .journal_mode(SqliteJournalMode::Wal)
            // A winner is committed to git after its record: the record must survive a power cut, too. The flush takes
            // milliseconds, an iteration seconds.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(limits.busy_timeout);
        if let Some(bytes) = limits.max_bytes {
            options = options.pragma("max_page_count", (bytes / PAGE_BYTES).max(1).to_string());
        }
        let pool = Self::pool(options).await?;
        MIGRATIONS.run(&pool).await.map_err(|error| StoreError::of_migration(error, newest_schema()))?;
        Ok(Self { pool, _copy: None })
    }

    /// Connects. SQLite has one writer anyway: with one connection, a session's own writes queue here instead of failing there.
    async fn pool(options: SqliteConnectOptions) -> Result<SqlitePool, StoreError> {
        // A slow statement is a slow disk: nothing that a user could mend in a query.
        let options = options.log_slow_statements(LevelFilter::Off, Duration::ZERO);
        Ok(SqlitePoolOptions::new().max_connections(1).connect_with(options).await?)
    }

    /// Does several writes as one: all of them, or none.
    ///
    /// Not sqlx's own transactions: a full disk makes SQLite end the transaction by itself, after which sqlx counts one
    /// too many and refuses to begin another.
    async fn write<T>(
        &self,
        writes: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut begun = Begun { connection: self.pool.acquire().await?, ended: false };
        let connection = &mut *begun.connection;
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
        let written = match writes(connection).await {
            Ok(written) => sqlx::raw_sql("COMMIT").execute(&mut *connection).await.map(|_| written).map_err(Into::into),
            Err(error) => Err(error),
        };
        if written.is_err() {
            // It may have ended already; the first error is the one to tell.
            let _ = sqlx::raw_sql("ROLLBACK").execute(connection).await;
        }
        begun.ended = true;
        written
    }

    /// Closes the file, so that the write-ahead log is folded into it.
    pub async fn close(self) {
        self.pool.close().await;
    }
}
