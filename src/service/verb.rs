//! Answers a request with a verb of the command line, in a process of its own: the same figures, the same sentences, and
//! no way for a project's files or a large session to hurt the service.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;
use tokio::sync::Semaphore;

/// The longest time of a verb. The report of 1,000 iterations takes seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The most verbs at once. Further ones wait: sessions need the cores.
const MAX_AT_ONCE: usize = 4;

static PLACES: Semaphore = Semaphore::const_new(MAX_AT_ONCE);

/// How a verb has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its data.
    pub out: String,
    /// The last message, if it failed because of what was asked.
    pub refusal: Option<String>,
}

/// Runs a verb in a project.
pub async fn run(exe: &Path, root: &Path, arguments: &[String]) -> anyhow::Result<Said> {
    let _place = PLACES.acquire().await;
    let mut command = Command::new(exe);
    command.arg("--project").arg(root).args(arguments).current_dir(root).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    let output = output.with_context(|| format!("`optloop {}` did not end in time", arguments[0]))?;
    let output = output.with_context(|| format!("Failed to start `optloop {}`", arguments[0]))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = sentence(&String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => Ok(Said { out, refusal: None }),
        Some(1 | 2) if !said.is_empty() => Ok(Said { out, refusal: Some(said) }),
        _ => bail!("`optloop {}` has failed: {said}", arguments[0]),
    }
}

/// Returns the last message of a process, without its prefix.
pub fn sentence(messages: &str) -> String {
    let last = messages.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
