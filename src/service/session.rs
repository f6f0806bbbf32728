//! The process of a submission: starts it, waits for it and signals it.
//!
//! It is a process of its own, in a process group of its own, so it outlives the service.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::process::{Child, Command};

use super::conclusion::Exit;
use super::fleet::Fleet;
use super::folder::StateFolder;
use super::verb::sentence;
use crate::domain::submission::{Lane, Submission};
use crate::error::Kind;

/// The exit codes of a session that may start later: another process uses what it needs, or a signal came first, such as that of
/// a shutdown.
const LATER: [Kind; 2] = [Kind::InUse, Kind::Interrupted];

/// The part of the messages in which the last one is looked for, in bytes.
const TAIL_BYTES: i64 = 8 << 10;

/// Starts the process of a submission, with the workers of the service's fleet if it has one.
pub fn start(
    exe: &Path,
    folder: &StateFolder,
    (submission, lane): (&Submission, Lane),
    fleet: Option<&Fleet>,
) -> anyhow::Result<Child> {
    let log = folder.log(submission.id);
    let Some(events) = log.lock()? else { bail!("a process of submission {} still runs", submission.id) };
    let messages = folder.messages(submission.id);
    let opened = OpenOptions::new().create(true).append(true).open(&messages);
    let messages = opened.with_context(|| format!("Failed to open {}", messages.display()))?;
    let mut command = Command::new(exe);
    command.arg("--project").arg(&submission.project).current_dir(&submission.project);
    command.args(arguments(submission, lane)).args(fleet.map_or(&[][..], |fleet| &fleet.arguments));
    command.stdin(Stdio::null()).stdout(events).stderr(messages);
    #[cfg(unix)]
    command.process_group(0);
    command.spawn().with_context(|| format!("Failed to start {}", exe.display()))
}

fn arguments(submission: &Submission, lane: Lane) -> Vec<String> {
    let name = format!("--submission={}", submission.uid);
    if submission.session.is_some() {
        return vec!["resume".to_owned(), "--json".to_owned(), name];
    }
    let device = match lane {
        Lane::Gpu(_) => lane.to_string(),
        Lane::Virtual => submission.device.clone(),
    };
    let mut arguments = vec!["start".to_owned(), "--json".to_owned(), name, format!("--device={device}")];
    arguments.extend(submission.request.arguments());
    arguments
}

/// Waits for a process, and returns how it ended.
pub async fn wait(mut child: Child, folder: &StateFolder, submission: &Submission) -> Exit {
    let code = child.wait().await.ok().and_then(|status| status.code());
    let said = || {
        let read = last_message(&folder.messages(submission.id));
        read.unwrap_or_else(|error| format!("its messages cannot be read: {error}"))
    };
    match code {
        None => Exit::Unknown,
        Some(0) => Exit::Success,
        Some(code) if LATER.iter().any(|kind| code == i32::from(kind.exit_code())) => Exit::InUse(said()),
        Some(_) => Exit::Failed(said()),
    }
}

fn last_message(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES.unsigned_abs());
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(sentence(&String::from_utf8_lossy(&bytes)))
}

/// What is sent to the process of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// A request to stop, as Ctrl-C sends it.
    Interrupt,
    /// Its end. The processes that it has started end with it.
    Kill,
}

/// Signals the process of a submission. Returns whether there is one.
///
/// It is the process that has the log as its standard output and leads its process group. A process number on record
/// could by now belong to another process.
#[cfg(target_os = "linux")]
pub fn signal(folder: &StateFolder, submission: &Submission, blow: Blow) -> anyhow::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    use rustix::process::{Pid, PidfdFlags, Signal, getpgid, pidfd_open, pidfd_send_signal};

    let signal = match blow {
        Blow::Interrupt => Signal::INT,
        Blow::Kill => Signal::KILL,
    };
    let Ok(log) = folder.log(submission.id).path().metadata() else { return Ok(false) };
    for entry in std::fs::read_dir("/proc").context("Failed to list /proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // From here on the number cannot pass to another process unnoticed.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Ok(output) = entry.path().join("fd/1").metadata() else { continue };
        if (output.dev(), output.ino()) == (log.dev(), log.ino()) && getpgid(Some(pid)) == Ok(pid) {
            return match pidfd_send_signal(&process, signal) {
                Ok(()) => Ok(true),
                Err(rustix::io::Errno::SRCH) => Ok(false),
                Err(error) => Err(error).context("Failed to signal the session"),
            };
        }
    }
    Ok(false)
}

/// Signals the process of a submission.
#[cfg(not(target_os = "linux"))]
pub fn signal(_: &StateFolder, _: &Submission, _: Blow) -> anyhow::Result<bool> {
    bail!("a running session can be stopped only on Linux: end its process by hand")
}
