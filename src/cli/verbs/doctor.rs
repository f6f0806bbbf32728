//! `optloop doctor`: reports what is installed, what is missing, and how to fix it.

mod models;

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::catalog::{BrokenFamily, Project};
use crate::cli::terminal::listing::print_json;
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::device::machine::MachineState;
use crate::domain::device::{DeviceInfo, Peaks};
use crate::environment;
use crate::error::{Error, error, usage};
use crate::launch::consent;
use crate::launch::own_executable;
use crate::notices::say;
use crate::report::format::counted;
use crate::runner::baseline::interpreter;
use crate::runner::compile::Compiler;
use crate::runner::device::DeviceChoice;
use crate::runner::monitor::Monitor;
use crate::runner::ncu::Profiler;
use crate::runner::peaks;
use crate::runner::self_check;
use crate::runner::toolchain::{Toolchain, cache_dir};
use crate::runner::worker::Worker;
use crate::store::Store;
use crate::vcs::Repo;

/// Arguments of `optloop doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure the GPU's peaks (bandwidths, arithmetic rates, launch time) again and store them
    #[arg(long)]
    measure: bool,

    /// Call the first language model in config.toml once, and print the cost
    #[arg(long, conflicts_with = "json")]
    llm: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,
}

/// The result of one check.
enum Finding {
    /// It is present.
    Here(String),
    /// It is missing. Says what does not work without it.
    Missing(String),
    /// It is there, but cannot be used. Says what to mend.
    Broken(String),
}

impl Finding {
    /// Returns the finding for a program.
    fn json(&self, what: &str) -> serde_json::Value {
        let (state, text) = match self {
            Here(text) => ("ok", text),
            Missing(text) => ("missing", text),
            Broken(text) => ("broken", text),
        };
        serde_json::json!({ "check": what, "state": state, "text": text })
    }
}

use Finding::{Broken, Here, Missing};

/// Runs every check and prints a line for each.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root());
    if args.measure {
        measure(args, project).await?;
    }
    let worker_timeouts = config.as_ref().map_or_else(|_| Config::default().worker_timeouts(), Config::worker_timeouts);
    let device = Worker::start(own_executable()?, &DeviceChoice::Auto, worker_timeouts).await;
    let compiler = start_compiler();
    let no_device = || Missing("there is no device".to_owned());
    let findings = [
        ("project", files(project)),
        (
            "config.toml",
            config.as_ref().map_or_else(|e| Broken(format!("{e:#}")), |_| Here("every key is known".into())),
        ),
        (
            "GPU and driver",
            match &device {
                Ok(worker) => worker.fallback_notice().map_or_else(
                    || {
                        let info = worker.info();
                        let driver = info.driver.as_deref().unwrap_or("unknown");
                        Here(format!("{} ({}, {} SMs), CUDA driver {driver}", info.name, info.arch, info.sms))
                    },
                    Missing,
                ),
                Err(reason) => Missing(format!("{reason}. Sessions run with `--device virtual`: times are modelled")),
            },
        ),
        ("NVML", device.as_ref().map_or_else(|_| no_device(), |worker| nvml(worker.info()))),
        (
            "peaks",
            match &device {
                Ok(worker) => peaks(project, config.as_ref().ok(), worker.info()).await,
                Err(_) => no_device(),
            },
        ),
        ("NVRTC and headers", nvrtc(&compiler)),
        ("hardware counters", hardware_counters(device.as_ref().ok(), &compiler, config.as_ref().ok()).await),
        ("confinement", confinement(&compiler)),
        ("trust", trusted(args, project, config.as_ref().ok())),
        ("language models", models::check(project, config.as_ref().ok()).await),
        ("PyTorch", torch(project, config.as_ref().ok())),
        ("numpy", numpy(project, config.as_ref().ok())),
        (
            "git",
            Repo::discover(project.root()).map_or_else(
                |error| Missing(format!("{error}. Winners stay in the database until then")),
                |_| Here("winners are committed to this repository".into()),
            ),
        ),
        (
            "database",
            match &config {
                Ok(config) => database(project, config).await,
                Err(_) => Missing("the interpreter is set in config.toml, which must be fixed first".into()),
            },
        ),
    ];
    if args.json {
        return print_json(&findings.iter().map(|(what, finding)| finding.json(what)).collect::<Vec<_>>(), out);
    }
    for (what, finding) in findings {
        match finding {
            Here(text) => writeln!(out, "ok       {what}: {text}")?,
            Missing(text) => writeln!(out, "missing  {what}: {text}")?,
            Broken(text) => writeln!(out, "broken   {what}: {text}")?,
        }
    }
    if args.llm {
        models::call(args.trust.agrees(), project, &config.map_err(usage)?, out).await?;
    }
    Ok(())
}

