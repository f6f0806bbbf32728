//! Times what a user would use instead, through a program that speaks the baseline protocol.
//!
//! The protocol is one JSON object a line, described in `kernels/baselines/torch_sdpa.py`. Any program that speaks it can be
//! a workload's baseline.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::domain::evaluation::Timing;
use crate::domain::op::{Dims, Dtype};
use crate::domain::record::Baseline;
use crate::domain::regime::Regime;
use crate::domain::workload::Workload;

/// The version of the protocol.
const PROTOCOL: u32 = 1;

/// How long an answer may take. On an H200 importing torch and timing all 18 cases of `attention-fp16-d64` took 11 s
/// (2026-11-20); a long case alone takes longer than all of these.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that times baselines.
#[derive(Debug, Clone)]
pub struct BaselineProgram {
    /// The interpreter that runs it.
    pub interpreter: String,
    /// The program's file.
    pub file: PathBuf,
    /// The CUDA device to time on.
    pub device: u32,
    /// The shortest sample.
    pub min_sample_ns: f64,
    /// Samples of each backend.
    pub samples: usize,
}

/// What was timed.
#[derive(Debug, Clone, Default)]
pub struct Baselines {
    /// Every backend of every case that runs.
    pub timed: Vec<Baseline>,
    /// Versions of the program's libraries, by name.
    pub versions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Hello {
    protocol: u32,
    versions: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Request<'a> {
    dtype: Dtype,
    dims: &'a Dims,
    device: u32,
    min_sample_ns: f64,
    samples: usize,
    seed: u64,
}

#[derive(Deserialize)]
struct Answer {
    backends: Vec<Backend>,
}

/// One backend: timed, or with the reason why it does not run.
#[derive(Deserialize)]
struct Backend {
    name: String,
    #[serde(default)]
    samples_ns: Vec<f64>,
    #[serde(default)]
    launches_per_sample: u32,
}

impl BaselineProgram {
    /// Times every case. The error says in one sentence why there is no baseline.
    pub async fn time(&self, workload: &Workload) -> Result<Baselines, String> {
        let mut process = Process::start(self)?;
        let hello: Hello = process.hear().await?;
        if hello.protocol != PROTOCOL {
            return Err(format!("{} speaks protocol {}, not {PROTOCOL}", self.file.display(), hello.protocol));
        }
        let mut found = Baselines { timed: Vec::new(), versions: hello.versions };
        for case in &workload.cases {
            let request = Request {
                dtype: workload.dtype,
                dims: &case.dims,
                device: self.device,
                min_sample_ns: self.min_sample_ns,
                samples: self.samples,
                seed: 1,
            };
            let answer: Answer = process.ask(&request).await?;
            found.timed.extend(answer.backends.into_iter().filter_map(|backend| {
                let plausible = backend.samples_ns.iter().all(|ns| ns.is_finite() && *ns > 0.0);
                let timing = Timing::of(backend.samples_ns, backend.launches_per_sample).filter(|_| plausible)?;
                Some(Baseline {
                    case: case.name.clone(),
                    name: backend.name,
                    regime: Regime::Warm,
                    timing,
                    eager_ns: None,
                    relative_l2: None,
                })
            }));
        }
        Ok(found)
    }
}

struct Process {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// Reads standard error all the while, so that it never fills up, and ends with its last line.
    last_words: JoinHandle<String>,
    _child: Child,
}

impl Process {
    fn start(program: &BaselineProgram) -> Result<Self, String> {
        let mut command = Command::new(&program.interpreter);
        command.arg(&program.file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| format!("`{}` cannot be run: {error}", program.interpreter))?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(errors)) => Ok(Self {
                input,
                lines: BufReader::new(output).lines(),
                last_words: tokio::spawn(last_line(errors)),
                _child: child,
            }),
            _ => Err("the baseline process has no pipes".to_owned()),
        }
    }

    async fn ask<T: for<'de> Deserialize<'de>>(&mut self, request: &Request<'_>) -> Result<T, String> {
        let line = serde_json::to_string(request).map_err(|error| error.to_string())? + "\n";
        let sent = self.input.write_all(line.as_bytes()).await;
        match sent.is_ok() && self.input.flush().await.is_ok() {
            true => self.hear().await,
            false => Err(self.last_words().await),
        }
    }

    async fn hear<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T, String> {
        match timeout(PATIENCE, self.lines.next_line()).await {
            Err(_) => Err(format!("it did not answer within {} s", PATIENCE.as_secs())),
            Ok(Ok(Some(line))) => serde_json::from_str(&line).map_err(|error| format!("it talks garbage: {error}")),
            Ok(_) => Err(self.last_words().await),
        }
    }

    /// Returns what a process that has closed its output said last on standard error.
    async fn last_words(&mut self) -> String {
        match timeout(Duration::from_secs(5), &mut self.last_words).await {
            Ok(Ok(line)) if !line.is_empty() => line,
            _ => "it died without a word".to_owned(),
        }
    }
}

async fn last_line(errors: ChildStderr) -> String {
    let mut lines = BufReader::new(errors).lines();
    let mut last = String::new();
    while let Ok(Some(line)) = lines.next_line().await {
        if !line.trim().is_empty() {
            last = line;
        }
    }
    last
}
