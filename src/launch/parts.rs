//! Puts a session together.

use anyhow::Context;

use super::devices::SessionDevices;
use super::fleet::Fleet;
use super::instruments::{open_explainer, open_monitor, open_sanitizer};
use super::request::StartRequest;
use super::{compiler, known, lanes, models, own_executable, peaks, target};
use crate::catalog::Project;
use crate::config::Config;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::Family;
use crate::domain::model_terms::Terms;
use crate::domain::proposal::lessons::Lessons;
use crate::domain::workload::Workload;
use crate::runner::baseline::BaselineProgram;
use crate::runner::compile::Compiler;
use crate::runner::monitor::Monitor;
use crate::runner::ncu::Profiler;
use crate::runner::renderer::Renderer;
use crate::runner::self_check;
use crate::runner::worker::Arrivals;
use crate::session::{Dependencies, Devices, Target};
use crate::shipped;
use crate::store::Store;

/// What a session is made of, once nothing refuses it.
pub struct Launch<'a> {
    /// The project's folder.
    pub project: &'a Project,
    /// The settings in force.
    pub config: &'a Config,
    /// What to search.
    pub request: StartRequest,
    /// Where the winners go.
    pub target: Target,
    /// The devices, which no self-check has tried yet.
    pub devices: SessionDevices,
    /// The claimed store.
    pub store: Store,
}

impl Launch<'_> {
    /// Makes the session's parts: its compiler, its baseline, its repository and its knowledge of earlier sessions. The fleet
    /// must be left when the session has ended.
    pub async fn assemble(self, terms: &Terms) -> anyhow::Result<(Dependencies, Fleet)> {
        let Self { project, config, request, mut target, mut devices, store } = self;
        let StartRequest { workload, families, searched, left_out, proposer, device, .. } = request;
        let home = devices.home.info().clone();
        let compiler = session_compiler(&home, config).await?;
        // Files that a killed process left must be gone before the committed winners are read.
        target::prepare(&mut target)?;
        let baseline = baseline(project, config, &workload, device.number())?;
        let known = match home.time_source() {
            TimeSource::Recorded => Vec::new(),
            _ => known::winners(project, (config, &target), &workload, &home),
        };
        let monitor = open_monitor(&home);
        let arrivals = arm(&mut devices, monitor.as_ref(), &compiler, &store).await?;
        let SessionDevices { home: worker, lanes, fleet } = devices;
        let sanitizer = open_sanitizer(&home, config).await?.map(|sanitizer| sanitizer.with_lines(&compiler));
        let explainer = open_explainer(&home, config).await?;
        let is_shipped = |family: &&Family| shipped::is_unchanged(project.root(), &family.name);
        let shipped = families.iter().filter(is_shipped).map(|family| family.name.clone()).collect();
        let profiler = Profiler::new(own_executable()?, worker.choice().clone(), config.counters_timeout());
        let parts = Dependencies {
            workload,
            families,
            searched,
            left_out,
            known,
            proposer,
            baseline,
            renderer: Renderer::new(own_executable()?),
            compiler,
            devices: Devices { home: worker, lanes, arrivals },
            sanitizer,
            shipped,
            explainer,
            models: models::open(project, config, terms)?,
            requests: None,
            monitor,
            profiler,
            store,
            target,
        };
        Ok((parts, fleet))
    }
}

async fn session_compiler(home: &DeviceInfo, config: &Config) -> anyhow::Result<Compiler> {
    match home.time_source() {
        TimeSource::Recorded => Ok(Compiler::of_recordings(config.compile_limits())),
        _ => Ok(compiler::start(&home.arch, config).await?.for_device(home)),
    }
}

/// Makes the baseline program of a workload that has one.
fn baseline(
    project: &Project,
    config: &Config,
    workload: &Workload,
    device: u32,
) -> anyhow::Result<Option<BaselineProgram>> {
    let (exe, settings, min_sample_ns) =
        (own_executable()?, config.baseline_settings(), config.measuring().min_sample_ns);
    let program = |key| BaselineProgram::of(exe, project.root(), key, settings, device, min_sample_ns);
    workload.baseline.as_ref().map(program).transpose().context("Failed to copy the baseline")
}

/// Makes every device check itself, and gives it home's peaks. Returns the lanes of other machines.
async fn arm(
    devices: &mut SessionDevices,
    monitor: Option<&Monitor>,
    compiler: &Compiler,
    store: &Store,
) -> anyhow::Result<Arrivals> {
    let SessionDevices { home, lanes, fleet } = devices;
    if home.info().time_source() != TimeSource::Recorded {
        self_check::arm(home, compiler).await?;
    }
    peaks::give(home, monitor, compiler, store).await?;
    lanes::arm(lanes, home.info(), compiler).await?;
    fleet.lanes(home.info(), compiler).await
}

/// Returns what earlier sessions of the workload have taught, if prompts may contain it.
pub async fn lessons(
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
