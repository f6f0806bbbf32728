//! The supervisor's side: starts a worker, asks it, and survives it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::protocol::{EnterRequest, Reply, Request, TimeRequest, VERSION};
use crate::domain::device::{DeviceInfo, Peaks};
use crate::domain::evaluation::{Correctness, Evaluation, Outcome, Timing};
use crate::runner::device::DeviceChoice;
use crate::runner::evaluate::{EvaluateRequest, Examination, ExamineRequest};
use crate::runner::frames::{checked_length, decode, encode};
use crate::secrets;

/// How long a worker may take to open its device: creating a CUDA context takes seconds on a machine with many GPUs.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

/// A worker process with its device.
pub struct Worker {
    exe: PathBuf,
    choice: DeviceChoice,
    step_timeout: Duration,
    process: Option<Process>,
    info: DeviceInfo,
    /// Why a virtual GPU stands in for a CUDA device, if one does.
    no_cuda: Option<String>,
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

/// Why there is no evaluation.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// There is no such device on this machine.
    #[error("{0}")]
    NoDevice(String),
    /// The machine, not a variant, is at fault.
    #[error("{0}")]
    Broken(String),
}

/// What one wait for a reply brought.
enum Heard {
    Reply(Box<Reply>),
    Silence,
    Death(String),
}

impl Worker {
    /// Starts `optloop worker` from the executable `exe` and waits until it has opened its device. Where the choice is
    /// [`DeviceChoice::Auto`] and no CUDA device answers, a virtual GPU stands in.
    pub async fn start(exe: PathBuf, choice: &DeviceChoice, step_timeout: Duration) -> Result<Self, WorkerError> {
        // The choice is made once: a worker that is replaced must not come back with another device.
        let mut chosen = if *choice == DeviceChoice::Auto { DeviceChoice::Cuda(0) } else { choice.clone() };
        let mut no_cuda = None;
        let (process, info) = match Process::start(&exe, &chosen).await {
            Err(WorkerError::NoDevice(reason)) if *choice == DeviceChoice::Auto => {
                (chosen, no_cuda) = (DeviceChoice::stand_in(), Some(reason));
                Process::start(&exe, &chosen).await?
            }
            started => started?,
        };
        Ok(Self { exe, choice: chosen, step_timeout, process: Some(process), info, no_cuda })
    }

    /// Takes over ceilings that were measured, in place of those that the device brings.
    pub fn set_peaks(&mut self, peaks: Peaks) {
        self.info.peaks = peaks;
    }

    /// Starts another worker on the same device, which remembers nothing.
    pub async fn fresh(&self) -> Result<Self, WorkerError> {
        let (process, _) = Process::start(&self.exe, &self.choice).await?;
        let (exe, choice, info) = (self.exe.clone(), self.choice.clone(), self.info.clone());
        Ok(Self { exe, choice, step_timeout: self.step_timeout, process: Some(process), info, no_cuda: None })
    }

    /// Says that a virtual GPU stands in for a CUDA device, and why, if one does.
    pub fn stands_in(&self) -> Option<String> {
        self.no_cuda.as_ref().map(|reason| {
            let name = &self.info.name;
            format!("no CUDA device answers ({reason}); using the {name}: times are modelled, not measured")
        })
    }

    /// Describes the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Evaluates a variant. A worker that crashes, hangs or talks garbage is an outcome of the variant; the next
    /// evaluation gets a fresh one.
    pub async fn evaluate(&mut self, request: EvaluateRequest) -> Result<Evaluation, WorkerError> {
        let case = request.cases.first().map(|case| case.case.name.clone()).unwrap_or_default();
        let started = std::time::Instant::now();
        self.revive().await?;
        let evaluated = self
            .ask(Request::Evaluate(Box::new(request)), &case, |reply| match reply {
                Reply::Evaluated(evaluation) => Some(evaluation),
                _ => None,
            })
            .await?;
        if matches!(&evaluated, Ok(Evaluation { outcome: Outcome::Crashed { .. }, .. })) {
            // It ends after such an answer: its context is lost.
            self.process = None;
        }
        let device_s = started.elapsed().as_secs_f64();
        Ok(evaluated.unwrap_or_else(|outcome| Evaluation { outcome, measurements: Vec::new(), device_s }))
    }

    /// Examines a variant that is about to win. A worker that crashes, hangs or talks garbage is an outcome of the variant.
    pub async fn examine(&mut self, request: ExamineRequest) -> Answer<Examination> {
        let case = request.case.case.name.clone();
        self.revive().await?;
        self.ask(Request::Examine(Box::new(request)), &case, |reply| match reply {
            Reply::Examined(examination) => Some(examination),
            _ => None,
        })
        .await
    }

    /// Starts another process in place of one that a variant took down.
    async fn revive(&mut self) -> Result<(), WorkerError> {
        if self.process.is_none() {
            self.process = Some(Process::start(&self.exe, &self.choice).await?.0);
        }
        Ok(())
    }
}

/// What a request other than an evaluation brought: its answer, or what became of the variant that it was about.
pub type Answer<T> = Result<Result<T, Outcome>, WorkerError>;

impl Worker {
    /// Takes a variant in as an entrant of a contest. Returns how close its output came and the executions in one replay.
    pub async fn enter(&mut self, request: EnterRequest) -> Answer<(Correctness, u32)> {
        let case = request.case.name.clone();
        self.ask(Request::Enter(Box::new(request)), &case, |reply| match reply {
            Reply::Entered { correctness, launches_per_sample } => Some((correctness, launches_per_sample)),
            _ => None,
        })
        .await
    }

