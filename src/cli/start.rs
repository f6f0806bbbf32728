//! `optloop start`: runs a session.

use std::io::Write;

use std::time::Duration;

use anyhow::Context;
use tokio::sync::oneshot;

use super::agent_args::{self, AgentArgs};
use super::ceilings;
use super::ending;
use super::error::{usage, usage_sentence};
use super::known;
use super::lanes;
use super::models;
use super::nats::{Asking, Joined, NatsArgs};
use super::notify;
use super::plan::Plan;
use super::preflight::{Searchable, check_initial_kernel, check_spaces};
use super::preparation;
use super::progress::Progress;
use super::replayed;
use super::report::write_reports;
use super::request::StartRequest;
use super::signals;
use super::submission;
use super::talk::say;
use super::target::{self, TargetArgs};
use super::ticker::Ticker;
use super::trust::{self, TrustArgs};
use super::{own_executable, toolchain};
use crate::agent::{self, Interactive, Tuning};
use crate::catalog::Project;
use crate::claim::Claims;
use crate::config::{self, Config, NotifyConfig};
use crate::domain::budget::Budget;
use crate::domain::cost::Rate;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::ids::{CaseName, SessionId};
use crate::domain::lessons::Lessons;
use crate::domain::model_terms::Terms;
use crate::domain::record::LeftOut;
use crate::domain::workload::Workload;
use crate::runner::activity::{self, Limit};
use crate::runner::baseline::BaselineProgram;
use crate::runner::compile::Compiler;
use crate::runner::device::{DeviceChoice, Devices};
use crate::runner::explainer::Explainer;
use crate::runner::monitor::Monitor;
use crate::runner::ncu::Profiler;
use crate::runner::oracle;
use crate::runner::recording::Recording;
use crate::runner::renderer::Renderer;
use crate::runner::sanitizer::Sanitizer;
use crate::runner::self_check;
use crate::runner::worker::{Worker, WorkerError};
use crate::service::check::Stage;
use crate::session::{self, Dependencies, End, Options, Requests, Target};
use crate::shipped;
use crate::store::{self, Store};
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
    #[arg(long)]
    no_stop: bool,

    /// Random seed for proposals and inputs [default: random]
    #[arg(long)]
    seed: Option<u64>,

    /// Workload to optimise [default: session.workload in config.toml]
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// Run only this case of the workload; can be repeated [default: every case, or the lightest ones on a virtual GPU]
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    cases: Vec<CaseName>,

    /// Search only this family; can be repeated [default: every family]
    #[arg(short = 'f', long = "family", value_name = "FAMILY")]
    families: Vec<String>,

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
    dry_run: bool,

    /// Print what the session may cost, and exit
    #[arg(long)]
    estimate: bool,

    /// Print progress as one JSON object per line on standard output
    #[arg(long)]
    json: bool,

    /// The submission of a service that the session is started for
    #[arg(long, hide = true, value_name = "NAME")]
    submission: Option<String>,

    /// Refuse a session that could not start, without looking at its device, and stop
    #[arg(long, hide = true)]
    check: bool,

    #[command(flatten)]
    nats: NatsArgs,

    #[command(flatten)]
    target: TargetArgs,

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
    pub(super) fn interactive(asked: Interacting) -> Self {
        let Interacting { budget, max_cost, workload, cases, families, device, target, trust } = asked;
        Self {
            budget,
            max_cost,
            iterations: None,
            no_stop: true,
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
    fn devices(&self, config: &Config) -> anyhow::Result<Devices> {
        self.device.as_ref().unwrap_or(&config.session.device).parse().map_err(usage_sentence)
    }

    /// Returns what is said about an agent.
    pub(super) fn agent(&self) -> &AgentArgs {
        &self.agent
    }

    /// Returns the most that the session may cost, in US dollars. None for no limit.
    pub(super) fn max_cost(&self) -> Option<f64> {
        self.max_cost
    }

    /// Returns the name of the proposer. An agent that is started is a client of an interactive session.
    fn proposer<'a>(&'a self, config: &'a Config) -> anyhow::Result<&'a str> {
        let named = self.named_proposer(config);
        Ok(if agent_args::command(named)?.is_some() { agent::INTERACTIVE } else { named })
    }

    /// Returns the proposer that the user or the project has named.
    pub(super) fn named_proposer<'a>(&'a self, config: &'a Config) -> &'a str {
        self.proposer.as_ref().unwrap_or(&config.session.proposer)
    }

    /// Tells whether a service asks, for itself or for a session.
    pub(super) fn is_asked_by_a_service(&self) -> bool {
        self.check || self.is_of_a_service()
    }

    /// Tells whether a session is to run, and not only to be described.
    pub(super) fn runs(&self) -> bool {
        !self.dry_run && !self.estimate
    }

    /// Tells whether a service starts this session.
    pub(super) fn is_of_a_service(&self) -> bool {
        self.submission.is_some()
    }
}

/// How long the record of what clients did may take, once the session is over.
const RECORDING: Duration = Duration::from_secs(45);

/// Begins to serve the clients of a session that has begun.
pub(super) type Serve<'a> = Box<dyn FnOnce(&Dependencies, SessionId) + 'a>;

/// The clients of a session that propose.
pub(super) struct Clients<'a> {
    /// What they have asked to be tuned.
    pub(super) tuning: Tuning,
    /// What they ask for.
    pub(super) requests: Requests,
    /// Begins to serve them.
    pub(super) serve: Serve<'a>,
    /// Ends once all that they do is on record. None if nothing else is.
    pub(super) recorded: Option<oneshot::Receiver<()>>,
}

