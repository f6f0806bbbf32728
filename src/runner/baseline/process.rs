//! A running baseline program: its pipes, its deadline and its last line.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::protocol::{Refusal, Request};
use crate::domain::toml_text::one_line;
use crate::runner::child;
use crate::secrets;

/// The longest line to read. The longest expected one, 100,000 samples of a group, has a fifth of this.
const MAX_LINE_BYTES: u64 = 10 << 20;

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// The program refused the request. It can take others.
    Refused(String),
    /// The program is dead, hangs or sent garbage. It can take no more requests.
    Gone(String),
}

/// A running program, killed on drop.
pub(super) struct Process {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Reads standard error until its end, so that the pipe never fills up, and returns the last line.
    last_words: JoinHandle<String>,
    child: Child,
    patience: Duration,
}

impl Process {
    /// Starts a command in a folder, under the [guard](super::guard) of the executable `exe`. Every answer must come
    /// within `patience`.
    pub fn start(exe: &Path, command: &[String], folder: &Path, patience: Duration) -> Result<Self, String> {
        let Some((program, arguments)) = command.split_first() else {
            return Err("the baseline's command is empty".to_owned());
        };
        let mut command = Command::new(exe);
        // Paths are relative to the project's folder, wherever optloop was called. A bare name is looked up in PATH.
        command.args(["guard", "--", program]).args(arguments).current_dir(folder);
        secrets::withhold(command.as_std_mut());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A Ctrl-C at the terminal must reach the session, and not kill the program.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| format!("the guard of `{program}` cannot be run: {error}"))?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(errors)) => Ok(Self {
                input,
                output: BufReader::new(output),
                last_words: tokio::spawn(child::last_line(errors)),
                child,
                patience,
            }),
            _ => Err("the baseline's process has no pipes".to_owned()),
        }
    }

    /// Returns the process ID.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a request and waits for the answer.
    pub async fn ask(&mut self, request: &Request<'_>) -> Result<Value, Failure> {
        let line = serde_json::to_string(request).map_err(|error| Failure::Refused(error.to_string()))? + "\n";
        let mut said = Vec::new();
        let asked = async {
            // A program that does not read may have said why before it died, so its output is read in any case.
            let _ = self.input.write_all(line.as_bytes()).await;
            let _ = self.input.flush().await;
            (&mut self.output).take(MAX_LINE_BYTES).read_until(b'\n', &mut said).await
        };
        match timeout(self.patience, asked).await {
            Err(_) => {
                let patience = humantime::format_duration(self.patience);
                Err(Failure::Gone(format!("it did not answer within {patience}")))
            }
            Ok(Ok(_)) if said.ends_with(b"\n") => answer(&said),
            Ok(Ok(length)) if length as u64 == MAX_LINE_BYTES => {
                Err(Failure::Gone(format!("it sent invalid data: a line of over {} MiB", MAX_LINE_BYTES >> 20)))
            }
            Ok(_) => Err(Failure::Gone(self.last_words().await)),
        }
    }

    /// Returns the last line on standard error of a process that has closed its output.
    async fn last_words(&mut self) -> String {
        match timeout(Duration::from_secs(5), &mut self.last_words).await {
            Ok(Ok(line)) if !line.is_empty() => line,
            _ => "it exited without an error message".to_owned(),
        }
    }
}

/// Parses an answer as the expected type.
pub fn meant<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer).map_err(|error| garbage(&error))
}

/// Parses a line of a program as an answer, or as why there is none.
pub fn answer(line: &[u8]) -> Result<Value, Failure> {
    // Bytes that are not UTF-8 are not JSON either.
    let line = String::from_utf8_lossy(line);
    let answer: Value = serde_json::from_str(&secrets::mask_json(&line)).map_err(|error| garbage(&error))?;
    match answer.get("error") {
        Some(_) => Err(Failure::Refused(sentence(&meant::<Refusal>(answer)?.error))),
        None => Ok(answer),
    }
}

fn garbage(error: &serde_json::Error) -> Failure {
    Failure::Gone(one_line(format!("it sent invalid data: {error}")))
}

/// Shortens a program's output to one line of readable length.
pub(super) fn sentence(text: &str) -> String {
    let line = child::sentence(text);
    if line.is_empty() { "it gave no reason".to_owned() } else { line }
}
