//! `optloop doctor`: reports what is installed, what is missing, and how to fix it.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::error::usage;
use super::own_executable;
use super::talk::say;
use crate::catalog::Project;
use crate::config::Config;
use crate::domain::device::{DeviceInfo, Peaks};
use crate::domain::machine::MachineState;
use crate::runner::compile::Compiler;
use crate::runner::device::DeviceChoice;
use crate::runner::monitor::Monitor;
use crate::runner::peaks;
use crate::runner::self_check;
use crate::runner::toolchain::{Toolchain, cache_dir};
use crate::runner::worker::Worker;
use crate::secrets;
use crate::store::Store;
use crate::vcs::Repo;

/// Arguments of `optloop doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure the GPU's ceilings (bandwidths, arithmetic rates, launch time) again and store them
    #[arg(long)]
    measure: bool,
}

/// The result of one check.
enum Finding {
    /// It is present.
    Here(String),
    /// It is missing. Says what does not work without it.
    Missing(String),
}

use Finding::{Here, Missing};

/// Runs every check and prints a line for each.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root());
    if args.measure {
        measure(project).await?;
    }
    let worker_timeouts = config.as_ref().map_or_else(|_| Config::default().worker_timeouts(), Config::worker_timeouts);
    let device = Worker::start(own_executable()?, &DeviceChoice::Auto, worker_timeouts).await;
    let no_device = || Missing("there is no device".to_owned());
    let findings = [
        ("project", files(project)),
        (
            "config.toml",
            config.as_ref().map_or_else(|e| Missing(format!("{e:#}")), |_| Here("every key is known".into())),
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
            "ceilings",
            match &device {
                Ok(worker) => ceilings(project, config.as_ref().ok(), worker.info()).await,
                Err(_) => no_device(),
            },
        ),
        ("NVRTC and headers", nvrtc()),
        ("PyTorch", torch(config.as_ref().map_or("python3", |config| config.baseline.python.as_str()))),
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
    for (what, finding) in findings {
        match finding {
            Here(text) => writeln!(out, "ok       {what}: {text}")?,
            Missing(text) => writeln!(out, "missing  {what}: {text}")?,
        }
    }
    Ok(())
}

/// Measures the GPU's ceilings and stores them.
async fn measure(project: &Project) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    // A session running at the same time would disturb the measurement, and be disturbed.
    let mut claims = project.claim("doctor --measure")?;
    let exe = own_executable()?;
    let started =
        Worker::claim(exe, &DeviceChoice::Cuda(0), config.worker_timeouts(), |info| claims.device(info)).await;
    let mut worker =
        started.context("Ceilings are measured on a GPU only; those of a virtual one are published rates")?;
    let own: Vec<u32> = worker.pid().into_iter().collect();
    let others = Monitor::open(worker.info()).map(|monitor| monitor.others(&own)).unwrap_or_default();
    if !others.is_empty() {
        say(&format!(
            "other processes use the GPU: {}. If they are active, the measured ceilings will be too low",
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

/// Shows the ceilings that a session would use: the measured ones in the store, else those of the device.
async fn ceilings(project: &Project, config: Option<&Config>, device: &DeviceInfo) -> Finding {
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
    let loaded = project.workload_names().and_then(|names| {
        names.iter().try_for_each(|name| project.workload(name).map(|_| ()))?;
        Ok((names.len(), project.families()?.len()))
    });
    match loaded {
        Ok((workloads, families)) => {
            Here(format!("{workloads} workloads and {families} families in {}", project.root().display()))
        }
        Err(error) => Missing(format!("{error:#}")),
    }
}

fn nvrtc() -> Finding {
    let Some(toolchain) = Toolchain::installed() else {
        let pip = secrets::withhold(Command::new("python3").args(["-m", "pip", "--version"])).output();
        return Missing(match (pip.is_ok_and(|output| output.status.success()), cache_dir()) {
            (true, Ok(cache)) => {
                format!("no CUDA toolkit; the first use fetches NVRTC with pip into {}", cache.display())
            }
            (true, Err(error)) => format!("{error:#}"),
            (false, _) => "no CUDA toolkit, and no python3 with pip to fetch NVRTC: install either".to_owned(),
        });
    };
    let origin = toolchain.origin.clone();
    let opened = own_executable().and_then(|exe| Compiler::new(exe, toolchain, "sm_90a", &[], Duration::from_secs(60)));
    match opened {
        Ok(compiler) => Here(format!("{} from {origin}", compiler.nvrtc_version())),
        Err(error) => Missing(format!("{error:#}: reinstall it ({origin})")),
    }
}

fn torch(python: &str) -> Finding {
    let program =
        "import torch; print(torch.__version__, 'with CUDA' if torch.cuda.is_available() else 'without CUDA')";
    match secrets::withhold(Command::new(python).args(["-c", program])).output() {
        Ok(output) if output.status.success() => Here(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        _ => Missing(format!("{python} has no torch, so reports have no baseline: `{python} -m pip install torch`")),
    }
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
        Ok(sessions) => Here(format!("{} sessions in {}", sessions.len(), path.display())),
        Err(error) => Missing(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::machine::Throttle;

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
