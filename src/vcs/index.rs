//! The index under git's own lock, with a few entries replaced and all others left alone.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use git2::{FileMode, Index, IndexEntry, IndexTime, Oid};

use super::error::VcsError;
use super::files::{Before, folders_above, make_like, put_back, read, replace, temporary};

/// Editors run `git status` all the time, which holds the lock for some milliseconds. This often and this long (0.2 s)
/// outlasts them.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The index, locked against every other process. Dropping it puts back what was there before, unless it is kept.
///
/// libgit2 locks the index only while it writes it, which would lose what a user stages between our reading and our
/// writing. So the lock is taken here, and libgit2 works on a copy that is then renamed to the index.
pub(super) struct LockedIndex {
    path: PathBuf,
    copy: Index,
    original: Before,
    published: bool,
    // Dropped last: what is put back is put back under the lock.
    _lock: Lock,
}

impl LockedIndex {
    /// Locks and reads the index of the repository or linked worktree at `git_dir`.
    pub(super) fn lock(git_dir: &Path) -> Result<Self, VcsError> {
        let path = git_dir.join("index");
        let lock = Lock::take(&path)?;
        let original = read(&path).map_err(VcsError::file("read", &path))?;
        let beside = temporary(&path);
        match &original {
            Some((bytes, like)) => replace(&beside, bytes, Some(like)).map_err(VcsError::file("write", &beside))?,
            // One that a killed process left.
            None => drop(fs::remove_file(&beside)),
        }
        let copy =
            Index::open(&beside).map_err(VcsError::git("read the index, which must be neither split nor sparse"))?;
        Ok(Self { path, copy, original, published: false, _lock: lock })
    }

    /// Returns what is staged at a path. Refuses a path that is in conflict or that collides with a folder.
    pub(super) fn staged(&self, path: &Path) -> Result<Option<Oid>, VcsError> {
        let name = path.display().to_string();
        if (1..=3).any(|stage| self.copy.get_path(path, stage).is_some()) {
            return Err(VcsError::Edited { path: name, change: "is in conflict" });
        }
        if self.copy.find_prefix(format!("{name}/")).is_ok() {
            return Err(VcsError::Blocked { path: name, obstacle: "is staged as a folder" });
        }
        for folder in folders_above(path) {
            if self.copy.get_path(folder, 0).is_some() {
                let path = folder.display().to_string();
                return Err(VcsError::Blocked { path, obstacle: "is staged as a file or submodule" });
            }
        }
        Ok(self.copy.get_path(path, 0).map(|entry| entry.id))
    }

    /// Stages a file of the working tree, of which `id` is the blob.
    pub(super) fn stage(&mut self, workdir: &Path, path: &Path, id: Oid) -> Result<(), VcsError> {
        let file = workdir.join(path);
        let found = fs::symlink_metadata(&file).map_err(VcsError::file("look at", &file))?;
        self.copy.add(&entry(path, &found, id)).map_err(VcsError::git("stage the winner"))
    }

    /// Replaces the index by what was staged.
    pub(super) fn publish(&mut self) -> Result<(), VcsError> {
        self.copy.write().map_err(VcsError::git("write the index"))?;
        let beside = temporary(&self.path);
        // The old time stays on the new index. Git compares an entry's contents when its file is not older than the
        // index; a newer time would make it trust the times of entries that were too fresh to be trusted before.
        let like = self.original.as_ref().map(|(_, like)| like);
        File::options()
            .write(true)
            .open(&beside)
            .and_then(|file| like.map_or(Ok(()), |like| make_like(&file, like)))
            .and_then(|()| fs::rename(&beside, &self.path))
            .map_err(VcsError::file("write", &self.path))?;
        self.published = true;
        Ok(())
    }

    /// Keeps what was published, and unlocks.
    pub(super) fn keep(mut self) {
        self.published = false;
    }
}

impl Drop for LockedIndex {
    fn drop(&mut self) {
        if self.published {
            put_back(&self.path, &self.original);
        }
    }
}

/// The lock file that every git respects. Dropping it removes it, and the copy made under it.
struct Lock {
    path: PathBuf,
    copy: PathBuf,
}

impl Lock {
    fn take(index: &Path) -> Result<Self, VcsError> {
        let path = index.with_extension("lock");
        for _ in 0..LOCK_TRIES {
            match File::create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(VcsError::file("create", &path)(error)),
                Ok(_) => return Ok(Self { path, copy: temporary(index) }),
            }
        }
        Err(VcsError::Locked(path))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // There is none if it was published.
        let _ = fs::remove_file(&self.copy);
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("could not remove `{}`, do so before using git: {error}", self.path.display());
        }
    }
}

/// Makes an entry with the file's times and numbers, so that git sees at a glance that the file is unchanged.
fn entry(path: &Path, found: &Metadata, id: Oid) -> IndexEntry {
    // The index keeps the low 32 bits of everything.
    let time = |seconds: i64, nanoseconds: i64| IndexTime::new(seconds as i32, nanoseconds as u32);
    IndexEntry {
        ctime: time(found.ctime(), found.ctime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        dev: found.dev() as u32,
        ino: found.ino() as u32,
        mode: FileMode::Blob.into(),
        uid: found.uid(),
        gid: found.gid(),
        file_size: found.size() as u32,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.as_os_str().as_encoded_bytes().to_owned(),
    }
}
