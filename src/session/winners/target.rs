//! Where the winners of a session go.

use crate::domain::ids::SessionId;
use crate::error::Error;
use crate::store::Store;
use crate::vcs::{self, Destination, Repo};

/// The recorded destination of a session that commits nothing because the user wants that.
const NONE: &str = "none";

/// Where the winners of a session go.
pub struct Target {
    /// The repository of the project, if it has one.
    pub repo: Option<Repo>,
    /// The reference that gets the commit of the session.
    pub destination: Result<Destination, NoCommit>,
    /// The reference that keeps the winners until then. None until the session has a number.
    pub kept_under: Option<String>,
}

/// Why a session commits nothing. Its winners are in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCommit {
    /// The user wants that.
    Chosen,
    /// The times are recorded, so they prove nothing.
    Recorded,
    /// It is not possible. The sentence says why and what to do.
    Impossible(String),
}

impl Target {
    /// Returns the target of a session on a recording. Its repository is left alone.
    pub fn of_recording() -> Self {
        Self { repo: None, destination: Err(NoCommit::Recorded), kept_under: None }
    }

    /// Returns the target that a session has recorded. None if it has recorded none.
    pub fn recorded(repo: Result<Repo, Error>, commit_to: Option<&str>, kept_under: Option<String>) -> Option<Self> {
        let commit_to = commit_to?;
        let destination = match (&repo, commit_to) {
            (_, NONE) => Err(NoCommit::Chosen),
            (Ok(_), reference) => Ok(Destination::recorded(reference)),
            (Err(reason), _) => Err(NoCommit::Impossible(reason.clone().into())),
        };
        Some(Self { repo: repo.ok(), destination, kept_under })
    }

    /// Names the reference that keeps the winners, and records the target. A session that has one keeps it.
    pub(in crate::session) async fn record(&mut self, session: SessionId, store: &Store) -> anyhow::Result<()> {
        if self.kept_under.is_none() && self.destination.is_ok() {
            self.kept_under = Some(vcs::new_reference(session));
        }
        let commit_to = match &self.destination {
            Ok(destination) => destination.reference(),
            Err(NoCommit::Chosen | NoCommit::Recorded) => NONE,
            // A resumption looks again, and what an earlier run has recorded stays.
            Err(NoCommit::Impossible(_)) => return Ok(()),
        };
        Ok(store.note_target(session, commit_to, self.kept_under.as_deref()).await?)
    }
}
