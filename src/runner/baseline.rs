//! Times what a user would use instead, through a program that speaks the baseline protocol.
//!
//! The program lives as long as its session: it is asked to get every backend ready on a case, and then for samples, a block
//! at a time, in turns with the variants that it is held against. Any program that speaks the protocol (docs/baselines.md)
//! can be a workload's baseline.

mod process;
mod protocol;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use self::process::{Failure, Process, meant, sentence};
use self::protocol::{Prepared, PreparedBackend, Released, Request, Sampled, VERSION};
use super::inputs;
use super::validate::Expectation;
use crate::domain::contest::order;
use crate::domain::evaluation::Timing;
use crate::domain::op::{Dims, Dtype, Op, Role};
use crate::domain::record::Baseline;
use crate::domain::workload::{Case, Tolerance};

pub use protocol::Hello;

/// How long an answer may take. On an H200 importing torch and timing all 18 cases of `attention-fp16-d64` took 11 s
/// (2026-11-20); a long case alone takes longer than all of these.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most float64 work of the check of a baseline's outputs: some 64 rows of the longest cases, every row of the others.
const ORACLE_FLOP: f64 = 1e9;

/// The relative error above which a baseline computes something else. Rounding to the coarsest dtype that is in use, FP8
/// with 3 bits of mantissa, gives a few hundredths.
const WRONG: f64 = 0.1;

/// Nothing is held against it but what it computes.
const ANY_ERROR: Tolerance = Tolerance { relative_l2: f64::INFINITY, worst_row: f64::INFINITY };

/// Samples of a backend before the next one's turn while the fastest is looked for.
const BLOCK: usize = 10;

/// A program that times baselines.
#[derive(Debug, Clone)]
pub struct BaselineProgram {
    /// The program and its arguments; no shell sees them.
    pub command: Vec<String>,
    /// The project, in which it runs.
    pub folder: PathBuf,
    /// The CUDA device to time on.
    pub device: u32,
    /// The shortest sample.
    pub min_sample_ns: f64,
}

/// A baseline program that runs. It dies when this is dropped.
pub struct BaselineProcess {
    hello: Hello,
    min_sample_ns: f64,
    process: Option<Process>,
    /// Why there is no process any more.
    gone: String,
}

/// One of the ways in which the program can compute a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// The program's name for it.
    pub name: String,
    /// Ready to be sampled, or why not in one sentence.
    pub ready: Result<Ready, String>,
}

/// What is known of a backend that can be sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ready {
    /// Executions in one replay; a sample is the replay's time over it.
    pub launches_per_sample: u32,
    /// Time of one call by a user who captures no graphs, where it was taken.
    pub eager_ns: Option<f64>,
    /// Its own error against the float64 reference, where its output was given.
    pub relative_l2: Option<f64>,
}

impl BaselineProgram {
    /// Starts it and hears who it is. The error says in one sentence why there is no baseline.
    pub async fn start(&self) -> Result<BaselineProcess, String> {
        self.start_within(PATIENCE).await
    }

    /// Starts it; no answer, now or later, may take longer than `patience`.
    pub async fn start_within(&self, patience: Duration) -> Result<BaselineProcess, String> {
        let mut process = Process::start(&self.command, &self.folder, patience)?;
        let hello = process.ask(&Request::Hello { protocol: VERSION, device: self.device }).await;
        let hello = hello.and_then(|answer| match answer.get("protocol").and_then(serde_json::Value::as_u64) {
            Some(version) if version != u64::from(VERSION) => {
                Err(Failure::Gone(format!("it speaks version {version} of the baseline protocol, not {VERSION}")))
            }
            Some(_) => meant::<Hello>(answer),
            None => Err(Failure::Gone("it does not say which version of the baseline protocol it speaks".to_owned())),
        });
        match hello {
            Ok(hello) => Ok(BaselineProcess {
                hello,
                min_sample_ns: self.min_sample_ns,
                process: Some(process),
                gone: "it was interrupted in the middle of an answer".to_owned(),
            }),
            Err(Failure::Refused(reason) | Failure::Gone(reason)) => Err(reason),
        }
    }
}

