//! The project's `config.toml`. Every key is optional, unknown keys are refused, and values are checked once.

mod fleet;
mod llm;
mod notify;
mod sections;

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use serde::{Deserialize, Serialize};

pub use fleet::FleetConfig;
pub use llm::{LlmConfig, PriceConfig, Send};
pub use notify::NotifyConfig;
pub use sections::{
    AblationsConfig, BaselineConfig, BenchmarkConfig, CompileConfig, CostConfig, CountersConfig, GitConfig,
    SessionConfig, StopConfig, StoreConfig, ValidateConfig, VirtualGpuConfig, WorkerConfig,
};

use crate::domain::measurement::comparison::MIN_ROUNDS;
use crate::domain::measurement::settings::Measuring;
use crate::domain::measurement::verdict::Policy;
use crate::domain::statistics::sampling::{MIN_SAMPLES, Sampling};
use crate::domain::text::expected::in_words;
use crate::domain::text::toml_text;
use crate::error::Error;
use crate::files;
use crate::runner::baseline;
use crate::runner::compile::{self, CompileLimits};
use crate::runner::worker::StepTimeouts;
use crate::secrets;

/// The fewest samples of a screening run. With fewer, an interval of the median means little.
const MIN_SCREENING_SAMPLES: usize = 7;

/// The least memory of a compilation, in GB. With less, NVRTC may fail to start.
const MIN_MEMORY_GB: f64 = 0.5;

/// The shortest grace period after the end of the time budget.
const MIN_GRACE: Duration = Duration::from_secs(5);

/// Keys that had other names before optloop 0.2.
const RENAMED: [(&str, &str); 1] = [("benchmark.block", "benchmark.group_size")];

/// Keys whose names look like those of secrets.
const NO_SECRETS: [&str; 3] = ["llm.key_env", "llm.max_output_tokens", "llm.context_tokens"];

/// The validated configuration. `config.toml` in the repository lists every key with its default and the reason for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Defaults of `optloop start`.
    pub session: SessionConfig,
    /// When a session ends before its budget is spent.
    pub stop: StopConfig,
    /// How variants are compiled.
    pub compile: CompileConfig,
    /// How outputs are checked.
    pub validate: ValidateConfig,
    /// How times are taken.
    pub benchmark: BenchmarkConfig,
    /// How baselines are timed.
    pub baseline: BaselineConfig,
    /// How hardware counters are read.
    pub counters: CountersConfig,
    /// How kernels are timed without kinds of instructions.
    pub ablations: AblationsConfig,
    /// What virtual GPUs execute.
    #[serde(rename = "virtual")]
    pub virtual_gpu: VirtualGpuConfig,
    /// How the worker process is supervised.
    pub worker: WorkerConfig,
    /// What the device costs.
    pub cost: CostConfig,
    /// Where sessions are recorded.
    pub store: StoreConfig,
    /// Whether winners are committed.
    pub git: GitConfig,
    /// Which language models propose kernels.
    pub llm: LlmConfig,
    /// Which other machines screen.
    pub fleet: FleetConfig,
    /// Who is told that a session has ended.
    pub notify: NotifyConfig,
}

