//! Errors of the store, in sentences that say what to do.

use std::path::{Path, PathBuf};

use sqlx::migrate::MigrateError;

use crate::domain::ids::{IterationId, SessionId};

/// The reason why a request to the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Opening failed.
    #[error("cannot open the store {}: {problem}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: Box<StoreError>,
    },
    /// There is no session to read.
    #[error("there are no sessions yet: run `optloop start` first")]
    NoSessions,
    /// The target file exists already.
    #[error("{} already exists: move it away, or choose another file", .0.display())]
    Exists(PathBuf),
    /// The folder of the target file does not exist.
    #[error("there is no folder {}: make it, or choose another file", .0.display())]
    NoFolder(PathBuf),
    /// A copy does not pass SQLite's integrity check.
    #[error("the copy is damaged and was deleted ({0}): the store may be damaged, too")]
    Damaged(String),
    /// There is no session to resume.
    #[error("every session is finished, so there is none to resume: `optloop start` begins another")]
    AllFinished,
    /// The session's record lacks what a resumption needs.
    #[error(
        "session {id} was recorded by an older version of optloop, which did not store enough to resume it: start \
         another one"
    )]
    TooOld {
        /// Its number.
        id: SessionId,
    },
    /// The schema has migrations that this program does not know.
    #[error("it was written by a newer version of optloop: update optloop, or use another store")]
    Newer,
    /// The schema differs from what this program would have made.
    #[error("its schema was created by another build of optloop: use that build, or another store")]
    OtherBuild,
    /// The path leads to something that is not a file.
    #[error("store.path in config.toml names {0}, not a regular file: name a file, such as .optloop/optloop.db")]
    NotAFile(&'static str),
    /// The schema has something that acts by itself, which no migration of optloop made.
    #[error(
        "it has the {kind} `{name}`, which optloop has not made and which would act by itself: move the store away, or use another path"
    )]
    Foreign {
        /// A trigger, a view or a virtual table.
        kind: String,
        /// Its name.
        name: String,
    },
    /// A pipe, a device or a folder is in the place of a file.
    #[error("{} is not a regular file: move it away, or use another path", .0.display())]
    NoFile(PathBuf),
    /// The journal beside the store would make SQLite delete another file.
    #[error("{} names another file, which SQLite would delete: remove it, or use another path", .0.display())]
    HostileJournal(PathBuf),
    /// The file is something else, or damaged.
    #[error(
        "it is not an optloop store, or it is damaged: move it away, or name another file as store.path in config.toml"
    )]
    NotADatabase,
    /// The file or its folder cannot be written.
    #[error(
        "the file or its folder is not writable: change its permissions, or name another file as store.path in config.toml"
    )]
    NotWritable,
    /// The disk is full.
    #[error(
        "the disk is full, or the store is as large as store.max_mb in config.toml allows: free some space; `optloop \
         resume` continues a session that this ended"
    )]
    DiskFull,
    /// Another process holds the write lock for too long.
    #[error(
        "another process keeps the store locked for longer than store.busy_timeout in config.toml: wait for it or end it; \
         `optloop resume` continues a session that this ended"
    )]
    Locked,
    /// The disk fails.
    #[error("the disk reports an error ({0}): fix it; `optloop resume` continues a session that this ended")]
    Disk(String),
    /// The session holds what was measured by hand.
    #[error(
        "session {id} holds what was measured by hand, so there is nothing to resume: call `optloop bench` or `optloop check` again"
    )]
    Single {
        /// Its number.
        id: SessionId,
    },
    /// There is no such session.
    #[error("there is no session {id}; {known}")]
    UnknownSession {
        /// The number asked for.
        id: SessionId,
        /// A sentence with the existing numbers.
        known: String,
    },
    /// There is no such iteration.
    #[error("there is no iteration {id}; {known}")]
    UnknownIteration {
        /// The number asked for.
        id: IterationId,
        /// A sentence with the existing numbers.
        known: String,
    },
    /// A rule of the schema forbids the change.
    #[error("the store refuses the change: {0}")]
    Refused(String),
    /// A value in the store cannot be parsed.
    #[error("the store contains an unreadable {what}: {message}")]
    Unreadable {
        /// The column.
        what: &'static str,
        /// Why it cannot be parsed.
        message: String,
    },
    /// Any other error of SQLite, whose text says what caused it.
    #[error("the store failed: {0}")]
    Other(sqlx::Error),
}

// Primary result codes of SQLite, https://www.sqlite.org/rescode.html.
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READONLY: i32 = 8;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const CONSTRAINT: i32 = 19;
const NOTADB: i32 = 26;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let Some(database) = error.as_database_error() else { return Self::Other(error) };
        let extended = database.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(0);
        // The low byte is the primary code. The rest gives the variant of the error.
        match extended & 0xff {
            BUSY | LOCKED => Self::Locked,
            READONLY | CANTOPEN => Self::NotWritable,
            IOERR => Self::Disk(database.message().to_owned()),
            FULL => Self::DiskFull,
            CORRUPT | NOTADB => Self::NotADatabase,
            CONSTRAINT => Self::Refused(database.message().to_owned()),
            _ => Self::Other(error),
        }
    }
}

impl StoreError {
    /// Explains a failed migration. `newest` is the newest version in this program.
    pub(super) fn of_migration(error: MigrateError, newest: i64) -> Self {
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
            MigrateError::VersionMissing(version) if version > newest => Self::Newer,
            MigrateError::VersionMissing(_) | MigrateError::VersionMismatch(_) => Self::OtherBuild,
            other => Self::Other(sqlx::Error::Migrate(Box::new(other))),
        }
    }

    /// Explains a file operation that failed while the store was opened.
    pub(super) fn of_io(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
        match error.kind() {
            PermissionDenied | ReadOnlyFilesystem => Self::NotWritable,
            StorageFull => Self::DiskFull,
            _ => Self::Other(sqlx::Error::Io(error)),
        }
    }

    /// Names the file that could not be opened.
    pub(super) fn opening(self, path: &Path) -> Self {
        match self {
            Self::NoSessions => Self::NoSessions,
            problem => Self::Open { path: path.to_owned(), problem: Box::new(problem) },
        }
    }
}