/// Measures the GPU's peaks and stores them.
async fn measure(args: &Args, project: &Project) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    consent::check_places(project, &config, args.trust.agrees())?;
    // A session running at the same time would disturb the measurement, and be disturbed.
    let mut locks = project.lock("doctor --measure")?;
    let exe = own_executable()?;
    let started = Worker::claim(exe, &DeviceChoice::Cuda(0), config.worker_timeouts(), |info| locks.device(info)).await;
    let mut worker = started.context("Peaks are measured on a GPU only; those of a virtual one are published rates")?;
    let own: Vec<u32> = worker.pid().into_iter().collect();
    let others = Monitor::open(worker.info()).map(|monitor| monitor.others(&own)).unwrap_or_default();
    if !others.is_empty() {
        say(&format!(
            "other processes use the GPU: {}. If they are active, the measured peaks will be too low",
            others.join(", ")
        ));
    }
    let (exe, toolchain, limits) = (own_executable()?, Toolchain::find_or_fetch()?, config.compile_limits());
    let compiler = Compiler::new(exe, toolchain, &worker.info().arch, &config.compile.options, limits)?;
    self_check::arm(&mut worker, &compiler).await?;
    let peaks = peaks::measure(&mut worker, &compiler).await.map_err(anyhow::Error::msg)?;
    let store = Store::open(&project.root().join(&config.store.path)).await?;
    store.keep_peaks(worker.info(), &peaks).await?;
    store.close().await;
    Ok(())
}

fn nvml(device: &DeviceInfo) -> Finding {
    match Monitor::open(device) {
        Ok(monitor) => Here(show_state(&monitor.state())),
        Err(reason) => Missing(format!("{reason}. Times are recorded without clocks, power and temperature")),
    }
}

fn show_state(state: &MachineState) -> String {
    let mhz = |clock: Option<u32>, of: &str| clock.map(|mhz| format!("{of} at {mhz} MHz"));
    let figures = [
        mhz(state.sm_clock_mhz, "SMs"),
        mhz(state.memory_clock_mhz, "memory"),
        state.power_w.map(|watts| format!("{watts:.0} W")),
        state.temperature_c.map(|celsius| format!("{celsius} C")),
        (!state.throttle.is_empty()).then(|| format!("throttled ({:?})", state.throttle)),
    ];
    let shown: Vec<String> = figures.into_iter().flatten().collect();
    if shown.is_empty() { "it responds, but reports no figures".to_owned() } else { shown.join(", ") }
}

/// Shows the peaks that a session would use: the measured ones in the store, else those of the device.
async fn peaks(project: &Project, config: Option<&Config>, device: &DeviceInfo) -> Finding {
    let path = config.map(|config| project.root().join(&config.store.path)).filter(|path| path.exists());
    let kept = match path {
        Some(path) => match Store::open_existing(&path).await {
            Ok(store) => store.peaks_of(device).await.ok().flatten(),
            // The line about the database reports the error.
            Err(_) => None,
        },
        None => None,
    };
    Here(show_peaks(kept.as_ref().unwrap_or(&device.peaks)))
}

fn show_peaks(peaks: &Peaks) -> String {
    format!(
        "FP16 {:.0} TFLOP/s, FP32 accuracy {:.0} TFLOP/s, memory {:.2} TB/s, L2 {:.2} TB/s, a launch {:.2} us; {}",
        peaks.f16_flops / 1e12,
        peaks.f32_flops / 1e12,
        peaks.memory_bytes_per_s / 1e12,
        peaks.l2_bytes_per_s / 1e12,
        peaks.launch_ns / 1e3,
        peaks.source
    )
}

