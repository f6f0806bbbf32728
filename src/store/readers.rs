//! Opens a store for verbs that only read. They change nothing in it, whoever else uses it and wherever it lies: what is not
//! readable as it is, because it is of an older schema or lies where no log file can be made, is read from a copy.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Row, SqlitePool};
use tempfile::TempDir;

use super::{Limits, MIGRATIONS, Store, StoreError, newest_schema};

/// How often a copy is begun in which somebody writes meanwhile. A session writes once an iteration.
const COPY_TRIES: u32 = 10;

impl Store {
    /// Opens a store that must be there already, for reading.
    pub async fn open_existing(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::NoSessions);
        }
        reader(path).await.map_err(|error| error.opening(path))
    }
}

async fn reader(path: &Path) -> Result<Store, StoreError> {
    let read_only = SqliteConnectOptions::new().filename(path).read_only(true);
    // SQLite opens a file on the first question.
    let (pool, schema) = match look(read_only).await {
        // Readers need a log file beside the store, and nobody may make one here.
        Err(StoreError::NotWritable) => return copied(path).await,
        looked => looked?,
    };
    if schema == newest_schema() {
        return Ok(Store { pool, _copy: None });
    }
    let folder = temporary()?;
    let copy = folder.path().join("store.db");
    vacuum_into(&pool, &copy).await?;
    pool.close().await;
    up_to_date(&copy, folder).await
}

/// Connects, and reads which migrations the store has seen: the last one, or 0 for a store that was never finished.
async fn look(options: SqliteConnectOptions) -> Result<(SqlitePool, i64), StoreError> {
    let pool = Store::pool(options).await?;
    let tables: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'")
        .fetch_one(&pool)
        .await?;
    if tables == 0 {
        return Ok((pool, 0));
    }
    let rows = sqlx::query("SELECT version, checksum FROM _sqlx_migrations ORDER BY version").fetch_all(&pool).await?;
    let mut last = 0;
    for row in &rows {
        last = row.try_get("version")?;
        let checksum: Vec<u8> = row.try_get("checksum")?;
        match MIGRATIONS.iter().find(|migration| migration.version == last) {
            None if last > newest_schema() => return Err(StoreError::Newer),
            Some(known) if *known.checksum == *checksum => {}
            _ => return Err(StoreError::OtherBuild),
        }
    }
    Ok((pool, last))
}

/// Reads a store that cannot be opened where it lies. A log beside it, as a crash leaves one, belongs to it.
///
/// Not opened as one that never changes: somebody who may write there may be doing so.
async fn copied(path: &Path) -> Result<Store, StoreError> {
    let folder = temporary()?;
    let copy = folder.path().join("store.db");
    for _ in 0..COPY_TRIES {
        let before = (written(path)?, written(&log(path))?);
        for (from, to, there) in
            [(path.to_owned(), copy.clone(), before.0.is_some()), (log(path), log(&copy), before.1.is_some())]
        {
            // What an earlier try has copied.
            let _ = std::fs::remove_file(&to);
            if there {
                std::fs::copy(from, to).map_err(StoreError::of_io)?;
            }
        }
        if (written(path)?, written(&log(path))?) == before {
            return up_to_date(&copy, folder).await;
        }
    }
    Err(StoreError::Locked)
}

/// Tells how large a file is and when it was last written; none if it is not there.
fn written(path: &Path) -> Result<Option<(u64, SystemTime)>, StoreError> {
    match std::fs::metadata(path).and_then(|found| Ok((found.len(), found.modified()?))) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some).map_err(StoreError::of_io),
    }
}

async fn up_to_date(copy: &Path, folder: TempDir) -> Result<Store, StoreError> {
    let store = Store::connect(copy, &Limits::default()).await?;
    Ok(Store { _copy: Some(Arc::new(folder)), ..store })
}

/// Writes a store as it is at one moment into a file that is not there, or empty.
pub(super) async fn vacuum_into(pool: &SqlitePool, path: &Path) -> Result<(), StoreError> {
    let path = path.to_str().ok_or_else(|| StoreError::Disk(format!("{} is no UTF-8", path.display())))?;
    sqlx::query("VACUUM INTO ?").bind(path).execute(pool).await?;
    Ok(())
}

fn temporary() -> Result<TempDir, StoreError> {
    tempfile::tempdir().map_err(StoreError::of_io)
}

fn log(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
