//! Copies a store while other processes write to it.

use std::fs::File;
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;

use super::columns::{count, required};
use super::readers::vacuum_into;
use super::{Store, StoreError};

/// The contents of a store's copy.
#[derive(Debug, Clone, Copy)]
pub struct Copied {
    /// The size of the file.
    pub bytes: u64,
    /// The number of sessions.
    pub sessions: usize,
}

impl Store {
    /// Copies the store, as it is at one moment, into a new file. Returns what is in the copy.
    ///
    /// The file gets its name once it is complete and has passed its integrity check. So no reader can take half a copy
    /// for a store.
    pub async fn backup(&self, target: &Path) -> Result<Copied, StoreError> {
        let exists = || StoreError::Exists(target.to_owned());
        if target.exists() {
            return Err(exists());
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(StoreError::NoFolder(folder.to_owned()));
        }
        let staged =
            tempfile::Builder::new().prefix(".optloop-backup-").tempfile_in(folder).map_err(StoreError::of_io)?;
        let staged = staged.into_temp_path();
        vacuum_into(&self.pool, &staged).await?;
        let copy = Self::pool(SqliteConnectOptions::new().filename(&staged).read_only(true), 1).await?;
        let found: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&copy).await?;
        let row = sqlx::query("SELECT COUNT(*) AS sessions FROM sessions").fetch_one(&copy).await?;
        let sessions = required(count(&row, "sessions")?, "sessions")?;
        copy.close().await;
        if found != "ok" {
            return Err(StoreError::Damaged(found));
        }
        let written = File::open(&staged).and_then(|file| {
            file.sync_all()?;
            Ok(file.metadata()?.len())
        });
        let bytes = written.map_err(StoreError::of_io)?;
        staged.persist_noclobber(target).map_err(|refused| match refused.error.kind() {
            std::io::ErrorKind::AlreadyExists => exists(),
            _ => StoreError::of_io(refused.error),
        })?;
        Ok(Copied { bytes, sessions })
    }
}