fn files(project: &Project) -> Finding {
    let loaded = project.workloads().and_then(|workloads| Ok((workloads, project.families()?)));
    let ((workloads, broken), families) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Missing(format!("{error:#}")),
    };
    let mut mistakes: Vec<String> = broken.iter().map(|(_, error)| format!("{error:#}")).collect();
    mistakes.extend(families.broken.iter().map(BrokenFamily::first));
    if !mistakes.is_empty() {
        return Broken(format!("{}. `optloop check` shows all mistakes", mistakes.join(". ")));
    }
    Here(format!(
        "{} and {} in {}",
        counted(workloads.len(), "workload"),
        counted(families.sound.len(), "family"),
        project.root().display()
    ))
}

/// Starts a compiler with the toolchain that is installed, if any.
fn start_compiler() -> Option<(Toolchain, anyhow::Result<Compiler>)> {
    let toolchain = Toolchain::installed()?;
    let limit = Duration::from_secs(60);
    let compiler = own_executable().and_then(|exe| Compiler::new(exe, toolchain.clone(), "sm_90a", &[], limit));
    Some((toolchain, compiler))
}

/// Says whether ncu reads the counters of a real GPU.
async fn hardware_counters(
    worker: Option<&Worker>,
    compiler: &Option<(Toolchain, anyhow::Result<Compiler>)>,
    config: Option<&Config>,
) -> Finding {
    let Some(worker) = worker.filter(|worker| worker.info().replays()) else {
        return Missing("there is no GPU that has any".to_owned());
    };
    let Some((toolchain, Ok(_))) = compiler else { return Missing("there is no compiler".to_owned()) };
    let limit = config.map_or_else(|| Config::default().counters_timeout(), Config::counters_timeout);
    let made = own_executable().and_then(|exe| {
        // The kernel that ncu is tried on is for this GPU's architecture.
        let compiler = Compiler::new(exe.clone(), toolchain.clone(), &worker.info().arch, &[], limit)?;
        Ok((Profiler::new(exe, worker.choice().clone(), limit), compiler))
    });
    let answered = match made {
        Ok((profiler, compiler)) => profiler.check(&compiler).await,
        Err(error) => Err(error!("{error:#}")),
    };
    answered.map_or_else(|reason| Missing(format!("{reason}. Diagnoses do without")), Here)
}

/// Says what keeps compilers and templates away from files, programs and the network.
fn confinement(compiler: &Option<(Toolchain, anyhow::Result<Compiler>)>) -> Finding {
    let Some((_, Ok(compiler))) = compiler else { return Missing("there is no compiler".to_owned()) };
    let Some(found) = compiler.confinement() else { return Missing("nothing is compiled".to_owned()) };
    match found.holds() {
        true => Here(format!(
            "compilers and templates reach no file but the CUDA headers, and baselines only those in `optloop docs security`: {}",
            found.describe()
        )),
        false => Missing(format!(
            "a source from a stranger may read files of this machine while it is compiled: {}. A newer kernel or another \
             container profile provides these",
            found.describe()
        )),
    }
}

fn nvrtc(compiler: &Option<(Toolchain, anyhow::Result<Compiler>)>) -> Finding {
    let Some((toolchain, opened)) = compiler else {
        let has_pip = elsewhere(Command::new("python3").args(["-m", "pip", "--version"])).is_some();
        return Missing(match (has_pip, cache_dir()) {
            (true, Ok(cache)) => {
                format!("no CUDA toolkit; the first use fetches NVRTC with pip into {}", cache.display())
            }
            (true, Err(error)) => format!("{error:#}"),
            (false, _) => "no CUDA toolkit, and no python3 with pip to fetch NVRTC: install either".to_owned(),
        });
    };
    let origin = &toolchain.origin;
    match opened {
        Ok(compiler) => toolchain
            .missing_headers()
            .map_or_else(|| Here(format!("{} from {origin}", compiler.nvrtc_version())), Missing),
        Err(error) => Missing(format!("{error:#}: reinstall it ({origin})")),
    }
}

