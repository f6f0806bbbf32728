//! Locks on resources that only one optloop process may use at a time: a project, a store, a GPU. A second process
//! reports which one holds it.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
#[cfg(unix)]
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;

use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::ids::SessionId;
use crate::domain::instant;
use crate::runner::toolchain::cache_dir;

/// Another optloop process holds a lock.
#[derive(Debug, thiserror::Error)]
#[error("{what} is in use by {holder}: wait for it, or end it")]
pub struct InUse {
    what: String,
    holder: String,
}

/// Tries for a lock, which take 50 ms together.
const LOCK_TRIES: u32 = 6;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The process that holds a lock, as its lock file says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Holder {
    process: u32,
    verb: String,
    since: String,
    session: Option<SessionId>,
    project: PathBuf,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { process, verb, since, session, project } = self;
        write!(f, "`optloop {verb}` (process {process}")?;
        if let Some(session) = session {
            write!(f, ", session {session}")?;
        }
        write!(f, ") in {} since {since}", project.display())
    }
}

/// The locks that this process holds. Dropping this value releases them. The system also releases them when the process
/// ends in any way, so the lock file of a dead process blocks no other.
#[derive(Debug)]
pub struct Locks {
    holder: Holder,
    files: Vec<File>,
    gpu: Option<File>,
    /// Those of further GPUs.
    lanes: Vec<File>,
}

impl Locks {
    /// Locks a project, for a verb that measures or commits.
    pub fn project(root: &Path, verb: &str) -> anyhow::Result<Self> {
        let mut locks = Self::none(root, verb)?;
        let project = locks.take("this project", &root.join(".optloop/session.lock"))?;
        locks.files.push(project);
        Ok(locks)
    }

    /// Locks nothing yet, and writes nothing.
    pub fn none(root: &Path, verb: &str) -> anyhow::Result<Self> {
        let since = instant::now();
        let since = since.replace_nanosecond(0).unwrap_or(since);
        let holder = Holder {
            process: std::process::id(),
            verb: verb.to_owned(),
            since: since.format(&Rfc3339).context("Failed to read the clock")?,
            session: None,
            project: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
        };
        Ok(Self { holder, files: Vec::new(), gpu: None, lanes: Vec::new() })
    }

    /// Locks a store. A session of another project may be writing to it.
    pub fn store(&mut self, path: &Path) -> anyhow::Result<()> {
        let folder = path.parent().map_or_else(|| path.to_owned(), Path::to_owned);
        fs::create_dir_all(&folder).with_context(|| format!("Failed to create {}", folder.display()))?;
        let lock = lock_of_store(path).with_context(|| format!("Failed to find {}", path.display()))?;
        let store = self.take(&format!("the store {}", path.display()), &lock)?;
        self.files.push(store);
        Ok(())
    }

    /// Locks a GPU instead of the one before, so that no other process disturbs its times. Any number of processes
    /// share a virtual GPU. If it replaces a GPU that does not answer, another process may lock that GPU.
    pub fn device(&mut self, device: &DeviceInfo) -> anyhow::Result<()> {
        self.gpu = None;
        self.gpu = self.lock_of(device)?;
        Ok(())
    }

    /// Locks a further GPU.
    pub fn lane(&mut self, device: &DeviceInfo) -> anyhow::Result<()> {
        let lock = self.lock_of(device)?;
        self.lanes.extend(lock);
        Ok(())
    }

    /// Returns the lock of a GPU. A device that is no GPU needs none.
    fn lock_of(&self, device: &DeviceInfo) -> anyhow::Result<Option<File>> {
        let (TimeSource::Measured, Some(uuid)) = (device.time_source(), &device.uuid) else { return Ok(None) };
        self.gpu_lock(&cache_dir()?, uuid, &format!("the {} ({})", device.name, device.id)).map(Some)
    }

    fn gpu_lock(&self, cache: &Path, uuid: &str, what: &str) -> anyhow::Result<File> {
        self.take(what, &cache.join("devices").join(format!("{uuid}.lock")))
    }

    /// Adds the session's number to the message for other processes.
    pub fn note_session(&mut self, session: SessionId) {
        self.holder.session = Some(session);
        for file in self.files.iter_mut().chain(&mut self.gpu).chain(&mut self.lanes) {
            if let Err(error) = self.holder.sign(file) {
                tracing::warn!("a lock file does not name its session: {error}");
            }
        }
    }

    fn take(&self, what: &str, path: &Path) -> anyhow::Result<File> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(|| format!("Failed to create {}", folder.display()))?;
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        // The file is overwritten, so it must not be a link to something else. A project may hold such links.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(path).with_context(|| {
            let linked = if path.is_symlink() { ", which is a link: remove it" } else { "" };
            format!("Failed to open {}{linked}", path.display())
        })?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            bail!("{} is not a regular file: remove it", path.display());
        }
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(InUse { what: what.to_owned(), holder: holder_of(&mut file) }.into());
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("Failed to lock {}", path.display()));
            }
        }
        self.holder.sign(&mut file).with_context(|| format!("Failed to write {}", path.display()))?;
        Ok(file)
    }
}

/// The process that writes to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// There is none.
    None,
    /// A process that runs this session.
    Session(SessionId),
    /// A process without a recorded session, or one whose lock file this user may not read.
    Unknown,
}

/// Returns the process that writes to a store. Nothing is written, and other processes can still lock the store.
pub fn writer(store: &Path) -> Writer {
    let opened = lock_of_store(store).and_then(|lock| match lock.metadata()?.is_file() {
        true => File::open(lock),
        // A pipe would block its reader forever.
        false => Err(std::io::Error::other("it is not a regular file")),
    });
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Writer::None,
        Err(_) => return Writer::Unknown,
    };
    // A shared lock, so that any number of readers can check. Dropping the file releases it.
    match file.try_lock_shared() {
        Ok(()) => Writer::None,
        Err(_) => read_holder(&mut file).and_then(|holder| holder.session).map_or(Writer::Unknown, Writer::Session),
    }
}

