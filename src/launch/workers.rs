//! The workers of a fleet, as they are listed for people.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::config::Config;
use crate::fleet::{self, Link, OwnKey, Present, PublicKey};

/// A worker in the list.
#[derive(Debug, Serialize)]
pub struct ListedWorker {
    /// Its host, or the name that its user has given it.
    pub host: String,
    /// How its device is selected there.
    pub device: String,
    /// The UUID of the card.
    pub card: Option<String>,
    /// The name of the card's model.
    pub model: String,
    /// The version of the driver.
    pub driver: Option<String>,
    /// `busy` while it has a job.
    pub state: &'static str,
    /// The jobs that it has answered.
    pub jobs: u64,
    /// The messages that it has dropped.
    pub dropped: u64,
    /// How long it has been there.
    pub up_s: u64,
    /// The time since its last sign of life.
    pub seen_s: u64,
    /// Whether it takes jobs of this user.
    pub serves_you: bool,
    /// Whether the project takes its results. None outside a project.
    pub is_trusted: Option<bool>,
    /// Whether it is the same build of optloop as this one.
    pub is_same_build: bool,
    /// Whether a session can use it, or why not.
    pub usable: &'static str,
    /// The public key of its user.
    pub key: PublicKey,
}

/// Lists the workers that are there, for sessions of a project if there is one.
pub async fn list(link: &Link, config: Option<&Config>) -> anyhow::Result<Vec<ListedWorker>> {
    let (own, build) = (OwnKey::open()?.public(), fleet::build()?);
    let workers = fleet::present(link).await?;
    Ok(workers.into_iter().map(|present| ListedWorker::of(present, &own, config, build)).collect())
}

impl ListedWorker {
    fn of(present: Present, own: &PublicKey, config: Option<&Config>, build: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let is_trusted = config.map(|config| config.fleet.workers.contains(&present.key.to_string()));
        let (serves_you, is_same_build) = (present.trusts.contains(own), present.build == build);
        Self {
            state: if present.is_busy { "busy" } else { "idle" },
            up_s: now.saturating_sub(present.since_unix_s),
            seen_s: now.saturating_sub(present.seen_unix_s),
            serves_you,
            is_trusted,
            is_same_build,
            usable: match (is_same_build, serves_you, is_trusted) {
                (false, ..) => "no: another build",
                (_, false, _) => "no: it does not trust your key",
                (_, _, Some(false)) => "no: fleet.workers lacks its key",
                _ => "yes",
            },
            host: present.host,
            device: present.device.id,
            card: present.device.uuid,
            model: present.device.name,
            driver: present.device.driver,
            jobs: present.jobs,
            dropped: present.dropped,
            key: present.key,
        }
    }
}
