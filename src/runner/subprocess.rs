//! A child process of optloop that answers one request at a time, within a time limit.

use std::io;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frames::{FrameError, Message};
use super::{child, frames};
use crate::environment;
use crate::error::{Error, Result, error};

/// A running child process.
pub struct Subprocess {
    /// What messages call it, such as `the compiler`.
    name: &'static str,
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Reads standard error until its end, and returns the last line.
    last_line: Option<JoinHandle<String>>,
    limits: Limits,
}

/// The limits of a child process, with the keys that set them, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest time for an answer.
    pub timeout: Duration,
    /// What sets `timeout`, such as `compile.timeout`.
    pub timeout_source: &'static str,
    /// The most address space, in bytes, and what sets it, such as `compile.memory_gb`. The process sets the limit itself
    /// ([`child::limit_memory`]). None is no limit.
    pub memory: Option<(u64, &'static str)>,
}

impl Subprocess {
    /// Starts optloop's executable `exe` with some arguments. Every answer must come within its time limit. Errors,
    /// here and later, are one sentence; the process is unusable afterwards.
    pub fn start(
        name: &'static str,
        exe: &Path,
        arguments: impl FnOnce(&mut Command),
        limits: Limits,
    ) -> io::Result<Self> {
        let mut command = Command::new(exe);
        environment::limit(&mut command);
        arguments(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C at the terminal must reach the session only.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("it has no pipes"));
        };
        let last_line = Some(std::thread::spawn(move || child::last_line_blocking(errors)));
        Ok(Self { name, child, input, output, last_line, limits })
    }

    /// Waits for the first message, which the process sends when it is ready.
    pub fn wait_until_ready<T: Message + DeserializeOwned>(&mut self) -> Result<T> {
        let read = self.in_time(|_, output| frames::read(output))?;
        self.answer(read)
    }

    /// Sends a request and waits for the answer.
    pub fn ask<T: Message + DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<T> {
        let read = self.in_time(|input, output| {
            frames::write(input, request)?;
            frames::read(output)
        })?;
        self.answer(read)
    }

    /// Sends several messages, and hands every answer to `take` until it returns a result. All of that is within one time
    /// limit.
    pub fn converse<T, A: Message + DeserializeOwned, Q: Serialize>(
        &mut self,
        requests: impl Iterator<Item = Q>,
        mut take: impl FnMut(A) -> Option<T>,
    ) -> Result<T> {
        let read = self.in_time(|input, output| -> Result<Option<T>, FrameError> {
            for request in requests {
                frames::write(input, &request)?;
            }
            while let Some(answer) = frames::read(output)? {
                if let Some(result) = take(answer) {
                    return Ok(Some(result));
                }
            }
            Ok(None)
        })?;
        self.answer(read)
    }

    fn answer<T>(&mut self, read: Result<Option<T>, FrameError>) -> Result<T> {
        match read {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(FrameError::Truncated { .. } | FrameError::Io(_)) => Err(self.how_it_ended()),
            Err(error) => {
                // The process may keep writing and then never end by itself.
                let _ = self.child.kill();
                Err(error!("{} sent invalid data: {error}", self.name))
            }
        }
    }

    /// Runs `exchange` on the process's pipes, and kills the process if that exceeds the time limit. Its pipes then
    /// end, even if data is left in them.
    fn in_time<T>(&mut self, exchange: impl FnOnce(&mut ChildStdin, &mut ChildStdout) -> T) -> Result<T> {
        let (done, watched) = mpsc::channel::<()>();
        let Limits { timeout, timeout_source, .. } = self.limits;
        let child = &mut self.child;
        std::thread::scope(|scope| {
            let watchdog = scope.spawn(move || {
                let late = watched.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Timeout);
                if late {
                    // The process may have ended at this very moment.
                    let _ = child.kill();
                }
                late
            });
            let result = exchange(&mut self.input, &mut self.output);
            drop(done);
            match watchdog.join() {
                Ok(true) => {
                    let time = humantime::format_duration(timeout);
                    Err(error!("{} took over {time} ({timeout_source})", self.name))
                }
                _ => Ok(result),
            }
        })
    }

    /// Returns how a process that has closed its output ended.
    fn how_it_ended(&mut self) -> Error {
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return error!("{} ended, and its status cannot be read: {error}", self.name),
        };
        let line = self.last_line.take().and_then(|line| line.join().ok()).unwrap_or_default();
        let said = if line.is_empty() { String::new() } else { format!("; its last message: {line}") };
        let limit = self.limits.memory.map(|(bytes, source)| {
            let gb = bytes as f64 / 1e9;
            format!("; it may have {gb:.2} GB of memory ({source})")
        });
        error!("{} ended ({status}){}{said}", self.name, limit.unwrap_or_default())
    }
}

impl Drop for Subprocess {
    fn drop(&mut self) {
        // Killed without a request to exit, because it may hang in a request.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
