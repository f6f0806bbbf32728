//! Commits the files of winners onto a reference, all at once or not at all.
//!
//! Where the reference is checked out, the files appear in the working tree and the index, too. Otherwise only the
//! reference moves.

use std::path::Path;

use git2::{Commit, ErrorCode, ObjectType, Oid, RepositoryState, Transaction, Tree};

use super::changes::{FileChange, Refusals, WinnerFiles};
use super::error::VcsError;
use super::files::{self, Written};
use super::index::LockedIndex;
use super::journal::Journal;
use super::locks::patiently;
use super::winner::Winner;
use super::{CommitId, Repo, running};

/// The message of a commit.
pub(super) struct Text {
    /// The first line.
    pub(super) summary: String,
    /// All of it.
    pub(super) message: String,
}

/// Writes the message of a commit, given the names of the families that it adds.
pub(super) type Describe<'a> = &'a dyn Fn(&[&str]) -> Text;

/// What came of a commit.
pub(super) enum Attempt {
    /// The winners are in this commit.
    Done(CommitId),
    /// Nothing has changed, because of some of the winners.
    Refused(Refusals),
}

/// A reference, locked. No other process can move it, so nothing has to be compared or tried again.
struct LockedTip<'a> {
    locks: Transaction<'a>,
    /// Its name: a branch, or `HEAD` where it is detached.
    reference: String,
    /// Its commit. None before the first commit of a branch.
    commit: Option<Commit<'a>>,
}

impl Repo {
    /// Commits a winner onto HEAD and returns the commit. Returns HEAD itself if it already holds the same files.
    ///
    /// A file of the winner that the user has edited or staged is never overwritten. After any error, the files, the
    /// index and HEAD are as they were. Leftovers of a process that was killed half-way are undone first.
    pub fn commit_winner(&self, winner: &Winner) -> Result<CommitId, VcsError> {
        let _running = running::begin();
        let files = self.files_of(winner)?;
        let reference = self.head_reference().map_err(VcsError::git("read HEAD"))?;
        let describe = |new_families: &[&str]| Text {
            summary: winner.summary(),
            message: winner.message(!new_families.is_empty()),
        };
        match self.attempt(&reference, &[&files], &describe)? {
            Attempt::Done(commit) => Ok(commit),
            Attempt::Refused(mut reasons) => Err(reasons.swap_remove(0).1),
        }
    }

    /// Commits the files of winners onto a reference. An error is about all of them.
    pub(super) fn attempt(
        &self,
        reference: &str,
        winners: &[&WinnerFiles],
        describe: Describe<'_>,
    ) -> Result<Attempt, VcsError> {
        match self.head_reference().map_err(VcsError::git("read HEAD"))? {
            head if head == reference => self.commit_here(reference, winners, describe),
            head if reference == "HEAD" => Err(VcsError::Attached(head)),
            _ => self.commit_elsewhere(reference, winners, describe),
        }
    }

    /// Commits onto the reference that is checked out.
    fn commit_here(
        &self,
        reference: &str,
        winners: &[&WinnerFiles],
        describe: Describe<'_>,
    ) -> Result<Attempt, VcsError> {
        self.check_idle()?;
        self.recover()?;
        // The journal comes before the locks, and must still be true under them.
        let planned = match self.changes(winners, &self.tree_of(self.head_commit()?.as_ref())?, true) {
            Ok(planned) => planned,
            Err(refused) => return Ok(Attempt::Refused(refused)),
        };
        let mut index = LockedIndex::lock(self.git.path(), &Journal::of(self, reference, &planned))?;
        let head = self.lock_head()?;
        if head.reference != reference {
            return Err(VcsError::Busy("checkout"));
        }
        let base = self.tree_of(head.commit.as_ref())?;
        let changes = match self.changes(winners, &base, true) {
            Ok(changes) => changes,
            Err(refused) => return Ok(Attempt::Refused(refused)),
        };
        if !changes.iter().map(|change| &change.path).eq(planned.iter().map(|change| &change.path)) {
            return Err(VcsError::Busy("commit"));
        }
        let refused = self.touched(winners, &changes, &base, &index);
        if !refused.is_empty() {
            return Ok(Attempt::Refused(refused));
        }
        let tree = self.tree_with(&base, &changes)?;
        if let Some(commit) = head.commit.as_ref().filter(|_| tree.id() == base.id()) {
            return Ok(Attempt::Done(CommitId(commit.id().to_string())));
        }

        // Nothing refers to this object yet. The files go before the index, which records their times. The reference
        // goes last, because that step alone makes the commit.
        let Text { summary, message } = describe(&self.new_families(winners, &changes));
        let commit = self.commit(&message, &tree, head.commit.as_ref())?;
        let written = self.write(&changes, &mut index)?;
        index.publish()?;
        self.advance(head, commit, &summary)?;
        written.keep();
        index.keep();
        Ok(Attempt::Done(CommitId(commit.to_string())))
    }