/// Runs a session, with clients if it has any, and writes its report.
pub(super) async fn run_with(
    args: &Args,
    project: &Project,
    clients: Option<Clients<'_>>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let ticker = Ticker::start();
    let mut options = options(args, &config)?;
    if args.estimate {
        let devices = args.devices(&config)?;
        return print_estimate(&config, &options, &devices, out);
    }
    let mut asked = asked(args, project, &config, (options.seed, clients.as_ref().map(|clients| &clients.tuning)))?;
    let target = target::choose(&args.target, project.root(), &config, &asked.device)?;
    let path = project.root().join(&config.store.path);
    store::check_path(&path).map_err(usage)?;
    if args.check {
        submission::say_passed(Stage::Options { device: asked.device.to_string() }, out)?;
    }
    trust::check_places(project, &config, &args.trust)?;
    trust::admit(project, &args.trust, trust::of_session(project, &config, &asked.workload, &asked.device)?)?;
    if args.proposer.is_none() {
        trust::admit(project, &args.trust, of_agent(project.root(), &config).map_err(usage)?)?;
    }
    if args.check {
        return submission::say_passed(Stage::Trust, out);
    }
    let mut claims = match args.dry_run {
        true => Claims::none(project.root(), "start")?,
        false => project.claim("start")?,
    };
    if !args.dry_run {
        claims.store(&path)?;
    }
    let worker = signals::or_stop(start_worker(&asked.device, &config, &mut claims)).await?;
    let others = lanes::start(&asked.others, worker.info(), &config, &mut claims, false);
    let others = signals::or_stop(others).await?;
    asked.workload = asked.workload.on(worker.info()).map_err(usage_sentence)?;
    if args.cases.is_empty() && worker.info().time_source() == TimeSource::Modelled {
        asked.workload = affordable(asked.workload, &config);
    }
    let workload = asked.workload.clone();
    let Searchable { coverage, unusable } = check_families(&asked, &args.families, worker.info(), &options).await?;
    for (name, problem) in unusable {
        say(&format!("{problem}: the session leaves it out"));
        asked.searched.retain(|searched| *searched != name);
        asked.families.retain(|family| family.name != name);
        asked.left_out.push(LeftOut { family: name, reason: problem });
    }
    check_oracle(&workload, worker.info(), &options).await?;
    let of_project = clients.is_none() && !args.is_asked_by_a_service();
    let asking = Asking { args: &args.nats, of_project, config: &config, home: worker.info(), store: &path };
    let mut fleet = signals::or_stop(Joined::find(asking)).await?;
    let (device, proposer) = ((worker.info().clone(), 1 + others.len() + fleet.size()), asked.proposer.name());
    let plan = |target: &Target, options: &Options| {
        Plan::of(&workload, &coverage, (&device.0, device.1), (proposer, options), target, &path)
    };
    if args.dry_run {
        return plan(&target, &options).show(args.json, out);
    }
    let store = Store::open_within(&path, &config.store.limits()).await?;
    target::say_left_over(project.root(), &store).await?;
    options.llm.lessons = known_lessons(&config, &store, &workload, worker.info()).await?;
    let parts = assemble(asked, target, project, &config, &options.llm, (worker, others, &mut fleet), store.clone());
    let mut parts = signals::or_stop(parts).await?;

    // Every refusal comes before this, and alone.
    plan(&parts.target, &options).show(args.json, out)?;
    // This comes before the session is on record: no signal may leave a recorded session that never ran.
    let interrupt = signals::listen(target::when_stopped(&parts.target));
    drop(ticker);
    let mut progress = Progress::new(args.json, out);
    let id = session::begin(&mut parts, &options).await?;
    claims.note_session(id);
    let mut recorded = None;
    if let Some(Clients { requests, serve, recorded: of_clients, .. }) = clients {
        parts.requests = Some(requests);
        recorded = of_clients;
        serve(&parts, id);
    }
    let end = session::run(id, parts, options, interrupt, &mut progress).await;
    if let Some(recorded) = recorded {
        // It ends with the session's search, long before.
        drop(tokio::time::timeout(RECORDING, recorded).await);
    }
    fleet.leave().await;
    conclude(end, progress.finish(), project, &config.notify, store, &workload).await
}

