//! `optloop resume`: continues a session that ended before it was finished.

use std::io::Write;

use crate::agent;
use crate::agent::llm::generated::PREFIX;
use crate::catalog::Project;
use crate::cli::nats_args::NatsArgs;
use crate::cli::signals::{self, or_stop};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::ticker::Ticker;
use crate::cli::verbs::start::conclusion::conclude;
use crate::cli::verbs::trust::TrustArgs;
use crate::config::{self, Config};
use crate::domain::budget::Budget;
use crate::domain::device::DeviceInfo;
use crate::domain::ids::SessionId;
use crate::domain::record::Status;
use crate::error::{usage, usage_sentence};
use crate::launch::consent::{self, Agrees};
use crate::launch::devices::SessionDevices;
use crate::launch::fleet::{Fleet, FleetRequest};
use crate::launch::parts::Launch;
use crate::launch::preflight::{check_device, check_initial_kernel, check_meaning, check_shapes};
use crate::launch::request::StartRequest;
use crate::launch::{options, replayed, target};
use crate::runner::device::{DeviceChoice, Others};
use crate::runner::inputs;
use crate::session;
use crate::store::{self, Past, Store, StoreError};

/// Arguments of `optloop resume`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the session [default: the latest unfinished session]
    session: Option<SessionId>,

    /// Maximum wall time of the whole session, such as 4h [default: the budget it was started with]
    #[arg(short = 'b', long)]
    budget: Option<String>,

    /// Print progress as one JSON object per line on standard output
    #[arg(long)]
    json: bool,

    /// Resume the session of this submission of a service
    #[arg(long, hide = true, value_name = "NAME", conflicts_with = "session")]
    submission: Option<String>,

    #[command(flatten)]
    nats: NatsArgs,

    #[command(flatten)]
    trust: TrustArgs,
}

impl Args {
    /// Tells whether a service resumes this session.
    pub fn is_of_a_service(&self) -> bool {
        self.submission.is_some()
    }
}

/// Continues a session and writes its report.
///
/// The settings of its beginning apply, except for those of the store. So its results from before and after can be
/// compared.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let path = project.root().join(&config.store.path);
    let asked_budget = args.budget.as_ref().map(|budget| config::duration("--budget", budget)).transpose();
    let asked_budget = asked_budget.map_err(usage)?;
    if !path.exists() {
        return Err(StoreError::NoSessions.into());
    }
    store::check_path(&path).map_err(usage)?;
    consent::check_places(project, &config, args.trust.agrees())?;
    let mut locks = project.lock("resume")?;
    locks.store(&path)?;
    let store = Store::open_within(&path, &config.store.limits()).await?;
    let past = past(&store, args).await?;
    let summary = &past.record.session;
    locks.note_session(summary.id);

    let config: Config = Config::recorded(past.config.clone()).map_err(|error| {
        usage_sentence(format!(
            "session {} began with settings that this version of optloop does not know: {error}",
            summary.id
        ))
    })?;
    let budget = Budget {
        wall: asked_budget.unwrap_or(past.budget()),
        max_cost_usd: summary.max_cost_usd,
        max_iterations: summary.max_iterations,
    };
    // Choices and inputs must differ from those of the first run.
    let seed = inputs::mix(summary.seed, &["resumption", &(summary.resumptions + 1).to_string()]);
    let mut options = options::options(&config, budget, seed, &summary.proposer)?;
    let mut request = request(&past, project, args.trust.agrees(), seed)?;
    // The settings come from the store, which a stranger may have made.
    consent::admit(
        project,
        args.trust.agrees(),
        consent::of_session(project, &config, &request.workload, &request.device)?,
    )?;
    let ticker = Ticker::start();
    let same_device = |device: &DeviceInfo| check_device(&past.record, device).map_err(usage_sentence);
    let started = SessionDevices::start(&request, &config, &mut locks, true, same_device);
    let mut devices = or_stop(started).await?;
    let home = devices.home.info().clone();
    request.workload = request.workload.on(&home).map_err(usage_sentence)?;
    check_shapes(&past, &request.workload).map_err(usage_sentence)?;
    let workload = request.workload.clone();
    options.llm.lessons = past.asked.lessons.clone();
    let (is_optional, server) = (args.is_of_a_service(), args.nats.server());
    let asking = FleetRequest {
        server: &server,
        of_project: !is_optional,
        is_optional,
        config: &config,
        home: &home,
        store: &path,
    };
    devices.fleet = or_stop(Fleet::find(asking)).await?;
    let target = target::recorded(&past, project.root(), &config, &request.device)?;
    let launch = Launch { project, config: &config, request, target, devices, store: store.clone() };
    let (parts, fleet) = or_stop(launch.assemble(&options.llm)).await?;
    let interrupt = signals::listen(target::when_stopped(&parts.target));
    let (then, now) = (&past.record.environment.nvrtc, parts.compiler.nvrtc_version());
    if then != now {
        return Err(usage_sentence(format!(
            "session {} was compiled by NVRTC {then}, but this machine has {now}, which generates different code: \
             start another session",
            summary.id
        )));
    }
    drop(ticker);
    let mut progress = Progress::new(args.json, out);
    let end = session::resume(past, parts, options, interrupt, &mut progress).await?;
    fleet.leave().await;
    conclude(end, progress.finish(), project, &config.notify, store, &workload).await
}

