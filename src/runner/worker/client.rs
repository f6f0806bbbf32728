//! The supervisor's side: starts a worker, sends it requests, and survives its crashes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::{AskError, WorkerError};
use super::lane::{Lane, Screened};
use super::process::{Program, Received, START_LIMIT, STEP_KEY, StepTimeouts, WorkerProcess};
use super::standby::Standby;
use crate::domain::code::artifact::Artifact;
use crate::domain::device::{DeviceInfo, Peaks, TimeSource};
use crate::domain::ids::CaseName;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::statistics::timing::Timing;
use crate::error::{Error, Result};
use crate::runner::activity::{self, Limit};
use crate::runner::device::DeviceChoice;
use crate::runner::messages::{
    AcceptanceRequest, Accepted, EnterRequest, Entered, EvaluateRequest, HIDDEN_STEP, SampleGroup, TimeRequest,
    WorkerReply, WorkerRequest, on_hidden_shape,
};

/// Pauses before consecutive starts of a worker. A GPU may need a moment after a hang. Most do not, so the first start
/// does not wait.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(3)];

/// A worker process with its device.
pub struct Worker {
    program: Program,
    timeouts: StepTimeouts,
    process: Option<WorkerProcess>,
    /// The process of the next fresh worker.
    standby: Standby,
    /// The self-check that every process must pass before any other request.
    self_check: Option<Arc<Artifact>>,
    info: DeviceInfo,
    /// Why a virtual GPU replaces a CUDA device; `None` if it does not.
    no_cuda: Option<String>,
}

/// Why a request has no answer.
enum FailedRequest {
    /// The variant failed, as the worker reported.
    Variant(Outcome),
    /// The worker died, hung or sent nonsense. If a new one is healthy, this is the variant's outcome.
    Process(Outcome),
    /// The worker reported a fault of the device. If the device turns out to be healthy, this is the variant's outcome.
    Device(Outcome),
    /// The op's oracle failed, so nothing is known about the variant.
    Oracle(String),
}

impl FailedRequest {
    /// Returns the variant's outcome, if nothing else is at fault.
    fn outcome(self) -> Result<Outcome, WorkerError> {
        match self {
            Self::Variant(outcome) | Self::Process(outcome) | Self::Device(outcome) => Ok(outcome),
            Self::Oracle(problem) => Err(WorkerError::Oracle(problem)),
        }
    }
}

impl Worker {
    /// Starts `optloop worker` from the executable `exe` and waits until it has opened its device, without a claim. See
    /// [`Worker::claim`].
    pub async fn start(
        exe: PathBuf,
        choice: &DeviceChoice,
        timeouts: impl Into<StepTimeouts>,
    ) -> Result<Self, WorkerError> {
        Self::claim(exe, choice, timeouts, |_| Ok(())).await
    }

    /// Starts `optloop worker` from the executable `exe`, claims the device it found, and waits until that device is
    /// open. The claim comes first, so that a device on which another optloop measures is not disturbed. With
    /// [`DeviceChoice::Auto`], a virtual GPU replaces a CUDA device that does not answer.
    pub async fn claim(
        exe: PathBuf,
        choice: &DeviceChoice,
        timeouts: impl Into<StepTimeouts>,
        mut claim: impl FnMut(&DeviceInfo) -> anyhow::Result<()>,
    ) -> Result<Self, WorkerError> {
        // The choice is made once, so that a replacement worker gets the same device.
        let chosen = if *choice == DeviceChoice::Auto { DeviceChoice::Cuda(0) } else { choice.clone() };
        let mut program = Program { exe, choice: chosen };
        let mut no_cuda = None;
        let mut standby = Standby::default();
        let (process, info) = match opened(&program, &mut standby, &mut claim).await {
            Err(WorkerError::NoDevice(reason)) if *choice == DeviceChoice::Auto => {
                (program.choice, no_cuda) = (DeviceChoice::fallback(), Some(reason));
                opened(&program, &mut standby, &mut claim).await?
            }
            opened => opened?,
        };
        let mut timeouts = timeouts.into();
        if info.time_source() == TimeSource::Modelled {
            // The CPU executes these launches, so they may take as long as a step.
            timeouts.launch = timeouts.step;
        }
        Ok(Self { program, timeouts, process: Some(process), standby, self_check: None, info, no_cuda })
    }

