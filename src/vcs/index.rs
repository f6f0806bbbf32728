//! The index under git's own lock. Some entries are replaced, all others stay as they are.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use git2::{FileMode, Index, IndexEntry, IndexTime, Oid};

use super::error::VcsError;
use super::files::{Before, folders_above, make_like, put_back, read, replace, temporary};
use super::journal::Journal;

/// Tries for git's lock, which take 0.2 s together. Editors run `git status` often, which holds the lock for some
/// milliseconds.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The name of the journal before it becomes the lock. The process's number stands between the two parts.
const STAGED: &str = ".index.lock.";
const STAGED_END: &str = ".optloop-tmp";

/// The index, locked against every other process. Dropping it restores its old contents, unless they are kept.
///
/// libgit2 locks the index only while it writes. Anything that a user stages between our reading and our writing would
/// be lost. So this type takes the lock, and libgit2 works on a copy that is then renamed to the index.
pub(super) struct LockedIndex {
    path: PathBuf,
    copy: Index,
    original: Before,
    published: bool,
    // Dropped last, so that the index is restored under the lock.
    lock: Lock,
}

impl LockedIndex {
    /// Locks and reads the index of the repository or linked worktree at `git_dir`. The lock holds the journal, so that
    /// what a killed process leaves can be undone.
    pub(super) fn lock(git_dir: &Path, journal: &Journal) -> Result<Self, VcsError> {
        let path = git_dir.join("index");
        let lock = Lock::take(&path, journal)?;
        Self::under(lock, path)
    }

    /// Takes over the lock of an optloop that died with it. None if there is no such lock.
    pub(super) fn take_over(git_dir: &Path) -> Result<Option<(Self, Journal)>, VcsError> {
        let path = git_dir.join("index");
        let Some((lock, journal)) = Lock::take_over(&path) else { return Ok(None) };
        Ok(Some((Self::under(lock, path)?, journal)))
    }

    fn under(lock: Lock, path: PathBuf) -> Result<Self, VcsError> {
        let original = read(&path).map_err(VcsError::file("read", &path))?;
        let beside = temporary(&path);
        match &original {
            Some((bytes, like)) => replace(&beside, bytes, Some(like)).map_err(VcsError::file("write", &beside))?,
            // A killed process left this one.
            None => drop(fs::remove_file(&beside)),
        }
        let copy =
            Index::open(&beside).map_err(VcsError::git("read the index, which must be neither split nor sparse"))?;
        Ok(Self { path, copy, original, published: false, lock })
    }

    /// Returns the blob that is staged at a path. Refuses a path that is in conflict or that collides with a folder.
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

    /// Returns the paths that are staged below a folder, in conflict or not.
    pub(super) fn staged_below(&self, folder: &Path) -> Vec<PathBuf> {
        let path = |entry: IndexEntry| PathBuf::from(OsString::from_vec(entry.path));
        self.copy.iter().map(path).filter(|path| path.starts_with(folder)).collect()
    }

    /// Stages a file of the working tree whose blob is `id`.
    pub(super) fn stage(&mut self, workdir: &Path, path: &Path, id: Oid) -> Result<(), VcsError> {
        let file = workdir.join(path);
        let found = fs::symlink_metadata(&file).map_err(VcsError::file("look at", &file))?;
        self.copy.add(&entry(path, &found, id)).map_err(VcsError::git("stage the winner"))
    }

    /// Stages the removal of a file, if it is not staged yet.
    pub(super) fn remove(&mut self, path: &Path) -> Result<(), VcsError> {
        match self.copy.get_path(path, 0) {
            Some(_) => self.copy.remove(path, 0).map_err(VcsError::git("stage the removal of a source")),
            None => Ok(()),
        }
    }

    /// Stages HEAD's file at a path, or nothing. Git reads the file again, because the entry does not say when it was
    /// read.
    pub(super) fn unstage(&mut self, path: &Path, head: Option<Oid>) -> Result<(), VcsError> {
        let doing = VcsError::git("unstage a winner");
        match head {
            None => self.copy.remove(path, 0).map_err(doing),
            Some(id) => self.copy.add(&unread(path, id)).map_err(doing),
        }
    }

    /// Returns the path of the lock.
    pub(super) fn lock_path(&self) -> &Path {
        &self.lock.path
    }

    /// Replaces the index with the staged copy.
    pub(super) fn publish(&mut self) -> Result<(), VcsError> {
        self.copy.write().map_err(VcsError::git("write the index"))?;
        let beside = temporary(&self.path);
        // The new index keeps the old time. Git compares an entry's contents when its file is not older than the index.
        // With a newer time, git would trust the times of entries that were too fresh to be trusted before.
        let like = self.original.as_ref().map(|(_, like)| like);
        File::options()
            .write(true)
            .open(&beside)
            .and_then(|file| {
                like.map_or(Ok(()), |like| make_like(&file, like))?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&beside, &self.path))
            .map_err(VcsError::file("write", &self.path))?;
        self.published = true;
        Ok(())
    }