/// Returns the path of a store's lock: next to the file itself, with links resolved.
fn lock_of_store(path: &Path) -> std::io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let beside = || Ok(folder.canonicalize()?.join(path.file_name().unwrap_or_default()));
    let file: std::io::Result<PathBuf> = path.canonicalize().or_else(|_| beside());
    let mut lock = file?.into_os_string();
    lock.push(".lock");
    Ok(lock.into())
}

/// Locks a file. A reader that checks whether the file is locked holds the lock briefly.
fn lock(file: &File) -> Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            locked => return locked,
        }
    }
    file.try_lock()
}

impl Holder {
    /// Writes this process's details into a lock file that it holds.
    fn sign(&self, file: &mut File) -> std::io::Result<()> {
        let text = serde_json::to_vec(self)?;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&text)
    }
}

/// Returns a sentence about the process that holds a lock.
fn holder_of(file: &mut File) -> String {
    read_holder(file).map_or_else(|| "another optloop".to_owned(), |holder| holder.to_string())
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::device::TimingMode;

    /// Returns the refusal, without the parts that differ between runs.
    fn refused(result: anyhow::Result<()>, folder: &Path) -> String {
        let said = format!("{:#}", result.unwrap_err());
        let said = said.replace(&folder.canonicalize().unwrap().display().to_string(), "[folder]");
        let said = said.replace(&std::process::id().to_string(), "[process]");
        let (before, since) = said.split_once("since ").unwrap();
        format!("{before}since [instant]{}", &since[since.find(": ").unwrap()..])
    }

    #[test]
    fn a_second_process_is_refused_with_the_holder_until_the_first_ends() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Locks::project(folder.path(), "start").unwrap();
        first.note_session(SessionId(3));
        let second = || Locks::project(folder.path(), "bench").map(drop);
        insta::assert_snapshot!(refused(second(), folder.path()), @"this project is in use by `optloop start` (process [process], session 3) in [folder] since [instant]: wait for it, or end it");
        drop(first);
        // The file is still there, signed by a process that has ended.
        assert!(folder.path().join(".optloop/session.lock").is_file());
        second().unwrap();
    }

    #[test]
    fn a_reader_sees_the_writing_session_without_locking_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("optloop.db");
        assert_eq!(writer(&store), Writer::None, "there is no lock file");
        let mut locks = Locks::project(folder.path(), "start").unwrap();
        locks.store(&store).unwrap();
        assert_eq!(writer(&store), Writer::Unknown, "its session has no number yet");
        locks.note_session(SessionId(3));
        assert_eq!([writer(&store), writer(&store)], [Writer::Session(SessionId(3)); 2]);
        drop(locks);
        // The file still names the session.
        assert_eq!(writer(&store), Writer::None);
        Locks::project(folder.path(), "start").unwrap().store(&store).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_store_has_one_lock_for_all_projects() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for project in ["a", "b"] {
            fs::create_dir_all(root.join(project).join(".optloop")).unwrap();
        }
        let mut first = Locks::project(&root.join("a"), "start").unwrap();
        first.store(&root.join("a/.optloop/optloop.db")).unwrap();
        fs::write(root.join("a/.optloop/optloop.db"), "").unwrap();
        std::os::unix::fs::symlink(root.join("a/.optloop/optloop.db"), root.join("b/.optloop/optloop.db")).unwrap();
        let mut second = Locks::project(&root.join("b"), "resume").unwrap();
        insta::assert_snapshot!(refused(second.store(&root.join("b/.optloop/optloop.db")), &root), @"the store [folder]/b/.optloop/optloop.db is in use by `optloop start` (process [process]) in [folder]/a since [instant]: wait for it, or end it");
    }

    #[test]
    fn a_gpu_is_locked_by_its_uuid_and_a_virtual_one_is_never_locked() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let mut first = Locks::project(&folder.path().join("a"), "start").unwrap();
        let second = Locks::project(&folder.path().join("b"), "bench").unwrap();
        let lock = |locks: &Locks, uuid| locks.gpu_lock(&cache, uuid, "the NVIDIA L4 (cuda:0)");
        first.gpu = Some(lock(&first, "GPU-1").unwrap());
        first.lanes.push(lock(&first, "GPU-2").unwrap());
        for uuid in ["GPU-1", "GPU-2"] {
            let said = format!("{:#}", lock(&second, uuid).unwrap_err());
            assert!(said.starts_with("the NVIDIA L4 (cuda:0) is in use by `optloop start` (process "), "{said}");
        }
        lock(&second, "GPU-3").unwrap();
        let virtual_gpu = DeviceInfo { timing: TimingMode::Modelled, ..DeviceInfo::of_arch("sm_89").unwrap() };
        // The virtual GPU replaces a GPU that does not answer. That GPU is free again.
        first.device(&virtual_gpu).unwrap();
        first.lane(&virtual_gpu).unwrap();
        lock(&second, "GPU-1").unwrap();
        assert!(first.gpu.is_none() && first.lanes.len() == 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_file_that_is_a_link_is_refused_and_its_target_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, lock) = (folder.path().join("mine"), folder.path().join(".optloop/session.lock"));
        fs::write(&mine, "keep me").unwrap();
        fs::create_dir(folder.path().join(".optloop")).unwrap();
        std::os::unix::fs::symlink(&mine, &lock).unwrap();
        let said = format!("{:#}", Locks::project(folder.path(), "start").unwrap_err());
        assert!(said.contains("session.lock, which is a link: remove it"), "{said}");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "keep me");
    }
}