    /// Makes this process and all its replacements check the device with a compiled
    /// [self-check](crate::runner::self_check).
    pub async fn check_itself(&mut self, artifact: Artifact) -> Result<(), WorkerError> {
        self.self_check = Some(Arc::new(artifact));
        let open = self.process.take();
        self.process = Some(self.find_healthy(open).await?);
        Ok(())
    }

    /// Makes this process and all its replacements check the device, unless they have the same self-check already.
    pub async fn check_itself_with(&mut self, artifact: Artifact) -> Result<(), WorkerError> {
        match self.self_check.as_ref().is_some_and(|known| known.key == artifact.key) {
            true => Ok(()),
            false => self.check_itself(artifact).await,
        }
    }

    /// Replaces the device's own peaks with measured ones.
    pub fn set_peaks(&mut self, peaks: Peaks) {
        self.info.peaks = peaks;
    }

    /// Starts another worker on the same device, without any of this one's state, and prepares the next one.
    pub async fn fresh(&mut self) -> Result<Self, WorkerError> {
        let process = Some(self.find_healthy(None).await?);
        self.standby.prepare(&self.program);
        let (program, info, self_check) = (self.program.clone(), self.info.clone(), self.self_check.clone());
        let standby = Standby::default();
        Ok(Self { program, timeouts: self.timeouts, process, standby, self_check, info, no_cuda: None })
    }

    /// Returns why a virtual GPU replaces a CUDA device, or `None` if it does not.
    pub fn fallback_notice(&self) -> Option<String> {
        self.no_cuda.as_ref().map(|reason| {
            let name = &self.info.name;
            format!("no CUDA device is available ({reason}); using the {name}: times are modelled, not measured")
        })
    }

    /// Returns the description of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns the choice of the device, which another process needs to open it.
    pub fn choice(&self) -> &DeviceChoice {
        &self.program.choice
    }

