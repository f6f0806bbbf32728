//! Resumes a session where its record ends.

use super::Session;
use super::winners::target::{NoCommit, Target};
use crate::domain::ids::CaseName;
use crate::domain::proposal::KnownWinner;
use crate::domain::record::journal::Record;
use crate::store::Past;
use crate::vcs::{CommitId, FoundBy};

/// The commits of a session that git holds.
pub(super) struct OwnCommits(Vec<FoundBy>);

impl OwnCommits {
    /// Returns the commits that a session has made. Sessions of other projects and stores have the same numbers, so
    /// each commit is checked against the record. They count even if nothing can be committed now.
    pub fn of(target: &Target, past: &Past) -> Self {
        let commits_nothing = matches!(target.destination, Err(NoCommit::Chosen | NoCommit::Recorded));
        let Some(repo) = target.repo.as_ref().filter(|_| !commits_nothing) else { return Self(Vec::new()) };
        let (record, reference) = (&past.record, past.commit_to.as_deref().unwrap_or("HEAD"));
        let mut commits = repo.commits_of(record.session.id, reference).unwrap_or_else(|reason| {
            tracing::warn!("commits of this session cannot be searched for: {reason}");
            Vec::new()
        });
        commits.retain(|commit| {
            let iteration = record.iterations.iter().find(|iteration| iteration.id == commit.iteration);
            iteration.is_some_and(|iteration| {
                let measured = iteration.measurements.iter().any(|found| found.case == commit.case);
                iteration.hash == commit.variant && measured
            })
        });
        Self(commits)
    }

    /// Marks the committed winners that the session has replaced. They no longer have to be beaten.
    pub fn mark_replaced(&self, known: &mut [KnownWinner]) {
        for known in known.iter_mut().filter(|known| self.0.iter().any(|own| own.case == known.case)) {
            known.here = false;
        }
    }
}

impl Session<'_> {
    /// Applies the session's records, and links the commits that a killed process did not link. No deadline cuts this short.
    pub(super) async fn recall(&mut self, past: &Past, own: &OwnCommits) -> anyhow::Result<()> {
        past.journal.iter().for_each(|record| self.state.apply(record));
        self.state.apply(&Record::Resumed { used: past.used });
        self.link_own(past, own).await
    }

    /// Does what a killed process has left undone: ends its calls to models, and keeps its winners.
    pub(super) async fn catch_up(&mut self) -> anyhow::Result<()> {
        self.lose_open_calls().await?;
        let cases: Vec<CaseName> = self.state.cases().map(|(case, _)| case.clone()).collect();
        self.tell_gains(&cases);
        self.keep_winners().await
    }

    async fn link_own(&mut self, past: &Past, own: &OwnCommits) -> anyhow::Result<()> {
        let mut linked: Vec<(&CommitId, Vec<CaseName>)> = Vec::new();
        for FoundBy { commit, iteration, case, .. } in &own.0 {
            let iterations = past.record.iterations.iter().filter(|other| other.id == *iteration);
            let mut findings = iterations.flat_map(|other| &other.measurements).filter(|found| found.case == *case);
            if findings.all(|found| found.commit.is_none()) {
                self.record_commit(*iteration, case, &commit.0).await?;
                match linked.iter_mut().find(|(other, _)| *other == commit) {
                    Some((_, cases)) => cases.push(case.clone()),
                    None => linked.push((commit, vec![case.clone()])),
                }
            }
        }
        for (commit, cases) in linked {
            self.tell_committed(&commit.0, &cases);
        }
        Ok(())
    }
}
