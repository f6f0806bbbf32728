//! Measures kernels by hand, as a session would: compiles them, checks them and compares them in a fresh process.

mod evidence;
mod subject;
mod subjects;

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::catalog::{Families, Project};
use crate::config::Config;
use crate::domain::artifact::Artifact;
use crate::domain::comparison::{Comparison, Participant, Role};
use crate::domain::conditions::Conditions;
use crate::domain::device::DeviceInfo;
use crate::domain::evaluation::Outcome;
use crate::domain::floor::floor_ns;
use crate::domain::ids::CaseName;
use crate::domain::measuring::Measuring;
use crate::domain::regime::{self, Regime};
use crate::domain::state::Load;
use crate::domain::workload::{Case, Workload};
use crate::runner::activity::{self, Limit};
use crate::runner::baseline::{BaselineProcess, BaselineProgram, fastest};
use crate::runner::comparison::{self, BaselineEntry, ComparisonError, Entry, Terms, with_control};
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::inputs;
use crate::runner::messages::EvaluateRequest;
use crate::runner::monitor::Monitor;
use crate::runner::renderer::Renderer;
use crate::runner::toolchain::Toolchain;
use crate::runner::worker::Worker;

pub use evidence::Evidence;
pub use subject::{Committed, KernelName, Subject};
pub use subjects::Selection;

/// Everything that measuring by hand needs.
pub struct Bench {
    project: Project,
    config: Config,
    families: Families,
    measuring: Measuring,
    worker: Worker,
    monitor: Option<Monitor>,
    exe: PathBuf,
    renderer: Renderer,
    /// Compilers, each with the options that it was started with.
    compilers: Vec<(Vec<String>, Compiler)>,
    baseline: Option<BaselineProcess>,
    /// The fastest backend of the baseline, by case and regime.
    backends: HashMap<(CaseName, Regime), Option<String>>,
}

