//! Finds the commits that a session has made, by their messages, and the commit that introduced a winner.

use std::path::Path;

use git2::Commit;

use super::{CommitId, Repo, VcsError, running};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::sidecar::Sidecar;
use crate::domain::variant::VariantHash;

/// The most commits that are searched for a session's own, or for the one that introduced a winner. Those of a session
/// are among the newest, and a walk over so many takes a second.
const MAX_COMMITS: usize = 20_000;

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
    /// Returns the winners that a session has committed onto a reference or onto HEAD, as the commits' messages say,
    /// newest first.
    ///
    /// Sessions of another project or store have the same numbers, so the caller checks each winner against its own
    /// records.
    pub fn commits_of(&self, session: SessionId, reference: &str) -> Result<Vec<FoundBy>, VcsError> {
        let _running = running::begin();
        let doing = || VcsError::git("read the history");
        let tips = [self.tip(reference)?, self.head_commit()?];
        let mut walk = self.git.revwalk().map_err(doing())?;
        for tip in tips.into_iter().flatten() {
            walk.push(tip.id()).map_err(doing())?;
        }
        let mut found = Vec::new();
        for id in walk.take(MAX_COMMITS) {
            let commit = id.and_then(|id| self.git.find_commit(id)).map_err(doing())?;
            let told = told(&commit, session);
            if told.is_empty() {
                continue;
            }
            let changed = self.winners_in(&commit).map_err(doing())?;
            found.extend(told.into_iter().filter(|told| changed.iter().any(|winner| winner.case == told.case)));
        }
        Ok(found)
    }

    /// Returns the commit that introduced a sidecar as HEAD has it, or else as another reference has it. None if neither has such
    /// a sidecar of the variant, or if the commit is too far back. `sidecar` is relative to the project.
    ///
    /// Where a parent has the same file, the file is that parent's. So a merge introduces only what it changes itself.
    pub fn introduced(
        &self,
        sidecar: &Path,
        variant: &VariantHash,
        other: Option<&str>,
    ) -> Result<Option<CommitId>, VcsError> {
        let _running = running::begin();
        let tips = [self.head_commit()?, other.map(|other| self.tip(other)).transpose()?.flatten()];
        for tip in tips.into_iter().flatten() {
            if let Some(found) = self.introduced_below(tip, sidecar, variant)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn introduced_below(
        &self,
        mut commit: Commit<'_>,
        sidecar: &Path,
        variant: &VariantHash,
    ) -> Result<Option<CommitId>, VcsError> {
        let path = self.project.join(sidecar);
        let read = |commit: &Commit<'_>| Ok(commit.tree()?.get_path(&path).ok().map(|entry| entry.id()));
        let blob = |commit: &Commit<'_>| read(commit).map_err(VcsError::git("read the history of HEAD"));
        let text = self.text_in(&self.tree_of(Some(&commit))?, &path);
        let committed = text.and_then(|text| Sidecar::parse(&text).ok());
        if committed.is_none_or(|committed| committed.variant.hash != *variant) {
            return Ok(None);
        }
        let introduced = blob(&commit)?;
        for _ in 0..MAX_COMMITS {
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

/// Parses a commit's message, if it is one of the session's: see [`super::Winner::message`] for a commit of one winner, and
/// [`super::SessionCommit`] for one of all of them.
pub(super) fn told(commit: &Commit<'_>, session: SessionId) -> Vec<FoundBy> {
    let Ok(message) = commit.message() else { return Vec::new() };
    let line = |label: &str| message.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    let is_ours = |number: &str| number.parse() == Ok(session);
    let one = |case: &str, iteration: &str, variant: &str| {
        Some(FoundBy {
            commit: CommitId(commit.id().to_string()),
            iteration: iteration.parse().ok()?,
            case: case.into(),
            variant: VariantHash(variant.to_owned()),
        })
    };
    if line("Session:").is_some_and(is_ours) {
        let winners = message.lines().skip_while(|line| *line != "Winners:").skip(1);
        let winner = |line: &str| {
            let (case, rest) = line.trim().split_once(": iteration ")?;
            let (iteration, rest) = rest.split_once(", variant ")?;
            one(case, iteration, rest.split_once(',')?.0)
        };
        return winners.filter_map(winner).collect();
    }
    let winner = || {
        // A winner that an earlier session found has the second line, which says who measured it again.
        let (measured_by, iteration) = line("Timed by:").or(line("Found by:"))?.split_once(", iteration ")?;
        let (_, case) = message.lines().next()?.split_once(": ")?.0.split_once('/')?;
        one(case, iteration, line("Variant:")?).filter(|_| measured_by.strip_prefix("session ").is_some_and(is_ours))
    };
    winner().into_iter().collect()
}
