//! Tells sessions that run from those that were killed.

use std::collections::BTreeSet;
use std::path::Path;

use crate::domain::ids::SessionId;
use crate::domain::record::{SessionRecord, SessionSummary};
use crate::locks::{self, Writer};
use crate::store::{Store, StoreError};

/// The sessions of a store that have neither ended nor a process.
#[derive(Debug, Default)]
pub struct Killed(BTreeSet<SessionId>);

impl Killed {
    /// Looks at the store's lock, which a session holds as long as its process lives. Nothing is written.
    pub async fn of(store: &Store, path: &Path) -> Result<Self, StoreError> {
        let mut killed = store.unended().await?;
        match locks::writer(path) {
            Writer::Unknown => killed.clear(),
            Writer::Session(id) => drop(killed.remove(&id)),
            Writer::None => {}
        }
        if !killed.is_empty() {
            // One of them may have ended before the lock was looked at.
            let still = store.unended().await?;
            killed.retain(|id| still.contains(id));
        }
        Ok(Self(killed))
    }

    /// Returns their numbers.
    pub fn ids(&self) -> Vec<SessionId> {
        self.0.iter().copied().collect()
    }

    /// Marks a session if it was killed.
    pub fn mark(&self, session: &mut SessionSummary) {
        if self.0.contains(&session.id) {
            session.mark_killed();
        }
    }

    /// Marks a session and those of its ledger.
    pub fn mark_in(&self, record: &mut SessionRecord) {
        record.ledger.iter_mut().chain([&mut record.session]).for_each(|session| self.mark(session));
    }
}