impl BaselineProcess {
    /// Returns who the program is.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns the process's number, to tell it from other processes on the device. `None` once it is gone.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::pid)
    }

    /// Gets every backend ready on a case, in the case's regime, on the inputs that variants with the same seed get.
    ///
    /// What an earlier case took is freed by [`Self::release`], or by this.
    pub async fn prepare(
        &mut self,
        op: &'static dyn Op,
        dtype: Dtype,
        case: &Case,
        l2_bytes: u64,
        input_seed: u64,
    ) -> Result<Vec<Backend>, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("there is no temporary folder: {error}"))?;
        let (dims, path) = (case.dims.clone(), folder.path().to_owned());
        let drawn = blocking(move || Drawn::new(op, &dims, dtype, input_seed, &path)).await?;
        let request = Request::Prepare {
            op: op.name(),
            dtype,
            dims: &case.dims,
            regime: case.regime,
            l2_bytes,
            min_sample_ns: self.min_sample_ns,
            inputs: &drawn.files,
            output_folder: text(folder.path())?,
        };
        let prepared: Prepared = self.ask(&request).await?;
        let mut names = BTreeSet::new();
        if let Some(twice) = prepared.backends.iter().find(|backend| !names.insert(&backend.name)) {
            return Err(format!("it has two backends `{}`", twice.name));
        }
        let backends = prepared.backends;
        // The folder moves along, and is removed after the outputs in it are checked.
        blocking(move || {
            Ok(backends.into_iter().map(|backend| drawn.judged(backend, folder.path())).collect::<Vec<_>>())
        })
        .await
    }

    /// Replays a backend that is ready. Returns nanoseconds of one execution, a value per replay.
    ///
    /// The program replays once more than it is asked, first, and does not count it: it finds the caches as others left them.
    pub async fn sample(&mut self, backend: &str, samples: usize) -> Result<Vec<f64>, String> {
        let Sampled { samples_ns } = self.ask(&Request::Sample { backend, samples }).await?;
        if samples_ns.len() != samples {
            return Err(format!("`{backend}` was to take {samples} samples and took {}", samples_ns.len()));
        }
        match samples_ns.iter().find(|ns| !plausible(**ns)) {
            Some(ns) => Err(format!("`{backend}` is said to take {ns} ns, which is no time")),
            None => Ok(samples_ns),
        }
    }

    /// Frees what was prepared.
    pub async fn release(&mut self) -> Result<(), String> {
        self.ask::<Released>(&Request::Release).await.map(|_| ())
    }

    /// Asks a program that is still there. One that fails to answer is dropped, and every later question fails, too.
    async fn ask<T: DeserializeOwned>(&mut self, request: &Request<'_>) -> Result<T, String> {
        // It is out of here while it is asked: whoever gives up waiting for the answer drops it, or the next question
        // would get that answer.
        let Some(mut process) = self.process.take() else { return Err(self.gone.clone()) };
        match process.ask(request).await.and_then(meant) {
            Ok(answer) => {
                self.process = Some(process);
                Ok(answer)
            }
            Err(Failure::Refused(reason)) => {
                self.process = Some(process);
                Err(reason)
            }
            Err(Failure::Gone(reason)) => {
                self.gone.clone_from(&reason);
                Err(reason)
            }
        }
    }
}

/// Samples the backends that are ready, in turns, and returns those that could be, the fastest first.
///
/// The error is that of the first that could not, where none could.
pub async fn fastest(
    process: &mut BaselineProcess,
    case: &Case,
    backends: &[Backend],
    samples: usize,
) -> Result<Vec<Baseline>, String> {
    let ready = |backend: &Backend| Some((backend.name.clone(), backend.ready.as_ref().ok()?.launches_per_sample));
    let mut entrants: Vec<_> = backends.iter().filter_map(ready).map(|(name, k)| (name, k, Ok(Vec::new()))).collect();
    for round in 0..samples.div_ceil(BLOCK) {
        let block = BLOCK.min(samples - round * BLOCK);
        for entrant in order(entrants.len(), round) {
            let (name, _, taken) = &mut entrants[entrant];
            let Ok(so_far) = taken else { continue };
            match process.sample(name, block).await {
                Ok(block) => so_far.extend(block),
                Err(reason) => *taken = Err(reason),
            }
        }
    }
    let mut timed = Vec::new();
    let mut reasons: Vec<String> =
        backends.iter().filter_map(|b| b.ready.as_ref().err().map(|reason| format!("{}: {reason}", b.name))).collect();
    for (name, launches_per_sample, taken) in entrants {
        match taken {
            Ok(taken) => {
                let found = backends.iter().find(|backend| backend.name == name).and_then(|b| b.ready.as_ref().ok());
                timed.extend(Timing::of(taken, launches_per_sample).map(|timing| Baseline {
                    case: case.name.clone(),
                    name,
                    regime: case.regime,
                    timing,
                    eager_ns: found.and_then(|ready| ready.eager_ns),
                    relative_l2: found.and_then(|ready| ready.relative_l2),
                }));
            }
            Err(reason) => reasons.push(reason),
        }
    }
    timed.sort_by(|a, b| a.timing.median_ns.total_cmp(&b.timing.median_ns));
    match timed.is_empty() {
        true => Err(reasons.into_iter().next().unwrap_or_else(|| "it has no backend".to_owned())),
        false => Ok(timed),
    }
}

