//! What a session works on and under which rules. Nothing of it changes while the session lives.

use anyhow::Context;

use crate::domain::budget::Budget;
use crate::domain::cost::Rate;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::measuring::Measuring;
use crate::domain::proposal::KnownWinner;
use crate::domain::verdict::Policy;
use crate::domain::workload::Workload;

/// What a session was told.
#[derive(Debug, Clone)]
pub struct Options {
    /// When to end.
    pub budget: Budget,
    /// What the device costs.
    pub rate: Rate,
    /// How to measure, and when a faster time counts.
    pub measuring: Measuring,
    /// Compilations under way at once.
    pub compile_ahead: usize,
    /// Where proposals and inputs come from.
    pub seed: u64,
    /// Every setting in force, for the record.
    pub config: serde_json::Value,
}

/// The workload, what may compute it, the device, and the options.
#[derive(Debug)]
pub(super) struct SessionSetup {
    /// What to make fast, with the selected cases.
    pub workload: Workload,
    /// Every family of the project.
    pub families: Vec<Family>,
    /// The names of the families to search.
    pub searched: Vec<String>,
    /// The winners of earlier sessions.
    pub known: Vec<KnownWinner>,
    /// The device, with its ceilings.
    pub device: DeviceInfo,
    /// What the session was told.
    pub options: Options,
}

impl SessionSetup {
    /// Finds a family by name.
    pub fn family(&self, name: &str) -> anyhow::Result<&Family> {
        let family = self.families.iter().find(|family| family.name == name);
        family.with_context(|| format!("Failed to find the family `{name}`"))
    }

    /// Returns when a faster time counts.
    pub fn policy(&self) -> &Policy {
        &self.options.measuring.policy
    }

    /// Tells whether times are samples with noise, so that only a comparison decides. Else they are modelled.
    pub fn samples_times(&self) -> bool {
        self.device.replays()
    }

    /// Returns what an hour of the device costs; none for a modelled one, which costs nothing.
    pub fn rate(&self) -> Option<Rate> {
        (self.device.time_source() == TimeSource::Measured).then_some(self.options.rate)
    }
}
