//! The arguments of `optloop start`, and what they mean.

use super::agent_args::{self, AgentArgs};
use crate::agent::{self, Tuning};
use crate::catalog::Project;
use crate::cli::nats_args::NatsArgs;
use crate::cli::target_args::TargetArgs;
use crate::cli::verbs::trust::TrustArgs;
use crate::config::{self, Config};
use crate::domain::budget::Budget;
use crate::domain::ids::CaseName;
use crate::error::{Error, usage, usage_sentence};
use crate::launch::consent;
use crate::launch::options;
use crate::launch::request::{Choices, Proposes, StartRequest};
use crate::runner::device::{DeviceChoice, Devices};
use crate::runner::recording::Recording;
use crate::session::Options;
use crate::trust::of_agent;

/// Arguments of `optloop start`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Maximum wall time, such as 10m or 4h [default: session.budget in config.toml]
    #[arg(short = 'b', long, allow_hyphen_values = true)]
    budget: Option<String>,

    /// Maximum cost in US dollars [default: no limit]
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,

    /// Maximum number of iterations [default: no limit]
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,

    /// Use all of the time, however little it promises [default: stop below stop.min_gain in config.toml]
    #[arg(long, alias = "no-stop")]
    no_early_stop: bool,

    /// Random seed for proposals and inputs [default: random]
    #[arg(long)]
    seed: Option<u64>,

    /// Workload to optimise [default: session.workload in config.toml]
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// Run only this case of the workload; can be repeated [default: every case, or the lightest ones on a virtual GPU]
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    pub(super) cases: Vec<CaseName>,

    /// Search only this family; can be repeated [default: every family]
    #[arg(short = 'f', long = "family", value_name = "FAMILY")]
    pub(super) families: Vec<String>,

    /// Device: auto, cuda:N, virtual, virtual:NAME, replay:FILE for a recorded search space (`optloop docs simulate`), or several
    /// devices of one kind: cuda:all, cuda:0,2 or virtual:NAME*4 (`optloop docs fleet`) [default: session.device in config.toml]
    #[arg(short = 'd', long)]
    device: Option<String>,

    /// Proposer: portfolio, local, bayes, evolution, llm (language models, `optloop docs models`), agent:COMMAND (a coding agent,
    /// `optloop docs agents`), random, or fault-injection, which adds broken kernels to test that sessions survive them [default:
    /// session.proposer in config.toml]
    #[arg(long)]
    proposer: Option<String>,

    #[command(flatten)]
    agent: AgentArgs,

    /// Print what the session would do, and exit: no file is written and no budget is spent
    #[arg(long, conflicts_with = "estimate")]
    pub(super) dry_run: bool,

    /// Print what the session may cost, and exit
    #[arg(long)]
    pub(super) estimate: bool,

    /// Print progress as one JSON object per line on standard output
    #[arg(long)]
    pub(super) json: bool,

    /// The submission of a service that the session is started for
    #[arg(long, hide = true, value_name = "NAME")]
    submission: Option<String>,

    /// Refuse a session that could not start, without looking at its device, and stop
    #[arg(long, hide = true)]
    pub(super) check: bool,

    #[command(flatten)]
    pub(super) nats: NatsArgs,

    #[command(flatten)]
    pub(super) target: TargetArgs,

    #[command(flatten)]
    trust: TrustArgs,
}

/// Arguments of an interactive session.
#[derive(Debug, clap::Args)]
pub struct Interacting {
    /// Maximum wall time, with that in which clients think, such as 30m or 4h [default: session.budget in config.toml]
    #[arg(short = 'b', long, allow_hyphen_values = true)]
    budget: Option<String>,

    /// Maximum cost of the device in US dollars [default: no limit]
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    max_cost: Option<f64>,

    /// Workload to optimise [default: session.workload in config.toml]
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// Only this case of the workload; can be repeated [default: every case, or the lightest ones on a virtual GPU]
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    cases: Vec<CaseName>,

    /// Only this family to begin with; can be repeated [default: every family]
    #[arg(short = 'f', long = "family", value_name = "FAMILY")]
    families: Vec<String>,

    /// Device: auto, cuda:N, virtual or virtual:NAME [default: session.device in config.toml]
    #[arg(short = 'd', long)]
    device: Option<String>,

    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    trust: TrustArgs,
}

impl Args {
    /// Makes the arguments of a session in which clients propose.
    pub fn interactive(asked: Interacting) -> Self {
        let Interacting { budget, max_cost, workload, cases, families, device, target, trust } = asked;
        Self {
            budget,
            max_cost,
            iterations: None,
            no_early_stop: true,
            seed: None,
            workload,
            cases,
            families,
            device,
            proposer: Some(agent::INTERACTIVE.to_owned()),
            agent: AgentArgs::default(),
            dry_run: false,
            estimate: false,
            json: false,
            submission: None,
            check: false,
            nats: NatsArgs::default(),
            target,
            trust,
        }
    }