/// The inputs of a case in files, and what must come out.
struct Drawn {
    files: BTreeMap<String, String>,
    expectation: Expectation,
    output_bytes: usize,
}

impl Drawn {
    fn new(op: &dyn Op, dims: &Dims, dtype: Dtype, seed: u64, folder: &Path) -> Result<Self, String> {
        let (mut files, mut values) = (BTreeMap::new(), Vec::new());
        for tensor in op.tensors(dims, dtype).into_iter().filter(|tensor| tensor.role == Role::Input) {
            let drawn = inputs::normal(&tensor, seed);
            let path = folder.join(format!("{}.input", tensor.name));
            let written = std::fs::write(&path, inputs::encode(&drawn, dtype));
            written.map_err(|error| format!("an input cannot be written to {}: {error}", path.display()))?;
            files.insert(tensor.name, text(&path)?.to_owned());
            values.push(drawn);
        }
        let expectation = Expectation::new(op, dims, dtype, &values, ORACLE_FLOP, seed);
        Ok(Self { files, expectation, output_bytes: op.output(dims, dtype).bytes() })
    }

    /// Believes a backend that it is ready only if what it says of itself makes sense.
    fn judged(&self, backend: PreparedBackend, folder: &Path) -> Backend {
        let ready = self.ready(&backend, folder);
        Backend { name: backend.name, ready }
    }

    fn ready(&self, backend: &PreparedBackend, folder: &Path) -> Result<Ready, String> {
        if let Some(error) = &backend.error {
            return Err(sentence(error));
        }
        let launches_per_sample = backend.launches_per_sample.filter(|launches| *launches > 0);
        let Some(launches_per_sample) = launches_per_sample else {
            return Err("it does not say how many launches a sample has".to_owned());
        };
        if let Some(ns) = backend.eager_ns.filter(|ns| !plausible(*ns)) {
            return Err(format!("its eager time is said to be {ns} ns, which is no time"));
        }
        let relative_l2 = backend.output.as_ref().map(|file| self.error(file, folder)).transpose()?;
        Ok(Ready { launches_per_sample, eager_ns: backend.eager_ns, relative_l2 })
    }

    /// Returns the error of an output.
    fn error(&self, file: &str, folder: &Path) -> Result<f64, String> {
        if file.contains(['/', '\\']) {
            return Err(format!("its output `{file}` is a path, not the name of a file in the output folder"));
        }
        let bytes =
            std::fs::read(folder.join(file)).map_err(|error| format!("its output `{file}` cannot be read: {error}"))?;
        if bytes.len() != self.output_bytes {
            return Err(format!("its output has {} bytes, not {}", bytes.len(), self.output_bytes));
        }
        let found = self.expectation.check(&bytes, &ANY_ERROR).map_err(|problem| format!("its output: {problem}"))?;
        match found.relative_l2 <= WRONG {
            true => Ok(found.relative_l2),
            false => Err(format!("it computes something else: its relative error is {:.2e}", found.relative_l2)),
        }
    }
}

fn plausible(ns: f64) -> bool {
    ns.is_finite() && ns > 0.0
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("the temporary folder {} is not in UTF-8", path.display()))
}

/// Computes something for seconds without holding up what else the session waits for.
async fn blocking<T: Send + 'static>(what: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(what).await.map_err(|error| error.to_string())?
}
