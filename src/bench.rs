//! Measures kernels by hand, as a session would: compiles them, checks them and compares them in a fresh process.

mod evidence;
mod measure;
mod rejection;
mod rivals;
mod subject;
mod subjects;

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};

use crate::catalog::{Families, Project};
use crate::config::Config;
use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::device::regime::{self, Regime};
use crate::domain::ids::{CaseName, SessionId};
use crate::domain::measurement::conditions::Conditions;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, error};
use crate::evaluate::{Evaluator, Rejection};
use crate::runner::activity::{self, Limit};
use crate::runner::baseline::{BaselineProcess, BaselineProgram, fastest};
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::monitor::Monitor;
use crate::runner::renderer::Renderer;
use crate::runner::toolchain::Toolchain;
use crate::runner::worker::Worker;
use crate::store::Store;

pub use evidence::Evidence;
pub use measure::PlannedComparison;
pub use rivals::RivalName;
pub use subject::{Committed, KernelName, Subject};
pub use subjects::Selection;

/// Everything that measuring by hand needs.
pub struct Bench {
    project: Project,
    config: Config,
    families: Families,
    evaluator: Evaluator,
    monitor: Option<Monitor>,
    exe: PathBuf,
    renderer: Renderer,
    /// Compilers, each with the options that it was started with.
    compilers: Vec<(Vec<String>, Compiler)>,
    baseline: Option<BaselineProcess>,
    /// The fastest backend of the baseline, by case and regime.
    backends: HashMap<(CaseName, Regime), Option<String>>,
    rivals: Vec<rivals::Rival>,
    /// The challenger as PyTorch calls it, where a rival is timed by call.
    called: Option<rivals::Rival>,
}

