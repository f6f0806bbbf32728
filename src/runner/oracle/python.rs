//! Oracles that are Python functions: a program of each project's own, run as confined as its baselines.
//!
//! A process starts with the first call, and serves all further ones. Calls from several threads at once have a process
//! each. They end with this process.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use numerics::convert;
use serde::{Deserialize, Serialize};

use super::{LIMIT_NAME, TIME_LIMIT};
use crate::domain::op::oracle::{Oracle, OracleCall, OracleType, is_stretchable};
use crate::domain::op::{Dims, Dtype, TensorSpec};
use crate::error::{Error, Result, error};
use crate::runner::baseline::guard::SIGNAL_CODE;
use crate::runner::child;
use crate::runner::confine::Reach;
use crate::runner::guarded::{GuardedProgram, cache_folder, end};
use crate::secrets;

/// The program that calls the function.
const DRIVER: &str = include_str!("driver.py");

/// The longest header of an answer.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Values that are converted at once.
const CHUNK: usize = 1 << 14;

/// The text of a Python file with a function `oracle`, and the interpreter that runs it.
pub struct PythonOracle {
    text: String,
    python: String,
    /// The GPU on which it is to be computed, as PyTorch calls it. None leaves it to the file.
    gpu: Option<String>,
    /// Where the last call was computed, if there is one.
    computed_on: Mutex<Option<String>>,
    /// Processes that serve no call.
    idle: Mutex<Vec<Process>>,
    printed: Mutex<Option<String>>,
}

/// A running oracle.
struct Process {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    guard: u32,
    last_words: Option<thread::JoinHandle<String>>,
}

#[derive(Serialize)]
struct Request<'a> {
    dims: &'a Dims,
    scalars: serde_json::Map<String, serde_json::Value>,
    inputs: Vec<Input<'a>>,
    outputs: Vec<Output<'a>>,
}

#[derive(Serialize)]
struct Output<'a> {
    shape: &'a [usize],
    rows: &'a [usize],
    /// The type of the numbers to send back, as numpy calls it.
    sent: &'static str,
}

impl<'a> Output<'a> {
    fn of((tensor, rows): &'a (TensorSpec, Vec<usize>)) -> Self {
        // A float does not hold every integer of 64 bits.
        let sent = if tensor.dtype == Dtype::I64 { "<i8" } else { "<f8" };
        Self { shape: &tensor.shape, rows, sent }
    }
}

#[derive(Serialize)]
struct Input<'a> {
    name: &'a str,
    shape: &'a [usize],
    /// Which type the function gets.
    kind: OracleType,
    /// Whether it gets the eighth powers of the numbers.
    stretched: bool,
}

impl<'a> Input<'a> {
    fn of(tensor: &'a TensorSpec, is_stretched: bool) -> Self {
        let TensorSpec { name, shape, dtype, .. } = tensor;
        Self { name, shape, kind: OracleType::of(*dtype), stretched: is_stretched && is_stretchable(tensor) }
    }
}

#[derive(Deserialize)]
struct Answer {
    error: Option<String>,
    #[serde(default)]
    elements: usize,
    /// The first line that the function has printed so far.
    printed: Option<String>,
    /// Where it was computed, if it was to be computed on a GPU.
    computed_on: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The function failed. It can be called again.
    #[error("{0}")]
    Refused(String),
    /// The process can take no more calls.
    #[error("{0}")]
    Lost(String),
}

impl PythonOracle {
    /// Makes an oracle. Nothing runs before the first call.
    pub fn new(text: String, python: String, gpu: Option<String>) -> Self {
        Self { text, python, gpu, computed_on: Mutex::default(), idle: Mutex::default(), printed: Mutex::default() }
    }
}

impl Oracle for PythonOracle {
    fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>> {
        let idle = || self.idle.lock().map_err(|_| "an earlier call failed".to_owned());
        let found = idle()?.pop();
        let mut running = match found {
            Some(running) => running,
            None => Process::start(&self.text, &self.python, self.gpu.as_deref())?,
        };
        let called = running.call(call);
        if !matches!(called, Err(Failure::Lost(_))) {
            idle()?.push(running);
        }
        if let Ok((_, answer)) = &called {
            if let (Ok(mut printed), Some(line)) = (self.printed.lock(), &answer.printed) {
                printed.get_or_insert_with(|| child::sentence(line));
            }
            if let (Ok(mut computed_on), Some(place)) = (self.computed_on.lock(), &answer.computed_on) {
                *computed_on = Some(child::sentence(place));
            }
        }
        called.map(|(values, _)| values).map_err(Error::new)
    }

    fn uses_device(&self) -> bool {
        self.gpu.is_some()
    }

    fn printed(&self) -> Option<String> {
        self.printed.lock().ok()?.clone()
    }

    fn computed_on(&self) -> Option<String> {
        self.computed_on.lock().ok()?.clone()
    }
}

