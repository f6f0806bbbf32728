//! The reasons why a winner was not committed, each in a sentence that says what to do.

use std::io;
use std::path::{Path, PathBuf};

/// A reason not to commit. In every case, nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum VcsError {
    /// There is no repository.
    #[error("`{}` is not in a git repository: run `git init` there, or work inside a repository", .0.display())]
    NoRepository(PathBuf),
    /// The repository has no working tree.
    #[error("`{}` is a bare repository, which has no working tree for winners: work in a clone of it", .0.display())]
    Bare(PathBuf),
    /// The repository belongs to another user.
    #[error(
        "the repository around `{dir}` belongs to another user, so git does not trust it: run \
         `git config --global --add safe.directory <its folder>` if you do", dir = .0.display()
    )]
    Untrusted(PathBuf),
    /// git would write outside the repository.
    #[error("`{}` leads out of the repository's folder, and commits would be written there: remove the link", .0.display())]
    Linked(PathBuf),
    /// git would wait for the other end.
    #[error("`{}` is a pipe or a device, which git would wait for: remove it", .0.display())]
    Waits(PathBuf),
    /// The user is in the middle of a git operation.
    #[error("a {0} is in progress: finish it or abort it")]
    Busy(&'static str),
    /// Another process holds a lock, or died with it.
    #[error("`{}` exists: wait for the other git process, or delete the file if none is running", .0.display())]
    Locked(PathBuf),
    /// The user has edited the very file that the winner would replace or remove.
    #[error("`{path}` {change}: commit it or restore it, because the winner would replace it")]
    Edited {
        /// The file, relative to the repository.
        path: String,
        /// The change, such as `has unstaged changes`.
        change: &'static str,
    },
    /// The path to the file has more than plain folders of this repository.
    #[error("`{path}` {obstacle}: move it away, because winners are stored below it")]
    Blocked {
        /// The obstacle, relative to the repository.
        path: String,
        /// What it is, such as `is a symbolic link`.
        obstacle: &'static str,
    },
    /// The project has another family of that name, or other files in its folder.
    #[error("`{folder}` {how}: rename the folder or move it away, because the winner's family has that name")]
    FamilyTaken {
        /// The folder, relative to the repository.
        folder: String,
        /// What is there, such as `holds another family`.
        how: &'static str,
    },
    /// The project could not read the family of the winner back.
    #[error("the family `{name}` of the winner cannot be committed: {problem}")]
    Family {
        /// The family.
        name: String,
        /// The reason.
        problem: String,
    },
    /// The name of a workload or a case cannot be a file name.
    #[error("`{0}` cannot name a file: use letters, digits, `-`, `_` and `.`, and begin with a letter or digit")]
    Name(String),
    /// The name is not one of a branch.
    #[error("`{0}` is not a valid name of a branch: use one like `optloop` or `kernels/h200`, without `refs/heads/`")]
    BranchName(String),
    /// A new branch has nothing to begin at.
    #[error("the repository has no commit yet, at which branch `{0}` could begin: make a first commit")]
    Unborn(String),
    /// Another working tree would no longer match its branch.
    #[error(
        "branch `{branch}` is checked out in `{}`, whose files would no longer match it: choose another branch with \
         --commit-to", path.display()
    )]
    CheckedOut {
        /// The branch.
        branch: String,
        /// The other working tree.
        path: PathBuf,
    },
    /// The reference is gone.
    #[error("`{0}` was deleted during the session")]
    Gone(String),
    /// HEAD was detached when the session began.
    #[error("HEAD was detached when the session began, and is on branch `{}` now", .0.trim_start_matches("refs/heads/"))]
    Attached(String),
    /// Another winner of the case was committed.
    #[error("`{path}` has another winner by now ({us:.3} us), with which this one was not compared")]
    Unbeaten {
        /// The sidecar, relative to the repository.
        path: String,
        /// The recorded time of the other winner, in microseconds.
        us: f64,
    },
    /// A winner is missing from what is kept.
    #[error("the winner of `{case}` is not under `{reference}`")]
    NotKept {
        /// The case.
        case: String,
        /// The reference of the session.
        reference: String,
    },
    /// There is no such commit.
    #[error("there is no commit `{0}`: `git log -- kernels` lists those of winners")]
    NoCommit(String),
    /// The commit has no winner.
    #[error("commit {0} has no winner: `git log -- kernels` lists those that have")]
    NoWinners(String),
    /// The operating system reported an error.
    #[error("could not {doing} `{}`: {error}{}", path.display(), hint(error))]
    File {
        /// What failed, as in "could not …".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// libgit2 reported an error.
    #[error("could not {doing}: {}; `git fsck` and `git status` may give details", error.message())]
    Git {
        /// What failed, as in "could not …".
        doing: &'static str,
        /// libgit2's reason.
        error: git2::Error,
    },
    /// The sidecar has no JSON form.
    #[error("could not write the sidecar as JSON: {0}")]
    Json(serde_json::Error),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "; make it writable for this user",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space",
        _ => "",
    }
}

impl VcsError {
    /// Returns the error about a reference that was there before.
    pub(super) fn gone(reference: &str) -> Self {
        Self::Gone(reference.strip_prefix("refs/heads/").unwrap_or(reference).to_owned())
    }

    /// Returns a function that adds what was being done to an error of libgit2.
    pub(super) fn git(doing: &'static str) -> impl FnOnce(git2::Error) -> Self {
        move |error| Self::Git { doing, error }
    }

    /// Returns a function that adds what was being done, and to which file, to an error of the system.
    pub(super) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::File { doing, path: path.to_owned(), error }
    }
}
