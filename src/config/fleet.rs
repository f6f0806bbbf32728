//! `[fleet]`: lanes on other machines.

use anyhow::bail;
use serde::{Deserialize, Serialize};

use super::duration;

/// The most lanes on other machines.
const MOST: usize = 1000;

/// `[fleet]`. A session uses its own machine only, unless a server is named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetConfig {
    /// The address of the NATS server where `--nats` is not given. Empty for none.
    pub nats: String,
    /// The public keys of the workers whose results count.
    pub workers: Vec<String>,
    /// The most lanes on other machines.
    pub lanes: usize,
    /// The longest that a job may take.
    pub job_timeout: String,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self { nats: String::new(), workers: Vec::new(), lanes: 64, job_timeout: "10m".to_owned() }
    }
}

impl FleetConfig {
    /// Rejects limits that make no sense, and an address that would store a secret.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        duration("fleet.job_timeout", &self.job_timeout)?;
        if !(1..=MOST).contains(&self.lanes) {
            bail!("fleet.lanes must be between 1 and {MOST}");
        }
        if self.nats.contains('@') {
            bail!("fleet.nats must have no name and password: use --nats-credentials FILE");
        }
        Ok(())
    }
}
