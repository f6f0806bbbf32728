//! What an optloop that was killed in the middle of a commit has left, and how that is undone.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid};
use serde::{Deserialize, Serialize};

use super::error::VcsError;
use super::files;
use super::index::LockedIndex;
use super::{Repo, WinnerFile};

/// What a commit is about to do, written into git's lock of the index before anything is done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// For a person who finds the file.
    about: String,
    /// The other locks that it takes.
    locks: Vec<PathBuf>,
    /// The files that it writes, relative to the working tree, and their contents' names.
    files: Vec<(PathBuf, String)>,
}

impl Journal {
    /// Says what the commit of some files with a move of a reference is about to do.
    pub(super) fn of(repo: &Repo, reference: &str, winner: &[WinnerFile]) -> Self {
        let about = format!("optloop (process {}) is committing a winner", std::process::id());
        let mut locks = vec![repo.git.path().join("HEAD.lock")];
        if reference != "HEAD" {
            locks.push(repo.git.commondir().join(format!("{reference}.lock")));
        }
        let files = winner.iter().map(|file| (file.path.clone(), file.blob.to_string())).collect();
        Self { about, locks, files }
    }

    /// Reads the journal in a lock file; none if another git made it.
    pub(super) fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

impl Repo {
    /// Undoes what an optloop that was killed in the middle of a commit has left: locks, and files that no commit holds. What
    /// others have left, it leaves.
    pub fn recover(&self) -> Result<(), VcsError> {
        let Some((mut index, journal)) = LockedIndex::take_over(self.git.path())? else { return Ok(()) };
        let since = fs::metadata(index.lock_path()).and_then(|found| found.modified());
        for lock in &journal.locks {
            // One that is older than the journal is another git's.
            let taken = fs::metadata(lock).and_then(|found| found.modified());
            if matches!((&since, taken), (Ok(since), Ok(taken)) if taken >= *since) {
                fs::remove_file(lock).map_err(VcsError::file("remove", lock))?;
            }
        }
        let head = self.git.head().ok().and_then(|head| head.peel_to_tree().ok());
        for (path, blob) in &journal.files {
            let blob = Oid::from_str(blob).map_err(VcsError::git("read a journal"))?;
            let base = head.as_ref().and_then(|tree| tree.get_path(path).ok()).map(|entry| entry.id());
            if base != Some(blob) {
                self.put_back(path, blob, base)?;
                if index.staged(path)? == Some(blob) {
                    index.unstage(path, base)?;
                }
            }
        }
        index.publish()?;
        index.keep();
        Ok(())
    }

    /// Makes a file what HEAD says, if it still is what was written.
    fn put_back(&self, path: &Path, written: Oid, base: Option<Oid>) -> Result<(), VcsError> {
        let file = self.workdir.join(path);
        let Some((bytes, _)) = files::read(&file).map_err(VcsError::file("read", &file))? else { return Ok(()) };
        let found = Oid::hash_object(ObjectType::Blob, &bytes).map_err(VcsError::git("hash a file"))?;
        if found != written {
            return Ok(());
        }
        match base {
            None => fs::remove_file(&file).map_err(VcsError::file("remove", &file)),
            Some(base) => {
                let blob = self.git.find_blob(base).map_err(VcsError::git("read a file of HEAD"))?;
                files::replace(&file, blob.content(), None).map_err(VcsError::file("write", &file))
            }
        }
    }
}