    /// Returns the devices that the user or the project has named.
    pub fn devices(&self, config: &Config) -> anyhow::Result<Devices> {
        self.device.as_ref().unwrap_or(&config.session.device).parse().map_err(usage_sentence)
    }

    /// Returns what is said about an agent.
    pub fn agent(&self) -> &AgentArgs {
        &self.agent
    }

    /// Returns the most that the session may cost, in US dollars. None for no limit.
    pub fn max_cost(&self) -> Option<f64> {
        self.max_cost
    }

    /// Returns the name of the proposer. An agent that is started is a client of an interactive session.
    fn proposer<'a>(&'a self, config: &'a Config) -> anyhow::Result<&'a str> {
        let named = self.named_proposer(config);
        Ok(if agent_args::command(named)?.is_some() { agent::INTERACTIVE } else { named })
    }

    /// Returns the proposer that the user or the project has named.
    pub fn named_proposer<'a>(&'a self, config: &'a Config) -> &'a str {
        self.proposer.as_ref().unwrap_or(&config.session.proposer)
    }

    /// Tells whether a service asks, for itself or for a session.
    pub fn is_asked_by_a_service(&self) -> bool {
        self.check || self.is_of_a_service()
    }

    /// Tells whether a session is to run, and not only to be described.
    pub fn runs(&self) -> bool {
        !self.dry_run && !self.estimate
    }

    /// Tells whether a service starts this session.
    pub fn is_of_a_service(&self) -> bool {
        self.submission.is_some()
    }

    /// Returns the options of the session.
    pub fn options(&self, config: &Config) -> anyhow::Result<Options> {
        let budget = self.budget(config)?;
        let proposer = self.proposer(config)?;
        let mut config = config.clone();
        if self.no_early_stop || proposer == agent::INTERACTIVE {
            config.stop.min_gain = 0.0;
        }
        let options = options::options(&config, budget, self.seed.unwrap_or_else(rand::random), proposer)?;
        Ok(Options { submission: self.submission.clone(), ..options })
    }

    fn budget(&self, config: &Config) -> anyhow::Result<Budget> {
        let wall = self.budget.as_ref().unwrap_or(&config.session.budget);
        let wall = config::duration("--budget", wall).map_err(usage)?;
        if let Some(most) = self.max_cost {
            if !(most > 0.0 && most.is_finite()) {
                return Err(usage_sentence("--max-cost must be a number of US dollars above 0, such as 5.00"));
            }
            if config.cost.gpu_usd_per_hour == 0.0 && !config.llm.is_on() {
                return Err(usage_sentence(
                    "--max-cost has no effect because the GPU costs nothing: set cost.gpu_usd_per_hour in config.toml to \
                     its price",
                ));
            }
        }
        if self.iterations.is_some_and(|most| most == 0 || most > 1_000_000_000) {
            return Err(usage_sentence("--iterations must be a number from 1 to 1000000000"));
        }
        Ok(Budget { wall, max_cost_usd: self.max_cost, max_iterations: self.iterations })
    }

    /// Returns what the session is asked to search. `tuning` is what the clients of an interactive session have asked for.
    pub fn request(
        &self,
        project: &Project,
        config: &Config,
        (seed, tuning): (u64, Option<&Tuning>),
    ) -> anyhow::Result<StartRequest> {
        let devices = self.devices(config)?;
        if !devices.others.are_none() && (tuning.is_some() || self.is_asked_by_a_service()) {
            let who = if tuning.is_some() { "an interactive session" } else { "a session of a service" };
            return Err(usage_sentence(format!("{who} uses one device: name it with --device, such as cuda:0")));
        }
        let proposer = self.proposer(config)?;
        let only_planned = Tuning::default();
        let choices = Choices {
            workload: self.workload.as_deref(),
            cases: &self.cases,
            families: &self.families,
            devices: &devices,
            proposer: match tuning {
                Some(tuning) => Proposes::Clients(tuning),
                // An agent that is not started: only for a plan.
                None if proposer != self.named_proposer(config) => Proposes::Clients(&only_planned),
                None => Proposes::Named(proposer),
            },
            seed,
        };
        let DeviceChoice::Replay(path) = &devices.home else {
            return StartRequest::of_project(choices, project, config);
        };
        choices.check_recorded()?;
        if self.is_asked_by_a_service() {
            return Err(usage(Error::new("a service runs no sessions on recordings").hint("use `optloop start`")));
        }
        if self.device.is_none() {
            consent::admit_recording(project, self.trust.agrees(), path)?;
        }
        StartRequest::on_recording(Recording::open(path).map_err(usage_sentence)?, proposer, seed)
    }

    /// Refuses what the session would run without the user's consent.
    pub fn admit(&self, project: &Project, config: &Config, request: &StartRequest) -> anyhow::Result<()> {
        let agrees = self.trust.agrees();
        consent::check_places(project, config, agrees)?;
        consent::admit(project, agrees, consent::of_session(project, config, &request.workload, &request.device)?)?;
        match self.proposer {
            None => consent::admit(project, agrees, of_agent(project.root(), config).map_err(usage)?),
            Some(_) => Ok(()),
        }
    }
}
