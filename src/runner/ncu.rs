//! Reads hardware counters with NVIDIA's `ncu` (Nsight Compute).
//!
//! `ncu` runs [`optloop profiled`](super::profiled), which launches a plan twice, and profiles the second time. It is a
//! program of the user's installation and never one of the project. Where it is missing, is not permitted or hangs, the
//! answer is one sentence.

mod baselines;
mod metrics;
mod output;
mod source;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::activity::{self, Limit};
use super::compile::Compiler;
use super::device::{DeviceChoice, self_check};
use super::messages::LaunchRequest;
use super::{child, descendants, frames, toolchain};
use crate::domain::code::counters::{Counters, LaunchCounters};
use crate::domain::family::plan::Launch;
use crate::environment;
use crate::error::{Error, Result, error};

/// The key of the time limit in config.toml.
const TIMEOUT_KEY: &str = "counters.timeout";

/// How long a guard may take to end everything that it has started.
const END_TIMEOUT: Duration = Duration::from_secs(8);

/// How long `ncu --version` may take. It takes 0.2 s.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The time up to which a kernel's warps are sampled as often as ncu can. By itself, it samples 16 times less often, which is
/// enough for longer kernels and spares its buffer (docs/counters.md).
const SHORT_NS: f64 = 50_000.0;

/// The first year of ncu's versions that is known to have the option for that.
const SAMPLING_SINCE: u32 = 2025;

/// The file in which ncu keeps what it profiled. It adds an extension.
const REPORT: &str = "launches";

/// What the self-check adds where ncu does not print its report's page with the instructions.
const NO_INSTRUCTIONS: &str =
    ", but not at which instructions warps wait, so waits for products of warpgroups count as waits at barriers";

/// How much of ncu's output is read. A launch takes some 16 KiB of counters, and an instruction 120 bytes.
const MAX_OUTPUT_BYTES: u64 = 16 << 20;

/// Reads the hardware counters of launches.
#[derive(Debug, Clone)]
pub struct Profiler {
    /// optloop's executable.
    exe: PathBuf,
    /// The program, or why there is none.
    ncu: Result<PathBuf>,
    choice: DeviceChoice,
    timeout: Duration,
}

impl Profiler {
    /// Makes a profiler of a device, with the longest time for one case.
    pub fn new(exe: PathBuf, choice: DeviceChoice, timeout: Duration) -> Self {
        let path = std::env::var_os("PATH");
        Self { exe, ncu: find(path.as_deref(), &toolchain::toolkit_roots()), choice, timeout }
    }

    /// Profiles one execution of a plan, whose time may be known. The error says in one sentence why there are no counters.
    pub async fn count(&self, request: &LaunchRequest, time_ns: Option<f64>) -> Result<Counters> {
        let ncu = self.ncu.as_ref().map_err(Clone::clone)?;
        let _running = activity::begin("ncu", Limit::new(TIMEOUT_KEY, self.timeout));
        let folder = tempfile::tempdir().map_err(|error| error!("ncu has no temporary folder: {error}"))?;
        let path = folder.path().join("request");
        let written = frames::encode(request).and_then(|frame| std::fs::write(&path, frame));
        written.map_err(|error| error!("ncu's request cannot be written: {error}"))?;
        let version = self.version(ncu, &folder).await;
        let mut command = self.counting(ncu, &folder, request.cold);
        command.args(often_sampled(&version, time_ns));
        self.profiling(&mut command, request, &folder);
        let printed = self.run(command, self.timeout).await?;
        let mut launches = matched(output::parse(&printed)?, request)?;
        self.tell_products_apart(ncu, &mut launches, &folder).await;
        Ok(Counters { tool: version, launches })
    }

    /// Profiles the kernel of the [self-check](super::self_check), and returns ncu's version.
    pub async fn check(&self, compiler: &Compiler) -> Result<String> {
        let artifact = compiler.compile(&super::self_check::variant()).map_err(Error::new)?;
        let request = LaunchRequest { artifact, plan: self_check::own_plan(), problem: None, cold: false, seed: 1 };
        let counters = self.count(&request, None).await?;
        let missing =
            if counters.launches.iter().all(LaunchCounters::tells_products_apart) { "" } else { NO_INSTRUCTIONS };
        Ok(format!("{} reads the GPU's hardware counters{missing}", counters.tool))
    }

    /// Reads at which instructions the warps of profiled launches waited, from the report in a folder. Without that, waits for
    /// products stay among those at barriers.
    async fn tell_products_apart(&self, ncu: &Path, launches: &mut [LaunchCounters], folder: &TempDir) {
        let mut command = self.guarded(ncu, folder);
        command.arg("--import").arg(folder.path().join(REPORT).with_extension("ncu-rep"));
        command.args(["--csv", "--page", "source", "--print-source", "sass"]);
        match self.run(command, self.timeout).await {
            Ok(printed) => source::tell_products_apart(launches, &printed),
            Err(error) => tracing::warn!("the instructions at which warps wait are not known: {error}"),
        }
    }

    /// Returns the program with its version, or without it where it does not say.
    async fn version(&self, ncu: &Path, folder: &TempDir) -> String {
        let mut command = self.guarded(ncu, folder);
        command.arg("--version");
        let printed = self.run(command, VERSION_TIMEOUT.min(self.timeout)).await.unwrap_or_default();
        let version = printed.lines().find_map(|line| line.strip_prefix("Version "));
        let number = version.and_then(|version| version.split_ascii_whitespace().next());
        number.map_or_else(|| "ncu".to_owned(), |number| format!("ncu {}", child::sentence(number)))
    }