    /// Replays an entrant, counted from 0 in the order of entry. Returns nanoseconds of one execution, a value per replay.
    pub async fn sample(&mut self, entrant: usize, samples: usize, case: &str) -> Answer<Vec<f64>> {
        self.ask(Request::Sample { entrant, samples }, case, |reply| match reply {
            Reply::Sampled(samples_ns) => Some(samples_ns),
            _ => None,
        })
        .await
    }

    /// Returns how close the output of an entrant's last block came. Every block's output is looked at as it is taken.
    pub async fn check(&mut self, entrant: usize, case: &str) -> Answer<Correctness> {
        self.ask(Request::Check { entrant }, case, |reply| match reply {
            Reply::Checked(correctness) => Some(correctness),
            _ => None,
        })
        .await
    }

    /// Times a plan that uses workspaces only.
    pub async fn time(&mut self, request: TimeRequest) -> Answer<Timing> {
        self.ask(Request::Time(Box::new(request)), "", |reply| match reply {
            Reply::Timed(timing) => Some(timing),
            _ => None,
        })
        .await
    }

    /// Returns the worker's process number, to tell it from other processes on the device.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(|process| process.child.id())
    }

    /// Asks a worker that has to remember what it was asked before: one that fails is not replaced, and every later
    /// question fails, too.
    async fn ask<T>(&mut self, request: Request, case: &str, expected: impl Fn(Reply) -> Option<T>) -> Answer<T> {
        let mut case = case.to_owned();
        let Some(mut process) = self.process.take() else {
            return Err(WorkerError::Broken("the worker of a contest is gone".to_owned()));
        };
        let mut doing = "load".to_owned();
        let outcome = match process.send(&request).await {
            Err(error) => Outcome::Crashed { case, message: format!("the worker does not listen: {error}") },
            Ok(()) => loop {
                match process.hear(self.step_timeout).await {
                    Heard::Reply(reply) => match *reply {
                        Reply::Step { case: at, doing: what } => (case, doing) = (at, what),
                        Reply::Failed(outcome) => {
                            if !matches!(outcome, Outcome::Crashed { .. }) {
                                self.process = Some(process);
                            }
                            return Ok(Err(outcome));
                        }
                        Reply::Broken(message) => return Err(WorkerError::Broken(message)),
                        reply => match expected(reply) {
                            Some(answer) => {
                                self.process = Some(process);
                                return Ok(Ok(answer));
                            }
                            None => {
                                break Outcome::Crashed { case, message: "the worker spoke out of turn".to_owned() };
                            }
                        },
                    },
                    Heard::Silence => {
                        let message = format!("`{doing}` took over {}", humantime::format_duration(self.step_timeout));
                        break Outcome::TimedOut { case, message };
                    }
                    Heard::Death(how) => {
                        break Outcome::Crashed { case, message: format!("the worker died during `{doing}`: {how}") };
                    }
                }
            },
        };
        process.kill().await;
        Ok(Err(outcome))
    }
}

impl Process {
    async fn start(exe: &Path, choice: &DeviceChoice) -> Result<(Self, DeviceInfo), WorkerError> {
        let mut command = Command::new(exe);
        command.args(["worker", "--device", &choice.to_string()]);
        secrets::withhold(command.as_std_mut());
        if *choice == DeviceChoice::Fake {
            command.env("OPTLOOP_FAKE_DEVICE", "1");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        // A Ctrl-C at the terminal is for the session to handle, not for the worker to die of.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| WorkerError::Broken(format!("a worker process cannot be started: {error}")))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(WorkerError::Broken("a worker process has no pipes".to_owned()));
        };
        let mut process = Self { child, input, output };
        match process.hear(HELLO_TIMEOUT).await {
            Heard::Reply(reply) => match *reply {
                Reply::Hello { version: VERSION, device: Ok(info) } => Ok((process, info)),
                Reply::Hello { version: VERSION, device: Err(reason) } => Err(WorkerError::NoDevice(reason)),
                _ => Err(WorkerError::Broken("optloop was replaced while it ran: start it again".to_owned())),
            },
            Heard::Silence => Err(WorkerError::Broken("the device did not open within a minute".to_owned())),
            Heard::Death(how) => Err(WorkerError::Broken(format!("the worker died while opening its device: {how}"))),
        }
    }

    async fn send(&mut self, request: &Request) -> std::io::Result<()> {
        self.input.write_all(&encode(request)?).await?;
        self.input.flush().await
    }

    async fn hear(&mut self, patience: Duration) -> Heard {
        match timeout(patience, self.read()).await {
            Err(_) => Heard::Silence,
            Ok(Ok(reply)) => Heard::Reply(Box::new(reply)),
            Ok(Err(error)) => {
                let status = timeout(Duration::from_secs(1), self.child.wait()).await;
                Heard::Death(match status {
                    Ok(Ok(status)) => status.to_string(),
                    _ => error.to_string(),
                })
            }
        }
    }

    async fn read(&mut self) -> std::io::Result<Reply> {
        let mut length = [0; 4];
        self.output.read_exact(&mut length).await?;
        let mut payload = vec![0; checked_length(length)?];
        self.output.read_exact(&mut payload).await?;
        decode(&payload)
    }

    async fn kill(mut self) {
        // It may be gone already.
        let _ = self.child.kill().await;
    }
}
