//! Runs a coding agent: any command, in a scratch folder of its own, guarded and [confined](super::confine).
//!
//! It writes in its folder, and reaches optloop's server and, if the user allows it, the internet. It sees neither the project nor
//! the store.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::confine::{Network, Reach};
use super::{child, descendants, guarded, reach};
use crate::environment;
use crate::error::{Error, Result, error};

/// How much of what it prints is kept: the end, where a report of its usage is.
const KEPT_BYTES: usize = 1 << 20;

/// How long an agent and all that it has started may take to disappear.
const ENDING: Duration = Duration::from_secs(10);

/// Where it keeps temporary files, in its folder.
const TEMPORARY: &str = "tmp";

/// An agent that can be run, with its folder. The folder is removed with it.
pub struct AgentProgram {
    /// optloop's executable, which guards and confines the program.
    exe: PathBuf,
    command: Vec<String>,
    /// Variables of the user's environment that it gets in addition to those of every child.
    env: Vec<String>,
    reach: Reach,
    folder: TempDir,
}

/// How a run of it ended.
#[derive(Debug)]
pub struct AgentEnd {
    /// The exit code, as a shell reports it. None if it was ended.
    pub exit_code: Option<u8>,
    /// How long it ran.
    pub wall: Duration,
    /// The end of its standard output.
    pub output: Vec<u8>,
    /// The last line of its standard error.
    pub last_line: String,
}

impl AgentProgram {
    /// Makes the folder of an agent. `port`: that of optloop's server. The error is one sentence: the command is empty, or would
    /// let the agent see what is `hidden`.
    pub fn new(
        exe: PathBuf,
        command: Vec<String>,
        env: Vec<String>,
        network: Network,
        hidden: &[PathBuf],
    ) -> Result<Self> {
        if command.is_empty() {
            return Err(Error::new("the agent's command is empty").hint("write agent:COMMAND"));
        }
        let made = tempfile::Builder::new().prefix("optloop-agent-").tempdir();
        let folder = made.map_err(|error| error!("there is no folder for the agent: {error}"))?;
        let place = folder.path().canonicalize().unwrap_or_else(|_| folder.path().to_owned());
        std::fs::create_dir(place.join(TEMPORARY))
            .map_err(|error| error!("the agent's folder is not usable: {error}"))?;
        let reach = reach::of_agent(&command, &place, network);
        for hidden in hidden.iter().filter_map(|path| path.canonicalize().ok()) {
            let seen = reach.readable.iter().filter_map(|path| path.canonicalize().ok());
            if let Some(seen) = seen.into_iter().find(|path| hidden.starts_with(path) || path.starts_with(&hidden)) {
                return Err(error!(
                    "the agent may read {}, and must not see {}: move one of them",
                    seen.display(),
                    hidden.display()
                ));
            }
        }
        Ok(Self { exe, command, env, reach, folder })
    }

    /// Returns its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the program and its arguments.
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// Runs it with a file as its standard input, until it ends or `until` does. Nothing that it has started is left then.
    pub async fn run(
        &self,
        given: &[(&str, String)],
        input: &Path,
        until: impl Future<Output = ()>,
    ) -> anyhow::Result<AgentEnd> {
        let input = std::fs::File::open(input).context("Failed to read the agent's brief")?;
        let mut command = Command::from(self.confined(given));
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        // If the program kills its guard, this process inherits what the program has started.
        if let Err(error) = descendants::adopt() {
            tracing::warn!("processes that lose their guard may be left: {error}");
        }
        let begun = Instant::now();
        let mut guard = Guard(command.spawn().context("Failed to start the agent")?);
        let (output, errors) = (guard.0.stdout.take(), guard.0.stderr.take());
        let output = tokio::spawn(async move { end_of(output.context("no output")?).await });
        let errors =
            tokio::spawn(async move { Ok::<_, anyhow::Error>(child::last_line(errors.context("none")?).await) });
        let ended = tokio::select! {
            status = guard.0.wait() => Some(status.context("Failed to wait for the agent")?),
            () = until => None,
        };
        if ended.is_none() {
            guard.end();
            drop(timeout(ENDING, guard.0.wait()).await);
        }
        let exit_code = ended.and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
        let output = timeout(ENDING, output).await.ok().and_then(Result::ok).and_then(Result::ok).unwrap_or_default();
        let last_line =
            timeout(ENDING, errors).await.ok().and_then(Result::ok).and_then(Result::ok).unwrap_or_default();
        Ok(AgentEnd { exit_code, wall: begun.elapsed(), output, last_line })
    }

    fn confined(&self, given: &[(&str, String)]) -> std::process::Command {
        let folder = self.folder.path();
        let mut command = guarded::confined(&self.exe, folder, &self.reach);
        command.args(&self.command);
        environment::limit(&mut command);
        // Its settings are its own. Those of the user may name keys, and programs to run.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("XDG_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", folder);
        for variable in ["TMPDIR", "TMP", "TEMP"] {
            command.env(variable, folder.join(TEMPORARY));
        }
        command.envs(self.env.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(given.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The guard of a running agent, which ends the agent.
struct Guard(Child);

impl Guard {
    fn end(&self) {
        self.0.id().into_iter().for_each(guarded::end);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads a stream to its end, and returns the last bytes.
async fn end_of(mut stream: impl AsyncRead + Unpin) -> anyhow::Result<Vec<u8>> {
    let (mut kept, mut buffer) = (VecDeque::new(), vec![0; 64 << 10]);
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(kept.into());
        }
        kept.extend(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(KEPT_BYTES));
    }
}