/// Refuses what no session could search. `named` are the families that the user wants.
async fn check_families(
    asked: &StartRequest,
    named: &[String],
    device: &DeviceInfo,
    options: &Options,
) -> anyhow::Result<Searchable> {
    let renderer = Renderer::new(own_executable()?);
    let (workload, families, device) = (asked.workload.clone(), asked.families.clone(), device.clone());
    let (searched, named) = (asked.searched.clone(), named.to_vec());
    let writes_families = agent::writes_families(asked.proposer.name());
    let check = move || check_spaces(&workload, &families, (&searched, &named, writes_families), &device, &renderer);
    preparation::within("checking the families", options, check).await?.map_err(usage_sentence)
}

/// Refuses a workload whose oracle does not work, before anything is spent.
async fn check_oracle(workload: &Workload, device: &DeviceInfo, options: &Options) -> anyhow::Result<()> {
    let (workload, device) = (workload.clone(), device.clone());
    let op = workload.op.name();
    let step = format!("calling the oracle of op `{op}`");
    let checked = preparation::within(&step, options, move || oracle::check(&workload, &device)).await?;
    if let Some(place) = checked.map_err(usage_sentence)?.computed_on {
        say(&format!("the oracle of op `{op}` is computed on {place}"));
    }
    Ok(())
}

