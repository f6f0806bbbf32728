//! The supervisor's side: starts a worker, asks it, and survives it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::{AskError, WorkerError};
use super::process::{Heard, Patience, Process, Program};
use crate::domain::artifact::Artifact;
use crate::domain::correctness::Correctness;
use crate::domain::device::{DeviceInfo, Peaks, TimeSource};
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::domain::ids::CaseName;
use crate::domain::timing::Timing;
use crate::runner::device::DeviceChoice;
use crate::runner::messages::{
    AcceptanceRequest, Accepted, EnterRequest, Entered, EvaluateRequest, Reply, Request, TimeRequest,
};

/// How long to wait before each start of a worker in a row of them. A GPU may need a moment after a hang; the first one is not
/// made to wait for it, since most need none.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(3)];

/// A worker process with its device.
pub struct Worker {
    program: Program,
    patience: Patience,
    process: Option<Process>,
    /// What every process has to pass before it is asked anything else.
    self_check: Option<Arc<Artifact>>,
    info: DeviceInfo,
    /// Why a virtual GPU stands in for a CUDA device, if one does.
    no_cuda: Option<String>,
}

/// What became of a question that was not answered.
struct Lost {
    outcome: Outcome,
    /// Whether the worker itself said that the device, not the variant, is at fault.
    blames_device: bool,
}

impl Worker {
    /// Starts `optloop worker` from the executable `exe` and waits until it has opened its device, for who claims none. See
    /// [`Worker::claim`].
    pub async fn start(
        exe: PathBuf,
        choice: &DeviceChoice,
        patience: impl Into<Patience>,
    ) -> Result<Self, WorkerError> {
        Self::claim(exe, choice, patience, |_| Ok(())).await
    }

    /// Starts `optloop worker` from the executable `exe`, claims the device that it has found, and waits until it has opened it: a
    /// device that somebody else measures on is left alone. Where the choice is [`DeviceChoice::Auto`] and no CUDA device answers,
    /// a virtual GPU stands in.
    pub async fn claim(
        exe: PathBuf,
        choice: &DeviceChoice,
        patience: impl Into<Patience>,
        mut claim: impl FnMut(&DeviceInfo) -> anyhow::Result<()>,
    ) -> Result<Self, WorkerError> {
        // The choice is made once: a worker that is replaced must not come back with another device.
        let chosen = if *choice == DeviceChoice::Auto { DeviceChoice::Cuda(0) } else { choice.clone() };
        let mut program = Program { exe, choice: chosen };
        let mut no_cuda = None;
        let (process, info) = match opened(&program, &mut claim).await {
            Err(WorkerError::NoDevice(reason)) if *choice == DeviceChoice::Auto => {
                (program.choice, no_cuda) = (DeviceChoice::stand_in(), Some(reason));
                opened(&program, &mut claim).await?
            }
            opened => opened?,
        };
        let mut patience = patience.into();
        if info.time_source() == TimeSource::Modelled {
            // A launch that the CPU computes takes as long as the CPU does.
            patience.launch = patience.step;
        }
        Ok(Self { program, patience, process: Some(process), self_check: None, info, no_cuda })
    }

    /// Has the process check its device with a compiled [self-check](crate::runner::self_check), and every one that follows it.
    pub async fn check_itself(&mut self, artifact: Artifact) -> Result<(), WorkerError> {
        self.self_check = Some(Arc::new(artifact));
        let open = self.process.take();
        self.process = Some(self.find_well(open).await?);
        Ok(())
    }

    /// Takes over ceilings that were measured, in place of those that the device brings.
    pub fn set_peaks(&mut self, peaks: Peaks) {
        self.info.peaks = peaks;
    }

    /// Starts another worker on the same device, which remembers nothing.
    pub async fn fresh(&self) -> Result<Self, WorkerError> {
        let process = Some(self.find_well(None).await?);
        let (program, info, self_check) = (self.program.clone(), self.info.clone(), self.self_check.clone());
        Ok(Self { program, patience: self.patience, process, self_check, info, no_cuda: None })
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

    /// Returns the worker's process number, to tell it from other processes on the device.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::pid)
    }