    /// Keeps the published index, and unlocks.
    pub(super) fn keep(mut self) {
        self.published = false;
        self.lock.stays = false;
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
///
/// A lock that was taken over stays until everything in its journal is undone, so that a later process tries again.
///
/// It holds the journal, and this process holds a lock on the file itself. That lock ends with the process. So another
/// optloop can tell that the file is ours and that its process has died.
struct Lock {
    path: PathBuf,
    copy: PathBuf,
    stays: bool,
    _held: File,
}

impl Lock {
    fn take(index: &Path, journal: &Journal) -> Result<Self, VcsError> {
        let path = index.with_extension("lock");
        let text = serde_json::to_vec(journal).map_err(VcsError::Json)?;
        // Made beside and then linked, because no process may find it empty.
        let staged = index.with_file_name(format!("{STAGED}{}{STAGED_END}", std::process::id()));
        let _ = fs::remove_file(&staged);
        let made = File::create_new(&staged).and_then(|mut file| {
            file.lock()?;
            file.write_all(&text)?;
            // Empty after a power cut, it would look like another git's lock, and no optloop would remove it.
            file.sync_all()?;
            Ok(file)
        });
        let held = made.inspect_err(|_| drop(fs::remove_file(&staged))).map_err(VcsError::file("create", &path))?;
        let linked = (0..LOCK_TRIES).find_map(|_| match link(&staged, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                thread::sleep(LOCK_PAUSE);
                None
            }
            linked => Some(linked.map_err(VcsError::file("create", &path))),
        });
        let _ = fs::remove_file(&staged);
        linked.unwrap_or_else(|| Err(VcsError::Locked(path.clone())))?;
        Ok(Self { path, copy: temporary(index), stays: false, _held: held })
    }

    fn take_over(index: &Path) -> Option<(Self, Journal)> {
        let path = index.with_extension("lock");
        let mut file = File::options().read(true).write(true).open(&path).ok()?;
        let journal = Journal::read(&mut file)?;
        // A child that another thread has just forked holds it, too, until it becomes another program.
        let is_free = (0..LOCK_TRIES).any(|tries| {
            thread::sleep(LOCK_PAUSE * tries.min(1));
            file.try_lock().is_ok()
        });
        is_free.then_some(())?;
        // Another process may have taken it over and made a new one since it was opened.
        let same = fs::metadata(&path).ok()?.ino() == file.metadata().ok()?.ino();
        same.then(|| (Self { path, copy: temporary(index), stays: true, _held: file }, journal))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // There is no copy if it was published.
        let _ = fs::remove_file(&self.copy);
        if self.stays {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("could not remove `{}`, do so before using git: {error}", self.path.display());
        }
    }
}

/// Removes the journals that killed processes have left before or beside their locks. A living process holds a lock on
/// the journal that it is making.
pub(super) fn sweep(git_dir: &Path) {
    let beside = fs::read_dir(git_dir).into_iter().flatten().filter_map(Result::ok);
    let staged = beside.filter(|entry| {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        name.starts_with(STAGED.as_bytes()) && name.ends_with(STAGED_END.as_bytes())
    });
    for path in staged.map(|entry| entry.path()) {
        // The journal of a lock that still has to be undone has a second name, so no contents are lost.
        if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Gives a file another name, which must be free. Where the file system has no links, makes an empty file there. That
/// is a lock like every other git's: the user must remove it if its process is killed.
fn link(file: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(file, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => File::create_new(name).map(drop),
        linked => linked,
    }
}

/// Makes an entry without the file's times, so that git reads the file.
fn unread(path: &Path, id: Oid) -> IndexEntry {
    let never = IndexTime::new(0, 0);
    IndexEntry {
        ctime: never,
        mtime: never,
        dev: 0,
        ino: 0,
        mode: FileMode::Blob.into(),
        uid: 0,
        gid: 0,
        file_size: 0,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.as_os_str().as_encoded_bytes().to_owned(),
    }
}

/// Makes an entry with the file's times and numbers, so that git sees at once that the file is unchanged.
fn entry(path: &Path, found: &Metadata, id: Oid) -> IndexEntry {
    // The index keeps the low 32 bits of each number.
    let time = |seconds: i64, nanoseconds: i64| IndexTime::new(seconds as i32, nanoseconds as u32);
    IndexEntry {
        ctime: time(found.ctime(), found.ctime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        dev: found.dev() as u32,
        ino: found.ino() as u32,
        uid: found.uid(),
        gid: found.gid(),
        file_size: found.size() as u32,
        ..unread(path, id)
    }
}
