//! The supervisor's view of a worker process: its pipes, its deadlines and its exit.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::WorkerError;
use super::watched::REPORT_INTERVAL;
use crate::domain::code::artifact::Artifact;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::environment;
use crate::error::{Error, Result, error};
use crate::runner::activity::{self, Limit};
use crate::runner::child;
use crate::runner::device::DeviceChoice;
use crate::runner::frames::{self, FrameError};
use crate::runner::messages::{WorkerReply, WorkerRequest};

/// How long a worker may take to find its device, and to open it. Creating a CUDA context takes seconds on a machine
/// with many GPUs.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the self-check may take. It is milliseconds of work, but the driver may have to clean up first.
const SELF_CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a killed process may take to exit. The driver stops its kernels first, which takes a fraction of a second.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the pipes of a dead process may stay open.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The default deadline of a launch. config.toml gives the reason.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The name of a limit without a key.
const OWN_LIMIT: &str = "optloop";

/// The limit of a start.
pub(super) const START_LIMIT: Option<Limit> = Some(Limit { key: OWN_LIMIT, after: HELLO_TIMEOUT });

const UNEXPECTED_REPLY: &str = "a worker sent an unexpected reply";

/// Limit of a replay's time, as a multiple of as many separate launches. It takes less, unless the clocks dropped.
const REPLAY_SLACK: f64 = 10.0;

/// How long a worker may take for each kind of work.
#[derive(Debug, Clone, Copy)]
pub struct StepTimeouts {
    /// Deadline of a step with CPU work, too: loading, drawing inputs, checking, timing.
    pub step: Duration,
    /// Deadline of an untimed launch, and of a replay beyond what its launches take. A hanging kernel exceeds one of
    /// these.
    pub launch: Duration,
}

impl From<Duration> for StepTimeouts {
    fn from(step: Duration) -> Self {
        Self { step, launch: step.min(LAUNCH_TIMEOUT) }
    }
}

/// The key of [`StepTimeouts::step`] in config.toml.
pub(in crate::runner) const STEP_KEY: &str = "worker.step_timeout";

/// The key of [`StepTimeouts::launch`] in config.toml.
const LAUNCH_KEY: &str = "worker.launch_timeout";

/// Returns whether a kernel that did not end in time may only be slow. A virtual GPU counts what the kernel has to do, and says so
/// itself, unless the CPU took too long for that.
pub fn may_be_slow(message: &str, device: &DeviceInfo) -> bool {
    device.time_source() == TimeSource::Measured || message.contains(STEP_KEY)
}

impl StepTimeouts {
    /// Returns the key in config.toml that sets a deadline: a launch may have a step's.
    pub(super) fn key(&self, deadline: Duration) -> &'static str {
        if deadline < self.step { LAUNCH_KEY } else { STEP_KEY }
    }

    /// Returns how long a worker may be silent after it announced replays of `expected_s` seconds.
    pub(super) fn of_replay(&self, expected_s: f64) -> Duration {
        let expected = Duration::try_from_secs_f64(REPLAY_SLACK * expected_s).unwrap_or(self.step);
        self.launch.saturating_add(REPORT_INTERVAL).saturating_add(expected).min(self.step)
    }
}

/// What is needed to start a worker.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub exe: PathBuf,
    pub choice: DeviceChoice,
}

/// A process that has found its device.
pub(super) struct WorkerProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Reads standard error until its end, and returns the last line.
    last_line: JoinHandle<String>,
}

/// The result of one wait for a reply.
pub(super) enum Received {
    Reply(Box<WorkerReply>),
    /// No reply within the deadline.
    Timeout,
    /// The process has ended; how it ended.
    Exited(String),
    /// Bytes that are not a reply.
    Invalid(FrameError),
}

impl Received {
    /// Describes what was received instead of a reply to `doing`.
    fn instead_of(self, doing: &str) -> String {
        match self {
            Self::Reply(_) => UNEXPECTED_REPLY.to_owned(),
            Self::Timeout => {
                format!("a worker did not {doing} within {}", humantime::format_duration(HELLO_TIMEOUT))
            }
            Self::Exited(how) => format!("a worker died before it could {doing}: {how}"),
            Self::Invalid(error) => error.to_string(),
        }
    }
}

