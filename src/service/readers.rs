//! Keeps the stores of a project open between requests. Opening one checks its schema, which takes longer than most
//! queries.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::store::{Store, StoreError};

/// The most stores that are kept. Further ones are closed after use.
const MAX_KEPT: usize = 4;

/// The open stores of a project that are not in use at the moment.
#[derive(Debug, Default)]
pub struct Readers(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    store: Store,
    path: PathBuf,
    state: FileState,
}

/// Tells one file from another in its place, and one content from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    file: (u64, u64),
    written: [Option<SystemTime>; 2],
}

/// An open store. Dropping it leaves it to the next request.
#[derive(Debug)]
pub struct Reader<'a> {
    readers: &'a Readers,
    kept: Option<Kept>,
}

impl Readers {
    /// Opens a store for reading.
    pub async fn open(&self, path: &Path) -> Result<Reader<'_>, StoreError> {
        if !path.exists() {
            return Err(StoreError::NoSessions);
        }
        let state = FileState::of(path);
        let kept = self.take(path, &state);
        let kept = match kept {
            Some(kept) => kept,
            None => Kept { store: Store::open_existing(path).await?, path: path.to_owned(), state },
        };
        Ok(Reader { readers: self, kept: Some(kept) })
    }

    /// Takes a store that is still good: the file is the same, and if it is read from a copy, nothing was written since.
    fn take(&self, path: &Path, state: &FileState) -> Option<Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| {
            kept.path == path && kept.state.file == state.file && (!kept.store.is_copy() || kept.state == *state)
        });
        kept.pop()
    }

    fn give_back(&self, kept: Kept) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_KEPT {
            all.push(kept);
        }
    }
}

impl FileState {
    fn of(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let written = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
        Self { file: identity(path), written: [written(path), written(Path::new(&log))] }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    path.metadata().map_or((0, 0), |found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> (u64, u64) {
    (0, 0)
}

impl Deref for Reader<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.kept.as_ref().expect("it is taken only when it is dropped").store
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.kept.take().into_iter().for_each(|kept| self.readers.give_back(kept));
    }
}
