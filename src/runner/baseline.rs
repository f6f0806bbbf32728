//! Times what a user would use instead, through a program that speaks the baseline protocol.
//!
//! The program lives as long as its session. It prepares every backend on a case and then delivers groups of samples,
//! in turns with the variants it is compared with. Any program that speaks the protocol (docs/baselines.md) can be a
//! workload's baseline.

mod case_inputs;
mod fastest;
pub mod guard;
mod process;
mod profile;
mod protocol;
mod rival;
pub mod shipped;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use self::case_inputs::{CaseInputs, Judged, text};
use self::process::Process;
use self::protocol::{Again, Request, RequestedCase, VERSION};
use super::activity;
use crate::domain::code::launched::LaunchedKernel;
use crate::domain::compute::Compute;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::op::{Dtype, Op, TensorSpec};
use crate::domain::workload::{BaselineKey, Case, Tolerance};
use crate::error::{Error, Result, error};
use crate::runner::confine::Reach;
use crate::runner::messages::SampleGroup;

pub use fastest::fastest;
pub use process::{Failure, answer, parse_answer};
pub use profile::ProfiledCall;
pub(in crate::runner) use profile::answers;
pub use protocol::{Done, Hello, Method, Prepared, PreparedBackend, Sampled};
pub use rival::{BACKEND as SOLUTION, Solution};

/// The project's folder for programs that the configured interpreter runs.
pub const FOLDER: &str = "kernels/baselines";

/// What the copy of a project's module is called.
const MODULE_COPY: &str = "module_of_op.py";

/// The cache of the shipped programs, which run nothing of a project.
const SHIPPED_CACHE: &str = "shipped";

/// How a project runs its baselines: the section `[baseline]` of config.toml.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The interpreter of programs in [`FOLDER`].
    pub python: String,
    /// Environment variables that a program gets in addition to those of every child.
    pub env: Vec<String>,
    /// Files and folders that a program may read in addition to its project and its installation.
    pub read: Vec<String>,
    /// Files and folders that a program may write in addition to its own folder.
    pub write: Vec<String>,
    /// The longest that an answer may take (`baseline.timeout`).
    pub timeout: Duration,
}

/// A program that times baselines.
#[derive(Debug, Clone)]
pub struct BaselineProgram {
    /// optloop's executable, which runs the guard of the program.
    pub exe: PathBuf,
    /// The program and its arguments, run without a shell.
    pub command: Vec<String>,
    /// The folder in which the program runs: the project's, or that of the copies.
    pub folder: PathBuf,
    /// Copies of the shipped programs, if it is one of these. They are removed with the last user.
    pub copies: Option<Arc<TempDir>>,
    /// The name of its cache. A program may run what others leave there, so those of another project have another one.
    pub cache: String,
    /// A folder of its own, for temporary files, inputs and outputs. It is removed with the last user.
    pub own: Arc<TempDir>,
    /// Environment variables that it gets in addition to those of every child.
    pub env: Vec<String>,
    /// Files and folders that it may use in addition to its project and its installation.
    pub added: Reach,
    /// The CUDA device to time on.
    pub device: u32,
    /// The shortest sample, in nanoseconds.
    pub min_sample_ns: f64,
    /// The longest that an answer may take (`baseline.timeout`).
    pub timeout: Duration,
}

/// Inputs being written to files at the start of a comparison. This takes seconds for a large case.
pub struct PendingInputs(JoinHandle<Result<(TempDir, CaseInputs)>>);

impl PendingInputs {
    /// Starts drawing the inputs of a seed, the same that variants get.
    pub fn begin(process: &BaselineProcess, op: &'static dyn Op, dtype: Dtype, case: &Case, input_seed: u64) -> Self {
        let (dims, own) = (case.dims.clone(), Arc::clone(&process.own));
        // The task owns the folder, so an unwanted folder is removed after its last file is written.
        Self(tokio::task::spawn_blocking(move || {
            // The program may read and write below its own folder alone.
            let folder = tempfile::tempdir_in(own.path());
            let folder = folder.map_err(|error| error!("there is no temporary folder: {error}"))?;
            let case_inputs = CaseInputs::new(op, &dims, dtype, input_seed, folder.path())?;
            Ok((folder, case_inputs))
        }))
    }
}

/// A running baseline program, which ends when this is dropped.
pub struct BaselineProcess {
    hello: Hello,
    min_sample_ns: f64,
    /// The precision in which it is asked to multiply.
    compute: Compute,
    /// How its outputs are judged.
    judged: Judged,
    /// How it is asked to time. None leaves it to the program.
    method: Option<Method>,
    process: Option<Process>,
    /// Why the process is no longer available.
    lost_reason: String,
    /// Python may read from them at any time.
    _copies: Option<Arc<TempDir>>,
    own: Arc<TempDir>,
}