    /// Returns a process that is well: this one, or one that is started. Three in a row that are not mean that the machine is at
    /// fault.
    async fn find_well(&self, mut open: Option<Process>) -> Result<Process, WorkerError> {
        let mut last = String::new();
        for pause in PAUSES {
            tokio::time::sleep(pause).await;
            match self.start_well(open.take()).await {
                Ok(process) => return Ok(process),
                Err(reason) => {
                    tracing::warn!("a worker on the {} is not well: {reason}", self.info.name);
                    last = reason;
                }
            }
        }
        Err(WorkerError::Broken(format!(
            "the {} does not come back: {} workers in a row failed to start or to check themselves, the last one because {last}. \
             Look for the device's errors (`nvidia-smi`, `dmesg | grep Xid`), reset it or restart the machine, and start again: `optloop resume` takes a session up where it ended",
            self.info.name,
            PAUSES.len(),
        )))
    }

    async fn start_well(&self, open: Option<Process>) -> Result<Process, String> {
        let mut process = match open {
            Some(process) => process,
            // It is claimed already.
            None => opened(&self.program, &mut |_| Ok(())).await.map_err(|error| error.to_string())?.0,
        };
        let Some(self_check) = &self.self_check else { return Ok(process) };
        match process.check_itself(self_check).await {
            Ok(()) => Ok(process),
            Err(reason) => {
                process.kill().await;
                Err(reason)
            }
        }
    }
}

/// Starts a process that claims its device and opens it.
async fn opened(
    program: &Program,
    claim: &mut impl FnMut(&DeviceInfo) -> anyhow::Result<()>,
) -> Result<(Process, DeviceInfo), WorkerError> {
    let (mut process, info) = Process::start(program).await?;
    let claimed = claim(&info).map_err(|error| WorkerError::Taken(format!("{error:#}")));
    let opened = match claimed {
        Ok(()) => process.open().await,
        Err(taken) => Err(taken),
    };
    match opened {
        Ok(()) => Ok((process, info)),
        Err(error) => {
            process.kill().await;
            Err(error)
        }
    }
}

/// What is asked of a worker that is replaced when a variant takes it down.
impl Worker {
    /// Evaluates a variant. A worker that crashes, hangs or talks garbage is an outcome of the variant, if the one that is started
    /// in its place is well: else the machine is at fault, and the variant is not blamed.
    pub async fn evaluate(&mut self, request: EvaluateRequest) -> Result<Evaluation, WorkerError> {
        let case = request.cases.first().map_or_else(String::new, |case| case.case.name.to_string());
        let started = Instant::now();
        self.revive().await?;
        let evaluated = self
            .ask(Request::Evaluate(Box::new(request)), &case, |reply| match reply {
                Reply::Evaluated(evaluation) => Some(evaluation),
                _ => None,
            })
            .await;
        if matches!(&evaluated, Ok(Evaluation { outcome: Outcome::Crashed { .. }, .. })) {
            // It ends after such an answer: its context is lost.
            self.end_process().await;
        }
        let device_s = started.elapsed().as_secs_f64();
        self.revive().await?;
        Ok(evaluated.unwrap_or_else(|lost| Evaluation { outcome: lost.outcome, measurements: Vec::new(), device_s }))
    }

    /// Runs the acceptance checks on a variant that is about to win. Its worker is replaced as in [`Self::evaluate`].
    pub async fn accept(&mut self, request: AcceptanceRequest) -> Result<Accepted, AskError> {
        let case = request.case.case.name.clone();
        self.revive().await?;
        let accepted = self
            .ask(Request::Accept(Box::new(request)), &case, |reply| match reply {
                Reply::Accepted(acceptance) => Some(acceptance),
                _ => None,
            })
            .await;
        self.revive().await?;
        accepted.map_err(|lost| AskError::Variant(lost.outcome))
    }

    /// Starts another process in place of one that a variant took down.
    async fn revive(&mut self) -> Result<(), WorkerError> {
        if self.process.is_none() {
            self.process = Some(self.find_well(None).await?);
        }
        Ok(())
    }

    async fn end_process(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill().await;
        }
    }
}

/// What is asked of a worker that has to remember what it was asked before: one that fails is not replaced, and every later
/// question fails, too.
impl Worker {
    /// Takes a variant in as a participant of a comparison.
    pub async fn enter(&mut self, request: EnterRequest) -> Result<Entered, AskError> {
        let case = request.case.name.clone();
        self.ask_once(Request::Enter(Box::new(request)), &case, |reply| match reply {
            Reply::Entered(entered) => Some(entered),
            _ => None,
        })
        .await
    }

