//! Refuses a repository with links out of its own folder, where a commit would be written, and with pipes. An unpacked
//! archive may have them: a link from `logs/HEAD` to a file of the user's would get a line for every commit.

use std::fs::{self, File, FileType};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::error::VcsError;

/// What a commit writes to.
const WRITTEN: [&str; 6] = ["HEAD", "index", "logs", "objects", "packed-refs", "refs"];

/// The folders of which git reads every file. It reads all files beside them, too.
const READ: [&str; 5] = ["info", "logs", "objects", "refs", "worktrees"];

/// The most bytes of a file that names a folder.
const MAX_NAME_BYTES: u64 = 1 << 14;

/// Refuses pipes and devices in the repository around a project, before git opens anything: it would wait for their other
/// end. What the repository names outside its folders is not looked at (see [`super::running`]).
pub(super) fn check_kinds(project: &Path) -> Result<(), VcsError> {
    let there = |git: &PathBuf| git.symlink_metadata().is_ok();
    let Some(mut git) = project.ancestors().map(|folder| folder.join(".git")).find(there) else { return Ok(()) };
    refuse(&git, git.metadata().map(|found| found.file_type()).ok())?;
    // A linked working tree or a submodule has a file that names the folder. git reports one that is broken.
    if git.is_file() {
        let Some(named) = text(&git).and_then(|text| Some(text.strip_prefix("gitdir:")?.trim().to_owned())) else {
            return Ok(());
        };
        git = git.with_file_name(named);
    }
    check_folder(&git)?;
    text(&git.join("commondir")).map_or(Ok(()), |common| check_folder(&git.join(common.trim())))
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_NAME_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

fn check_folder(git: &Path) -> Result<(), VcsError> {
    let mut left = vec![git.to_owned()];
    while let Some(folder) = left.pop() {
        // A folder that cannot be listed is git's to report.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, mut kind) = (entry.path(), entry.file_type().ok());
            if kind.is_some_and(|kind| kind.is_dir()) {
                if folder != git || READ.iter().any(|name| entry.file_name() == *name) {
                    left.push(path);
                }
                continue;
            }
            if kind.is_some_and(|kind| kind.is_symlink()) {
                kind = path.metadata().map(|found| found.file_type()).ok();
            }
            refuse(&path, kind)?;
        }
    }
    Ok(())
}

/// Refuses what git would wait for. It does not open the sockets that other programs put there.
fn refuse(path: &Path, kind: Option<FileType>) -> Result<(), VcsError> {
    match kind {
        Some(kind) if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() => {
            Err(VcsError::Waits(path.to_owned()))
        }
        _ => Ok(()),
    }
}

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
