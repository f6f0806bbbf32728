//! What a session is asked to search.

use super::preflight::{Coverage, Searchable, check_initial_kernel, check_spaces};
use super::{own_executable, preparation};
use crate::agent::{self, Interactive, Proposer, Tuning};
use crate::catalog::Project;
use crate::config::Config;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::ids::CaseName;
use crate::domain::record::FamilyLeftOut;
use crate::domain::workload::Workload;
use crate::error::{usage, usage_sentence};
use crate::notices::say;
use crate::runner::device::{DeviceChoice, Devices, Others};
use crate::runner::oracle;
use crate::runner::recording::Recording;
use crate::runner::renderer::Renderer;
use crate::session::Options;
use crate::spaces;

/// What the user chooses to search. config.toml has the rest.
#[derive(Debug, Clone, Copy)]
pub struct Choices<'a> {
    /// The name of the workload.
    pub workload: Option<&'a str>,
    /// The names of the cases. Empty for all.
    pub cases: &'a [CaseName],
    /// The names of the families. Empty for all.
    pub families: &'a [String],
    /// The session's devices.
    pub devices: &'a Devices,
    /// Who proposes.
    pub proposer: Proposes<'a>,
    /// The seed of its choices.
    pub seed: u64,
}

impl Choices<'_> {
    /// Refuses choices that a recording leaves no room for.
    pub fn check_recorded(&self) -> anyhow::Result<()> {
        match self.workload.is_none() && self.cases.is_empty() && self.families.is_empty() {
            true => Ok(()),
            false => Err(usage_sentence(
                "a recording has one workload, one case and one family: leave out --workload, --case and --family",
            )),
        }
    }
}

/// Who proposes in a session.
#[derive(Debug, Clone, Copy)]
pub enum Proposes<'a> {
    /// The proposer of this name.
    Named(&'a str),
    /// Clients, which have asked for these to be tuned.
    Clients(&'a Tuning),
}

impl Proposes<'_> {
    /// Returns the proposer.
    fn proposer(self, seed: u64) -> anyhow::Result<Box<dyn Proposer>> {
        match self {
            Self::Clients(tuning) => Ok(Box::new(Interactive::new(seed, tuning.clone()))),
            Self::Named(agent::INTERACTIVE) => {
                Err(usage_sentence("clients propose in an interactive session: `optloop mcp` starts one"))
            }
            Self::Named(name) => agent::proposer(name, seed).map_err(usage_sentence),
        }
    }
}

/// The request of the command line, or of an earlier session, with the project's files.
pub struct StartRequest {
    /// What to optimise, with the selected cases.
    pub workload: Workload,
    /// Every sound family of the project.
    pub families: Vec<Family>,
    /// The names of the families to search.
    pub searched: Vec<String>,
    /// The families that are not searched although they were meant to be.
    pub left_out: Vec<FamilyLeftOut>,
    /// Suggests what to try.
    pub proposer: Box<dyn Proposer>,
    /// The home device.
    pub device: DeviceChoice,
    /// Those that only screen.
    pub others: Others,
}

impl StartRequest {
    /// Reads the workload and the families of a project.
    pub fn of_project(choices: Choices<'_>, project: &Project, config: &Config) -> anyhow::Result<Self> {
        let workload = project.workload(choices.workload.unwrap_or(&config.session.workload)).map_err(usage)?;
        let workload = workload.select(choices.cases).map_err(usage_sentence)?;
        let families = project.families().map_err(usage)?;
        let searched = families.searched(choices.families).map_err(usage)?;
        check_initial_kernel(&workload, &families).map_err(usage_sentence)?;
        let mut left_out = Vec::new();
        for broken in families.missed(workload.op.name(), choices.families) {
            say(&broken.left_out());
            left_out.push(FamilyLeftOut { family: broken.name.clone(), reason: broken.first() });
        }
        let mut families = families.sound;
        let proposer = choices.proposer.proposer(choices.seed)?;
        if proposer.name() == agent::FAULT_INJECTION {
            families.extend(project.planted_bugs().map_err(usage)?);
        }
        let Devices { home: device, others } = choices.devices.clone();
        Ok(Self { workload, families, searched, left_out, proposer, device, others })
    }