impl WorkerProcess {
    /// Starts a process and waits until it has found its device, which is not open yet.
    pub async fn start(program: &Program) -> Result<(Self, DeviceInfo), WorkerError> {
        let mut command = Command::new(&program.exe);
        command.args(["worker", "--device", &program.choice.to_string()]);
        environment::limit(command.as_std_mut());
        command.envs(program.choice.environment());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A Ctrl-C at the terminal must reach the session, and not kill the worker.
        #[cfg(unix)]
        command.process_group(0);
        let broken = WorkerError::Broken;
        let mut child =
            command.spawn().map_err(|error| broken(format!("a worker process cannot be started: {error}")))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(broken("a worker process has no pipes".to_owned()));
        };
        let mut process = Self { child, input, output, last_line: tokio::spawn(child::last_line(errors)) };
        let reason = match process.receive(HELLO_TIMEOUT).await {
            Received::Reply(reply) => match *reply {
                WorkerReply::Hello(Ok(info)) => return Ok((process, info)),
                WorkerReply::Hello(Err(reason)) => return Err(WorkerError::NoDevice(reason)),
                _ => UNEXPECTED_REPLY.to_owned(),
            },
            other => other.instead_of("find its device"),
        };
        process.kill().await;
        Err(broken(reason))
    }

    /// Makes the worker open its device. A process that cannot is discarded.
    pub async fn open(&mut self) -> Result<(), WorkerError> {
        let _running = activity::begin("opening the device", Limit::new(OWN_LIMIT, HELLO_TIMEOUT));
        let received = match self.send(&WorkerRequest::Open, HELLO_TIMEOUT).await {
            Ok(()) => self.receive(HELLO_TIMEOUT).await,
            Err(error) => return Err(WorkerError::Broken(format!("a worker cannot be reached: {error}"))),
        };
        Err(WorkerError::Broken(match received {
            Received::Reply(reply) => match *reply {
                WorkerReply::Opened(opened) => return opened.map_err(WorkerError::NoDevice),
                _ => UNEXPECTED_REPLY.to_owned(),
            },
            other => other.instead_of("open its device"),
        }))
    }

    /// Returns its process ID.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Makes the worker check its device. A process that fails is discarded.
    pub async fn check_itself(&mut self, artifact: &Artifact) -> Result<()> {
        let request = WorkerRequest::SelfCheck(Box::new(artifact.clone()));
        let _running = activity::begin("a worker's self-check", Limit::new(OWN_LIMIT, SELF_CHECK_TIMEOUT));
        let received = match self.send(&request, SELF_CHECK_TIMEOUT).await {
            Ok(()) => self.receive(SELF_CHECK_TIMEOUT).await,
            Err(error) => return Err(error!("it cannot be reached: {error}")),
        };
        match received {
            Received::Reply(reply) => match *reply {
                WorkerReply::SelfCheckPassed => Ok(()),
                WorkerReply::Broken(reason) => Err(Error::new(reason)),
                _ => Err(Error::new("it sent an unexpected reply")),
            },
            Received::Timeout => {
                Err(error!("its self-check took over {}", humantime::format_duration(SELF_CHECK_TIMEOUT)))
            }
            Received::Exited(how) => Err(error!("it died during its self-check: {how}")),
            Received::Invalid(error) => Err(Error::new(error)),
        }
    }

    /// Sends a request. A process that does not read its pipe counts as failed.
    pub async fn send(&mut self, request: &WorkerRequest, time_limit: Duration) -> std::io::Result<()> {
        match timeout(time_limit, frames::write_async(&mut self.input, request)).await {
            Ok(sent) => sent,
            Err(_) => Err(std::io::Error::other(format!(
                "it did not accept the request within {}",
                humantime::format_duration(time_limit)
            ))),
        }
    }

    /// Waits for a reply. After a cancelled wait the process is unusable, because part of the reply may be lost.
    pub async fn receive(&mut self, time_limit: Duration) -> Received {
        match timeout(time_limit, frames::read_async(&mut self.output)).await {
            Err(_) => Received::Timeout,
            Ok(Ok(Some(reply))) => Received::Reply(Box::new(reply)),
            Ok(Ok(None) | Err(FrameError::Truncated { .. } | FrameError::Io(_))) => {
                Received::Exited(self.how_it_ended().await)
            }
            Ok(Err(error)) => Received::Invalid(error),
        }
    }

    async fn how_it_ended(&mut self) -> String {
        let status = match timeout(EXIT_TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            _ => "it closed its pipe".to_owned(),
        };
        match timeout(EXIT_TIMEOUT, &mut self.last_line).await {
            Ok(Ok(line)) if !line.is_empty() => format!("{status}; its last output: {line}"),
            _ => status,
        }
    }

    /// Kills the process and waits until it has exited, because its work on the device would disturb the next process.
    pub async fn kill(mut self) {
        if timeout(KILL_TIMEOUT, self.child.kill()).await.is_err() {
            tracing::warn!("worker {:?} has not exited within {KILL_TIMEOUT:?} after it was killed", self.child.id());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_may_take_far_longer_than_its_launches_did_and_never_longer_than_a_step() {
        let timeouts = StepTimeouts::from(Duration::from_secs(90));
        let seconds = |expected_s| timeouts.of_replay(expected_s).as_secs_f64();
        assert_eq!(timeouts.launch.as_secs(), 10);
        // A hanging sample of 200 us has the same deadline as a launch.
        assert_eq!(seconds(0.0002).round(), 11.0);
        assert_eq!(seconds(2.0), 31.0);
        assert_eq!((seconds(60.0), seconds(f64::INFINITY), seconds(f64::NAN)), (90.0, 90.0, 90.0));
        assert_eq!(StepTimeouts::from(Duration::from_secs(3)).of_replay(0.0).as_secs(), 3);
    }
}
