//! The memory of optloop: one SQLite file with every session, iteration and cost. All SQL lives in this module.
//!
//! A row is written before the device is touched, and completed in one transaction when the iteration ends. Triggers in
//! the schema keep finished rows from changing.

mod ablations;
mod agent_runs;
mod artifacts;
mod backup;
mod baseline_counters;
mod calls;
mod claims;
mod columns;
#[cfg(test)]
mod comparison_tests;
mod comparisons;
mod counters;
mod error;
mod excerpt;
mod history;
mod ids;
mod iterations;
mod journal;
mod lessons;
#[cfg(test)]
mod migration_tests;
mod migrations;
mod numbers;
mod page;
mod paid;
mod peaks;
mod phases;
mod questions;
pub mod queue;
mod readers;
mod resume;
mod session_page;
mod sessions;
mod stranger;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod totals;
mod transaction;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::LevelFilter;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection, SqlitePool};
use tempfile::TempDir;

use crate::domain::text::names::natural;

pub use artifacts::ArtifactRecord;
pub use backup::Copied;
pub use calls::NewCall;
pub use error::StoreError;
pub use excerpt::MOST_IN_FULL;
pub use history::{HistoryRow, Like, Listed};
pub use iterations::Finish;
use migrations::MIGRATIONS;
pub use page::{Filter, Sort};
pub use paid::{Grouping, MOST_GROUPED, Paid};
pub use questions::IterationDetail;
pub use resume::{Launched, Past};
pub use session_page::SessionFilter;
pub use sessions::NewSession;
use transaction::Flush;

/// An open store.
#[derive(Debug, Clone)]
pub struct Store {
    pool: SqlitePool,
    /// The copy that is read in place of the store, if there is one.
    _copy: Option<Arc<TempDir>>,
}

/// The limits of a writer.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest size of the file, in bytes. None for no limit.
    pub max_bytes: Option<u64>,
    /// How long a statement waits for another process's write.
    pub busy_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: None, busy_timeout: Duration::from_secs(30) }
    }
}

/// SQLite's own page size. The limit of a file counts in pages.
const PAGE_BYTES: u64 = 4096;

/// Returns the version of the newest migration in this program.
fn newest_schema() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// Refuses a path that leads to a folder, a device, a pipe or a socket, before it is opened or a lock is put beside it.
/// Opening a pipe would wait for its other end.
pub fn check_path(path: &Path) -> Result<(), StoreError> {
    // What cannot be asked about is not there yet, or fails when it is opened.
    let Ok(found) = std::fs::metadata(path) else { return Ok(()) };
    if found.is_file() {
        return Ok(());
    }
    Err(StoreError::NotAFile(kind(found.file_type())).opening(path))
}

fn kind(file: std::fs::FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file.is_char_device() || file.is_block_device() {
            return "a device";
        }
        if file.is_fifo() {
            return "a pipe";
        }
        if file.is_socket() {
            return "a socket";
        }
    }
    if file.is_dir() { "a folder" } else { "something else" }
}

impl Store {
    /// Opens a store for writing. Creates a missing file and its folder, and migrates an older store.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_within(path, &Limits::default()).await
    }

    /// Opens a store for writing within limits.
    pub async fn open_within(path: &Path, limits: &Limits) -> Result<Self, StoreError> {
        check_path(path)?;
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
            // Readers such as `optloop history` and a running session do not block each other.
            .journal_mode(SqliteJournalMode::Wal)
            // A winner is committed to git after its record, so the record must survive a power cut, too.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(limits.busy_timeout);
        if let Some(bytes) = limits.max_bytes {
            options = options.pragma("max_page_count", (bytes / PAGE_BYTES).max(1).to_string());
        }
        stranger::check_files(path)?;
        let pool = Self::pool(options, 1).await?;
        readers::version(&pool).await?;
        MIGRATIONS.run(&pool).await.map_err(|error| StoreError::of_migration(error, newest_schema()))?;
        Ok(Self { pool, _copy: None })
    }

    /// Connects. SQLite has one writer anyway. With one connection, a session's own writes queue here instead of
    /// failing there.
    async fn pool(options: SqliteConnectOptions, connections: u32) -> Result<SqlitePool, StoreError> {
        // A slow statement means a slow disk, which no user could fix in a query.
        let options = options.log_slow_statements(LevelFilter::Off, Duration::ZERO);
        // The file may come from a stranger: functions with side effects stay out of its schema, and damaged pages are
        // found before they are used.
        let options = options.pragma("trusted_schema", "OFF").pragma("cell_size_check", "ON");
        let options = options.collation("natural_order", natural);
        Ok(SqlitePoolOptions::new().max_connections(connections).connect_with(options).await?)
    }

    /// Does several writes as one: all of them, or none. They survive a power cut.
    async fn write<T>(
        &self,
        writes: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write_flushed(Flush::Now, writes).await
    }

    /// Does several writes as one. See [`Flush`].
    async fn write_flushed<T>(
        &self,
        flush: Flush,
        writes: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        transaction::write(&self.pool, flush, writes).await
    }

    /// Tells whether this is a copy, which does not change with the store.
    pub fn is_copy(&self) -> bool {
        self._copy.is_some()
    }

    /// Closes the file, which merges the write-ahead log into it.
    pub async fn close(self) {
        self.pool.close().await;
    }
}