/// One way in which the program can compute a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// The program's name for it.
    pub name: String,
    /// Ready for sampling, or one sentence on why it is not.
    pub ready: Result<Ready>,
}

/// What is known about a backend that can be sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Executions per replay. A sample is the replay's time divided by this.
    pub launches_per_sample: u32,
    /// Nanoseconds of one call without CUDA graphs; `None` if not taken.
    pub eager_ns: Option<f64>,
    /// Its error relative to the float64 oracle; `None` if the program wrote no output.
    pub relative_l2: Option<f64>,
    /// The kernels of a call, in order; empty if the program does not tell.
    pub kernels: Vec<LaunchedKernel>,
    /// What a sample is.
    pub method: Method,
    /// How close a rival's output comes to the oracle. None for a baseline, and for a wrong output.
    pub correctness: Option<Correctness>,
    /// Why a rival's output is wrong. A baseline with a wrong output is not ready.
    pub wrong: Option<String>,
    /// The inputs that each call of a rival gets anew. Empty for a baseline.
    pub takes: Vec<String>,
}

impl BaselineProgram {
    /// Makes the program that a workload of a project names. A shipped program runs from a copy of its own.
    pub fn of(
        exe: PathBuf,
        project: &Path,
        key: &BaselineKey,
        settings: Settings,
        device: u32,
        min_sample_ns: f64,
    ) -> std::io::Result<Self> {
        let program = Self::in_folder(exe, project, settings, (device, min_sample_ns))?;
        let python = program.command[0].clone();
        let (command, folder, copies, cache) = match key {
            BaselineKey::File(file) if shipped::is_shipped(&program.folder.join(FOLDER), file) => {
                let copies = shipped::copies()?;
                (vec![python, file.clone()], copies.path().to_owned(), Some(copies), SHIPPED_CACHE.to_owned())
            }
            BaselineKey::Torch { .. } => {
                let copies = shipped::copies()?;
                // The program is optloop's, but the expressions are the project's.
                (key.command(&python), copies.path().to_owned(), Some(copies), program.cache)
            }
            BaselineKey::Module(file) => {
                let copies = shipped::copies()?;
                // Beside the program, so that it runs where nothing else of the project is.
                std::fs::copy(program.folder.join(file), copies.path().join(MODULE_COPY))?;
                let command = BaselineKey::Module(MODULE_COPY.to_owned()).command(&python);
                (command, copies.path().to_owned(), Some(copies), program.cache)
            }
            _ => (key.command(&python), program.folder, None, program.cache),
        };
        Ok(Self { command, folder, copies: copies.map(Arc::new), cache, ..program })
    }

    /// Makes a program that runs in the project's folder, with the project's cache. Its command is the interpreter alone.
    fn in_folder(
        exe: PathBuf,
        project: &Path,
        settings: Settings,
        (device, min_sample_ns): (u32, f64),
    ) -> std::io::Result<Self> {
        let folder = std::path::absolute(project)?;
        let Settings { python, env, read, write, timeout } = settings;
        let command = vec![interpreter(&folder, &python)];
        let paths = |paths: Vec<String>| paths.iter().map(|path| folder.join(path)).collect();
        let added = Reach { readable: paths(read), writable: paths(write), network: None };
        let own = Arc::new(tempfile::Builder::new().prefix("optloop-baseline-").tempdir()?);
        let cache = blake3::hash(folder.as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned();
        Ok(Self { exe, command, folder, copies: None, cache, own, env, added, device, min_sample_ns, timeout })
    }

    /// Starts the program and reads its description. The error says in one sentence why there is no baseline.
    pub async fn start(&self) -> Result<BaselineProcess> {
        let mut process = Process::start(self)?;
        let hello = process.ask(&Request::Hello { protocol: VERSION, device: self.device }).await;
        let hello = hello.and_then(|answer| match answer.get("protocol").and_then(serde_json::Value::as_u64) {
            Some(version) if version != u64::from(VERSION) => Err(Failure::Disconnected(format!(
                "it speaks version {version} of the baseline protocol, not {VERSION}"
            ))),
            Some(_) => parse_answer::<Hello>(answer),
            None => Err(Failure::Disconnected("it does not report its version of the baseline protocol".to_owned())),
        });
        match hello {
            Ok(hello) => Ok(BaselineProcess {
                hello,
                min_sample_ns: self.min_sample_ns,
                compute: Compute::Dtype,
                judged: Judged::AsBaseline,
                method: None,
                process: Some(process),
                lost_reason: "it was interrupted during an answer".to_owned(),
                _copies: self.copies.clone(),
                own: Arc::clone(&self.own),
            }),
            Err(failure) => Err(Error::new(failure)),
        }
    }
}

impl BaselineProcess {
    /// Asks for products in a workload's compute mode from now on. A process has that of the dtype until then.
    pub fn computing(self, compute: Compute) -> Self {
        Self { compute, ..self }
    }