    /// Returns the worker's process ID, which tells it from other processes on the device.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(WorkerProcess::pid)
    }

    /// Returns a healthy process: this one or a new one. Three failures in a row mean that the machine is at fault.
    async fn find_healthy(&mut self, mut open: Option<WorkerProcess>) -> Result<WorkerProcess, WorkerError> {
        let mut last = String::new();
        for pause in PAUSES {
            tokio::time::sleep(pause).await;
            match self.start_healthy(open.take()).await {
                Ok(process) => return Ok(process),
                Err(reason) => {
                    tracing::warn!("a worker on the {} is not healthy: {reason}", self.info.name);
                    last = reason.to_string();
                }
            }
        }
        Err(WorkerError::Broken(format!(
            "the {} does not recover: {} workers in a row failed to start or failed their self-check. The last error \
             was: {last}. Look for errors of the device (`nvidia-smi`, `dmesg | grep Xid`), reset it or restart the \
             machine, and continue the session with `optloop resume`",
            self.info.name,
            PAUSES.len(),
        )))
    }

    async fn start_healthy(&mut self, open: Option<WorkerProcess>) -> Result<WorkerProcess> {
        let mut process = match open {
            Some(process) => process,
            // The device is already claimed.
            None => {
                let opened = opened(&self.program, &mut self.standby, &mut |_| Ok(())).await;
                opened.map_err(Error::new)?.0
            }
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

impl Lane for Worker {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    async fn screen(&mut self, request: EvaluateRequest) -> Result<Screened, WorkerError> {
        self.screened(request).await
    }
}

/// Starts a process that claims its device and opens it.
async fn opened(
    program: &Program,
    standby: &mut Standby,
    claim: &mut impl FnMut(&DeviceInfo) -> anyhow::Result<()>,
) -> Result<(WorkerProcess, DeviceInfo), WorkerError> {
    let running = activity::begin("starting a worker", START_LIMIT);
    let (mut process, info) = standby.take(program).await?;
    drop(running);
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

/// Requests after which a worker can be replaced if a variant crashes it.
impl Worker {
    /// Evaluates a variant. A crash, a hang or a malformed reply is an outcome of the variant if the replacement worker
    /// is healthy. If it is not, the machine is at fault.
    pub async fn evaluate(&mut self, request: EvaluateRequest) -> Result<Evaluation, WorkerError> {
        self.screen(request).await.map(Screened::evaluation)
    }

    async fn screened(&mut self, request: EvaluateRequest) -> Result<Screened, WorkerError> {
        let case = request.cases.first().map_or_else(String::new, |case| case.case.name.to_string());
        let started = Instant::now();
        self.restart().await?;
        let evaluated = self
            .ask(WorkerRequest::Evaluate(Box::new(request)), &case, |reply| match reply {
                WorkerReply::Evaluated(evaluation) => Some(evaluation),
                _ => None,
            })
            .await;
        if matches!(&evaluated, Ok(Evaluation { outcome: Outcome::Crashed { .. }, .. })) {
            // The worker exits after such a reply, because its context is lost.
            self.end_process().await;
        }
        let device_s = started.elapsed().as_secs_f64();
        self.restart().await?;
        let failed = |outcome| Evaluation { outcome, measurements: Vec::new(), device_s };
        match evaluated {
            Ok(evaluation) => Ok(Screened::Reported(evaluation)),
            Err(FailedRequest::Variant(outcome)) => Ok(Screened::Reported(failed(outcome))),
            Err(lost) => Ok(Screened::Lost(failed(lost.outcome()?))),
        }
    }

    /// Runs the acceptance checks on a variant that is about to win. Replaces the worker as [`Self::evaluate`] does.
    pub async fn accept(&mut self, request: AcceptanceRequest) -> Result<Accepted, AskError> {
        let case = request.case.case.name.clone();
        self.restart().await?;
        let accepted = self
            .ask(WorkerRequest::Accept(Box::new(request)), &case, |reply| match reply {
                WorkerReply::Accepted(acceptance) => Some(acceptance),
                _ => None,
            })
            .await;
        self.restart().await?;
        accepted.map_err(|lost| lost.outcome().map_or_else(AskError::Machine, AskError::Variant))
    }

    /// Starts a replacement for a process that a variant has crashed.
    async fn restart(&mut self) -> Result<(), WorkerError> {
        if self.process.is_none() {
            self.process = Some(self.find_healthy(None).await?);
        }
        Ok(())
    }

    async fn end_process(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill().await;
        }
    }
}

/// Requests that depend on earlier ones. A worker that fails is not replaced, and every later request fails, too.
impl Worker {
    /// Adds a variant to the comparison.
    pub async fn enter(&mut self, request: EnterRequest) -> Result<Entered, AskError> {
        let case = request.case.name.clone();
        self.ask_once(WorkerRequest::Enter(Box::new(request)), &case, |reply| match reply {
            WorkerReply::Entered(entered) => Some(entered),
            _ => None,
        })
        .await
    }

    /// Replays a participant, counted from 0 in the order of entry.
    pub async fn sample(&mut self, participant: usize, samples: usize, case: &str) -> Result<SampleGroup, AskError> {
        self.ask_once(WorkerRequest::Sample { participant, samples }, case, |reply| match reply {
            WorkerReply::Sampled(group) => Some(group),
            _ => None,
        })
        .await
    }

    /// Checks the data that a participant may not change, and returns its output error. The output of every sample
    /// group was already checked when it was taken.
    pub async fn check(&mut self, participant: usize, case: &str) -> Result<Correctness, AskError> {
        self.ask_once(WorkerRequest::Check { participant }, case, |reply| match reply {
            WorkerReply::Checked(correctness) => Some(correctness),
            _ => None,
        })
        .await
    }

    /// Times a plan that uses workspaces only.
    pub async fn time(&mut self, request: TimeRequest) -> Result<Timing, AskError> {
        self.ask_once(WorkerRequest::Time(Box::new(request)), "", |reply| match reply {
            WorkerReply::Timed(timing) => Some(timing),
            _ => None,
        })
        .await
    }

    async fn ask_once<T>(
        &mut self,
        request: WorkerRequest,
        case: &str,
        expected: impl Fn(WorkerReply) -> Option<T>,
    ) -> Result<T, AskError> {
        if self.process.is_none() {
            return Err(WorkerError::Broken("the worker of a comparison has exited".to_owned()).into());
        }
        match self.ask(request, case, expected).await {
            Ok(answer) => Ok(answer),
            Err(lost) => {
                if matches!(lost, FailedRequest::Device(_)) {
                    // A fresh worker shows whether the device is really at fault.
                    self.fresh().await?.end_process().await;
                }
                Err(lost.outcome().map_or_else(AskError::Machine, AskError::Variant))
            }
        }
    }
}

/// Describes a step on a case.
fn in_words(step: &str, case: &str) -> String {
    let doing = match step {
        "load" => "loading",
        "check" => "checking",
        "time" => "timing",
        "model" => "modelling",
        "confirm" => "confirming",
        "sample" => "sampling",
        "accuracy" => "checking the accuracy on",
        "probe" => "probing",
        _ if step.starts_with(HIDDEN_STEP) => "checking hidden shapes of",
        other => other,
    };
    if case.is_empty() { format!("{doing} a kernel") } else { format!("{doing} {case}") }
}

/// Names the hidden shape of a step, if it is on one.
fn on_step(step: &str, message: String) -> String {
    match step.strip_prefix(HIDDEN_STEP) {
        Some(dims) => on_hidden_shape(dims, &message),
        None => message,
    }
}

impl Worker {
    /// Sends a request and waits as long as each step may take. A process that does not answer is killed.
    async fn ask<T>(
        &mut self,
        request: WorkerRequest,
        case: &str,
        expected: impl Fn(WorkerReply) -> Option<T>,
    ) -> Result<T, FailedRequest> {
        let (mut case, mut step) = (CaseName::from(case), "load".to_owned());
        let (mut doing, mut time_limit) = (step.clone(), self.timeouts.step);
        let limit = Limit::new(STEP_KEY, self.timeouts.step);
        let mut running = activity::begin(in_words(&step, &case), limit);
        let mut since = Instant::now();
        let crashed = |case, message| FailedRequest::Process(Outcome::Crashed { case, message, line: None });
        let Some(mut process) = self.process.take() else {
            return Err(crashed(case, "there was no worker".to_owned()));
        };
        let lost = match process.send(&request, self.timeouts.step).await {
            Err(error) => crashed(case, format!("the worker cannot be reached: {error}")),
            Ok(()) => loop {
                let received = process.receive(time_limit).await;
                tracing::debug!("{case}: {doing} took {:.3} s", since.elapsed().as_secs_f64());
                since = Instant::now();
                match received {
                    Received::Reply(reply) => match *reply {
                        WorkerReply::Step { case: at, doing: what } => {
                            (case, step) = (at, what);
                            running.replace(in_words(&step, &case), limit);
                            (doing, time_limit) = (step.clone(), self.timeouts.step);
                        }
                        WorkerReply::Launch => (doing, time_limit) = ("launch".to_owned(), self.timeouts.launch),
                        WorkerReply::Replay { expected_s } => {
                            (doing, time_limit) = ("replay".to_owned(), self.timeouts.of_replay(expected_s));
                        }
                        WorkerReply::StepResumed => (doing, time_limit) = (step.clone(), self.timeouts.step),
                        WorkerReply::Failed(outcome @ Outcome::Crashed { .. }) => {
                            break FailedRequest::Variant(outcome);
                        }
                        WorkerReply::Failed(outcome) => {
                            self.process = Some(process);
                            return Err(FailedRequest::Variant(outcome));
                        }
                        WorkerReply::Broken(reason) => {
                            let message = format!("the device failed: {reason}");
                            break FailedRequest::Device(Outcome::Crashed { case, message, line: None });
                        }
                        WorkerReply::OracleFailed(problem) => {
                            self.process = Some(process);
                            return Err(FailedRequest::Oracle(problem));
                        }
                        reply => match expected(reply) {
                            Some(answer) => {
                                self.process = Some(process);
                                return Ok(answer);
                            }
                            None => break crashed(case, "the worker sent an unexpected reply".to_owned()),
                        },
                    },
                    Received::Timeout => {
                        let (limit, key) = (humantime::format_duration(time_limit), self.timeouts.key(time_limit));
                        let message = on_step(&step, format!("`{doing}` took over {limit} ({key})"));
                        break FailedRequest::Process(Outcome::TimedOut { case, message });
                    }
                    Received::Exited(how) => {
                        let message = on_step(&step, format!("the worker died during `{doing}`: {how}"));
                        break crashed(case, message);
                    }
                    Received::Invalid(error) => break crashed(case, format!("`{doing}`: {error}")),
                }
            },
        };
        process.kill().await;
        Err(lost)
    }
}
