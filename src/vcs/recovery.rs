//! Undoes the leftovers of an optloop that was killed in the middle of a commit.

use std::fs;
use std::path::Path;

use git2::{ObjectType, Oid};

use super::error::VcsError;
use super::files;
use super::index::{self, LockedIndex};
use super::{Repo, running};

impl Repo {
    /// Undoes the leftovers of an optloop that was killed in the middle of a commit: locks, and files that no commit
    /// holds. Leaves everything of other programs.
    pub fn recover(&self) -> Result<(), VcsError> {
        let _running = running::begin();
        index::sweep(self.git.path());
        let Some((mut index, journal)) = LockedIndex::take_over(self.git.path())? else { return Ok(()) };
        let since = fs::metadata(index.lock_path()).and_then(|found| found.modified());
        let locks =
            [self.git.path().join("HEAD.lock"), self.git.commondir().join(format!("{}.lock", journal.reference))];
        for lock in &locks {
            // A lock that is older than the journal is another git's.
            let taken = fs::metadata(lock).and_then(|found| found.modified());
            if matches!((&since, taken), (Ok(since), Ok(taken)) if taken >= *since) {
                fs::remove_file(lock).map_err(VcsError::file("remove", lock))?;
            }
        }
        let head = self.git.head().ok().and_then(|head| head.peel_to_tree().ok());
        for (path, blob) in &journal.files {
            let path = Path::new(path);
            let half = files::temporary(&self.workdir.join(path));
            if half.exists() {
                fs::remove_file(&half).map_err(VcsError::file("remove", &half))?;
            }
            let blob = Oid::from_str(blob).map_err(VcsError::git("read a journal"))?;
            let base = head.as_ref().and_then(|tree| tree.get_path(path).ok()).map(|entry| entry.id());
            if base != Some(blob) {
                self.put_back(path, blob, base)?;
                if index.staged(path)? == Some(blob) {
                    index.unstage(path, base)?;
                }
            }
        }
        for path in &journal.removed {
            let path = Path::new(path);
            // If HEAD no longer has the file, its removal was committed.
            let Some(base) = head.as_ref().and_then(|tree| tree.get_path(path).ok()).map(|entry| entry.id()) else {
                continue;
            };
            let file = self.workdir.join(path);
            if files::read(&file).map_err(VcsError::file("read", &file))?.is_none() {
                self.restore(&file, base)?;
            }
            if index.staged(path)?.is_none() {
                index.unstage(path, Some(base))?;
            }
        }
        for folder in &journal.folders {
            // A folder that is not empty stays.
            let _ = fs::remove_dir(self.workdir.join(folder));
        }
        index.publish()?;
        index.keep();
        Ok(())
    }

    /// Restores HEAD's version of a file, if the file still is what was written.
    fn put_back(&self, path: &Path, written: Oid, base: Option<Oid>) -> Result<(), VcsError> {
        let file = self.workdir.join(path);
        let Some((bytes, _)) = files::read(&file).map_err(VcsError::file("read", &file))? else { return Ok(()) };
        let found = Oid::hash_object(ObjectType::Blob, &bytes).map_err(VcsError::git("hash a file"))?;
        if found != written {
            return Ok(());
        }
        match base {
            None => fs::remove_file(&file).map_err(VcsError::file("remove", &file)),
            Some(base) => self.restore(&file, base),
        }
    }

    /// Writes HEAD's version of a file.
    fn restore(&self, file: &Path, base: Oid) -> Result<(), VcsError> {
        let blob = self.git.find_blob(base).map_err(VcsError::git("read a file of HEAD"))?;
        files::replace(file, blob.content(), None).map_err(VcsError::file("write", file))
    }
}
