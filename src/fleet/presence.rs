//! Which workers are there. Each says so every few seconds, and the server forgets those that do not.

use anyhow::Context;
use async_nats::jetstream::kv;
use futures::StreamExt;
use serde::Serialize;

use super::keys::PublicKey;
use super::link::{BEAT, Link};
use super::messages::{self, Kind, Presence};
use crate::domain::device::DeviceInfo;

/// A worker that is there.
#[derive(Debug, Clone, Serialize)]
pub struct Present {
    /// Its name in subjects.
    pub worker: String,
    /// Its key.
    pub key: PublicKey,
    /// Its host, or the name that its user has given it.
    pub host: String,
    /// Its device.
    pub device: DeviceInfo,
    /// Its build of optloop.
    pub build: String,
    /// Whose jobs it takes.
    pub trusts: Vec<PublicKey>,
    /// When it started, in seconds since 1970.
    pub since_unix_s: u64,
    /// The jobs that it has answered.
    pub jobs: u64,
    /// The messages that it has dropped.
    pub dropped: u64,
    /// Whether it has a job.
    pub is_busy: bool,
    /// When the server got its last sign of life, in seconds since 1970.
    pub seen_unix_s: u64,
}

/// Returns the workers that are there, whether anyone trusts them or not.
pub async fn present(link: &Link) -> anyhow::Result<Vec<Present>> {
    let mut found = Vec::new();
    let status = link.workers.status().await.context("Failed to ask for workers")?;
    if status.values() == 0 {
        return Ok(found);
    }
    let mut entries = link.workers.watch_with_history(">").await.context("Failed to ask for workers")?;
    while let Ok(Some(entry)) = tokio::time::timeout(BEAT, entries.next()).await {
        let entry = entry.context("Failed to ask for workers")?;
        found.extend(of(&entry));
        if entry.delta == 0 {
            break;
        }
    }
    found.sort_by(|one, other| (&one.host, &one.device.id).cmp(&(&other.host, &other.device.id)));
    Ok(found)
}

/// Returns the worker that an entry tells of. None for one that has left, and for an entry that its key has not signed.
pub(super) fn of(entry: &kv::Entry) -> Option<Present> {
    if entry.operation != kv::Operation::Put {
        return None;
    }
    let opened = messages::open::<Presence>(Kind::Presence, &entry.key, &entry.value, |_| true);
    let (key, Presence { worker, host, device, build, trusts, since_unix_s, jobs, dropped, is_busy }) = opened.ok()?;
    let seen_unix_s = u64::try_from(entry.created.unix_timestamp()).unwrap_or_default();
    let present =
        Present { worker, key, host, device, build, trusts, since_unix_s, jobs, dropped, is_busy, seen_unix_s };
    (present.worker == entry.key).then_some(present)
}

impl Present {
    /// Returns the name of its card, as iterations record it.
    pub fn card(&self) -> String {
        format!("{}/{}", self.host, self.device.uuid.as_ref().unwrap_or(&self.device.id))
    }
}
