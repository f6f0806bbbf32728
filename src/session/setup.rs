//! What a session works on and by which rules. During a session, only families that language models write are added.

use std::time::Duration;

use anyhow::Context;

use crate::agent::SearchContext;
use crate::domain::budget::Budget;
use crate::domain::budget::cost::Rate;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::measurement::settings::Measuring;
use crate::domain::measurement::verdict::Policy;
use crate::domain::model_terms::Terms;
use crate::domain::op::Dtype;
use crate::domain::proposal::KnownWinner;
use crate::domain::variant::Params;
use crate::domain::workload::Workload;
use crate::vcs::FamilyFiles;

/// The options of a session.
#[derive(Debug, Clone)]
pub struct Options {
    /// The limits that end the session.
    pub budget: Budget,
    /// How long after the end of its time budget the session is over, with its report.
    pub grace: Duration,
    /// The least expected gain that the rest of the time is worth, as a fraction. 0 spends it in any case.
    pub min_gain: f64,
    /// The lowest chance to be the fastest of its case with which a variant is run. 0 runs every variant.
    pub least_chance: f64,
    /// The price of the device.
    pub rate: Rate,
    /// How to measure, and when a faster time counts.
    pub measuring: Measuring,
    /// The time for the first look at families that optloop does not ship.
    pub first_look: Duration,
    /// The largest share of the time budget for reading hardware counters.
    pub counters_share: f64,
    /// The largest share of the time budget for ablations.
    pub ablations_share: f64,
    /// Compilations at once.
    pub compilations: usize,
    /// Proposals that are compiled, or being compiled, ahead of their evaluation.
    pub compile_ahead: usize,
    /// The seed of proposals and inputs.
    pub seed: u64,
    /// Whether each acceptance check draws its shapes and inputs from nothing that a client may know.
    pub draws_anew: bool,
    /// On which terms language models are used.
    pub llm: Terms,
    /// Every setting in force, for the record.
    pub config: serde_json::Value,
    /// Where the oracle of its op is computed, if it is to be on a GPU: `cuda:0`, or the CPU and why.
    pub oracle_on: Option<String>,
    /// The submission that the session is started for, if a service starts it.
    pub submission: Option<String>,
}

/// The workload, the families, the device and the options.
#[derive(Debug, Clone)]
pub(super) struct SessionSetup {
    /// What to optimize, with the selected cases.
    pub workload: Workload,
    /// Every family of the project.
    pub families: Vec<Family>,
    /// The names of the families to search.
    pub searched: Vec<String>,
    /// The names of the families that language models have written in this session.
    pub generated: Vec<String>,
    /// The winners of earlier sessions.
    pub known: Vec<KnownWinner>,
    /// The device, with its peaks.
    pub device: DeviceInfo,
    /// The devices that the session holds, with the home device.
    pub gpus: usize,
    /// Whether a profiler may count what the baseline program does.
    pub counts_baselines: bool,
    /// The options of the session.
    pub options: Options,
}

impl SessionSetup {
    /// Returns the family of a name.
    pub fn family(&self, name: &str) -> anyhow::Result<&Family> {
        let family = self.families.iter().find(|family| family.name == name);
        family.with_context(|| format!("Failed to find the family `{name}`"))
    }

    /// Adds a family that a language model has written. It is searched like the others once its first variant has passed.
    pub fn add_family(&mut self, family: Family) {
        self.generated.push(family.name.clone());
        self.families.push(family);
    }

    /// Returns a family that must be committed with its first winner: one that a language model has written.
    pub fn family_to_commit(&self, name: &str) -> Option<FamilyFiles> {
        let is_generated = self.generated.iter().any(|generated| generated == name);
        self.family(name).ok().filter(|_| is_generated).map(FamilyFiles::of)
    }

    /// Tells whether a family is searched. Only winners of such families are committed.
    pub fn is_searched(&self, family: &str) -> bool {
        self.searched.iter().any(|searched| searched == family)
    }

    /// Tells whether a language model has written a family with parameters, of which no variant was right yet.
    pub fn is_on_trial(&self, family: &str) -> bool {
        let is_generated = self.generated.iter().any(|generated| generated == family);
        let has_parameters = || self.family(family).is_ok_and(|family| !family.params.is_empty());
        is_generated && !self.is_searched(family) && has_parameters()
    }

    /// Returns the committed winner of a case with a configuration, if an earlier session left one.
    pub fn known(&self, case: &str, family: &str, params: &Params) -> Option<&KnownWinner> {
        self.known.iter().find(|known| known.case == case && known.is(family, params))
    }

    /// Returns what a search may choose from.
    pub fn search_context(&self) -> SearchContext<'_> {
        let Self { workload, families, searched, known, device, .. } = self;
        SearchContext::new(workload, families, searched, known, device)
    }

    /// Returns when a faster time counts.
    pub fn policy(&self) -> &Policy {
        &self.options.measuring.policy
    }

    /// Tells whether the error of the baseline limits that of a winner: in full FP32.
    pub fn is_limited_by_baseline(&self) -> bool {
        self.workload.dtype == Dtype::F32 && self.workload.compute.is_dtype()
    }

    /// Returns whether times are samples with noise, so that only a comparison decides. Otherwise they are modelled.
    pub fn samples_times(&self) -> bool {
        self.device.replays()
    }

    /// Returns whether variants are evaluated in the order in which they are compiled. With a number of iterations, and where
    /// times are modelled, it is the order of the proposals, so that the same seed tries the same variants.
    pub fn takes_any_order(&self) -> bool {
        self.samples_times() && self.options.budget.max_iterations.is_none()
    }

    /// Returns the price of an hour of the device. None for a virtual GPU, which costs nothing.
    pub fn rate(&self) -> Option<Rate> {
        (self.device.time_source() == TimeSource::Measured).then_some(self.options.rate)
    }
}