/// Says whether the project chooses anything that the user has not agreed to. With `--trust`, agrees to it.
fn trusted(args: &Args, project: &Project, config: Option<&Config>) -> Finding {
    let Some(config) = config else { return Missing("config.toml must be mended first".to_owned()) };
    let workloads = project.workloads().map(|(sound, _)| sound);
    let items = workloads.and_then(|workloads| crate::trust::of_project(project.root(), config, &workloads));
    match items.map(|items| (items.len(), consent::admit(project, args.trust.agrees(), items))) {
        Ok((0, Ok(()))) => Here("this project runs only programs shipped with optloop".to_owned()),
        Ok((_, Ok(()))) => Here("you have trusted all that this project chooses to run".to_owned()),
        Ok((_, Err(error))) | Err(error) => Missing(format!("{error:#}")),
    }
}

fn torch(project: &Project, config: Option<&Config>) -> Finding {
    let program =
        "import torch; print(torch.__version__, 'with CUDA' if torch.cuda.is_available() else 'without CUDA')";
    match ask_python(project, config, program) {
        Ok((_, Some(version))) => Here(version),
        Ok((python, None)) => {
            Missing(format!("{python} has no torch, so reports have no baseline: `{python} -m pip install torch`"))
        }
        Err(reason) => Missing(reason.into()),
    }
}

/// Says whether the project's oracles in Python can run.
fn numpy(project: &Project, config: Option<&Config>) -> Finding {
    match ask_python(project, config, "import numpy; print(numpy.__version__)") {
        Ok((_, Some(version))) => Here(format!("{version}, for oracles in Python")),
        Ok((python, None)) => Missing(format!(
            "{python} has no numpy, which oracles in Python need (those in CUDA do not): `{python} -m pip install numpy`"
        )),
        Err(reason) => Missing(reason.into()),
    }
}

/// Runs a program in the project's Python. Returns the interpreter, and what the program printed unless it failed. The error
/// is why it was not asked.
fn ask_python(project: &Project, config: Option<&Config>, program: &str) -> Result<(String, Option<String>), Error> {
    let defaults = Config::default();
    let config = config.unwrap_or(&defaults);
    match crate::trust::of_interpreter(project.root(), config) {
        Ok(Some(item)) if !consent::is_trusted(project, &item) => {
            return Err(Error::new("the interpreter in config.toml is not trusted, so it was not asked"));
        }
        Ok(_) => {}
        Err(error) => return Err(error!("{error:#}")),
    }
    let python = project.root().canonicalize().map(|root| interpreter(&root, &config.baseline.python));
    let python = python.unwrap_or_else(|_| config.baseline.python.clone());
    let answer = elsewhere(Command::new(&python).args(["-c", program]));
    Ok((python, answer))
}

/// Runs Python in an empty folder, and returns what it printed. In the project's folder it would import the project's
/// modules. `None` if it failed.
fn elsewhere(python: &mut Command) -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    let output = environment::limit(python).current_dir(folder.path()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

async fn database(project: &Project, config: &Config) -> Finding {
    let path = project.root().join(&config.store.path);
    if !path.exists() {
        return Here(format!("none yet; the first session creates {}", path.display()));
    }
    let store = match Store::open_existing(&path).await {
        Ok(store) => store,
        Err(error) => return Missing(error.to_string()),
    };
    match store.sessions().await {
        Ok(sessions) => Here(format!("{} in {}", counted(sessions.len(), "session"), path.display())),
        Err(error) => Missing(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::device::machine::Throttle;

    #[test]
    fn what_is_known_of_a_gpu_is_shown_and_what_is_not_is_left_out() {
        let state = MachineState {
            sm_clock_mhz: Some(1980),
            power_w: Some(76.4),
            throttle: [Throttle::PowerCap].into(),
            ..MachineState::default()
        };
        insta::assert_snapshot!(show_state(&state), @"SMs at 1980 MHz, 76 W, throttled ({PowerCap})");
        insta::assert_snapshot!(show_state(&MachineState::default()), @"it responds, but reports no figures");
        let peaks = Peaks::derived(90, 132, 1_980_000.0, 3_201_000.0, 6144.0);
        insta::assert_snapshot!(show_peaks(&peaks), @"FP16 1071 TFLOP/s, FP32 accuracy 357 TFLOP/s, memory 4.92 TB/s, L2 16.73 TB/s, a launch 0.90 us; derived from the driver's clocks (1980 MHz SM, 3201 MHz memory, 6144-bit bus)");
    }
}