    /// Judges its outputs as those of kernels from now on. One that is wrong is timed all the same.
    pub fn judged_by(self, tolerance: Tolerance) -> Self {
        Self { judged: Judged::AsKernel(tolerance), ..self }
    }

    /// Asks for a method of timing from now on.
    pub fn timed_by(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// Returns the program's description of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns the ID of the process from which the program descends, which tells it from other processes on the
    /// device. `None` once the process has ended.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::pid)
    }

    /// Prepares every backend on a case, in the case's regime, on the inputs that variants with the same seed get.
    ///
    /// [`Self::release`], or the next call, frees what the case took.
    pub async fn prepare(
        &mut self,
        op: &'static dyn Op,
        dtype: Dtype,
        case: &Case,
        l2_bytes: u64,
        input_seed: u64,
    ) -> Result<Vec<Backend>> {
        let drawing = PendingInputs::begin(self, op, dtype, case, input_seed);
        self.prepare_drawn(op, dtype, case, l2_bytes, drawing).await
    }

    /// Prepares every backend on inputs that are already drawn. See [`Self::prepare`].
    pub async fn prepare_drawn(
        &mut self,
        op: &'static dyn Op,
        dtype: Dtype,
        case: &Case,
        l2_bytes: u64,
        drawing: PendingInputs,
    ) -> Result<Vec<Backend>> {
        self.prepare_wanted(None, op, dtype, case, l2_bytes, drawing).await
    }

    /// Prepares one backend on inputs that are already drawn, which is all that a comparison needs. See
    /// [`Self::prepare`].
    pub async fn prepare_one(
        &mut self,
        backend: &str,
        op: &'static dyn Op,
        dtype: Dtype,
        case: &Case,
        l2_bytes: u64,
        drawing: PendingInputs,
    ) -> Result<Ready> {
        let backends = self.prepare_wanted(Some(backend), op, dtype, case, l2_bytes, drawing).await?;
        let found = backends.into_iter().find(|found| found.name == backend);
        found.ok_or_else(|| error!("it has no backend `{backend}`"))?.ready
    }

    /// Has the program compile what cases need, one after the other and within a time, if it offers that. It may take seconds for
    /// each, in which others may use the device. A program that fails at a case says so when it prepares it.
    pub async fn compile_for(
        &mut self,
        op: &'static dyn Op,
        dtype: Dtype,
        cases: &[Case],
        l2_bytes: u64,
        within: Duration,
    ) {
        let (begun, none, compiles) = (Instant::now(), BTreeMap::new(), self.hello.compiles);
        for case in cases.iter().take_while(|_| compiles && begun.elapsed() < within) {
            let tensors = op.tensors(&case.dims, dtype);
            let requested = self.requested(op, dtype, case, &tensors, (l2_bytes, &none));
            if let Err(reason) = self.ask::<Done>(&Request::Compile { case: requested }).await {
                tracing::debug!("the baseline did not compile for {}: {reason}", case.name);
            }
        }
    }

    fn requested<'c>(
        &self,
        op: &'static dyn Op,
        dtype: Dtype,
        case: &'c Case,
        tensors: &'c [TensorSpec],
        (l2_bytes, inputs): (u64, &'c BTreeMap<String, String>),
    ) -> RequestedCase<'c> {
        RequestedCase {
            op: op.name(),
            dtype,
            compute: self.compute,
            dims: &case.dims,
            tensors,
            scalars: op.scalars(&case.dims).into_iter().collect(),
            regime: case.regime,
            l2_bytes,
            inputs,
        }
    }

