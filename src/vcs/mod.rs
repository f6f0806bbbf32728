//! Commits a confirmed winner, and touches nothing else.
//!
//! A winner is two files below the project, in `kernels/variants/<device>/<workload>/`: the sidecar `<case>.json`, and
//! the source that it names. Cases may share a source. A source that no sidecar of the folder names any more is removed
//! in the same commit. If a language model wrote the winner's family in this session, the commit has two more files:
//! `templates/kernels/<family>/family.toml` and `kernel.cu.tera`.
//!
//! The commit consists of HEAD and these files, never of what the user has staged. The index gets their entries and
//! keeps all others. Ignore rules and `.gitattributes` filters are not consulted: the bytes in the commit are those
//! that were measured. Hooks are not run and commits are not signed, because a session must not stop for either.

mod changes;
mod error;
mod family;
mod files;
mod found;
mod index;
mod journal;
mod links;
mod new_family;
mod recovery;
#[cfg(test)]
mod tests;
mod winner;
mod winners_of;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use git2::build::TreeUpdateBuilder;
use git2::{
    Commit, ConfigLevel, ErrorCode, FileMode, ObjectType, Oid, Repository, RepositoryState, Signature, Transaction,
    Tree,
};

use self::changes::FileChange;
pub use self::error::VcsError;
pub use self::family::FamilyFiles;
use self::files::Written;
pub use self::found::FoundBy;
use self::index::LockedIndex;
use self::journal::Journal;
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