    /// Replays a participant, counted from 0 in the order of entry. Returns nanoseconds of one execution, a value per
    /// replay.
    pub async fn sample(&mut self, participant: usize, samples: usize, case: &str) -> Result<Vec<f64>, AskError> {
        self.ask_once(Request::Sample { participant, samples }, case, |reply| match reply {
            Reply::Sampled(samples_ns) => Some(samples_ns),
            _ => None,
        })
        .await
    }

    /// Looks at what a participant may not have changed, and returns how close its output came. Every block's output is
    /// looked at as it is taken.
    pub async fn check(&mut self, participant: usize, case: &str) -> Result<Correctness, AskError> {
        self.ask_once(Request::Check { participant }, case, |reply| match reply {
            Reply::Checked(correctness) => Some(correctness),
            _ => None,
        })
        .await
    }

    /// Times a plan that uses workspaces only.
    pub async fn time(&mut self, request: TimeRequest) -> Result<Timing, AskError> {
        self.ask_once(Request::Time(Box::new(request)), "", |reply| match reply {
            Reply::Timed(timing) => Some(timing),
            _ => None,
        })
        .await
    }

    async fn ask_once<T>(
        &mut self,
        request: Request,
        case: &str,
        expected: impl Fn(Reply) -> Option<T>,
    ) -> Result<T, AskError> {
        if self.process.is_none() {
            return Err(WorkerError::Broken("the worker of a comparison is gone".to_owned()).into());
        }
        match self.ask(request, case, expected).await {
            Ok(answer) => Ok(answer),
            Err(lost) => {
                if lost.blames_device {
                    // Whether it is right about that is for another one to find out.
                    self.fresh().await?.end_process().await;
                }
                Err(AskError::Variant(lost.outcome))
            }
        }
    }
}

impl Worker {
    /// Asks, and waits as long as each step may take. A process that does not answer is gone afterwards.
    async fn ask<T>(&mut self, request: Request, case: &str, expected: impl Fn(Reply) -> Option<T>) -> Result<T, Lost> {
        let (mut case, mut step) = (CaseName::from(case), "load".to_owned());
        let (mut doing, mut patience) = (step.clone(), self.patience.step);
        let mut since = Instant::now();
        let crashed = |case, message| Lost { outcome: Outcome::Crashed { case, message }, blames_device: false };
        let Some(mut process) = self.process.take() else {
            return Err(crashed(case, "there was no worker".to_owned()));
        };
        let lost = match process.send(&request, self.patience.step).await {
            Err(error) => crashed(case, format!("the worker does not listen: {error}")),
            Ok(()) => loop {
                let heard = process.hear(patience).await;
                tracing::debug!("{case}: {doing} took {:.3} s", since.elapsed().as_secs_f64());
                since = Instant::now();
                match heard {
                    Heard::Reply(reply) => match *reply {
                        Reply::Step { case: at, doing: what } => {
                            (case, step) = (at, what);
                            (doing, patience) = (step.clone(), self.patience.step);
                        }
                        Reply::Launch => (doing, patience) = ("launch".to_owned(), self.patience.launch),
                        Reply::Replay { expected_s } => {
                            (doing, patience) = ("replay".to_owned(), self.patience.of_replay(expected_s));
                        }
                        Reply::StepGoesOn => (doing, patience) = (step.clone(), self.patience.step),
                        Reply::Failed(outcome @ Outcome::Crashed { .. }) => {
                            break Lost { outcome, blames_device: false };
                        }
                        Reply::Failed(outcome) => {
                            self.process = Some(process);
                            return Err(Lost { outcome, blames_device: false });
                        }
                        Reply::Broken(reason) => {
                            break Lost {
                                blames_device: true,
                                ..crashed(case, format!("the device failed: {reason}"))
                            };
                        }
                        reply => match expected(reply) {
                            Some(answer) => {
                                self.process = Some(process);
                                return Ok(answer);
                            }
                            None => break crashed(case, "the worker spoke out of turn".to_owned()),
                        },
                    },
                    Heard::Silence => {
                        let message = format!("`{doing}` took over {}", humantime::format_duration(patience));
                        break Lost { outcome: Outcome::TimedOut { case, message }, blames_device: false };
                    }
                    Heard::Death(how) => break crashed(case, format!("the worker died during `{doing}`: {how}")),
                    Heard::Garbage(error) => break crashed(case, format!("`{doing}`: {error}")),
                }
            },
        };
        process.kill().await;
        Err(lost)
    }
}