/// Returns the session to resume: the one of the given number or submission, or the latest that is not finished.
async fn past(store: &Store, args: &Args) -> anyhow::Result<Past> {
    let summary = match (args.session, &args.submission) {
        (Some(id), _) => store.session(id).await?,
        (None, Some(submission)) => store.session_of(submission).await?.ok_or(StoreError::NoSessions)?,
        (None, None) => store.latest_unfinished().await?,
    };
    if summary.status == Status::Finished {
        let reason = summary.stop_reason.unwrap_or_default();
        return Err(usage_sentence(format!(
            "session {} is finished ({reason}), so it cannot be resumed: `optloop start` begins another",
            summary.id
        )));
    }
    Ok(store.past(summary.id).await?)
}

/// Returns the session's request, read from the project's files.
fn request(past: &Past, project: &Project, agrees: Agrees, seed: u64) -> anyhow::Result<StartRequest> {
    let summary = &past.record.session;
    let device = past.record.environment.device.id.parse().map_err(usage_sentence)?;
    if let DeviceChoice::Replay(path) = &device {
        // The store may have come with the project.
        consent::admit_recording(project, agrees, path)?;
        let recording = replayed::unchanged(path, &past.record).map_err(usage_sentence)?;
        return StartRequest::on_recording(recording, &summary.proposer, seed);
    }
    let workload = project.workload(&summary.workload).map_err(usage)?;
    let workload = workload.select(&summary.cases).map_err(usage_sentence)?;
    let mut families = project.families().map_err(usage)?;
    // Those that the session itself has committed come from its journal.
    families.sound.retain(|family| !family.name.starts_with(PREFIX) || past.asked.families.contains(&family.name));
    // A session records all searched families, even those of other ops. It needs none of them.
    let op = workload.op.name();
    let is_of_another_op =
        |name: &&String| families.broken.iter().any(|broken| broken.name == **name && !broken.may_compute(op));
    let asked: Vec<String> = past.asked.families.iter().filter(|name| !is_of_another_op(name)).cloned().collect();
    let searched = families.searched(&asked).map_err(usage)?;
    check_initial_kernel(&workload, &families).map_err(usage_sentence)?;
    check_meaning(past, &workload, &families).map_err(usage_sentence)?;
    let mut families = families.sound;
    let proposer = agent::proposer(&summary.proposer, seed).map_err(usage_sentence)?;
    if proposer.name() == agent::FAULT_INJECTION {
        families.extend(project.planted_bugs().map_err(usage)?);
    }
    let left_out = past.asked.left_out.clone();
    let others = past.lanes.iter().map(|lane| lane.parse()).collect::<Result<_, _>>().map_err(usage_sentence)?;
    let others = Others::These(others);
    Ok(StartRequest { workload, families, searched, left_out, proposer, device, others })
}