impl Config {
    /// Reads and checks `config.toml` in the project's folder.
    pub fn load(project: &Path) -> anyhow::Result<Self> {
        let path = project.join("config.toml");
        let text = files::read_inside(project, &path)?;
        Self::parse(&text).map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))
    }

    /// Parses and checks the text of the file. Errors are one sentence without the file's name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let config: Self = toml_text::parse(text)
            .map_err(|problem| toml_text::one_line(known_mistake(text).unwrap_or(problem.into())))?;
        config.check().map_err(|error| toml_text::one_line(error.to_string()))?;
        Ok(config)
    }

    /// Reads and checks the configuration of a session that a store recorded.
    pub fn recorded(config: serde_json::Value) -> Result<Self, Error> {
        let config: Self = serde_json::from_value(config).map_err(|error| in_words(&error.to_string()))?;
        config.check().map_err(|error| toml_text::one_line(error.to_string()))?;
        Ok(config)
    }

    fn check(&self) -> anyhow::Result<()> {
        self.notify.check()?;
        self.fleet.check()?;
        let benchmark = &self.benchmark;
        duration("session.budget", &self.session.budget)?;
        let confirmation = duration("benchmark.max_confirmation", &benchmark.max_confirmation)?;
        duration("benchmark.max_screening", &benchmark.max_screening)?;
        if duration("worker.step_timeout", &self.worker.step_timeout)? <= confirmation {
            bail!("worker.step_timeout must be longer than benchmark.max_confirmation, which is one step");
        }
        duration("worker.launch_timeout", &self.worker.launch_timeout)?;
        if benchmark.screening_samples < MIN_SAMPLES {
            bail!("benchmark.screening_samples must be {MIN_SAMPLES} or more");
        }
        if benchmark.confirmation_samples < MIN_ROUNDS {
            bail!(
                "benchmark.confirmation_samples must be {MIN_ROUNDS} or more: a comparison of fewer rounds has no interval"
            );
        }
        duration("baseline.timeout", &self.baseline.timeout)?;
        if !(3..=100_000).contains(&self.baseline.samples) {
            bail!("baseline.samples must be between 3 and 100000");
        }
        if !(benchmark.confirmation_samples..=100_000).contains(&benchmark.max_confirmation_samples) {
            bail!("benchmark.max_confirmation_samples must be between confirmation_samples and 100000");
        }
        if ![benchmark.screening_error, benchmark.confirmation_error].iter().all(|error| (1e-6..0.5).contains(error)) {
            bail!("benchmark.screening_error and confirmation_error must be between 0.000001 and 0.5");
        }
        if !(0.0..1.0).contains(&self.stop.min_gain) {
            bail!("stop.min_gain must be at least 0 and less than 1; 0 means that sessions use all of their time");
        }
        if !(0.0..0.1).contains(&self.session.least_chance) {
            bail!("session.least_chance must be at least 0 and less than 0.1; 0 means that every variant is run");
        }
        duration("counters.timeout", &self.counters.timeout)?;
        if !(0.0..=0.5).contains(&self.counters.budget_share) {
            bail!("counters.budget_share must be between 0 and 0.5; 0 means no counters");
        }
        if !(0.0..=0.5).contains(&self.ablations.budget_share) {
            bail!("ablations.budget_share must be between 0 and 0.5; 0 means no ablations");
        }
        if !(1..=1000).contains(&benchmark.group_size) {
            bail!("benchmark.group_size must be between 1 and 1000");
        }
        let shortest = Duration::from_secs_f64(benchmark.min_sample_us.clamp(0.0, 1e6) * 1e-6);
        if shortest.saturating_mul(benchmark.confirmation_samples as u32) > confirmation {
            bail!("benchmark.max_confirmation is too short for confirmation_samples of min_sample_us each");
        }
        compile::check_options(&self.compile.options)
            .map_err(|problem| anyhow::anyhow!("compile.options: {problem}"))?;
        duration("compile.timeout", &self.compile.timeout)?;
        if !(MIN_MEMORY_GB..=1024.0).contains(&self.compile.memory_gb) {
            bail!("compile.memory_gb must be between {MIN_MEMORY_GB} and 1024");
        }
        if self.compile.parallel > 1024 {
            bail!("compile.parallel must be 1024 or less; 0 means one per core");
        }
        if !(benchmark.min_sample_us > 0.0 && benchmark.min_sample_us <= 1e6) {
            bail!("benchmark.min_sample_us must be between 0 and 1000000");
        }
        if !(1.0..2.0).contains(&benchmark.min_speedup) {
            bail!("benchmark.min_speedup must be between 1.0 and 2.0");
        }
        if self.validate.oracle_gflop.is_nan() || self.validate.oracle_gflop <= 0.0 {
            bail!("validate.oracle_gflop must be above 0");
        }
        if !(0.0..=0.5).contains(&self.validate.first_look_share) {
            bail!("validate.first_look_share must be between 0 and 0.5; 0 means no first look");
        }
        let VirtualGpuConfig { max_gflop, launch_gflop } = self.virtual_gpu;
        if ![max_gflop, launch_gflop].iter().all(|gflop| *gflop > 0.0 && gflop.is_finite()) {
            bail!("virtual.max_gflop and virtual.launch_gflop must be above 0");
        }
        if !(self.cost.gpu_usd_per_hour >= 0.0 && self.cost.gpu_usd_per_hour.is_finite()) {
            bail!("cost.gpu_usd_per_hour must be 0 or more");
        }
        duration("store.busy_timeout", &self.store.busy_timeout)?;
        if self.store.max_mb > 1 << 20 {
            bail!("store.max_mb must be 1048576 or less; 0 means no limit");
        }
        let path = Path::new(&self.store.path);
        if path.file_name().is_none() {
            bail!("store.path must name a file, such as .optloop/optloop.db");
        }
        if path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git")) {
            bail!("store.path must not lie in git's own folder");
        }
        // An absolute path is the user's own choice, such as a larger disk: it needs `optloop trust`.
        if path.components().any(|part| part == std::path::Component::ParentDir) {
            bail!("store.path must stay inside the project: use a path without `..`, or an absolute one");
        }
        self.llm.check(&self.baseline.env)
    }

    /// Returns the settings for measurements. Only this function converts the configuration's units into those of the
    /// code.
    pub fn measuring(&self) -> Measuring {
        Measuring {
            policy: self.policy(),
            min_sample_ns: self.benchmark.min_sample_us * 1e3,
            baseline_samples: self.baseline.samples,
            oracle_flop: self.validate.oracle_gflop * 1e9,
            model_flop: self.virtual_gpu.launch_gflop * 1e9,
        }
    }

    fn policy(&self) -> Policy {
        let BenchmarkConfig { min_speedup, group_size, .. } = self.benchmark;
        let ns = |text: &str| humantime::parse_duration(text).map_or(f64::INFINITY, |time| time.as_secs_f64() * 1e9);
        let benchmark = &self.benchmark;
        Policy {
            min_speedup,
            screening: Sampling {
                min_samples: MIN_SCREENING_SAMPLES.min(benchmark.screening_samples),
                max_samples: benchmark.screening_samples,
                relative_error: benchmark.screening_error,
                max_ns: ns(&benchmark.max_screening),
            },
            comparison: Sampling {
                min_samples: benchmark.confirmation_samples,
                max_samples: benchmark.max_confirmation_samples,
                relative_error: benchmark.confirmation_error,
                max_ns: ns(&benchmark.max_confirmation),
            },
            group_size,
        }
    }

    /// Returns the time limits of a worker.
    pub fn worker_timeouts(&self) -> StepTimeouts {
        let step = duration("worker.step_timeout", &self.worker.step_timeout).unwrap_or(Duration::from_secs(90));
        let launch = duration("worker.launch_timeout", &self.worker.launch_timeout).unwrap_or(step);
        StepTimeouts { step, launch: launch.min(step) }
    }

    /// Returns the grace period after the end of the time budget. A kernel that was launched at the end may finish in
    /// it.
    pub fn grace(&self) -> Duration {
        MIN_GRACE.max(self.worker_timeouts().launch)
    }

    /// Returns the settings for baseline programs.
    pub fn baseline_settings(&self) -> baseline::Settings {
        let BaselineConfig { python, env, read, write, timeout, .. } = self.baseline.clone();
        let timeout = duration("baseline.timeout", &timeout).unwrap_or(Duration::from_secs(120));
        baseline::Settings { python, env, read, write, timeout }
    }

    /// Returns the longest time for reading the counters of one variant on one case.
    pub fn counters_timeout(&self) -> Duration {
        duration("counters.timeout", &self.counters.timeout).unwrap_or(Duration::from_secs(60))
    }

    /// Returns the limits of one compilation.
    pub fn compile_limits(&self) -> CompileLimits {
        let timeout = duration("compile.timeout", &self.compile.timeout).unwrap_or(Duration::from_secs(60));
        CompileLimits { timeout, memory_bytes: (self.compile.memory_gb * 1e9) as u64 }
    }

    /// Returns how many compilations run at once.
    pub fn parallel_compilations(&self) -> usize {
        match self.compile.parallel {
            0 => std::thread::available_parallelism().map_or(2, usize::from),
            n => n,
        }
    }

    /// Returns how many proposals are compiled, or being compiled, ahead of their evaluation. Proposals are evaluated in
    /// order, so nearly as many as are compiled at once may wait, finished, behind a slow one.
    pub fn compiled_ahead(&self) -> usize {
        let parallel = self.parallel_compilations();
        parallel.max((2 * parallel).saturating_sub(2))
    }
}

