//! A project with a large store, for benchmarks.
//!
//! The store is kept in the target folder and used again: a million iterations take 15 GB and ten minutes.

mod generator;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tempfile::TempDir;

/// A project in a temporary folder, as `optloop init` makes it.
pub struct Project {
    folder: TempDir,
}

impl Project {
    /// Makes a project that uses a store, or its own.
    pub fn new(store: Option<&Path>) -> Self {
        let project = Self { folder: TempDir::new().unwrap() };
        assert!(project.command(&["init", "project"]).status().unwrap().success());
        if let Some(store) = store {
            let config = project.path().join("config.toml");
            let text = std::fs::read_to_string(&config).unwrap();
            let path = format!("path = '{}'", store.display());
            std::fs::write(&config, text.replace("path = \".optloop/optloop.db\"", &path)).unwrap();
        }
        assert!(project.command(&["trust", "--yes"]).status().unwrap().success());
        project
    }

    /// Returns its folder.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// Prepares a call of optloop in the project.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_optloop"));
        let project = self.path();
        command.args(arguments).env("XDG_STATE_HOME", self.folder.path()).stdout(Stdio::null());
        command.current_dir(if project.exists() { &project } else { self.folder.path() });
        command
    }
}

/// Returns the path of a store with this many iterations, which is made if need be.
pub fn store(iterations: u64) -> PathBuf {
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{iterations}.db"));
    if !store.exists() {
        let started = Instant::now();
        wait(generator::make(&store, iterations));
        println!("made the store in {:.0} s", started.elapsed().as_secs_f64());
    }
    store
}

/// Returns the number of sessions of a store.
pub fn sessions(store: &Path) -> u64 {
    wait(async {
        let pool = SqlitePoolOptions::new().connect_with(SqliteConnectOptions::new().filename(store)).await.unwrap();
        let newest: i64 = sqlx::query_scalar("SELECT MAX(id) FROM sessions").fetch_one(&pool).await.unwrap();
        newest.cast_unsigned()
    })
}

/// Runs a future on this thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
