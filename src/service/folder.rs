//! The folder of a service: its queue, and a log of events and messages for each submission.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::log::EventLog;
use crate::domain::submission::SubmissionId;

/// The folder of a service. No other service uses it as long as this value lives.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    _lock: File,
}

impl StateFolder {
    /// Returns the folder that a service uses unless the user names another one.
    pub fn default_path() -> anyhow::Result<PathBuf> {
        let base = dirs::state_dir().or_else(dirs::data_local_dir);
        Ok(base
            .context("There is no state folder: set XDG_STATE_HOME or HOME, or give --state")?
            .join("optloop/service"))
    }

    /// Makes the folder if necessary, and locks it. Only the user may read it: it has what sessions print. A folder with
    /// other things in it is refused, because they would become private, too.
    pub fn claim(path: PathBuf) -> anyhow::Result<Self> {
        if !path.join("queue.db").exists() && has_other_files(&path) {
            bail!("{} has other files in it: give the service a folder of its own with --state", path.display());
        }
        let logs = path.join("logs");
        let made = fs::create_dir_all(&logs).and_then(|()| make_private(&path));
        made.with_context(|| format!("Failed to create {}", logs.display()))?;
        let lock = path.join("lock");
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let file = file.with_context(|| format!("Failed to open {}", lock.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _lock: file }),
            Err(TryLockError::WouldBlock) => bail!(
                "another service uses {}: talk to that one, or give this one another folder with --state",
                path.display()
            ),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("Failed to lock {}", lock.display())),
        }
    }

    /// Returns the path of the queue.
    pub fn queue(&self) -> PathBuf {
        self.path.join("queue.db")
    }

    /// Returns the log with the events of a submission.
    pub fn log(&self, id: SubmissionId) -> EventLog {
        EventLog::new(self.path.join(format!("logs/{id}.jsonl")))
    }

    /// Returns the path of the file with the messages of a submission's processes.
    pub fn messages(&self, id: SubmissionId) -> PathBuf {
        self.path.join(format!("logs/{id}.txt"))
    }
}

/// Whether a folder has something that no service has left, killed before its queue was there.
fn has_other_files(path: &Path) -> bool {
    let names = path.read_dir().into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
    names.into_iter().any(|name| name != "logs" && name != "lock")
}

#[cfg(unix)]
fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> std::io::Result<()> {
    Ok(())
}
