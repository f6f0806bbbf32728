//! A session that runs in parallel with the test; the test reads its pipes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;

use crate::common::{Sandbox, times};

/// A started verb that prints events. The test does not wait for its end.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    said: Receiver<String>,
}

impl Running {
    /// Starts a verb in a project.
    pub fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::spawn(sandbox.command(arguments))
    }

    /// Starts a prepared command.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (line, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || out.map_while(Result::ok).try_for_each(|text| line.send(text)));
        let (all, said) = mpsc::channel();
        let mut talk = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = talk.read_to_end(&mut bytes);
            let _ = all.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default());
        });
        Self { child, lines, said }
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next event; returns none at the end.
    pub fn next(&self) -> Option<Value> {
        self.lines.recv().ok().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// Waits for an event of a kind; fails if none arrives.
    pub fn wait_for(&self, kind: &str) -> Value {
        let mut seen = Vec::new();
        while let Some(event) = self.next() {
            if event["event"] == kind {
                return event;
            }
            seen.push(event);
        }
        panic!("no event `{kind}` after {seen:?}; it said: {}", self.said.recv().unwrap_or_default());
    }

    /// Collects events for this long and returns them.
    pub fn listen(&self, time: Duration) -> Vec<Value> {
        let deadline = std::time::Instant::now() + time;
        let mut heard = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(std::time::Instant::now())) {
                Ok(line) => heard.push(serde_json::from_str(&line).unwrap()),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return heard,
            }
        }
    }

    /// Sends it a signal, such as `INT`.
    pub fn signal(&self, signal: &str) {
        let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &self.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Kills the process as a power cut would. Returns the rest of its events and everything on standard error. Its
    /// worker shares standard error, so the end of that stream means that the worker has ended, too.
    pub fn kill(mut self) -> (Vec<Value>, String) {
        self.child.kill().unwrap();
        times::wait(&mut self.child);
        let said = self.said.recv().unwrap();
        // The last line may be incomplete.
        (self.lines.iter().filter_map(|line| serde_json::from_str(&line).ok()).collect(), said)
    }

    /// Waits for the process to end. Returns its status, the rest of its events and everything on standard error.
    pub fn end(mut self) -> (ExitStatus, Vec<Value>, String) {
        let events = self.lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        (times::wait(&mut self.child), events, self.said.recv().unwrap())
    }
}

/// Waits until no process started in the project is left: children must end with the process that started them.
#[cfg(target_os = "linux")]
pub fn no_orphans(sandbox: &Sandbox) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let folder = sandbox.path(".").canonicalize().unwrap();
    // A process that ends may have started another one just before.
    loop {
        let left = processes_in(&folder);
        if left.is_empty() {
            return;
        }
        for (pid, line) in left {
            // A process that cannot be watched is already gone.
            let Ok(process) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else { continue };
            let patience = rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 };
            let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).unwrap();
            assert_eq!(ended, 1, "still there: {pid} {line}");
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn no_orphans(_: &Sandbox) {}

/// Returns the processes whose current folder is this one, each with its command line.
#[cfg(target_os = "linux")]
fn processes_in(folder: &std::path::Path) -> Vec<(i32, String)> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let here =
        processes.filter(|process| std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder));
    let told = here.filter_map(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let pid = process.file_name().to_str()?.parse().ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    });
    told.collect()
}