impl Process {
    fn start(text: &str, python: &str, gpu: Option<&str>) -> Result<Self> {
        // The folder outlives this process, which may end at any time. Only the same text uses it again.
        let folder = cache_folder(&format!("oracles/{}", &blake3::hash(text.as_bytes()).to_hex()[..16]))?;
        let exe = std::env::current_exe().map_err(|error| error!("optloop's executable is not known: {error}"))?;
        let command = [python, "-c", DRIVER].map(str::to_owned);
        let guarded = GuardedProgram {
            exe: &exe,
            command: &command,
            folder: &folder,
            own: &folder,
            cache: &folder,
            env: &[],
            added: &Reach::default(),
        };
        let mut command = guarded.command()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (started, start) = mpsc::channel();
        // The guard ends with the thread that has started it, so that thread stays until the guard has ended.
        let last_words = thread::spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return String::new();
                }
            };
            let errors = child.stderr.take();
            let _ = started.send(Ok((child.id(), child.stdin.take(), child.stdout.take())));
            let line = errors.map(child::last_line_blocking).unwrap_or_default();
            let code = child.wait().ok().and_then(|status| status.code());
            why_ended(&line, code)
        });
        let started = start.recv().map_err(|_| "it was not started".to_owned())?;
        let (guard, input, output) = started.map_err(|error| error!("`{python}` cannot be run: {error}"))?;
        let (Some(input), Some(output)) = (input, output) else { return Err(Error::new("it has no pipes")) };
        let output = BufReader::new(output);
        let mut process = Self { input, output, guard, last_words: Some(last_words) };
        let hello = process.limited(|process| {
            let line = serde_json::json!({ "text": text, "device": gpu }).to_string() + "\n";
            let _ = process.input.write_all(line.as_bytes()).and_then(|()| process.input.flush());
            process.header()
        });
        hello.map(|_| process).map_err(Error::new)
    }

    /// Returns the numbers, and what else the answer says.
    fn call(&mut self, call: &OracleCall<'_>) -> Result<(Vec<f64>, Answer), Failure> {
        let scalars = call.scalars.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let inputs = call.inputs.iter().map(|(tensor, _)| Input::of(tensor, call.is_stretched)).collect();
        let outputs = call.outputs.iter().map(Output::of).collect();
        let request = Request { dims: call.dims, scalars, inputs, outputs };
        let line = serde_json::to_string(&request).map_err(|error| Failure::Refused(error.to_string()))? + "\n";
        let elements = call.outputs.iter().map(|(tensor, rows)| rows.len() * tensor.row_len()).sum();
        self.limited(|process| {
            // A process that does not read may have said why, so its answer is read in any case.
            let _ = process.send(&line, call);
            let answer = process.header()?;
            if answer.elements != elements {
                let problem = format!("it sent {} elements, not {elements}", answer.elements);
                return Err(Failure::Lost(problem));
            }
            Ok((process.values(elements)?, answer))
        })
    }

    fn send(&mut self, line: &str, call: &OracleCall<'_>) -> std::io::Result<()> {
        self.input.write_all(line.as_bytes())?;
        let mut bytes = vec![0; 4 * CHUNK];
        for values in call.inputs.iter().flat_map(|(_, values)| values.chunks(CHUNK)) {
            let bytes = &mut bytes[..4 * values.len()];
            convert::encode_f32(values, bytes);
            self.input.write_all(bytes)?;
        }
        self.input.flush()
    }

    fn header(&mut self) -> Result<Answer, Failure> {
        let mut line = Vec::new();
        let read = (&mut self.output).take(MAX_HEADER_BYTES).read_until(b'\n', &mut line);
        if read.is_err() || !line.ends_with(b"\n") {
            return Err(Failure::Lost(self.last_message()));
        }
        let text = secrets::mask_json(&String::from_utf8_lossy(&line)).into_owned();
        let answer: Answer =
            serde_json::from_str(&text).map_err(|error| Failure::Lost(format!("it sent invalid data: {error}")))?;
        match &answer.error {
            Some(problem) => Err(Failure::Refused(child::sentence(problem))),
            None => Ok(answer),
        }
    }

    fn values(&mut self, elements: usize) -> Result<Vec<f64>, Failure> {
        let mut values = vec![0.0; elements];
        let mut bytes = vec![0; 8 * CHUNK];
        for values in values.chunks_mut(CHUNK) {
            let part = &mut bytes[..8 * values.len()];
            self.output.read_exact(part).map_err(|_| Failure::Lost(self.last_message()))?;
            convert::decode_f64(part, values);
        }
        Ok(values)
    }

    /// Returns why a process that has closed its output has ended.
    fn last_message(&mut self) -> String {
        let words = self.last_words.take().and_then(|reader| reader.join().ok());
        words.unwrap_or_else(|| why_ended("", None))
    }

    /// Ends the process if a step takes too long.
    fn limited<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<T, Failure> {
        let _calling = super::begin();
        let (done, is_done) = mpsc::channel::<()>();
        let is_late = Arc::new(AtomicBool::new(false));
        let (guard, late) = (self.guard, Arc::clone(&is_late));
        let watch = thread::spawn(move || {
            if is_done.recv_timeout(TIME_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                late.store(true, Ordering::Relaxed);
                end(guard);
            }
        });
        let result = step(self);
        drop(done);
        let _ = watch.join();
        if is_late.load(Ordering::Relaxed) {
            return Err(Failure::Lost(format!("it took over {} s ({LIMIT_NAME})", TIME_LIMIT.as_secs())));
        }
        result
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(self.guard);
    }
}

/// Says how a program has ended, from its last line on standard error and the exit code of its guard.
fn why_ended(line: &str, code: Option<i32>) -> String {
    let line = child::sentence(line);
    let how = match code {
        // Shells report a signal in this way.
        Some(code) if code > i32::from(SIGNAL_CODE) => {
            let signal = code - i32::from(SIGNAL_CODE);
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("signal {signal}{name}")
        }
        Some(code) => format!("exit code {code}"),
        None => "no exit code".to_owned(),
    };
    if line.is_empty() {
        format!("it ended with {how}, and without an error message")
    } else {
        format!("{line} ({how})")
    }
}