/// The plan of one comparison.
pub struct PlannedComparison<'a> {
    /// The kernel in question.
    pub challenger: &'a Subject,
    /// The kernels that it is compared with, and their roles.
    pub others: &'a [(Role, Subject)],
    /// The state of the caches.
    pub regime: Regime,
    /// The seed of the inputs.
    pub input_seed: u64,
    /// Whether the fastest backend of the baseline takes part, if there is one.
    pub with_baseline: bool,
    /// Whether to measure the energy of an execution, which takes over a second.
    pub energy: bool,
    /// How busy the device is kept.
    pub load: Load,
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
            measuring: config.measuring(),
            compilers: vec![(config.compile.options.clone(), compiler)],
            renderer: Renderer::new(exe.clone()),
            project: project.clone(),
            config,
            exe,
            worker,
            monitor,
            baseline: None,
            backends: HashMap::new(),
        })
    }

    /// Returns the device.
    pub fn device(&self) -> &DeviceInfo {
        self.worker.info()
    }

    /// Sets the number of samples of every participant. More are taken to fill its last rounds.
    pub fn take_samples(&mut self, samples: usize) {
        let comparison = &mut self.measuring.policy.comparison;
        (comparison.min_samples, comparison.max_samples) = (samples, samples);
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
    pub fn check_regime(&self, subject: &Subject, regime: Regime) -> Result<(), String> {
        let (workload, case) = (&subject.workload, subject.case());
        if regime == Regime::Warm {
            return Ok(());
        }
        if !self.device().replays() {
            return Err(format!("the {} models times with a warm cache only: omit --regime", self.device().name));
        }
        let tensors = workload.op.tensors(&case.dims, workload.dtype);
        let bytes: usize = tensors.iter().map(|tensor| tensor.bytes()).sum();
        regime::sets(bytes as u64, self.device())
            .map(|_| ())
            .map_err(|reason| format!("case `{}`: {reason}", case.name))
    }

    /// Starts the workload's baseline, if it has one that can be compared with kernels here. The error says why not.
    pub async fn start_baseline(&mut self, workload: &Workload, device: u32) -> Result<(), String> {
        if !self.device().replays() {
            return Err("baselines can only be measured, and times on this device are modelled".to_owned());
        }
        let key = workload.baseline.as_ref().ok_or_else(|| format!("workload `{}` defines none", workload.name))?;
        let (exe, root, settings) = (self.exe.clone(), self.project.root(), self.config.baseline_settings());
        let program = BaselineProgram::of(exe, root, key, settings, device, self.measuring.min_sample_ns);
        let process = program.map_err(|error| format!("it cannot be copied: {error}"))?.start().await?;
        process.hello().fits(self.device())?;
        self.baseline = Some(process.computing(workload.compute));
        Ok(())
    }

    /// Finds the fastest backend of the baseline on a case, once.
    pub async fn find_backend(&mut self, subject: &Subject, regime: Regime, seed: u64) -> Result<(), String> {
        let l2_bytes = self.device().l2_bytes;
        let Some(process) = &mut self.baseline else { return Ok(()) };
        let case = Case { regime, ..subject.case().clone() };
        let key = (case.name.clone(), regime);
        if self.backends.contains_key(&key) {
            return Ok(());
        }
        let (workload, sampling) = (&subject.workload, self.measuring.baseline());
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

    /// Measures the participants. A device that replays compares them, with the A/A control. Any other models one time
    /// for each.
    pub async fn measure(&mut self, planned: &PlannedComparison<'_>) -> anyhow::Result<Comparison> {
        let mut compiled = vec![(Role::Challenger, planned.challenger, self.compile(planned.challenger).await?)];
        for (role, other) in planned.others {
            compiled.push((*role, other, self.compile(other).await?));
        }
        if self.device().replays() {
            self.compare(planned, &compiled).await
        } else {
            self.model(planned, &compiled).await
        }
    }

    async fn compare(
        &mut self,
        planned: &PlannedComparison<'_>,
        compiled: &[(Role, &Subject, Artifact)],
    ) -> anyhow::Result<Comparison> {
        let PlannedComparison { challenger, regime, .. } = *planned;
        let workload = &challenger.workload;
        let case = Case { regime, ..challenger.case().clone() };
        let terms = Terms {
            workload,
            case: &case,
            measuring: self.measuring,
            input_seed: planned.input_seed,
            floor_ns: floor_ns(workload, &case, self.device()),
            screened_ns: None,
            energy: planned.energy,
            load: planned.load,
        };
        let entries = with_control(compiled.iter().map(entry).collect());
        let backend = self.backends.get(&(case.name.clone(), regime)).cloned().flatten();
        let backend = backend.filter(|_| planned.with_baseline);
        let pids: Vec<u32> =
            self.worker.pid().into_iter().chain(self.baseline.as_ref().and_then(BaselineProcess::pid)).collect();
        let baseline = self.baseline.as_mut().zip(backend);
        let baseline = baseline.map(|(process, backend)| BaselineEntry { process, backend });
        let mut worker = self.worker.fresh().await.context("Failed to start a worker")?;
        match comparison::run(&mut worker, self.monitor.as_ref(), &pids, &terms, &entries, baseline).await {
            Ok(comparison) => Ok(comparison),
            Err(ComparisonError::Machine(error)) => Err(error).context("Failed to run a comparison"),
            Err(ComparisonError::Failed { participant, outcome }) => {
                let name = entries.get(participant).map_or("a participant", |entry| entry.name.as_str());
                bail!("{}", failure(name, &case.name, &outcome))
            }
        }
    }

    /// Models one time for each participant.
    async fn model(
        &mut self,
        planned: &PlannedComparison<'_>,
        compiled: &[(Role, &Subject, Artifact)],
    ) -> anyhow::Result<Comparison> {
        let mut participants = Vec::with_capacity(compiled.len());
        for (role, subject, artifact) in compiled {
            let request = self.evaluate_request(subject, artifact, planned.input_seed);
            let evaluation = self.worker.evaluate(request).await.context("Failed to evaluate a kernel")?;
            if evaluation.outcome != Outcome::Measured {
                bail!("{}", failure(&subject.name, &subject.case().name, &evaluation.outcome));
            }
            let measurement = evaluation.measurements.into_iter().next().context("Failed to get a time")?;
            let timing = measurement.best_timing().cloned().context("Failed to get a time")?;
            participants.push(Participant {
                role: *role,
                name: subject.name.clone(),
                iteration: subject.iteration,
                timing,
                groups_ns: Vec::new(),
                correctness: Some(measurement.correctness),
                machine: None,
                energy_j: None,
                graph_node_ns: None,
            });
        }
        let PlannedComparison { challenger, regime, .. } = *planned;
        Ok(Comparison {
            conditions: self.conditions(&challenger.workload, challenger.case(), regime),
            participants,
            group_size: 0,
            discarded_rounds: 0,
            winners_curse: None,
            floor_ns: Some(floor_ns(&challenger.workload, challenger.case(), self.device())),
            others: Vec::new(),
            wall_s: None,
        })
    }

    fn evaluate_request(&self, subject: &Subject, artifact: &Artifact, input_seed: u64) -> EvaluateRequest {
        EvaluateRequest {
            artifact: artifact.clone(),
            op: subject.workload.op.source(),
            dtype: subject.workload.dtype,
            compute: subject.workload.compute,
            tolerance: subject.workload.tolerance,
            cases: vec![subject.request.clone()],
            measuring: self.measuring,
            input_seed,
            later_input_seed: None,
            own_seed: inputs::mix(input_seed, &["own"]),
            within_s: None,
            explain: false,
        }
    }

    async fn compile(&mut self, subject: &Subject) -> anyhow::Result<Artifact> {
        let compiler = self.compiler(&subject.options)?;
        let variant = subject.variant.clone();
        let limit = Limit::new("compile.timeout", compiler.limits().timeout);
        let _running = activity::begin(format!("compiling {}", subject.name), limit);
        let compiled = tokio::task::spawn_blocking(move || compiler.compile(&variant)).await;
        match compiled.context("Failed to compile in the background")? {
            Ok(artifact) => Ok(artifact),
            Err(CompileError::Broken(message)) => bail!("Failed to compile {}: {message}", subject.name),
            Err(rejected) => bail!("{} does not compile: {rejected}", subject.name),
        }
    }

    fn compiler(&mut self, options: &[String]) -> anyhow::Result<Compiler> {
        if let Some((_, compiler)) = self.compilers.iter().find(|(known, _)| known == options) {
            return Ok(compiler.clone());
        }
        let (toolchain, limits) = (Toolchain::find_or_fetch()?, self.config.compile_limits());
        let compiler = Compiler::new(self.exe.clone(), toolchain, &self.device().arch, options, limits)?;
        self.compilers.push((options.to_owned(), compiler.clone()));
        Ok(compiler)
    }
}

fn entry<'a>((role, subject, artifact): &'a (Role, &'a Subject, Artifact)) -> Entry<'a> {
    Entry {
        role: *role,
        name: subject.name.clone(),
        iteration: subject.iteration,
        artifact,
        plan: &subject.request.plan,
    }
}

fn failure(name: &str, case: &str, outcome: &Outcome) -> String {
    let message = outcome.message().map(|message| format!(": {message}")).unwrap_or_default();
    format!("{name} has no time on {case}, {}{message}", outcome.kind().replace('_', " "))
}
