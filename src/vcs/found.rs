//! Finds the commits that a session has made, by their messages, and the commit that introduced a winner.

use std::path::Path;

use git2::Commit;

use super::{CommitId, Repo, VcsError};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::sidecar::Sidecar;
use crate::domain::variant::VariantHash;

/// The most commits that are searched for a session's own, or for the one that introduced a winner. Those of a session
/// are among the newest, and a walk over so many takes a second.
const MOST_COMMITS: usize = 20_000;

/// A winner that a session has committed, as a commit's message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBy {
    /// The commit.
    pub commit: CommitId,
    /// The iteration that measured it.
    pub iteration: IterationId,
    /// The case that it won.
    pub case: CaseName,
    /// The hash of its source.
    pub variant: VariantHash,
}

impl Repo {
    /// Returns the commits below HEAD whose messages say that the session measured their winners, newest first.
    ///
    /// Sessions of another project or store have the same numbers, so the caller checks each commit against its own
    /// records.
    pub fn commits_of(&self, session: SessionId) -> Result<Vec<FoundBy>, VcsError> {
        let doing = || VcsError::git("read the history of HEAD");
        if self.head().is_none() {
            return Ok(Vec::new());
        }
        let mut walk = self.git.revwalk().map_err(doing())?;
        walk.push_head().map_err(doing())?;
        let mut found = Vec::new();
        for id in walk.take(MOST_COMMITS) {
            let commit = id.and_then(|id| self.git.find_commit(id)).map_err(doing())?;
            if let Some(told) = told(&commit, session)
                && self.winners_in(&commit).map_err(doing())?.iter().any(|winner| winner.case == told.case)
            {
                found.push(told);
            }
        }
        Ok(found)
    }

    /// Returns the commit that introduced a sidecar as HEAD has it. None if HEAD has no such sidecar of the variant, or if
    /// the commit is too far back. `sidecar` is relative to the project.
    ///
    /// Where a parent has the same file, the file is that parent's. So a merge introduces only what it changes itself.
    pub fn introduced(&self, sidecar: &Path, variant: &VariantHash) -> Result<Option<CommitId>, VcsError> {
        let path = self.project.join(sidecar);
        let Some(mut commit) = self.head_commit()? else { return Ok(None) };
        let read = |commit: &Commit<'_>| Ok(commit.tree()?.get_path(&path).ok().map(|entry| entry.id()));
        let blob = |commit: &Commit<'_>| read(commit).map_err(VcsError::git("read the history of HEAD"));
        let text = self.text_in(&self.tree_of(Some(&commit))?, &path);
        let committed = text.and_then(|text| Sidecar::parse(&text).ok());
        if committed.is_none_or(|committed| committed.variant.hash != *variant) {
            return Ok(None);
        }
        let introduced = blob(&commit)?;
        for _ in 0..MOST_COMMITS {
            let mut same = None;
            for parent in commit.parents() {
                if blob(&parent)? == introduced {
                    same = Some(parent);
                    break;
                }
            }
            match same {
                Some(parent) => commit = parent,
                None => return Ok(Some(CommitId(commit.id().to_string()))),
            }
        }
        Ok(None)
    }
}

/// Parses a commit's message, if it is one of the session's: see [`super::Winner::message`].
fn told(commit: &Commit<'_>, session: SessionId) -> Option<FoundBy> {
    let message = commit.message().ok()?;
    let line = |label: &str| message.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    // A winner that an earlier session found has the second line, which says who measured it again.
    let (measured_by, iteration) = line("Timed by:").or(line("Found by:"))?.split_once(", iteration ")?;
    if measured_by.strip_prefix("session ")?.parse::<SessionId>().ok()? != session {
        return None;
    }
    let (_, case) = message.lines().next()?.split_once(": ")?.0.split_once('/')?;
    Some(FoundBy {
        commit: CommitId(commit.id().to_string()),
        iteration: iteration.parse().ok()?,
        case: case.into(),
        variant: VariantHash(line("Variant:")?.to_owned()),
    })
}
