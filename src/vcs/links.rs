//! Refuses a repository with links out of its own folder, where a commit would be written. An unpacked archive may have
//! them: a link from `logs/HEAD` to a file of the user's would get a line for every commit.

use std::fs;
use std::path::Path;

use super::error::VcsError;

/// What a commit writes to.
const WRITTEN: [&str; 6] = ["HEAD", "index", "logs", "objects", "packed-refs", "refs"];

/// Refuses links that lead out of a repository's folder. `git` is that folder.
pub(super) fn check(git: &Path) -> Result<(), VcsError> {
    let git = git.canonicalize().map_err(VcsError::file("find", git))?;
    let mut left: Vec<_> = WRITTEN.iter().map(|name| git.join(name)).collect();
    while let Some(path) = left.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.is_symlink() && !path.canonicalize().is_ok_and(|target| target.starts_with(&git)) {
            return Err(VcsError::Linked(path));
        }
        // Objects are only added, under the name of their contents.
        if found.is_dir() && !path.ends_with("objects") {
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    Ok(())
}