/// Returns a message about a file whose key looks like a misplaced secret.
fn secret_key(text: &str) -> Option<String> {
    let tables: toml::Table = toml::from_str(text).ok()?;
    let keys = tables.iter().flat_map(|(name, value)| {
        let below = value.as_table().into_iter().flat_map(|table| table.keys());
        below.map(move |key| format!("{name}.{key}")).chain([name.clone()])
    });
    let secret = keys.into_iter().find(|key| secrets::looks_secret(key) && !NO_SECRETS.contains(&key.as_str()))?;
    Some(format!("`{secret}` looks like a secret: remove it and use an environment variable"))
}

/// Returns a message about a mistake that serde cannot explain: a renamed key, or a key that looks like a secret.
fn known_mistake(text: &str) -> Option<String> {
    toml_text::renamed_key(text, &RENAMED).or_else(|| secret_key(text))
}

/// Parses a duration such as `4h` or `90s`. Zero is refused.
pub fn duration(what: &str, text: &str) -> anyhow::Result<Duration> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration.is_zero() => bail!("{what}: `{text}` is zero: use a duration such as 10m or 4h"),
        Ok(duration) if duration > Duration::from_secs(366 * 86400) => {
            bail!("{what}: `{text}` is over a year: use a duration such as 10m or 4h")
        }
        Ok(duration) => Ok(duration),
        Err(error) => bail!("{what}: `{text}` is not a duration ({error}): use one such as 10m or 4h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_states_every_default() {
        let shipped: Config = toml_text::parse(include_str!("../config.toml")).unwrap();
        assert_eq!(shipped, Config::default());
        let keys = |config: &Config| toml::to_string(config).unwrap().lines().count();
        let text: toml::Table = toml::from_str(include_str!("../config.toml")).unwrap();
        assert_eq!(toml::to_string(&text).unwrap().lines().count(), keys(&Config::default()), "a key is missing");
    }

    #[test]
    fn a_secret_belongs_into_the_environment() {
        let error = |text| Config::parse(text).unwrap_err();
        insta::assert_snapshot!(error("[agent]\napi_key = 'sk-hunter2'"), @"`agent.api_key` looks like a secret: remove it and use an environment variable");
        insta::assert_snapshot!(error("token = 'hunter2'"), @"`token` looks like a secret: remove it and use an environment variable");
    }

    #[test]
    fn mistakes_are_one_sentence_with_the_line() {
        let error = |text| Config::parse(text).unwrap_err();
        insta::assert_snapshot!(error("[session]\nbudgte = '1h'"), @"line 2: unknown field `budgte`, expected one of `workload`, `budget`, `proposer`, `device`, `least_chance` (did you mean `budget`?)");
        insta::assert_snapshot!(error("[session]\nbudget = '0s'"), @"session.budget: `0s` is zero: use a duration such as 10m or 4h");
        insta::assert_snapshot!(error("[session]\nbudget = 'soon'"), @"session.budget: `soon` is not a duration (expected number at 0): use one such as 10m or 4h");
        insta::assert_snapshot!(error("[benchmark]\nmin_speedup = 0.5"), @"benchmark.min_speedup must be between 1.0 and 2.0");
        insta::assert_snapshot!(error("[benchmark]\nblock = 10"), @"the key `benchmark.block` was renamed to `benchmark.group_size` in optloop 0.2: change it");
        insta::assert_snapshot!(error("[store]\npath = '../../etc/x.db'"), @"store.path must stay inside the project: use a path without `..`, or an absolute one");
        insta::assert_snapshot!(error("[benchmark\n"), @"line 1: unclosed table, expected `]`");
    }
}