    async fn prepare_wanted(
        &mut self,
        backend: Option<&str>,
        op: &'static dyn Op,
        dtype: Dtype,
        case: &Case,
        l2_bytes: u64,
        drawing: PendingInputs,
    ) -> Result<Vec<Backend>> {
        let (folder, case_inputs) = {
            let _running = activity::begin("drawing the inputs of a baseline", None);
            drawing.0.await.map_err(Error::new)??
        };
        let (tensors, inputs) = (op.tensors(&case.dims, dtype), &case_inputs.files);
        let case = self.requested(op, dtype, case, &tensors, (l2_bytes, inputs));
        let (min_sample_ns, output_folder) = (self.min_sample_ns, text(folder.path())?);
        let method = self.method;
        let request = Request::Prepare { case, min_sample_ns, output_folder, backend, method };
        let prepared: Prepared = self.ask(&request).await?;
        // One that ignores the key computes more precisely than kernels need to, or less.
        if prepared.compute.unwrap_or_default() != self.compute {
            let (mode, said) = (self.compute.name(), prepared.compute.map_or("nothing", Compute::name));
            return Err(error!(
                "it must answer \"compute\": \"{mode}\" to show that it multiplies in this mode, and says {said} \
                 (`optloop docs baselines`)"
            ));
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = prepared.backends.iter().find(|backend| !names.insert(&backend.name)) {
            return Err(error!("it has two backends `{}`", twice.name));
        }
        let (backends, judged) = (prepared.backends, self.judged);
        // The folder moves along, and is removed after the outputs in it are checked.
        blocking(move || {
            Ok(backends
                .into_iter()
                .map(|backend| case_inputs.validated(backend, folder.path(), judged))
                .collect::<Vec<_>>())
        })
        .await
    }

    /// Replays a prepared backend. Returns a group of samples, with the control of its turn if the program measures it.
    ///
    /// The program first does one uncounted replay, because other participants have used the caches.
    pub async fn sample(&mut self, backend: &str, samples: usize) -> Result<SampleGroup> {
        let Sampled { samples_ns, graph_node_ns } = self.ask(&Request::Sample { backend, samples }).await?;
        if samples_ns.len() != samples {
            return Err(error!("`{backend}` returned {} instead of {samples} samples", samples_ns.len()));
        }
        match samples_ns.iter().chain(&graph_node_ns).find(|ns| !plausible(**ns)) {
            Some(ns) => Err(error!("`{backend}` reported an invalid time of {ns} ns")),
            None => Ok(SampleGroup { samples_ns, graph_node_ns }),
        }
    }

    /// Has a prepared rival compute other values of an input that it takes, at the addresses that it knows. Returns why its output
    /// is wrong then, if it is. A kept output is the one for the values before.
    pub async fn again(
        &mut self,
        (backend, takes): (&str, Vec<String>),
        (op, dtype, tolerance): (&'static dyn Op, Dtype, Tolerance),
        case: &Case,
        input_seed: u64,
    ) -> Result<Option<String>> {
        let folder = tempfile::tempdir_in(self.own.path());
        let folder = folder.map_err(|error| error!("there is no temporary folder: {error}"))?;
        let (dims, place) = (case.dims.clone(), folder.path().to_owned());
        let changed = blocking(move || CaseInputs::changed((op, &dims, dtype), input_seed, &takes, &place)).await?;
        let Some((input, file)) = changed.files.first_key_value() else { return Ok(None) };
        let request = Request::Again { backend, input, file, output_folder: text(folder.path())? };
        let Again { output, is_same } = self.ask(&request).await?;
        let named = input.clone();
        let checked = blocking(move || Ok(changed.checked(&output, folder.path(), &tolerance).err())).await?;
        Ok(checked.map(|problem| match is_same {
            true => format!(
                "it keeps its output: with other values of `{named}` at the same address, it gives the same one"
            ),
            false => format!("with other values of `{named}` at the same address, {problem}"),
        }))
    }

    /// Frees what was prepared.
    pub async fn release(&mut self) -> Result<()> {
        self.ask::<Done>(&Request::Release).await.map(|_| ())
    }

    /// Sends a request to a running program. A program that fails to answer is dropped, and every later request fails,
    /// too.
    async fn ask<T: DeserializeOwned>(&mut self, request: &Request<'_>) -> Result<T> {
        // The process is taken out during the request. So a cancelled caller drops it. Otherwise the next request would
        // get the pending answer.
        let Some(mut process) = self.process.take() else { return Err(Error::new(&self.lost_reason)) };
        match process.ask(request).await.and_then(parse_answer) {
            Ok(answer) => {
                self.process = Some(process);
                Ok(answer)
            }
            Err(Failure::Refused(reason)) => {
                self.process = Some(process);
                Err(Error::new(reason))
            }
            Err(Failure::Disconnected(reason)) => {
                self.lost_reason.clone_from(&reason);
                Err(Error::new(reason))
            }
        }
    }
}

/// Returns how to call the configured interpreter from any folder. A path is relative to the project, and a bare name
/// is looked up in PATH.
pub fn interpreter(project: &Path, python: &str) -> String {
    if python.contains('/') { project.join(python).display().to_string() } else { python.to_owned() }
}

fn plausible(ns: f64) -> bool {
    ns.is_finite() && ns > 0.0
}

/// Runs a computation that takes seconds without delaying the session's other tasks.
async fn blocking<T: Send + 'static>(what: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(what).await.map_err(Error::new)?
}
