//! The reference that gets the commit of a session.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Branch, Commit, ErrorCode, Repository};

use super::error::VcsError;
use super::locks::patiently;
use super::{CommitId, Repo, running};

/// What the names of branches begin with.
const BRANCHES: &str = "refs/heads/";

/// The reference that gets the commit of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    reference: String,
    /// Whether the branch is yet to be created.
    is_new: bool,
}

impl Destination {
    /// Returns the destination that a session has recorded.
    pub fn recorded(reference: &str) -> Self {
        Self { reference: reference.to_owned(), is_new: false }
    }

    /// Returns the full name of the reference: that of a branch, or `HEAD` where it is detached.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// Returns the name as git's commands take it: that of the branch, or `HEAD`.
    pub fn name(&self) -> &str {
        short(&self.reference)
    }
}

impl Repo {
    /// Returns where a session commits: to the branch with the given name, else to the one that is checked out, else to
    /// the detached HEAD. A branch that is missing is to be created at HEAD. Changes nothing.
    pub fn destination(&self, branch: Option<&str>) -> Result<Destination, VcsError> {
        let _running = running::begin();
        let head = self.head_reference().map_err(VcsError::git("read HEAD"))?;
        let Some(branch) = branch else { return Ok(Destination { reference: head, is_new: false }) };
        let reference = format!("{BRANCHES}{branch}");
        if branch.starts_with(BRANCHES) || !Branch::name_is_valid(branch).unwrap_or(false) {
            return Err(VcsError::BranchName(branch.to_owned()));
        }
        if reference == head {
            return Ok(Destination { reference, is_new: false });
        }
        self.check_free(&reference)?;
        let is_new = self.tip(&reference)?.is_none();
        if is_new && self.head().is_none() {
            return Err(VcsError::Unborn(branch.to_owned()));
        }
        Ok(Destination { reference, is_new })
    }

    /// Creates the branch of a destination at HEAD, if it is new. HEAD, the index and the working tree stay as they are.
    pub fn create(&self, destination: &Destination) -> Result<(), VcsError> {
        let _running = running::begin();
        let Some(head) = self.head_commit()?.filter(|_| destination.is_new) else { return Ok(()) };
        match patiently(|| self.git.branch(destination.name(), &head, false)) {
            Err(error) if error.code() != ErrorCode::Exists => Err(VcsError::git("create the branch")(error)),
            _ => Ok(()),
        }
    }

    /// Describes a destination, as in `branch main of /project`.
    pub fn describe(&self, destination: &Destination) -> String {
        let _running = running::begin();
        let (name, here) = (destination.name(), self.workdir.display());
        let is_head = self.is_checked_out(&destination.reference);
        match destination {
            Destination { reference, .. } if reference == "HEAD" => format!("the detached HEAD of {here}"),
            Destination { is_new: true, .. } => format!("the new branch {name} of {here}, which begins at HEAD"),
            _ if is_head => format!("branch {name} of {here}, which is checked out"),
            _ => format!("branch {name} of {here}, which is not checked out"),
        }
    }

    /// Tells whether a reference is what the working tree has checked out.
    pub fn is_checked_out(&self, reference: &str) -> bool {
        let _running = running::begin();
        self.head_reference().is_ok_and(|head| head == reference)
    }

    /// Returns the commit of a reference. None if there is no such reference, or if it is a branch without commits.
    pub(super) fn tip(&self, reference: &str) -> Result<Option<Commit<'_>>, VcsError> {
        match self.git.find_reference(reference).and_then(|found| found.peel_to_commit()) {
            Ok(commit) => Ok(Some(commit)),
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::UnbornBranch) => Ok(None),
            Err(error) => Err(VcsError::git("read a reference")(error)),
        }
    }

    /// Returns the commit of a reference. None if there is none.
    pub fn commit_at(&self, reference: &str) -> Option<CommitId> {
        let _running = running::begin();
        let commit = self.tip(reference).ok()??;
        Some(CommitId(commit.id().to_string()))
    }

    /// Refuses a branch that another working tree has checked out: its files would differ from its branch.
    pub(super) fn check_free(&self, reference: &str) -> Result<(), VcsError> {
        match self.checked_out_at(reference) {
            Some(path) => Err(VcsError::CheckedOut { branch: short(reference).to_owned(), path }),
            None => Ok(()),
        }
    }

    /// Returns the working tree, other than this one, that has a branch checked out.
    fn checked_out_at(&self, reference: &str) -> Option<PathBuf> {
        let common = self.git.commondir();
        let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_ours = |folder: &Path| folder.canonicalize().ok() == self.git.path().canonicalize().ok();
        let has_it = |folder: &Path| {
            let head = fs::read_to_string(folder.join("HEAD")).unwrap_or_default();
            head.strip_prefix("ref:").is_some_and(|name| name.trim() == reference)
        };
        let folder = linked.chain([common.to_owned()]).find(|folder| !is_ours(folder) && has_it(folder))?;
        match fs::read_to_string(folder.join("gitdir")) {
            Ok(link) => Some(Path::new(link.trim()).parent()?.to_owned()),
            // The HEAD of a bare repository has no working tree.
            Err(_) => Repository::open(&folder).ok()?.workdir().map(Path::to_owned),
        }
    }
}

/// Returns the name of a branch as git's commands take it.
pub(super) fn short(reference: &str) -> &str {
    reference.strip_prefix(BRANCHES).unwrap_or(reference)
}