    /// Makes the request of a session on a recording. Nothing of it comes from the project.
    pub fn on_recording(recording: Recording, proposer: &str, seed: u64) -> anyhow::Result<Self> {
        if [agent::LLM, agent::FAULT_INJECTION].contains(&proposer) {
            return Err(usage_sentence(format!(
                "the proposer `{proposer}` cannot search a recording, which has neither sources nor planted bugs"
            )));
        }
        let proposer = agent::proposer(proposer, seed).map_err(usage_sentence)?;
        let device = recording.info.id.parse().map_err(usage_sentence)?;
        let spaces::Searchable { workload, families, .. } = recording.searchable;
        let searched = families.iter().map(|family| family.name.clone()).collect();
        let (families, left_out, others) = (families.into(), Vec::new(), Others::none());
        Ok(Self { workload, families, searched, left_out, proposer, device, others })
    }

    /// Refuses what no session could search, and a workload whose oracle does not work. `named` are the families that the user
    /// wants; others that cannot be used are left out. Returns the cases that each searched family takes. The options then tell where the
    /// oracle is computed, if it is to be on a GPU.
    pub async fn check(
        &mut self,
        named: &[String],
        device: &DeviceInfo,
        options: &mut Options,
    ) -> anyhow::Result<Vec<Coverage>> {
        let Searchable { coverage, unusable } = self.check_families(named, device, options).await?;
        for (name, problem) in unusable {
            say(&format!("{problem}: the session leaves it out"));
            self.searched.retain(|searched| *searched != name);
            self.families.retain(|family| family.name != name);
            self.left_out.push(FamilyLeftOut { family: name, reason: problem });
        }
        options.oracle_on = self.check_oracle(device, options).await?;
        Ok(coverage)
    }

    async fn check_families(
        &self,
        named: &[String],
        device: &DeviceInfo,
        options: &Options,
    ) -> anyhow::Result<Searchable> {
        let renderer = Renderer::new(own_executable()?);
        let (workload, families, device) = (self.workload.clone(), self.families.clone(), device.clone());
        let (searched, named) = (self.searched.clone(), named.to_vec());
        let writes_families = agent::writes_families(self.proposer.name());
        let check =
            move || check_spaces(&workload, &families, (&searched, &named, writes_families), &device, &renderer);
        preparation::within("checking the families", options, check).await?.map_err(usage_sentence)
    }

    async fn check_oracle(&self, device: &DeviceInfo, options: &Options) -> anyhow::Result<Option<String>> {
        let (workload, device) = (self.workload.clone(), device.clone());
        let op = workload.op.name();
        let step = format!("calling the oracle of op `{op}`");
        let checked = preparation::within(&step, options, move || oracle::check(&workload, &device)).await?;
        let place = checked.map_err(usage_sentence)?.computed_on;
        if let Some(place) = &place {
            say(&format!("the oracle of op `{op}` is computed on {place}"));
        }
        Ok(place)
    }

    /// Adapts the workload to the home device. Without `cases` of the user's choice, the lightest ones are taken where a CPU
    /// computes them.
    pub fn fit(&mut self, home: &DeviceInfo, cases: &[CaseName], config: &Config) -> anyhow::Result<()> {
        let workload = self.workload.clone().on(home).map_err(usage_sentence)?;
        let is_slow = cases.is_empty() && home.time_source() == TimeSource::Modelled;
        self.workload = if is_slow { affordable(workload, config) } else { workload };
        Ok(())
    }
}

/// Leaves out the cases that would make an evaluation on a virtual GPU slow, and prints them.
fn affordable(workload: Workload, config: &Config) -> Workload {
    let (all, name) = (workload.cases.len(), workload.name.clone());
    let kept = workload.lightest(config.virtual_gpu.max_gflop * 1e9);
    if kept.cases.len() < all {
        say(&format!(
            "using {} of the {all} cases of {name}: more than {} GFLOP per iteration is slow on a CPU \
             (virtual.max_gflop in config.toml); select cases with --case",
            kept.cases.len(),
            config.virtual_gpu.max_gflop
        ));
    }
    kept
}
