//! The winners of a session that has not ended: a chain of commits under a reference of the session's own.
//!
//! Neither the index nor the working tree nor any branch changes. A reference moves in one step, so a kill leaves either
//! the old chain or the new one, and garbage collection keeps both as long as the reference is there.

use std::fs;
use std::io::ErrorKind;
use std::thread;

use git2::{Commit, Reference};

use super::destination::Destination;
use super::error::VcsError;
use super::found::{FoundBy, told};
use super::locks::{self, patiently};
use super::winner::Winner;
use super::{CommitId, Repo, running};
use crate::domain::ids::SessionId;

/// Where the references of sessions are.
const FOLDER: &str = "refs/optloop";

/// Returns a new name for the reference of a session. Other stores have sessions of the same number, so a random number
/// is part of it.
pub fn new_reference(session: SessionId) -> String {
    format!("{FOLDER}/session-{session}-{:08x}", rand::random::<u32>())
}

/// What is kept for a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The newest commit. None if nothing is kept.
    pub tip: Option<CommitId>,
    /// The winners, newest first. A case may have several.
    pub winners: Vec<FoundBy>,
    /// Whether the first of these commits has a parent: the branch had commits then.
    pub has_base: bool,
}

impl Repo {
    /// Keeps a winner under the reference of its session, upon those that are kept there already. The first one is a
    /// child of the destination's commit.
    pub fn keep(&self, reference: &str, destination: &Destination, winner: &Winner) -> Result<CommitId, VcsError> {
        let _running = running::begin();
        let kept = self.tip(reference)?;
        let parent = match &kept {
            Some(kept) => Some(kept.clone()),
            None => self.base(destination)?,
        };
        let base = self.tree_of(parent.as_ref())?;
        let files = self.files_of(winner)?;
        let changes = match self.changes(&[&files], &base, false) {
            Ok(changes) => changes,
            Err(mut refused) => return Err(refused.swap_remove(0).1),
        };
        let tree = self.tree_with(&base, &changes)?;
        let message = winner.message(!self.new_families(&[&files], &changes).is_empty());
        let commit = self.commit(&message, &tree, parent.as_ref())?;
        self.point(reference, kept.as_ref(), commit, &winner.summary())?;
        Ok(CommitId(commit.to_string()))
    }

    /// Returns what is kept under the reference of a session.
    pub fn kept(&self, reference: &str, session: SessionId) -> Result<Kept, VcsError> {
        let _running = running::begin();
        let Some(mut commit) = self.tip(reference)? else { return Ok(Kept::default()) };
        let mut kept = Kept { tip: Some(CommitId(commit.id().to_string())), ..Kept::default() };
        loop {
            let winners = told(&commit, session);
            if winners.is_empty() {
                kept.has_base = true;
                return Ok(kept);
            }
            kept.winners.extend(winners);
            let Ok(parent) = commit.parent(0) else { return Ok(kept) };
            commit = parent;
        }
    }

    /// Removes the lock of a session's reference if a killed process has left it. No other optloop moves that reference, so
    /// a killed process has left a lock that stays.
    pub fn unlock_kept(&self, reference: &str) -> Result<(), VcsError> {
        let _running = running::begin();
        // The store may come from a stranger, and the name becomes a path.
        if !reference.starts_with(FOLDER) || !Reference::is_valid_name(reference) {
            return Ok(());
        }
        let lock = self.git.commondir().join(format!("{reference}.lock"));
        for _ in 0..locks::TRIES {
            if !lock.exists() {
                return Ok(());
            }
            thread::sleep(locks::PAUSE);
        }
        match fs::remove_file(&lock) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(VcsError::file("remove", &lock)(error)),
            _ => Ok(()),
        }
    }

    /// Removes the reference of a session. What no branch has of it is lost with the next garbage collection.
    pub fn drop_kept(&self, reference: &str) -> Result<(), VcsError> {
        let _running = running::begin();
        if self.tip(reference)?.is_none() {
            return Ok(());
        }
        let doing = || VcsError::git("remove the session's reference");
        patiently(|| self.git.find_reference(reference).and_then(|mut found| found.delete())).map_err(doing())
    }

    /// Returns the commit that a destination has, else HEAD's: the branch may have been deleted.
    pub(super) fn base(&self, destination: &Destination) -> Result<Option<Commit<'_>>, VcsError> {
        match self.tip(destination.reference())? {
            Some(commit) => Ok(Some(commit)),
            None => self.head_commit(),
        }
    }

    /// Moves the reference of a session from one commit to another.
    pub(super) fn point(
        &self,
        reference: &str,
        from: Option<&Commit<'_>>,
        to: git2::Oid,
        summary: &str,
    ) -> Result<(), VcsError> {
        let reason = format!("optloop: {summary}");
        let moved = patiently(|| match from {
            Some(from) => self.git.reference_matching(reference, to, true, from.id(), &reason),
            None => self.git.reference(reference, to, false, &reason),
        });
        moved.map(drop).map_err(VcsError::git("move the session's reference"))
    }
}
