//! The sections of `config.toml` with their defaults.

use serde::{Deserialize, Serialize};

use super::duration;
use crate::store;

/// `[session]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionConfig {
    /// The workload where `--workload` is not given.
    pub workload: String,
    /// The budget where `--budget` is not given.
    pub budget: String,
    /// The proposer where `--proposer` is not given.
    pub proposer: String,
    /// The device where `--device` is not given.
    pub device: String,
    /// The lowest chance to be the fastest with which a variant is run. 0 runs every variant.
    pub least_chance: f64,
}

/// `[stop]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StopConfig {
    /// The least expected gain that the rest of a session's time is worth, as a fraction. 0 spends it in any case.
    pub min_gain: f64,
}

/// `[compile]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompileConfig {
    /// Options for NVRTC in addition to architecture and include paths.
    pub options: Vec<String>,
    /// Concurrent compilations. 0 means one per core.
    pub parallel: usize,
    /// The longest that one compilation may take before it is stopped.
    pub timeout: String,
    /// The most memory in GB that one compilation may take before it is stopped.
    pub memory_gb: f64,
}

/// `[validate]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValidateConfig {
    /// The most float64 work of one check, in GFLOP. Larger outputs are compared on a random sample of the rows.
    pub oracle_gflop: f64,
    /// The largest share of the time budget for the first look at kernels that optloop does not ship. 0 skips it.
    pub first_look_share: f64,
}

/// `[benchmark]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BenchmarkConfig {
    /// The most samples of a screening run.
    pub screening_samples: usize,
    /// The relative error of the median at which a screening run ends.
    pub screening_error: f64,
    /// The longest that a screening run samples a case.
    pub max_screening: String,
    /// The fewest samples of each participant of a comparison.
    pub confirmation_samples: usize,
    /// The most samples of each participant of a comparison.
    pub max_confirmation_samples: usize,
    /// The relative error of the median at which a comparison ends.
    pub confirmation_error: f64,
    /// The longest that a participant of a comparison samples.
    pub max_confirmation: String,
    /// Samples that a participant of a comparison takes before the next one's turn.
    pub group_size: usize,
    /// The shortest sample, in microseconds. One replay holds enough launches to last that long.
    pub min_sample_us: f64,
    /// The least speed-up over the incumbent that is worth a commit.
    pub min_speedup: f64,
}

/// `[baseline]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BaselineConfig {
    /// The interpreter that runs the programs in `kernels/baselines/`.
    pub python: String,
    /// Environment variables that baselines get in addition to those of every child process.
    pub env: Vec<String>,
    /// Files and folders that baselines may read in addition to the project and their installation.
    pub read: Vec<String>,
    /// Files and folders that baselines may write in addition to a folder of their own.
    pub write: Vec<String>,
    /// Samples of each backend.
    pub samples: usize,
    /// The longest that one answer of the program may take before the program is stopped.
    pub timeout: String,
}

/// `[counters]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CountersConfig {
    /// The largest share of the time budget that reading hardware counters may take. 0 for no counters.
    pub budget_share: f64,
    /// The longest that one run of ncu may take, which counts one variant on one case, or the baselines.
    pub timeout: String,
}

/// `[ablations]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AblationsConfig {
    /// The largest share of the time budget that timing kernels without kinds of instructions may take. 0 for none.
    pub budget_share: f64,
}

/// `[virtual]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VirtualGpuConfig {
    /// The most work of the default cases together, in GFLOP. The lightest cases are taken first.
    pub max_gflop: f64,
    /// The most work of one launch, in GFLOP. A heavier case is checked on a smaller one, and a sample of its blocks is
    /// counted.
    pub launch_gflop: f64,
}

/// `[worker]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerConfig {
    /// The longest that one step on the device may take before the worker is killed.
    pub step_timeout: String,
    /// The longest that one launch on a real device may take before the worker is killed.
    pub launch_timeout: String,
}

/// `[cost]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CostConfig {
    /// The price of the device for each hour that it is held, in US dollars.
    pub gpu_usd_per_hour: f64,
}

/// `[store]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// The database, relative to the project.
    pub path: String,
    /// The largest size of the database, in MiB. 0 for no limit.
    pub max_mb: u64,
    /// The longest that a write waits for another process's write.
    pub busy_timeout: String,
}

/// `[git]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GitConfig {
    /// Whether confirmed winners are committed.
    pub commit: bool,
    /// The branch that gets them without being checked out. Empty for the branch that is checked out.
    pub branch: String,
}

impl GitConfig {
    /// Returns the full name of the branch that gets winners. None for the one that is checked out.
    pub fn reference(&self) -> Option<String> {
        (!self.branch.is_empty()).then(|| format!("refs/heads/{}", self.branch))
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            workload: "attention-fp16-d64".to_owned(),
            budget: "1h".to_owned(),
            proposer: "portfolio".to_owned(),
            device: "auto".to_owned(),
            least_chance: 0.001,
        }
    }
}

impl Default for StopConfig {
    fn default() -> Self {
        Self { min_gain: 0.005 }
    }
}

impl Default for CompileConfig {
    fn default() -> Self {
        Self {
            options: vec!["--std=c++17".to_owned(), "--use_fast_math".to_owned()],
            parallel: 0,
            timeout: "60s".to_owned(),
            memory_gb: 4.0,
        }
    }
}

impl Default for ValidateConfig {
    fn default() -> Self {
        Self { oracle_gflop: 10.0, first_look_share: 0.05 }
    }
}

impl Default for BenchmarkConfig {
    fn default() -> Self {
        Self {
            screening_samples: 50,
            screening_error: 0.002,
            max_screening: "500ms".to_owned(),
            confirmation_samples: 300,
            max_confirmation_samples: 2000,
            confirmation_error: 0.001,
            max_confirmation: "60s".to_owned(),
            group_size: 10,
            min_sample_us: 200.0,
            min_speedup: 1.01,
        }
    }
}

impl Default for BaselineConfig {
    fn default() -> Self {
        let (env, read, write) = (Vec::new(), Vec::new(), Vec::new());
        Self { python: "python3".to_owned(), env, read, write, samples: 100, timeout: "2m".to_owned() }
    }
}

impl Default for AblationsConfig {
    fn default() -> Self {
        Self { budget_share: 0.06 }
    }
}

impl Default for CountersConfig {
    fn default() -> Self {
        Self { budget_share: 0.07, timeout: "60s".to_owned() }
    }
}

impl Default for VirtualGpuConfig {
    fn default() -> Self {
        Self { max_gflop: 0.25, launch_gflop: 0.07 }
    }
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self { step_timeout: "90s".to_owned(), launch_timeout: "10s".to_owned() }
    }
}

impl Default for CostConfig {
    fn default() -> Self {
        Self { gpu_usd_per_hour: 3.5 }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { path: ".optloop/optloop.db".to_owned(), max_mb: 0, busy_timeout: "30s".to_owned() }
    }
}

impl StoreConfig {
    /// Returns the limits of a session that writes to the store.
    pub fn limits(&self) -> store::Limits {
        let busy_timeout =
            duration("store.busy_timeout", &self.busy_timeout).unwrap_or(store::Limits::default().busy_timeout);
        store::Limits { max_bytes: (self.max_mb > 0).then_some(self.max_mb << 20), busy_timeout }
    }
}

impl Default for GitConfig {
    fn default() -> Self {
        Self { commit: true, branch: "optloop/winners".to_owned() }
    }
}
