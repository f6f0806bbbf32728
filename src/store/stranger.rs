//! Refuses a store that would do more than hold rows. It may have come with somebody else's project.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Row, SqlitePool};

use super::{MIGRATIONS, Store, StoreError};

/// The end of a rollback journal that names another file.
const NAMES_A_FILE: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Where sqlx lists the migrations of a store.
pub(super) const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// Something in a schema that acts: a trigger, a view or a virtual table.
type Actor = (String, String, String);

/// Refuses files beside a store that SQLite should not touch: pipes, which block their reader, and a journal that names
/// another file. SQLite would take it for the journal of several databases, and delete that file, wherever it is. optloop
/// never writes such a journal.
pub(super) fn check_files(store: &Path) -> Result<(), StoreError> {
    let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let beside = |ending: &str| {
        let mut path = store.clone().into_os_string();
        path.push(ending);
        PathBuf::from(path)
    };
    let journal = beside("-journal");
    for path in [store.clone(), beside("-wal"), beside("-shm"), journal.clone()] {
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(StoreError::NoFile(path));
        }
    }
    let mut end = [0; NAMES_A_FILE.len()];
    let read = File::open(&journal).and_then(|mut file| {
        file.seek(SeekFrom::End(-(end.len() as i64)))?;
        file.read_exact(&mut end)
    });
    if read.is_ok() && end == NAMES_A_FILE { Err(StoreError::HostileJournal(journal)) } else { Ok(()) }
}

/// Refuses a view or a virtual table in the place of the list of migrations, which is read first. Reading one runs what it
/// says.
pub(super) async fn check_list(pool: &SqlitePool) -> Result<(), StoreError> {
    let found = actors(pool).await?.into_iter().find(|(kind, name, _)| kind != "trigger" && name == MIGRATIONS_TABLE);
    found.map_or(Ok(()), |(kind, name, _)| Err(StoreError::Foreign { kind, name }))
}

/// Refuses triggers, views and virtual tables that the migrations up to a version have not made. This comes before any
/// query but that for the version.
pub(super) async fn check_actors(pool: &SqlitePool, version: i64) -> Result<(), StoreError> {
    let found = actors(pool).await?;
    if found.is_empty() {
        return Ok(());
    }
    let own = Store::pool(SqliteConnectOptions::new().in_memory(true), 1).await?;
    let applied = MIGRATIONS.iter().filter(|migration| migration.version <= version).cloned().collect();
    let made = Migrator::with_migrations(applied).run(&own).await;
    made.map_err(|error| StoreError::of_migration(error, version))?;
    let known = actors(&own).await?;
    own.close().await;
    match found.difference(&known).next() {
        None => Ok(()),
        Some((kind, name, _)) => Err(StoreError::Foreign { kind: kind.clone(), name: name.clone() }),
    }
}

/// Returns what acts in a schema.
async fn actors(pool: &SqlitePool) -> Result<BTreeSet<Actor>, StoreError> {
    let rows = sqlx::query("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetch_all(pool).await?;
    let mut actors = BTreeSet::new();
    for row in rows {
        let (kind, name, sql): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let sql = plain(&sql);
        match kind.as_str() {
            "table" if sql.starts_with("createvirtual") => actors.insert(("virtual table".to_owned(), name, sql)),
            "trigger" | "view" => actors.insert((kind, name, sql)),
            _ => false,
        };
    }
    Ok(actors)
}

/// Drops what versions of SQLite write differently when a table is renamed.
fn plain(sql: &str) -> String {
    sql.chars().filter(|c| !c.is_whitespace() && *c != '"').flat_map(char::to_lowercase).collect()
}
