//! Files of the working tree: finds what is in a winner's way, and writes so that a failure can be undone.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::VcsError;

/// Refuses a path that leaves the repository or enters another one. Git would not track a file there.
pub(super) fn check_way(workdir: &Path, path: &Path) -> Result<(), VcsError> {
    let outermost_first = folders_above(path).collect::<Vec<_>>().into_iter().rev();
    for folder in outermost_first {
        let blocked = |obstacle| Err(VcsError::Blocked { path: folder.display().to_string(), obstacle });
        let absolute = workdir.join(folder);
        match fs::symlink_metadata(&absolute) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(VcsError::file("look at", &absolute)(error)),
            Ok(found) if found.is_symlink() => return blocked("is a symbolic link"),
            Ok(found) if !found.is_dir() => return blocked("is a file"),
            Ok(_) if absolute.join(".git").exists() => return blocked("is a repository of its own"),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Returns the folders above a relative path, innermost first.
pub(super) fn folders_above(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty())
}

/// A file as it was before it was written. None if there was none.
pub(super) type Before = Option<(Vec<u8>, Metadata)>;

/// Reads a file that may be missing. Fails for anything but a plain file.
pub(super) fn read(path: &Path) -> io::Result<Before> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(found) if found.is_file() => Ok(Some((fs::read(path)?, found))),
        Ok(_) => Err(io::Error::other("it is not a regular file; move it away")),
    }
}

/// Replaces a file in one step, so that no reader ever sees half of it. Its time and permissions become those of
/// `like`.
pub(super) fn replace(path: &Path, bytes: &[u8], like: Option<&Metadata>) -> io::Result<()> {
    let temporary = temporary(path);
    // A killed process left this one.
    let _ = fs::remove_file(&temporary);
    let written = File::create_new(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        if let Some(like) = like {
            make_like(&file, like)?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Restores a file's earlier state, as far as possible.
pub(super) fn put_back(path: &Path, before: &Before) {
    let restored = match before {
        Some((bytes, like)) => replace(path, bytes, Some(like)),
        None => fs::remove_file(path),
    };
    if let Err(error) = restored {
        tracing::warn!("could not restore `{}`: {error}", path.display());
    }
}

/// Gives a file the modification time and permissions of another.
pub(super) fn make_like(file: &File, like: &Metadata) -> io::Result<()> {
    file.set_permissions(like.permissions())?;
    file.set_modified(like.modified()?)
}

/// Returns the temporary file beside `path` that is renamed to it.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.optloop-tmp"))
}

/// Files written and removed so far. Dropping it restores them, unless they are kept.
#[derive(Default)]
pub(super) struct Written {
    files: Vec<(PathBuf, Before)>,
    folders: Vec<PathBuf>,
}

impl Written {
    /// Writes a file and the folders above it.
    pub(super) fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let above: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in above.into_iter().rev() {
            fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        let before = read(path)?;
        replace(path, bytes, None)?;
        self.files.push((path.to_owned(), before));
        Ok(())
    }

    /// Removes a file, if it exists.
    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let before = read(path)?;
        if before.is_some() {
            fs::remove_file(path)?;
            self.files.push((path.to_owned(), before));
        }
        Ok(())
    }

    /// Keeps the changes.
    pub(super) fn keep(mut self) {
        self.files.clear();
        self.folders.clear();
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for (path, before) in self.files.drain(..).rev() {
            put_back(&path, &before);
        }
        for folder in self.folders.drain(..).rev() {
            // Another process may have put a file there in the meantime. Then the folder stays.
            let _ = fs::remove_dir(folder);
        }
    }
}