/// Writes the report of a session that has ended. The report comes before any error, so a session that failed or lost
/// its terminal has one, too.
pub(super) async fn conclude(
    end: End,
    shown: std::io::Result<()>,
    project: &Project,
    notify: &NotifyConfig,
    store: Store,
    workload: &Workload,
) -> anyhow::Result<()> {
    let _ticker = Ticker::start();
    let session = end.session;
    let _running = activity::begin(format!("the report of session {session}"), None);
    let written = write_reports(project, &store, workload, session).await.with_context(|| {
        format!("session {session} is on record, but its report is not written: `optloop report {session}` prints it")
    });
    let mut failure = None;
    if let Ok(summary) = store.session(session).await {
        failure = ending::nothing_correct(&store, &summary).await.ok().flatten();
        notify::tell(notify, project.root(), &summary).await;
    }
    store.close().await;
    match (&written, &end.error) {
        (Ok(path), _) => say(&format!("report: {}", path.display())),
        // The session's own error is the one to end with.
        (Err(problem), Some(_)) => say(&format!("{problem:#}")),
        (Err(_), None) => {}
    }
    end.error.map_or(Ok(()), Err)?;
    written?;
    shown?;
    failure.map_or(Ok(()), |failure| Err(anyhow::Error::msg(failure)))
}

fn asked(
    args: &Args,
    project: &Project,
    config: &Config,
    (seed, tuning): (u64, Option<&Tuning>),
) -> anyhow::Result<StartRequest> {
    let defaults = &config.session;
    let Devices { home: device, others } = args.devices(config)?;
    if !others.are_none() && (tuning.is_some() || args.is_asked_by_a_service()) {
        let who = if tuning.is_some() { "an interactive session" } else { "a session of a service" };
        return Err(usage_sentence(format!("{who} uses one device: name it with --device, such as cuda:0")));
    }
    if let DeviceChoice::Replay(path) = &device {
        let Args { workload, cases, families, submission, check, .. } = args;
        if workload.is_some() || !cases.is_empty() || !families.is_empty() {
            let problem = "a recording has one workload, one case and one family: leave out --workload, --case and \
                           --family";
            return Err(usage_sentence(problem));
        }
        if submission.is_some() || *check {
            return Err(usage_sentence("a service runs no sessions on recordings: use `optloop start`"));
        }
        if args.device.is_none() {
            trust::admit_recording(project, &args.trust, path)?;
        }
        let proposer = args.proposer(config)?;
        return replayed::asked(Recording::open(path).map_err(usage_sentence)?, proposer, seed);
    }
    let workload = project.workload(args.workload.as_ref().unwrap_or(&defaults.workload)).map_err(usage)?;
    let workload = workload.select(&args.cases).map_err(usage_sentence)?;
    let families = project.families().map_err(usage)?;
    let searched = families.searched(&args.families).map_err(usage)?;
    check_initial_kernel(&workload, &families).map_err(usage_sentence)?;
    let mut left_out = Vec::new();
    for broken in families.missed(workload.op.name(), &args.families) {
        say(&broken.left_out());
        left_out.push(LeftOut { family: broken.name.clone(), reason: broken.first() });
    }
    let mut families = families.sound;
    let named = args.proposer.as_ref().unwrap_or(&defaults.proposer);
    let proposer = args.proposer(config)?;
    let proposer = match tuning {
        Some(tuning) => Box::new(Interactive::new(seed, tuning.clone())),
        // Only for a plan.
        None if proposer != named => Box::new(Interactive::new(seed, Tuning::default())),
        None if proposer == agent::INTERACTIVE => {
            return Err(usage_sentence("clients propose in an interactive session: `optloop mcp` starts one"));
        }
        None => agent::proposer(proposer, seed).map_err(usage_sentence)?,
    };
    if proposer.name() == agent::FAULT_INJECTION {
        families.extend(project.planted_bugs().map_err(usage)?);
    }
    Ok(StartRequest { workload, families, searched, left_out, proposer, device, others })
}