    /// Commits onto a branch that is checked out nowhere.
    fn commit_elsewhere(
        &self,
        reference: &str,
        winners: &[&WinnerFiles],
        describe: Describe<'_>,
    ) -> Result<Attempt, VcsError> {
        let branch = self.lock_branch(reference)?;
        // Under the lock, because the branch may have been checked out since the session began.
        self.check_free(reference)?;
        let Some(tip) = branch.commit.as_ref() else { return Err(VcsError::gone(reference)) };
        let base = self.tree_of(Some(tip))?;
        let changes = match self.changes(winners, &base, false) {
            Ok(changes) => changes,
            Err(refused) => return Ok(Attempt::Refused(refused)),
        };
        let tree = self.tree_with(&base, &changes)?;
        if tree.id() == base.id() {
            return Ok(Attempt::Done(CommitId(tip.id().to_string())));
        }
        let Text { summary, message } = describe(&self.new_families(winners, &changes));
        let commit = self.commit(&message, &tree, Some(tip))?;
        self.advance(branch, commit, &summary)?;
        Ok(Attempt::Done(CommitId(commit.to_string())))
    }

    /// Writes the files of a commit, and stages them.
    fn write(&self, changes: &[FileChange], index: &mut LockedIndex) -> Result<Written, VcsError> {
        let mut written = Written::default();
        for FileChange { path, after, .. } in changes {
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
        Ok(written)
    }

    /// Returns the names of the families that changes add.
    pub(super) fn new_families<'w>(&self, winners: &[&'w WinnerFiles], changes: &[FileChange]) -> Vec<&'w str> {
        let families = winners.iter().filter_map(|winner| winner.family.as_ref());
        let is_new = |folder: &Path| changes.iter().any(|change| change.path.starts_with(folder));
        let mut new: Vec<&str> = families
            .filter(|family| is_new(&self.project.join(family.folder())))
            .map(|family| family.name.as_str())
            .collect();
        new.sort_unstable();
        new.dedup();
        new
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

    /// Locks HEAD and its branch.
    fn lock_head(&self) -> Result<LockedTip<'_>, VcsError> {
        let mut locks = self.git.transaction().map_err(VcsError::git("lock HEAD"))?;
        lock(&mut locks, "HEAD", self.git.path())?;
        let reference = self.head_reference().map_err(VcsError::git("read HEAD"))?;
        if reference != "HEAD" {
            lock(&mut locks, &reference, self.git.commondir())?;
        }
        let commit = self.head_commit()?;
        Ok(LockedTip { locks, reference, commit })
    }

    /// Locks a branch that is not checked out.
    fn lock_branch(&self, reference: &str) -> Result<LockedTip<'_>, VcsError> {
        let mut locks = self.git.transaction().map_err(VcsError::git("lock the branch"))?;
        lock(&mut locks, reference, self.git.commondir())?;
        let commit = self.tip(reference)?;
        Ok(LockedTip { locks, reference: reference.to_owned(), commit })
    }

    /// Returns the winners whose files the user has edited or staged.
    fn touched(
        &self,
        winners: &[&WinnerFiles],
        changes: &[FileChange],
        base: &Tree<'_>,
        index: &LockedIndex,
    ) -> Refusals {
        let edited =
            changes.iter().filter_map(|change| Some((change.winner, self.check_untouched(change, base, index).err()?)));
        let crowded = winners.iter().enumerate().filter_map(|(at, winner)| {
            let family = winner.family.as_ref()?;
            Some((at, self.check_nothing_else_staged(changes, family, index).err()?))
        });
        let mut refused: Refusals = edited.chain(crowded).collect();
        // One reason is enough.
        refused.sort_by_key(|(at, _)| *at);
        refused.dedup_by_key(|(at, _)| *at);
        refused
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

    /// Moves a reference to the commit.
    fn advance(&self, mut tip: LockedTip<'_>, commit: Oid, summary: &str) -> Result<(), VcsError> {
        let doing = if tip.reference == "HEAD" { "move HEAD to the commit" } else { "move the branch to the commit" };
        self.signature()
            .and_then(|who| {
                let reason = format!("optloop: {summary}");
                tip.locks.set_target(&tip.reference, commit, Some(&who), &reason)
            })
            .and_then(|()| tip.locks.commit())
            .map_err(VcsError::git(doing))
    }
}

/// Locks a reference whose file is in a folder, as soon as it is free.
fn lock(locks: &mut Transaction<'_>, name: &str, folder: &Path) -> Result<(), VcsError> {
    patiently(|| locks.lock_ref(name)).map_err(|error| match error.code() {
        ErrorCode::Locked => VcsError::Locked(folder.join(format!("{name}.lock"))),
        _ => VcsError::git("lock the branch")(error),
    })
}
