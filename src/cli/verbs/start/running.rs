//! Runs a session from its arguments to its report.

use std::io::Write;
use std::time::Duration;

use tokio::sync::oneshot;

use super::args::Args;
use super::conclusion::conclude;
use crate::agent::Tuning;
use crate::catalog::Project;
use crate::cli::signals::{self, or_stop};
use crate::cli::submission;
use crate::cli::terminal::plan::Plan;
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::ticker::Ticker;
use crate::config::Config;
use crate::domain::ids::SessionId;
use crate::error::usage;
use crate::launch::devices::SessionDevices;
use crate::launch::fleet::{Fleet, FleetRequest};
use crate::launch::parts::{self, Launch};
use crate::launch::{models, target};
use crate::locks::Locks;
use crate::runner::device::Devices;
use crate::service::check::Stage;
use crate::session::{self, Dependencies, End, Observer, Options, Requests, Target};
use crate::store::{self, Store};

/// How long the record of what clients did may take, once the session is over.
const RECORDING: Duration = Duration::from_secs(45);

/// Begins to serve the clients of a session that has begun.
pub type Serve<'a> = Box<dyn FnOnce(&Dependencies, SessionId) + 'a>;

/// The clients of a session that propose.
pub struct Clients<'a> {
    /// What they have asked to be tuned.
    pub tuning: Tuning,
    /// What they ask for.
    pub requests: Requests,
    /// Begins to serve them.
    pub serve: Serve<'a>,
    /// Ends once all that they do is on record. None if nothing else is.
    pub recorded: Option<oneshot::Receiver<()>>,
}

/// Runs a session, with clients if it has any, and writes its report.
pub async fn run_with(
    args: &Args,
    project: &Project,
    clients: Option<Clients<'_>>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let ticker = Ticker::start();
    let mut options = args.options(&config)?;
    if args.estimate {
        return print_estimate(&config, &options, &args.devices(&config)?, out);
    }
    let tuning = clients.as_ref().map(|clients| &clients.tuning);
    let mut request = args.request(project, &config, (options.seed, tuning))?;
    let target = target::choose(args.target.wanted(), project.root(), &config, &request.device)?;
    let path = project.root().join(&config.store.path);
    store::check_path(&path).map_err(usage)?;
    if args.check {
        submission::say_passed(Stage::Options { device: request.device.to_string() }, out)?;
    }
    args.admit(project, &config, &request)?;
    if args.check {
        return submission::say_passed(Stage::Trust, out);
    }
    let mut locks = if args.dry_run { Locks::none(project.root(), "start")? } else { project.lock("start")? };
    if !args.dry_run {
        locks.store(&path)?;
    }
    let started = SessionDevices::start(&request, &config, &mut locks, false, |_| Ok(()));
    let mut devices = or_stop(started).await?;
    let home = devices.home.info().clone();
    request.fit(&home, &args.cases, &config)?;
    let workload = request.workload.clone();
    let coverage = or_stop(request.check(&args.families, &home, &mut options)).await?;
    let is_optional = args.is_asked_by_a_service();
    let of_project = clients.is_none() && !is_optional;
    let server = args.nats.server();
    let asking = FleetRequest { server: &server, of_project, is_optional, config: &config, home: &home, store: &path };
    devices.fleet = or_stop(Fleet::find(asking)).await?;
    let (number, proposer) = (devices.number(), request.proposer.name());
    let plan = |target: &Target, options: &Options| {
        Plan::of(&workload, &coverage, (&home, number), (proposer, options), target, &path)
    };
    if args.dry_run {
        return plan(&target, &options).show(args.json, out);
    }
    let store = Store::open_within(&path, &config.store.limits()).await?;
    target::say_left_over(project.root(), &store).await?;
    options.llm.lessons = parts::lessons(&config, &store, &workload, &home).await?;
    let launch = Launch { project, config: &config, request, target, devices, store: store.clone() };
    let (parts, fleet) = or_stop(launch.assemble(&options.llm)).await?;

    // Every refusal comes before this, and alone.
    plan(&parts.target, &options).show(args.json, out)?;
    drop(ticker);
    let mut progress = Progress::new(args.json, out);
    let end = session_of(parts, options, (&mut locks, clients), &mut progress).await?;
    fleet.leave().await;
    conclude(end, progress.finish(), project, &config.notify, store, &workload).await
}

/// Begins a session and runs it to its end.
async fn session_of(
    mut parts: Dependencies,
    options: Options,
    (locks, clients): (&mut Locks, Option<Clients<'_>>),
    progress: &mut impl Observer,
) -> anyhow::Result<End> {
    // This comes before the session is on record: no signal may leave a recorded session that never ran.
    let interrupt = signals::listen(target::when_stopped(&parts.target));
    let id = session::begin(&mut parts, &options).await?;
    locks.note_session(id);
    let mut recorded = None;
    if let Some(Clients { requests, serve, recorded: of_clients, .. }) = clients {
        parts.requests = Some(requests);
        recorded = of_clients;
        serve(&parts, id);
    }
    let end = session::run(id, parts, options, interrupt, progress).await;
    if let Some(recorded) = recorded {
        // It ends with the session's search, long before.
        drop(tokio::time::timeout(RECORDING, recorded).await);
    }
    Ok(end)
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
