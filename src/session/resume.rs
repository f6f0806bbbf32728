//! Resumes a session where its record ends.

use std::collections::HashMap;

use super::Session;
use super::event::Event;
use crate::domain::ids::SessionId;
use crate::domain::journal::Record;
use crate::domain::proposal::KnownWinner;
use crate::domain::record::SessionRecord;
use crate::store::Past;
use crate::vcs::{FoundBy, Repo};

/// The commits of a session that git holds.
pub(super) struct OwnCommits(Vec<FoundBy>);

impl OwnCommits {
    /// Returns the commits that a session has made. Sessions of other projects and stores have the same numbers, so
    /// each commit is checked against the record.
    pub fn of(repo: &Result<Repo, String>, session: SessionId, record: &SessionRecord) -> Self {
        let Ok(repo) = repo else { return Self(Vec::new()) };
        let mut commits = repo.commits_of(session).unwrap_or_else(|reason| {
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
    /// Applies the session's records. Links the commits that a killed process did not link, and commits the winners
    /// that it did not commit.
    pub(super) async fn recall(&mut self, past: &Past, own: &OwnCommits) -> anyhow::Result<()> {
        past.journal.iter().for_each(|record| self.state.apply(record));
        self.state.apply(&Record::Resumed { used: past.used });
        for FoundBy { commit, iteration, case, .. } in &own.0 {
            let iterations = past.record.iterations.iter().filter(|other| other.id == *iteration);
            let mut findings = iterations.flat_map(|other| &other.measurements).filter(|found| found.case == *case);
            if findings.all(|found| found.commit.is_none()) {
                self.record_commit(*iteration, case, &commit.0).await?;
                self.observer.event(&Event::Committed { case, commit: &commit.0 });
            }
        }
        self.lose_open_calls().await?;
        self.recall_baselines(past).await?;
        self.commit_pending().await
    }

    /// Records the initial kernel as the baseline if its process died before it could.
    async fn recall_baselines(&mut self, past: &Past) -> anyhow::Result<()> {
        let mut begun = HashMap::new();
        for record in &past.journal {
            match record {
                Record::Begun(one) => drop(begun.insert(one.iteration, one)),
                Record::Concluded(concluded) => {
                    if let Some(begun) = begun.get(&concluded.iteration) {
                        self.stand_in_for_baselines(begun, &concluded.findings).await?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
