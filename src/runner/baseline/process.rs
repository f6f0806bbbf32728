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

use super::protocol::{Refusal, Request};
use super::{BaselineProgram, reach};
use crate::domain::toml_text::one_line;
use crate::runner::activity::{self, Limit};
use crate::runner::confine::Reach;
use crate::runner::toolchain::cache_dir;
use crate::runner::{child, descendants};
use crate::{environment, secrets};

/// The longest line to read. The longest expected one, 100,000 samples of a group, has a fifth of this.
const MAX_LINE_BYTES: u64 = 10 << 20;

/// The key of an answer's time limit in config.toml.
const TIMEOUT_KEY: &str = "baseline.timeout";

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// The program refused the request. It can take others.
    Refused(String),
    /// The program exited, hangs or sent invalid data. It can take no more requests.
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
    /// Starts a program under its [guard](super::guard), confined to the files that it [may use](super::reach).
    pub fn start(started: &BaselineProgram) -> Result<Self, String> {
        let BaselineProgram { exe, command, folder, copies, own, env, added, timeout, .. } = started;
        let Some((program, arguments)) = command.split_first() else {
            return Err("the baseline's command is empty".to_owned());
        };
        let mut command = Command::new(exe);
        // Paths are relative to the project's folder, wherever optloop was called. A bare name is looked up in PATH.
        command.args(["guard", "--"]).arg(exe).arg("confined").current_dir(folder);
        // Each project has a cache of its own: another program may run the files that one program leaves there.
        let owner = match copies {
            Some(_) => "shipped".to_owned(),
            None => blake3::hash(folder.as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned(),
        };
        let cache = cache_dir().map_err(|error| format!("{error:#}"))?.join("baselines").join(owner);
        std::fs::create_dir_all(&cache).map_err(|error| format!("{} cannot be made: {error}", cache.display()))?;
        let Reach { readable, writable } = reach::of(program, folder, own.path(), &cache, added);
        for (option, paths) in [("--read", readable), ("--write", writable)] {
            for path in paths {
                command.arg(option).arg(path);
            }
        }
        command.args(["--", program]).args(arguments);
        environment::limit(command.as_std_mut());
        command.envs(env.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        // Python would write compiled files next to the program, which were not part of what the user trusted.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // Where libraries keep what they compile. They may not write elsewhere.
        for (variable, folder) in [
            ("TMPDIR", own.path()),
            ("XDG_CACHE_HOME", cache.as_path()),
            ("CUDA_CACHE_PATH", &cache.join("cuda")),
            ("TRITON_CACHE_DIR", &cache.join("triton")),
            ("TORCHINDUCTOR_CACHE_DIR", &cache.join("inductor")),
        ] {
            command.env(variable, folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C at the terminal must reach the session, and not kill the program.
        #[cfg(unix)]
        command.process_group(0);
        // If the program kills its guard, this process inherits what the program has started.
        if let Err(error) = descendants::adopt() {
            tracing::warn!("processes that lose their guard may be left: {error}");
        }
        let mut child = command.spawn().map_err(|error| format!("the guard of `{program}` cannot be run: {error}"))?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(errors)) => Ok(Self {
                input,
                output: BufReader::new(output),
                last_line: tokio::spawn(child::last_line(errors)),
                child,
                timeout: *timeout,
            }),
            _ => Err("the baseline's process has no pipes".to_owned()),
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
