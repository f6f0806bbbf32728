//! The contents of a project's store and repository, read without optloop.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Row, SqlitePool};
use tempfile::TempDir;

use crate::common::Sandbox;

/// Queries for rows that must never change.
const LASTING: [(&str, &str); 10] = [
    ("iterations", "WHERE ended_at IS NOT NULL"),
    ("measurements", ""),
    ("hypotheses", "WHERE score IS NOT NULL"),
    ("changed_parameters", ""),
    ("comparisons", ""),
    ("participants", ""),
    ("commits", ""),
    ("baselines", ""),
    ("costs", ""),
    ("resumptions", ""),
];

/// A copy of the store on disk, so that reading it repairs nothing.
pub struct Record {
    _folder: TempDir,
    runtime: tokio::runtime::Runtime,
    pool: SqlitePool,
}

/// Returns the path of a project's store.
pub fn store(sandbox: &Sandbox) -> PathBuf {
    sandbox.path(".optloop/optloop.db")
}

impl Record {
    /// Copies the store of a project.
    pub fn of(sandbox: &Sandbox) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("store.db");
        std::fs::copy(store(sandbox), &copy).unwrap();
        let log = store(sandbox).with_extension("db-wal");
        if log.exists() {
            std::fs::copy(log, copy.with_extension("db-wal")).unwrap();
        }
        Self::open(&copy, folder)
    }

    /// Copies a store that has no writer.
    pub fn at(path: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("store.db");
        std::fs::copy(path, &copy).unwrap();
        Self::open(&copy, folder)
    }

    fn open(path: &Path, folder: TempDir) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = SqliteConnectOptions::new().filename(path);
        let pool = runtime.block_on(SqlitePoolOptions::new().max_connections(1).connect_with(options)).unwrap();
        Self { _folder: folder, runtime, pool }
    }

    /// Queries one column of text.
    pub fn ask(&self, sql: &str) -> Vec<String> {
        let rows =
            self.runtime.block_on(sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(&self.pool)).unwrap();
        rows.iter().map(|row| row.try_get::<Option<String>, _>(0).unwrap().unwrap_or_default()).collect()
    }

    /// Fails if the file is damaged, a reference is dangling, or a variant was screened twice or compared twice on a
    /// case.
    pub fn check(&self) {
        assert_eq!(self.ask("PRAGMA integrity_check"), ["ok"]);
        assert_eq!(self.ask("PRAGMA foreign_key_check"), [""; 0]);
        let confirms = "EXISTS (SELECT 1 FROM iterations p WHERE p.id = i.parent_id AND p.hash = i.hash)";
        let twice = "ended_at IS NOT NULL GROUP BY hash";
        let screened = format!("SELECT hash FROM iterations i WHERE NOT {confirms} AND {twice} HAVING COUNT(*) > 1");
        assert_eq!(self.ask(&screened), [""; 0], "iterations are doubled");
        // An iteration that was cut short had no comparison and is proposed again.
        let confirmed = format!(
            "SELECT hash FROM iterations i JOIN comparisons c ON c.iteration_id = i.id
             WHERE {confirms} AND {twice}, case_name HAVING COUNT(*) > 1"
        );
        assert_eq!(self.ask(&confirmed), [""; 0], "confirmations are doubled");
    }

    /// Returns every row that must never change, as text.
    pub fn lasting(&self) -> BTreeSet<String> {
        let mut rows = BTreeSet::new();
        for (table, filter) in LASTING {
            let columns = self.ask(&format!("SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')"));
            let sql = format!("SELECT '{table} ' || {} FROM {table} {filter}", columns.join(" || ' ' || "));
            rows.extend(self.ask(&sql));
        }
        rows
    }

    /// Returns the winners that are linked to commits, as `iteration case commit`.
    pub fn links(&self) -> BTreeSet<String> {
        self.ask("SELECT iteration_id || ' ' || case_name || ' ' || commit_id FROM commits").into_iter().collect()
    }
}

/// Returns the winners named in a project's commits of a session, as `iteration case commit`, oldest first.
pub fn commits(sandbox: &Sandbox) -> Vec<String> {
    let log = sandbox.git(&["log", "--reverse", "--format=%H%n%B%x00"]);
    let told = |message: &str| {
        let (commit, text) = message.trim_start().split_once('\n').unwrap_or_default();
        let winners = text.lines().skip_while(|line| *line != "Winners:").skip(1);
        let winner = |line: &str| {
            let (case, rest) = line.trim().split_once(": iteration ")?;
            Some(format!("{} {case} {commit}", rest.split_once(',')?.0))
        };
        winners.filter_map(winner).collect::<Vec<_>>()
    };
    log.split('\0').flat_map(told).collect()
}

/// Returns the winners that sessions keep under references of their own, as `iteration case`.
pub fn kept(sandbox: &Sandbox) -> BTreeSet<String> {
    let log = sandbox.git(&["log", "--glob=refs/optloop", "--format=%B%x00"]);
    let told = |message: &str| {
        let text = message.trim_start();
        let (_, iteration) = text.lines().find(|line| line.starts_with("Found by:"))?.rsplit_once(' ')?;
        let (_, case) = text.lines().next()?.split_once(": ")?.0.split_once('/')?;
        Some(format!("{iteration} {case}"))
    };
    log.split('\0').filter_map(told).collect()
}