    /// Has a command profile the second execution of a plan. Each follows a preparation of the weights, if the plan has one.
    fn profiling(&self, command: &mut Command, request: &LaunchRequest, folder: &TempDir) {
        let launches = request.plan.launches.len();
        let before = launches + 2 * request.plan.preparation.len();
        command
            .args(["--launch-skip", &before.to_string(), "--launch-count", &launches.to_string()])
            .arg(&self.exe)
            .args(["profiled", "--device", &self.choice.to_string(), "--request"])
            .arg(folder.path().join("request"));
    }

    /// Makes a command that has ncu count everything, with cold caches or with warm ones. What to profile follows.
    fn counting(&self, ncu: &Path, folder: &TempDir, cold: bool) -> Command {
        let mut command = self.guarded(ncu, folder);
        command
            .args(["--csv", "--page", "raw", "--print-units", "base", "--export"])
            .arg(folder.path().join(REPORT))
            // The clocks stay as they are when times are measured. Changing them needs root, and others share the GPU.
            .args(["--clock-control", "none"])
            .args(["--cache-control", if cold { "all" } else { "none" }])
            .args(["--target-processes", "all"])
            .args(["--metrics", &metrics::metric_names()]);
        command
    }

    /// Makes a command that runs ncu under a [guard](super::baseline::guard), so that none of its processes outlives
    /// optloop.
    fn guarded(&self, ncu: &Path, folder: &TempDir) -> Command {
        let mut command = Command::new(&self.exe);
        command.args(["guard", "--"]).arg(ncu);
        environment::limit(command.as_std_mut());
        command.envs(self.choice.environment());
        // ncu keeps a lock in one of these folders, and copies its sections to the other. Files of another user would
        // make it fail.
        command.env("TMPDIR", folder.path()).env("HOME", folder.path()).env_remove("XDG_CONFIG_HOME");
        command
    }

    /// Runs a command within a time limit, and returns what it printed.
    async fn run(&self, mut command: Command, limit: Duration) -> Result<String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C at the terminal must reach the session only.
        #[cfg(unix)]
        command.process_group(0);
        if let Err(error) = descendants::adopt() {
            tracing::warn!("processes that lose their guard may be left: {error}");
        }
        let mut running =
            GuardedProcess(command.spawn().map_err(|error| error!("ncu's guard cannot be run: {error}"))?);
        let (Some(output), Some(errors)) = (running.0.stdout.take(), running.0.stderr.take()) else {
            return Err(Error::new("ncu's process has no pipes"));
        };
        let last_line = tokio::spawn(child::last_line(errors));
        let mut printed = Vec::new();
        let mut output = output.take(MAX_OUTPUT_BYTES);
        let read = timeout(limit, output.read_to_end(&mut printed)).await;
        // The guard ends the remaining processes. The next user of the device must wait for that.
        running.end().await;
        match read {
            Err(_) => Err(error!("ncu took over {} ({TIMEOUT_KEY})", humantime::format_duration(limit))),
            Ok(Err(error)) => Err(error!("ncu's output cannot be read: {error}")),
            Ok(Ok(_)) => {
                // The error message of the profiled process comes last.
                let said = timeout(END_TIMEOUT, last_line).await.ok().and_then(Result::ok).unwrap_or_default();
                Ok(format!("{}\n{said}", String::from_utf8_lossy(&printed)))
            }
        }
    }
}

/// A guard and everything that it has started. Dropping it ends them.
struct GuardedProcess(Child);

impl GuardedProcess {
    /// Ends all of them, and waits until they have exited.
    async fn end(&mut self) {
        self.tell();
        if timeout(END_TIMEOUT, self.0.wait()).await.is_err() {
            tracing::warn!("ncu's guard has not exited within {END_TIMEOUT:?} after SIGTERM");
        }
    }

    /// Asks the guard to stop. If it were killed, it could not end the others.
    fn tell(&self) {
        #[cfg(unix)]
        if let Some(guard) = self.0.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            // A stopped guard has to be continued first.
            let _ = kill_process(guard, Signal::TERM).and_then(|()| kill_process(guard, Signal::CONT));
        }
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        self.tell();
    }
}

/// Returns the options that have ncu sample the warps of short kernels as often as it can. None for other kernels and versions.
fn often_sampled(tool: &str, time_ns: Option<f64>) -> &'static [&'static str] {
    let year = tool.strip_prefix("ncu ").and_then(|version| version.split('.').next()?.parse().ok());
    let is_known = year.is_some_and(|year: u32| year >= SAMPLING_SINCE);
    let is_short = time_ns.is_some_and(|time_ns| time_ns <= SHORT_NS);
    if is_known && is_short { &["--warp-sampling-interval", "0"] } else { &[] }
}

/// Finds ncu.
fn find(path: Option<&OsStr>, toolkits: &[PathBuf]) -> Result<PathBuf> {
    let found = toolchain::tool_in("ncu", path, toolkits);
    found.ok_or_else(|| Error::new("ncu (NVIDIA Nsight Compute) is not installed, or not in PATH"))
}

/// Checks that the profiled launches are those of the plan.
fn matched(launches: Vec<LaunchCounters>, request: &LaunchRequest) -> Result<Vec<LaunchCounters>> {
    let planned = &request.plan.launches;
    let is_same = |(counted, launch): (&LaunchCounters, &Launch)| {
        counted.kernel.split('(').next() == Some(launch.kernel.as_str())
    };
    if launches.len() != planned.len() || !launches.iter().zip(planned).all(is_same) {
        let counted: Vec<_> = launches.iter().map(|launch| launch.kernel.as_str()).collect();
        return Err(error!("ncu profiled other launches than those of the plan: {}", counted.join(", ")));
    }
    let named = launches.into_iter().zip(planned);
    Ok(named.map(|(counters, launch)| LaunchCounters { kernel: launch.kernel.clone(), ..counters }).collect())
}
