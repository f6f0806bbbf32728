//! Keeps and commits confirmed winners, and touches nothing else.
//!
//! A winner is two files below the project, in `kernels/variants/<device>/<workload>/`: the sidecar `<case>.json`, and
//! the source that it names. Cases may share a source. A source that no sidecar of the folder names any more is removed
//! in the same commit. If a language model wrote the winner's family in this session, the commit has two more files:
//! `templates/kernels/<family>/family.toml` and `kernel.cu.tera`.
//!
//! While a session runs, its winners are kept under a reference of its own (`kept`). At its end, it makes one commit
//! (`session_commit`) onto its branch (`destination`).
//!
//! A commit consists of the branch's tip and these files, never of what the user has staged. Where the branch is checked
//! out, the index gets their entries and keeps all others. Ignore rules and `.gitattributes` filters are not consulted:
//! the bytes in the commit are those that were measured. Hooks are not run and commits are not signed, because a session
//! must not stop for either.

mod changes;
mod commit;
mod destination;
mod error;
mod family;
mod files;
mod found;
mod index;
mod journal;
mod kept;
mod links;
mod locks;
mod new_family;
mod recovery;
mod running;
mod session_commit;
#[cfg(test)]
mod tests;
mod winner;
mod winners_of;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use git2::build::TreeUpdateBuilder;
use git2::{Commit, ConfigLevel, ErrorCode, FileMode, Oid, Repository, Signature, Tree};

use self::changes::FileChange;
pub use self::destination::Destination;
pub use self::error::VcsError;
pub use self::family::FamilyFiles;
pub use self::found::FoundBy;
pub use self::kept::{Kept, new_reference};
pub use self::running::running_for;
pub use self::session_commit::{SessionCommit, SessionCommitted, SessionWinner};
pub use self::winner::{BaselineTime, Earlier, Figures, TimedBy, Winner};
pub use self::winners_of::WinnerInCommit;

/// The id of a commit, as 40 hex digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitId(pub String);

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The git repository of a project.
pub struct Repo {
    git: Repository,
    workdir: PathBuf,
    /// The project's folder, relative to `workdir`. Empty if it is the same.
    project: PathBuf,
}

/// Makes libgit2 flush every object and reference to the disk before naming it. The store flushes its row of a commit,
/// too. That row must not outlive the commit in a power cut.
///
/// libgit2 reads the repository's configuration when it first reads or writes an object, so this comes first. The file
/// is read here and then removed: no other git sees it.
fn flush(git: &Repository) -> Result<(), VcsError> {
    let made = tempfile::NamedTempFile::new().and_then(|mut file| {
        file.write_all(b"[core]\n\tfsyncObjectFiles = true\n")?;
        Ok(file)
    });
    let file = made.map_err(VcsError::file("write to", &std::env::temp_dir()))?;
    git.config()
        .and_then(|mut config| config.add_file(file.path(), ConfigLevel::App, true))
        .map_err(VcsError::git("make libgit2 flush what it writes"))
}

impl Repo {
    /// Returns the repository around a project's folder.
    pub fn discover(project_dir: &Path) -> Result<Self, VcsError> {
        let _running = running::begin();
        let resolve = |path: &Path| path.canonicalize().map_err(VcsError::file("find", path));
        let project_dir = resolve(project_dir)?;
        links::check_kinds(&project_dir)?;
        let git = Repository::discover(&project_dir).map_err(|error| match error.code() {
            ErrorCode::NotFound => VcsError::NoRepository(project_dir.clone()),
            ErrorCode::Owner => VcsError::Untrusted(project_dir.clone()),
            _ => VcsError::git("open the repository")(error),
        })?;
        links::check(git.path())?;
        links::check(git.commondir())?;
        flush(&git)?;
        let workdir = resolve(git.workdir().ok_or_else(|| VcsError::Bare(project_dir.clone()))?)?;
        let project = project_dir.strip_prefix(&workdir).map_err(|_| VcsError::NoRepository(project_dir.clone()))?;
        Ok(Self { project: project.to_owned(), git, workdir })
    }

    /// Makes an empty repository in a folder.
    pub fn init(folder: &Path) -> Result<(), VcsError> {
        let _running = running::begin();
        Repository::init(folder).map(drop).map_err(VcsError::git("make a repository"))
    }

    /// Returns HEAD's commit. None before the first one.
    pub fn head(&self) -> Option<CommitId> {
        let _running = running::begin();
        let commit = self.git.head().ok()?.peel_to_commit().ok()?;
        Some(CommitId(commit.id().to_string()))
    }

    /// Returns HEAD's commit. None before the first commit of a branch.
    fn head_commit(&self) -> Result<Option<Commit<'_>>, VcsError> {
        match self.git.head().and_then(|head| head.peel_to_commit()) {
            Ok(commit) => Ok(Some(commit)),
            Err(error) if error.code() == ErrorCode::UnbornBranch => Ok(None),
            Err(error) => Err(VcsError::git("read HEAD")(error)),
        }
    }

    /// Returns the name of the reference that a commit moves. It need not exist yet.
    fn head_reference(&self) -> Result<String, git2::Error> {
        match self.git.head() {
            Ok(head) => Ok(head.name()?.to_owned()),
            Err(error) if error.code() == ErrorCode::UnbornBranch => {
                let head = self.git.find_reference("HEAD")?;
                Ok(head.symbolic_target()?.unwrap_or("HEAD").to_owned())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the tree of a commit, or the empty tree.
    fn tree_of(&self, commit: Option<&Commit<'_>>) -> Result<Tree<'_>, VcsError> {
        let empty = || self.git.treebuilder(None).and_then(|builder| builder.write());
        commit
            .map_or_else(empty, |commit| Ok(commit.tree_id()))
            .and_then(|id| self.git.find_tree(id))
            .map_err(VcsError::git("read the tree of HEAD"))
    }

    fn tree_with(&self, base: &Tree<'_>, changes: &[FileChange]) -> Result<Tree<'_>, VcsError> {
        let mut update = TreeUpdateBuilder::new();
        for change in changes {
            match change.blob() {
                Some(blob) => update.upsert(change.path.as_path(), blob, FileMode::Blob),
                None => update.remove(change.path.as_path()),
            };
        }
        update
            .create_updated(&self.git, base)
            .and_then(|id| self.git.find_tree(id))
            .map_err(VcsError::git("add the winner to the tree of HEAD"))
    }

    fn commit(&self, message: &str, tree: &Tree<'_>, parent: Option<&Commit<'_>>) -> Result<Oid, VcsError> {
        let create = || {
            let who = self.signature()?;
            self.git.commit(None, &who, &who, message, tree, parent.as_slice())
        };
        create().map_err(VcsError::git("create the commit"))
    }

    /// Returns the user's identity, or optloop's own if none is configured.
    fn signature(&self) -> Result<Signature<'_>, git2::Error> {
        self.git.signature().or_else(|_| Signature::now("optloop", "optloop@localhost"))
    }
}
