//! Runs a program of optloop's own on a Python file that a user imports, as confined as an oracle, and returns what it tells.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use super::child;
use super::confine::Reach;
use super::guarded::{GuardedProgram, cache_folder, end};
use crate::error::{Error, Result, error};
use crate::secrets;

/// The longest that a file may take. Answers that are computed in Python take seconds.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The longest answer. A source may have 1 MiB.
const MAX_BYTES: u64 = 8 << 20;

#[derive(Deserialize)]
struct Failed {
    error: Option<String>,
}

/// Sends a request to a program in Python that examines `file`, and returns its answer as JSON text. The program may read the
/// folder of the file. The error is one sentence.
pub(super) fn told(driver: &str, file: &Path, request: &serde_json::Value, python: &str) -> Result<String> {
    let folder = file.parent().ok_or("it has no folder")?;
    let exe = std::env::current_exe().map_err(|error| error!("optloop's executable is not known: {error}"))?;
    let own = tempfile::Builder::new().prefix("optloop-script-").tempdir().map_err(Error::new)?;
    let cache =
        cache_folder(&format!("scripts/{}", &blake3::hash(file.as_os_str().as_encoded_bytes()).to_hex()[..16]))?;
    let command = [python, "-c", driver].map(str::to_owned);
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
    let child = command.spawn().map_err(|error| error!("`{python}` cannot be run: {error}"))?;
    let (text, last_line) = answer(child, format!("{request}\n"))?;
    if text.is_empty() {
        let line = child::sentence(&last_line);
        return Err(if line.is_empty() { Error::new("it ended without an error message") } else { Error::new(line) });
    }
    let text = secrets::mask_json(&text).into_owned();
    match serde_json::from_str::<Failed>(&text) {
        Ok(Failed { error: Some(problem) }) => Err(Error::new(child::sentence(&problem))),
        Ok(Failed { error: None }) => Ok(text),
        Err(error) => Err(error!("it sent invalid data: {error}")),
    }
}

/// Sends the request, and returns the answer and the last line on standard error. A program that takes too long is ended.
fn answer(mut child: Child, request: String) -> Result<(String, String)> {
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
    let text = text.map_err(|_| {
        error!("it took over {} s, which is the limit", TIME_LIMIT.as_secs())
            .hint("make its sizes smaller, or try it on an idle machine")
    })?;
    Ok((text, last_line.join().unwrap_or_default()))
}