impl Bench {
    /// Makes a bench. `compiler` has the configured options. `worker` only describes its device, unless it models
    /// times.
    pub fn new(
        project: &Project,
        config: Config,
        exe: PathBuf,
        compiler: Compiler,
        worker: Worker,
        monitor: Option<Monitor>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            families: project.families()?,
            evaluator: Evaluator::new(worker, config.measuring()),
            compilers: vec![(config.compile.options.clone(), compiler)],
            renderer: Renderer::new(exe.clone()),
            project: project.clone(),
            config,
            exe,
            monitor,
            baseline: None,
            backends: HashMap::new(),
            rivals: Vec::new(),
            called: None,
        })
    }

    /// Has all that is measured of a workload put on record in a store, from now on. Returns the session of this record.
    pub async fn record_in(&mut self, store: Store, workload: &Workload) -> anyhow::Result<SessionId> {
        let nvrtc = self.nvrtc_version();
        self.evaluator.record_in(store, (&self.config, &nvrtc), workload).await
    }

    /// Returns the evaluator of the kernels, with its record.
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }

    /// Returns the device.
    pub fn device(&self) -> &DeviceInfo {
        self.evaluator.device()
    }

    /// Sets the number of samples of every participant. More are taken to fill its last rounds.
    pub fn take_samples(&mut self, samples: usize) {
        self.evaluator.take_samples(samples);
    }

    /// Returns the versions of everything that the times depend on, by name.
    pub fn versions(&self) -> Vec<(String, String)> {
        let mut versions = vec![("optloop".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
        versions.push(("nvrtc".to_owned(), self.nvrtc_version()));
        versions.extend(self.device().driver.clone().map(|version| ("driver".to_owned(), version)));
        versions.extend(self.baseline.iter().flat_map(|process| process.hello().versions.clone()));
        versions
    }

    /// Returns the version of the compiler.
    pub fn nvrtc_version(&self) -> String {
        self.compilers.first().map(|(_, compiler)| compiler.nvrtc_version().to_owned()).unwrap_or_default()
    }

    /// Returns the conditions under which a subject is measured here.
    pub fn conditions(&self, workload: &Workload, case: &Case, regime: Regime) -> Conditions {
        Conditions::of(workload, &Case { regime, ..case.clone() }, self.device())
    }

    /// Returns one sentence on why a case cannot be measured in a regime, if it cannot.
    pub fn check_regime(&self, subject: &Subject, regime: Regime) -> Result<(), Error> {
        let (workload, case) = (&subject.workload, subject.case());
        if regime == Regime::Warm {
            return Ok(());
        }
        if !self.device().replays() {
            return Err(error!("the {} models times with a warm cache only: omit --regime", self.device().name));
        }
        let tensors = workload.op.tensors(&case.dims, workload.dtype);
        let bytes: usize = tensors.iter().map(|tensor| tensor.bytes()).sum();
        regime::sets(bytes as u64, self.device())
            .map(|_| ())
            .map_err(|reason| reason.within(format_args!("case `{}`", case.name)))
    }

    /// Starts the workload's baseline, if it has one that can be compared with kernels here. The error says why not.
    pub async fn start_baseline(&mut self, workload: &Workload, device: u32) -> Result<(), Error> {
        if !self.device().replays() {
            return Err(Error::new("baselines can only be measured, and times on this device are modelled"));
        }
        let key = workload.baseline.as_ref().ok_or_else(|| error!("workload `{}` defines none", workload.name))?;
        let (exe, root, settings) = (self.exe.clone(), self.project.root(), self.config.baseline_settings());
        let program = BaselineProgram::of(exe, root, key, settings, device, self.evaluator.measuring().min_sample_ns);
        let process = program.map_err(|error| error!("it cannot be copied: {error}"))?.start().await?;
        process.hello().fits(self.device())?;
        self.baseline = Some(process.computing(workload.compute));
        Ok(())
    }

    /// Finds the fastest backend of the baseline on a case, once.
    pub async fn find_backend(&mut self, subject: &Subject, regime: Regime, seed: u64) -> Result<(), Error> {
        let l2_bytes = self.device().l2_bytes;
        let Some(process) = &mut self.baseline else { return Ok(()) };
        let case = Case { regime, ..subject.case().clone() };
        let key = (case.name.clone(), regime);
        if self.backends.contains_key(&key) {
            return Ok(());
        }
        let (workload, sampling) = (&subject.workload, self.evaluator.measuring().baseline());
        let prepared = process.prepare(workload.op, workload.dtype, &case, l2_bytes, seed).await;
        let found = match prepared {
            Ok(backends) => {
                let found = fastest(process, &case, &backends, &sampling).await;
                process.release().await.and(found)
            }
            Err(reason) => Err(reason),
        };
        let best = found.as_ref().ok().and_then(|found| found.first()).map(|baseline| baseline.name.clone());
        self.backends.insert(key, best);
        found.map(|_| ())
    }

    /// Returns whether a backend of the baseline can take part on a case.
    pub fn has_backend(&self, case: &str, regime: Regime) -> bool {
        matches!(self.backends.get(&(case.into(), regime)), Some(Some(_)))
    }

    /// Compiles a kernel that must compile.
    async fn compile(&mut self, subject: &Subject) -> anyhow::Result<Artifact> {
        self.compiled(subject).await?.map_err(|rejection| anyhow!(rejection::sentence(&rejection, subject)))
    }

    /// Compiles a kernel. The outer error means that the machine is at fault.
    async fn compiled(&mut self, subject: &Subject) -> anyhow::Result<Result<Artifact, Rejection>> {
        let compiler = self.compiler(&subject.options)?;
        let variant = subject.variant.clone();
        let limit = Limit::new("compile.timeout", compiler.limits().timeout);
        let _running = activity::begin(format!("compiling {}", subject.name), limit);
        let compiled = tokio::task::spawn_blocking(move || compiler.compile(&variant)).await;
        match compiled.context("Failed to compile in the background")? {
            Ok(artifact) => Ok(Ok(artifact)),
            Err(CompileError::Broken(message)) => bail!("Failed to compile {}: {message}", subject.name),
            Err(rejected) => Ok(Err(self.rejection(subject, &rejected)?)),
        }
    }

    fn compiler(&mut self, options: &[String]) -> anyhow::Result<Compiler> {
        if let Some((_, compiler)) = self.compilers.iter().find(|(known, _)| known == options) {
            return Ok(compiler.clone());
        }
        let (toolchain, limits) = (Toolchain::find_or_fetch()?, self.config.compile_limits());
        let compiler = Compiler::new(self.exe.clone(), toolchain, &self.device().arch, options, limits)?;
        let compiler = compiler.for_device(self.device());
        self.compilers.push((options.to_owned(), compiler.clone()));
        Ok(compiler)
    }
}

fn failure(name: &str, case: &str, outcome: &Outcome) -> String {
    let message = outcome.message().map(|message| format!(": {message}")).unwrap_or_default();
    format!("{name} has no time on {case}, {}{message}", outcome.kind().replace('_', " "))
}