/// Makes a session's parts: its compiler, its baseline, its repository and its knowledge of earlier sessions.
pub(super) async fn assemble(
    asked: StartRequest,
    mut target: Target,
    project: &Project,
    config: &Config,
    terms: &Terms,
    (mut worker, mut others, fleet): (Worker, Vec<Worker>, &mut Joined),
    store: Store,
) -> anyhow::Result<Dependencies> {
    let StartRequest { workload, families, searched, left_out, proposer, device, .. } = asked;
    let is_recorded = worker.info().time_source() == TimeSource::Recorded;
    let compiler = match is_recorded {
        true => Compiler::of_recordings(config.compile_limits()),
        false => start_compiler(&worker.info().arch, config).await?.for_device(worker.info()),
    };
    // Files that a killed process left must be gone before the committed winners are read.
    target::prepare(&mut target)?;
    let exe = own_executable()?;
    let renderer = Renderer::new(exe.clone());
    let (settings, min_sample_ns) = (config.baseline_settings(), config.measuring().min_sample_ns);
    let program = |key| BaselineProgram::of(exe, project.root(), key, settings, device.number(), min_sample_ns);
    let baseline = workload.baseline.as_ref().map(program).transpose().context("Failed to copy the baseline")?;
    let known =
        if is_recorded { Vec::new() } else { known::winners(project, (config, &target), &workload, worker.info()) };
    let monitor = open_monitor(worker.info());
    if !is_recorded {
        self_check::arm(&mut worker, &compiler).await?;
    }
    ceilings::give(&mut worker, monitor.as_ref(), &compiler, &store).await?;
    lanes::arm(&mut others, worker.info(), &compiler).await?;
    let arrivals = fleet.lanes(worker.info(), &compiler).await?;
    let sanitizer = open_sanitizer(worker.info(), config).await?.map(|sanitizer| sanitizer.with_lines(&compiler));
    let explainer = open_explainer(worker.info(), config).await?;
    let is_shipped = |family: &&Family| shipped::is_unchanged(project.root(), &family.name);
    let shipped = families.iter().filter(is_shipped).map(|family| family.name.clone()).collect();
    let profiler = Profiler::new(own_executable()?, worker.choice().clone(), config.counters_timeout());
    Ok(Dependencies {
        workload,
        families,
        searched,
        left_out,
        known,
        proposer,
        baseline,
        renderer,
        compiler,
        worker,
        lanes: others,
        arrivals,
        sanitizer,
        shipped,
        explainer,
        models: models::open(project, config, terms)?,
        requests: None,
        monitor,
        profiler,
        store,
        target,
    })
}

async fn start_compiler(arch: &str, config: &Config) -> anyhow::Result<Compiler> {
    let (toolchain, limits) = (toolchain().await?, config.compile_limits());
    let _starting = activity::begin("starting the compiler", Limit::new("compile.timeout", limits.timeout));
    let compiler = Compiler::new(own_executable()?, toolchain, arch, &config.compile.options, limits)?;
    compiler.probe().map_err(|problem| usage_sentence(format!("compile.options in config.toml: {problem}")))?;
    Ok(compiler)
}

/// Returns what earlier sessions of the workload have taught, if prompts may contain it.
pub(super) async fn known_lessons(
    config: &Config,
    store: &Store,
    workload: &Workload,
    device: &DeviceInfo,
) -> anyhow::Result<Option<Lessons>> {
    match config.llm.is_on() && config.llm.lessons {
        true => Ok(Some(store.lessons(&workload.name, device).await?)),
        false => Ok(None),
    }
}

