//! A running baseline program: its pipes, its deadline and its last line.

use std::process::Stdio;
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::BaselineProgram;
use super::protocol::{Refusal, Request};
use crate::domain::text::toml_text::one_line;
use crate::error::{Error, Result, error};
use crate::runner::activity::{self, Limit};
use crate::runner::guarded::{GuardedProgram, cache_folder};
use crate::runner::{child, descendants};
use crate::secrets;

/// The longest line to read. The longest expected one, 100,000 samples of a group, has a fifth of this.
const MAX_LINE_BYTES: u64 = 10 << 20;

/// The key of an answer's time limit in config.toml.
const TIMEOUT_KEY: &str = "baseline.timeout";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The program refused the request. It can take others.
    #[error("{0}")]
    Refused(String),
    /// The program exited, hangs or sent invalid data. It can take no more requests.
    #[error("{0}")]
    Disconnected(String),
}

/// A running program. Dropping it ends the program and all that the program has started.
pub(super) struct Process {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Reads standard error until its end, so that the pipe never fills up, and returns the last line.
    last_line: JoinHandle<String>,
    child: Child,
    timeout: Duration,
}

impl Process {
    /// Starts a program under its [guard](super::guard), confined.
    pub fn start(started: &BaselineProgram) -> Result<Self> {
        let BaselineProgram { exe, command, folder, cache, own, env, added, timeout, .. } = started;
        let program = command.first().map_or("", String::as_str);
        let cache = cache_folder(&format!("baselines/{cache}"))?;
        let guarded = GuardedProgram { exe, command, folder, own: own.path(), cache: &cache, env, added };
        let mut command = Command::from(guarded.command()?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // If the program kills its guard, this process inherits what the program has started.
        if let Err(error) = descendants::adopt() {
            tracing::warn!("processes that lose their guard may be left: {error}");
        }
        let mut child = command.spawn().map_err(|error| error!("the guard of `{program}` cannot be run: {error}"))?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(errors)) => Ok(Self {
                input,
                output: BufReader::new(output),
                last_line: tokio::spawn(child::last_line(errors)),
                child,
                timeout: *timeout,
            }),
            _ => Err(Error::new("the baseline's process has no pipes")),
        }
    }

    /// Returns the guard's process ID. The program and all that it has started descend from the guard.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a request and waits for the answer.
    pub async fn ask(&mut self, request: &Request<'_>) -> Result<Value, Failure> {
        let _running = activity::begin("the baseline program", Limit::new(TIMEOUT_KEY, self.timeout));
        let line = serde_json::to_string(request).map_err(|error| Failure::Refused(error.to_string()))? + "\n";
        let mut said = Vec::new();
        let asked = async {
            // A program that does not read may have reported an error before it died, so its output is read in any
            // case.
            let _ = self.input.write_all(line.as_bytes()).await;
            let _ = self.input.flush().await;
            (&mut self.output).take(MAX_LINE_BYTES).read_until(b'\n', &mut said).await
        };
        match timeout(self.timeout, asked).await {
            Err(_) => {
                let time_limit = humantime::format_duration(self.timeout);
                Err(Failure::Disconnected(format!("it did not answer within {time_limit} ({TIMEOUT_KEY})")))
            }
            Ok(Ok(_)) if said.ends_with(b"\n") => answer(&said),
            Ok(Ok(length)) if length as u64 == MAX_LINE_BYTES => {
                Err(Failure::Disconnected(format!("it sent invalid data: a line of over {} MiB", MAX_LINE_BYTES >> 20)))
            }
            Ok(_) => Err(Failure::Disconnected(self.last_message().await)),
        }
    }

    /// Returns the last line on standard error of a process that has closed its output.
    async fn last_message(&mut self) -> String {
        match timeout(Duration::from_secs(5), &mut self.last_line).await {
            Ok(Ok(line)) if !line.is_empty() => line,
            _ => "it exited without an error message".to_owned(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard ends the program, which it could not do if it were killed itself.
        #[cfg(unix)]
        if let Some(guard) = self.pid().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            // A stopped guard has to be continued first.
            let _ = kill_process(guard, Signal::TERM).and_then(|()| kill_process(guard, Signal::CONT));
        }
    }
}

/// Parses an answer as the expected type.
pub fn parse_answer<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer).map_err(|error| garbage(&error))
}

/// Parses a line of a program as an answer, or as why there is none.
pub fn answer(line: &[u8]) -> Result<Value, Failure> {
    // Bytes that are not UTF-8 are not JSON either.
    let line = String::from_utf8_lossy(line);
    let answer: Value = serde_json::from_str(&secrets::mask_json(&line)).map_err(|error| garbage(&error))?;
    match answer.get("error") {
        Some(_) => Err(Failure::Refused(sentence(&parse_answer::<Refusal>(answer)?.error))),
        None => Ok(answer),
    }
}

fn garbage(error: &serde_json::Error) -> Failure {
    Failure::Disconnected(one_line(format!("it sent invalid data: {error}")))
}

/// Shortens a program's output to one line of readable length.
pub(super) fn sentence(text: &str) -> String {
    let line = child::sentence(text);
    if line.is_empty() { "it gave no reason".to_owned() } else { line }
}
