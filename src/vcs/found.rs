//! Finds the commits that a session has made, by their messages.

use git2::Commit;

use super::{CommitId, Repo, VcsError};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::variant::VariantHash;

/// The most commits that are searched for a session's own. They are among the newest, and a walk over so many takes a
/// second.
const MOST_COMMITS: usize = 20_000;

/// A winner that a session has found, as a commit's message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBy {
    /// The commit.
    pub commit: CommitId,
    /// The iteration that found it.
    pub iteration: IterationId,
    /// The case that it won.
    pub case: CaseName,
    /// The hash of its source.
    pub variant: VariantHash,
}

impl Repo {
    /// Returns the commits below HEAD whose messages say that the session found their winners, newest first.
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
}

/// Parses a commit's message, if it is one of the session's: see [`super::Winner::message`].
fn told(commit: &Commit<'_>, session: SessionId) -> Option<FoundBy> {
    let message = commit.message().ok()?;
    let line = |label: &str| message.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    let (found_by, iteration) = line("Found by:")?.split_once(", iteration ")?;
    if found_by.strip_prefix("session ")?.parse::<SessionId>().ok()? != session {
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