fn print_estimate(config: &Config, options: &Options, devices: &Devices, out: &mut impl Write) -> anyhow::Result<()> {
    let wall = options.budget.wall;
    // How many devices `cuda:all` means is seen only when they are started.
    let number = 1 + devices.others.known();
    let per_hour = if devices.home.is_free() { 0.0 } else { number as f64 * config.cost.gpu_usd_per_hour };
    let gpu_usd = wall.as_secs_f64() / 3600.0 * per_hour;
    for line in models::estimate(config, &options.llm, wall, gpu_usd) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Starts a virtual GPU that checks candidates of a real one, or prints why it cannot.
pub(super) async fn open_sanitizer(device: &DeviceInfo, config: &Config) -> anyhow::Result<Option<Sanitizer>> {
    if device.time_source() != TimeSource::Measured {
        return Ok(None);
    }
    let started = Sanitizer::start(own_executable()?, device, config.worker_timeouts()).await;
    let say_why = |reason| say(&format!("candidates are not checked for races on a virtual GPU: {reason}"));
    Ok(started.map_err(say_why).ok())
}

/// Starts a virtual GPU that explains the times of a real one, or prints why it cannot.
async fn open_explainer(device: &DeviceInfo, config: &Config) -> anyhow::Result<Option<Explainer>> {
    if device.time_source() != TimeSource::Measured {
        return Ok(None);
    }
    let started = Explainer::start(own_executable()?, device, config.worker_timeouts()).await;
    let say_why = |reason| say(&format!("times are not explained on a virtual GPU: {reason}"));
    Ok(started.map_err(say_why).ok())
}

/// Opens a monitor of a real GPU, or prints why it cannot.
pub(super) fn open_monitor(device: &DeviceInfo) -> Option<Monitor> {
    if device.time_source() != TimeSource::Measured {
        return None;
    }
    let opened = Monitor::open(device);
    opened.map_err(|reason| say(&format!("clocks, power and other processes are not monitored: {reason}"))).ok()
}

fn options(args: &Args, config: &Config) -> anyhow::Result<Options> {
    let budget = args.budget.as_ref().unwrap_or(&config.session.budget);
    let wall = config::duration("--budget", budget).map_err(usage)?;
    if let Some(most) = args.max_cost {
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
    if args.iterations.is_some_and(|most| most == 0 || most > 1_000_000_000) {
        return Err(usage_sentence("--iterations must be a number from 1 to 1000000000"));
    }
    let budget = Budget { wall, max_cost_usd: args.max_cost, max_iterations: args.iterations };
    let proposer = args.proposer(config)?;
    let mut config = config.clone();
    if args.no_stop || proposer == agent::INTERACTIVE {
        config.stop.min_gain = 0.0;
    }
    let config = &config;
    let options = options_under(config, budget, args.seed.unwrap_or_else(rand::random), proposer)?;
    Ok(Options { submission: args.submission.clone(), ..options })
}

/// Makes the options of a session under the settings of a configuration.
pub(super) fn options_under(config: &Config, budget: Budget, seed: u64, proposer: &str) -> anyhow::Result<Options> {
    let llm = models::terms(config, proposer)?;
    Ok(Options {
        budget,
        grace: config.grace(),
        min_gain: config.stop.min_gain,
        least_chance: config.session.least_chance,
        rate: Rate { gpu_usd_per_hour: config.cost.gpu_usd_per_hour },
        measuring: config.measuring(),
        first_look: budget.wall.mul_f64(config.validate.first_look_share),
        counters_share: config.counters.budget_share,
        ablations_share: config.ablations.budget_share,
        compilations: config.parallel_compilations(),
        compile_ahead: config.compiled_ahead(),
        seed,
        draws_anew: proposer == agent::INTERACTIVE,
        config: models::with_prices(config, &llm)?,
        submission: None,
        llm,
    })
}

/// Starts a worker on a device after claiming it. A worker's context would disturb the process that has the device.
pub(super) async fn start_worker(
    device: &DeviceChoice,
    config: &Config,
    claims: &mut Claims,
) -> anyhow::Result<Worker> {
    match Worker::claim(own_executable()?, device, config.worker_timeouts(), |info| claims.device(info)).await {
        Ok(worker) => {
            if let Some(notice) = worker.fallback_notice() {
                say(&notice);
            }
            Ok(worker)
        }
        Err(WorkerError::NoDevice(reason)) => anyhow::bail!(
            "{reason}. `--device virtual` executes kernels on the CPU and models their times; `optloop doctor` checks \
             the installation"
        ),
        Err(error) => Err(error.into()),
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