/// HEAD, locked. No other process can move it, so nothing has to be compared or tried again.
struct LockedHead<'a> {
    locks: Transaction<'a>,
    /// The branch, or `HEAD` where it is detached.
    reference: String,
    /// `None` before the first commit of a branch.
    commit: Option<Commit<'a>>,
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
        let resolve = |path: &Path| path.canonicalize().map_err(VcsError::file("find", path));
        let project_dir = resolve(project_dir)?;
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

    /// Returns HEAD's commit. None before the first one.
    pub fn head(&self) -> Option<CommitId> {
        let commit = self.git.head().ok()?.peel_to_commit().ok()?;
        Some(CommitId(commit.id().to_string()))
    }

    /// Commits a winner onto HEAD and returns the commit. Returns HEAD itself if it already holds the same files.
    ///
    /// A file of the winner that the user has edited or staged is never overwritten. After any error, the files, the
    /// index and HEAD are as they were. Leftovers of a process that was killed half-way are undone first.
    pub fn commit_winner(&self, winner: &Winner) -> Result<CommitId, VcsError> {
        self.check_idle()?;
        self.recover()?;
        let reference = self.head_reference().map_err(VcsError::git("read HEAD"))?;
        // The journal comes before the locks, and must still be true under them.
        let planned = self.changes(winner, &self.tree_of(self.head_commit()?.as_ref())?)?;
        let mut index = LockedIndex::lock(self.git.path(), &Journal::of(self, &reference, &planned))?;
        let head = self.lock_head()?;
        if head.reference != reference {
            return Err(VcsError::Busy("checkout"));
        }
        let base = self.tree_of(head.commit.as_ref())?;
        let changes = self.changes(winner, &base)?;
        if !changes.iter().map(|change| &change.path).eq(planned.iter().map(|change| &change.path)) {
            return Err(VcsError::Busy("commit"));
        }
        for change in &changes {
            self.check_untouched(change, &base, &index)?;
        }
        if let Some(family) = &winner.family {
            self.check_nothing_else_staged(&changes, family, &index)?;
        }
        let tree = self.tree_with(&base, &changes)?;
        if let Some(commit) = head.commit.as_ref().filter(|_| tree.id() == base.id()) {
            return Ok(CommitId(commit.id().to_string()));
        }

        // Nothing refers to this object yet. The files go before the index, which records their times. The reference
        // goes last, because that step alone makes the commit.
        let has_new_family = winner.family.as_ref().is_some_and(|family| {
            let folder = self.project.join(family.folder());
            changes.iter().any(|change| change.path.starts_with(&folder))
        });
        let commit = self.commit(&winner.message(has_new_family), &tree, head.commit.as_ref())?;
        let mut written = Written::default();
        for FileChange { path, after } in &changes {
            let file = self.workdir.join(path);
            match after {
                Some(contents) => {
                    written.write(&file, &contents.bytes).map_err(VcsError::file("write", &file))?;
                    index.stage(&self.workdir, path, contents.blob)?;
                }
                None => {
                    written.remove(&file).map_err(VcsError::file("remove", &file))?;
                    index.remove(path)?;
                }
            }
        }
        index.publish()?;
        self.advance(head, commit, &winner.summary())?;
        written.keep();
        index.keep();
        Ok(CommitId(commit.to_string()))
    }

    fn check_idle(&self) -> Result<(), VcsError> {
        Err(VcsError::Busy(match self.git.state() {
            RepositoryState::Clean => return Ok(()),
            RepositoryState::Merge => "merge",
            RepositoryState::Revert | RepositoryState::RevertSequence => "revert",
            RepositoryState::CherryPick | RepositoryState::CherryPickSequence => "cherry-pick",
            RepositoryState::Bisect => "bisect",
            RepositoryState::ApplyMailbox => "`git am`",
            RepositoryState::Rebase
            | RepositoryState::RebaseInteractive
            | RepositoryState::RebaseMerge
            | RepositoryState::ApplyMailboxOrRebase => "rebase",
        }))
    }

    fn lock_head(&self) -> Result<LockedHead<'_>, VcsError> {
        let mut locks = self.git.transaction().map_err(VcsError::git("lock HEAD"))?;
        let mut lock = |name: &str, folder: &Path| {
            locks.lock_ref(name).map_err(|error| match error.code() {
                ErrorCode::Locked => VcsError::Locked(folder.join(format!("{name}.lock"))),
                _ => VcsError::git("lock HEAD")(error),
            })
        };
        lock("HEAD", self.git.path())?;
        let reference = self.head_reference().map_err(VcsError::git("read HEAD"))?;
        if reference != "HEAD" {
            lock(&reference, self.git.commondir())?;
        }
        let commit = self.head_commit()?;
        Ok(LockedHead { locks, reference, commit })
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

    /// Refuses to replace a file that differs from HEAD's. A file that already is the winner's is fine: a killed
    /// process left it.
    fn check_untouched(&self, change: &FileChange, base: &Tree<'_>, index: &LockedIndex) -> Result<(), VcsError> {
        let edited = |how| Err(VcsError::Edited { path: change.path.display().to_string(), change: how });
        let head = base.get_path(&change.path).ok().map(|entry| entry.id());
        let ours = |id: Option<Oid>| id == head || id == change.blob();
        if !ours(index.staged(&change.path)?) {
            return edited("has staged changes");
        }
        let path = self.workdir.join(&change.path);
        let Some((bytes, _)) = files::read(&path).map_err(VcsError::file("read", &path))? else {
            return if head.is_some() && change.after.is_some() { edited("is deleted") } else { Ok(()) };
        };
        // A checkout may have turned every LF into CRLF (core.autocrlf). That is no edit.
        let with_lf = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
        for contents in [&bytes, with_lf.as_bytes()] {
            let id = Oid::hash_object(ObjectType::Blob, contents).map_err(VcsError::git("hash a file"))?;
            if ours(Some(id)) {
                return Ok(());
            }
        }
        edited(if head.is_some() { "has changes that are not committed" } else { "is there but not committed" })
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

    /// Moves HEAD, or its branch, to the commit.
    fn advance(&self, mut head: LockedHead<'_>, commit: Oid, summary: &str) -> Result<(), VcsError> {
        self.signature()
            .and_then(|who| {
                let reason = format!("optloop: {summary}");
                head.locks.set_target(&head.reference, commit, Some(&who), &reason)
            })
            .and_then(|()| head.locks.commit())
            .map_err(VcsError::git("move HEAD to the commit"))
    }
}
