//! Opens a store for verbs that only read. They never change a store, whichever process uses it and wherever it is. A
//! store of an older schema is read from a copy. So is one in a folder where no log file can be made.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Row, SqlitePool};
use tempfile::TempDir;

use super::{Limits, MIGRATIONS, Store, StoreError, check_path, newest_schema, stranger};

/// Connections of a reader. A report of a long session asks two questions at a time.
const CONNECTIONS: u32 = 2;

/// How often to try a copy while another process writes. A session writes once in each iteration.
const COPY_TRIES: u32 = 10;

impl Store {
    /// Opens an existing store for reading.
    pub async fn open_existing(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::NoSessions);
        }
        check_path(path)?;
        reader(path).await.map_err(|error| error.opening(path))
    }
}

async fn reader(path: &Path) -> Result<Store, StoreError> {
    stranger::check_files(path)?;
    let read_only = SqliteConnectOptions::new().filename(path).read_only(true);
    // SQLite opens a file at the first query.
    let (pool, schema) = match connect(read_only).await {
        // Readers need a log file beside the store, and none can be made here.
        Err(StoreError::NotWritable) => return copied(path).await,
        connected => connected?,
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

/// Connects, and reads the version of the store.
async fn connect(options: SqliteConnectOptions) -> Result<(SqlitePool, i64), StoreError> {
    let pool = Store::pool(options, CONNECTIONS).await?;
    let version = version(&pool).await?;
    Ok((pool, version))
}

/// Reads the version of the store's last migration, and refuses a store that another program has made. 0 for a store
/// that was never finished.
pub(super) async fn version(pool: &SqlitePool) -> Result<i64, StoreError> {
    stranger::check_list(pool).await?;
    let last = last_migration(pool).await?;
    stranger::check_actors(pool, last).await?;
    Ok(last)
}

async fn last_migration(pool: &SqlitePool) -> Result<i64, StoreError> {
    let tables: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sqlite_master WHERE name = ?")
        .bind(stranger::MIGRATIONS_TABLE)
        .fetch_one(pool)
        .await?;
    if tables == 0 {
        return Ok(0);
    }
    let rows = sqlx::query("SELECT version, checksum FROM _sqlx_migrations ORDER BY version").fetch_all(pool).await?;
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
    Ok(last)
}

/// Reads a store that cannot be opened in place. A log beside it, such as a crash leaves, belongs to it.
///
/// The store is not opened as immutable, because another process with write access may be writing.
async fn copied(path: &Path) -> Result<Store, StoreError> {
    let folder = temporary()?;
    let copy = folder.path().join("store.db");
    for _ in 0..COPY_TRIES {
        let before = (written(path)?, written(&log(path))?);
        for (from, to, there) in
            [(path.to_owned(), copy.clone(), before.0.is_some()), (log(path), log(&copy), before.1.is_some())]
        {
            // The copy of an earlier try.
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

/// Returns a file's size and the time of its last write. None if it does not exist.
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

/// Writes a store, as it is at one moment, into a file that is new or empty.
pub(super) async fn vacuum_into(pool: &SqlitePool, path: &Path) -> Result<(), StoreError> {
    let path = path.to_str().ok_or_else(|| StoreError::Disk(format!("{} is not UTF-8", path.display())))?;
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
