//! Runs a Python script of Kernel Tuner up to its call of `tune_kernel`, as confined as an oracle.
//!
//! Scripts compute their parameters, arguments and answers, so reading them without running them would understand few of
//! them. No kernel is run: the script gets a module `kernel_tuner` that only records the call.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::child;
use super::confine::Reach;
use super::guarded::{GuardedProgram, cache_folder, end};
use crate::secrets;

/// The program that runs the script.
const DRIVER: &str = include_str!("tuner_script/driver.py");

/// The longest that a script may take. Answers that are computed in Python take seconds.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The longest answer. A source may have 1 MiB.
const MAX_BYTES: u64 = 8 << 20;

#[derive(Deserialize)]
struct Failed {
    error: Option<String>,
}

/// Returns the call as JSON text. `arguments` are those of the script, and `kernel` names the kernel, if the script tunes several. The error is one sentence.
pub fn recorded_call(
    script: &Path,
    arguments: &[String],
    kernel: Option<&str>,
    python: &str,
) -> Result<String, String> {
    let script = script.canonicalize().map_err(|error| format!("{} cannot be read: {error}", script.display()))?;
    let folder = script.parent().ok_or("it has no folder")?;
    let exe = std::env::current_exe().map_err(|error| format!("optloop's executable is not known: {error}"))?;
    let own = tempfile::Builder::new().prefix("optloop-script-").tempdir().map_err(|error| error.to_string())?;
    let cache =
        cache_folder(&format!("scripts/{}", &blake3::hash(script.as_os_str().as_encoded_bytes()).to_hex()[..16]))?;
    let command = [python, "-c", DRIVER].map(str::to_owned);
    let guarded = GuardedProgram {
        exe: &exe,
        command: &command,
        folder,
        own: own.path(),
        cache: &cache,
        env: &[],
        added: &Reach::default(),
    };
    let mut command = guarded.command()?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("`{python}` cannot be run: {error}"))?;
    let request = json!({ "file": script, "arguments": arguments, "kernel": kernel }).to_string();
    let (text, last_line) = answer(child, request + "\n")?;
    if text.is_empty() {
        let line = child::sentence(&last_line);
        return Err(if line.is_empty() { "it ended without an error message".to_owned() } else { line });
    }
    let text = secrets::mask_json(&text).into_owned();
    match serde_json::from_str::<Failed>(&text) {
        Ok(Failed { error: Some(problem) }) => Err(child::sentence(&problem)),
        Ok(Failed { error: None }) => Ok(text),
        Err(error) => Err(format!("it sent invalid data: {error}")),
    }
}

/// Sends the request, and returns the answer and the last line on standard error. A script that takes too long is ended.
fn answer(mut child: Child, request: String) -> Result<(String, String), String> {
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        // The guard takes the end of the input for that of optloop, so it stays open until the answer is there. A program that
        // does not read may have said why.
        let mut input = input;
        let _ = input.as_mut().map(|input| input.write_all(request.as_bytes()));
        let mut text = Vec::new();
        let _ = output.map(|output| output.take(MAX_BYTES).read_to_end(&mut text));
        let _ = done.send(String::from_utf8_lossy(&text).into_owned());
        drop(input);
    });
    let last_line = thread::spawn(move || errors.map(child::last_line_blocking).unwrap_or_default());
    let text = is_done.recv_timeout(TIME_LIMIT);
    if text.is_err() {
        end(child.id());
    }
    let _ = child.wait();
    let text = text.map_err(|_| format!("it took over {} s", TIME_LIMIT.as_secs()))?;
    Ok((text, last_line.join().unwrap_or_default()))
}
