//! Checks candidates of a real GPU on a virtual one, as compute-sanitizer would.
//!
//! A race, a missing fence or a read of uninitialised memory may not show on a GPU for years. The virtual GPU executes
//! the same PTX on the CPU and finds them by order, not by result. It also tells whether a wrong result comes from the
//! source: if the virtual GPU computes the right one, the machine code does not do what the PTX says.

use std::collections::HashMap;
use std::path::PathBuf;

use super::compile::Compiler;
use super::device::DeviceChoice;
use super::inputs::mix;
use super::messages::{AcceptanceRequest, CaseRequest, PlannedCase};
use super::planning;
use super::worker::{AskError, STEP_KEY, StepTimeouts, Worker, WorkerError};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::settings::Measuring;
use crate::domain::op::Dims;
use crate::domain::variant::{Params, Variant, VariantHash};
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, Result, error};

/// The most hidden shapes. The virtual GPU executes each several times, with other orders of blocks and warps.
const MAX_HIDDEN: usize = 3;

/// The most work of one of them. Races show on small shapes, too, and finals wait for this check.
const MAX_HIDDEN_FLOP: f64 = 2e7;

/// Checks kernels on a virtual GPU; see the module.
pub struct Sanitizer {
    worker: Worker,
    /// Compiles kernels once more, so that the virtual GPU can tell the lines of their sources.
    compiler: Option<Compiler>,
    /// The findings so far. Cases with the same source share one.
    known: HashMap<VariantHash, Sanitized>,
}

/// The result of a check on a virtual GPU.
#[derive(Debug, Clone, PartialEq)]
pub enum Sanitized {
    /// The kernel is correct there.
    Passed {
        /// The dimensions that were executed: those of the case, or of a scaled one.
        on: Dims,
    },
    /// The kernel cannot be checked there, for this reason.
    Skipped(String),
    /// The kernel failed there.
    Failed(Outcome),
}

/// A compiled variant with its case.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The variant's family.
    pub family: &'a Family,
    /// The variant's parameters.
    pub params: &'a Params,
    /// The hash of its source.
    pub hash: &'a VariantHash,
    /// The compiled variant, with its PTX.
    pub artifact: &'a Artifact,
    /// The workload.
    pub workload: &'a Workload,
    /// The case that it is about to win, or on which it was wrong.
    pub case: &'a Case,
}

impl Sanitized {
    /// Tells whether the virtual GPU has computed the right output of a case itself, and not only of a scaled one or of
    /// another case of the same source.
    pub fn is_right_on(&self, case: &Case) -> bool {
        matches!(self, Self::Passed { on } if *on == case.dims)
    }
}

impl Subject<'_> {
    /// Fills in its plan on the virtual GPU `device`, with that of a scaled case if the case itself is too much work
    /// for a CPU. The error says why it cannot be executed there.
    pub(super) fn planned(&self, device: &DeviceInfo, measuring: Measuring) -> Result<CaseRequest> {
        let Subject { family, params, workload, case, .. } = *self;
        let planned = planning::of_case(family, params, case, workload, device, measuring.model_flop)?;
        if planned.scaled.is_none() && workload.op.executed_flop(&case.dims) > measuring.model_flop {
            return Err(error!("case {} is too much work for a CPU, and the kernel takes no smaller one", case.name));
        }
        Ok(planned)
    }
}

/// Starts a worker with a virtual GPU of the same architecture as `device`. The error says in one sentence why there is
/// none.
pub(super) async fn virtual_worker(exe: PathBuf, device: &DeviceInfo, timeouts: StepTimeouts) -> Result<Worker> {
    let choice = DeviceChoice::virtual_of(&device.arch)
        .ok_or_else(|| error!("there is no virtual GPU of the architecture {}", device.arch))?;
    Worker::start(exe, &choice, timeouts).await.map_err(Error::new)
}

impl Sanitizer {
    /// Starts a virtual GPU of the same architecture. The error says in one sentence why there is none.
    pub async fn start(exe: PathBuf, device: &DeviceInfo, timeouts: StepTimeouts) -> Result<Self> {
        Ok(Self { worker: virtual_worker(exe, device, timeouts).await?, compiler: None, known: HashMap::new() })
    }

    /// Lets it tell the lines of a kernel's source.
    pub fn with_lines(self, compiler: &Compiler) -> Self {
        Self { compiler: Some(compiler.clone()), ..self }
    }

    /// Checks a kernel on the virtual GPU, once for each source. An error means that the machine is at fault.
    ///
    /// `variant`: the kernel's source, if its lines are to be told.
    pub async fn check(
        &mut self,
        subject: Subject<'_>,
        variant: Option<&Variant>,
        measuring: Measuring,
        seed: u64,
    ) -> Result<Sanitized, WorkerError> {
        if let Some(known) = self.known.get(subject.hash) {
            return Ok(known.clone());
        }
        let lined = self.lined(variant).await;
        let subject = Subject { artifact: lined.as_ref().unwrap_or(subject.artifact), ..subject };
        let sanitized = match self.request(subject, measuring, seed) {
            Err(reason) => Sanitized::Skipped(reason.into()),
            Ok(request) => {
                let on = request.case.case.dims.clone();
                match self.worker.accept(request).await {
                    Ok(_) => Sanitized::Passed { on },
                    Err(AskError::Variant(outcome)) => interpret(outcome, self.worker.info()),
                    Err(AskError::Machine(error)) => return Err(error),
                }
            }
        };
        self.known.insert(subject.hash.clone(), sanitized.clone());
        Ok(sanitized)
    }

    /// Compiles a kernel with the lines of its source. None if that fails: it can be checked without lines.
    async fn lined(&self, variant: Option<&Variant>) -> Option<Artifact> {
        let (compiler, variant) = (self.compiler.clone()?, variant?.clone());
        tokio::task::spawn_blocking(move || compiler.compile_with_lines(&variant).ok()).await.ok()?
    }

    fn request(&self, subject: Subject<'_>, measuring: Measuring, seed: u64) -> Result<AcceptanceRequest> {
        let Subject { family, params, artifact, workload, .. } = subject;
        let device = self.worker.info();
        let planned = subject.planned(device, measuring)?;
        let case = planned.scaled.unwrap_or(PlannedCase { case: planned.case, plan: planned.plan });
        let mut hidden = planning::hidden(family, params, &case.case, workload, device, mix(seed, &["shapes"]));
        hidden.retain(|other| workload.op.executed_flop(&other.case.dims) <= MAX_HIDDEN_FLOP);
        hidden.truncate(MAX_HIDDEN);
        let far = planning::far(family, params, &case.case, workload, device);
        let request = AcceptanceRequest::of(artifact, workload, case, measuring, seed);
        Ok(AcceptanceRequest { hidden, far, probes: false, ..request })
    }
}

/// Turns the outcome on the virtual GPU into a finding about the kernel.
fn interpret(outcome: Outcome, device: &DeviceInfo) -> Sanitized {
    let failed = |case, message: &str| {
        let message = format!("on the {}: {message}", device.name);
        Sanitized::Failed(Outcome::Wrong { case, check: Check::Sanitizer, message })
    };
    match outcome {
        Outcome::Crashed { case, message, .. }
        | Outcome::Wrong { case, message, .. }
        | Outcome::Cheated { case, message, .. } => failed(case, &message),
        // The virtual GPU finds kernels that never end. A busy machine may only be slow.
        Outcome::TimedOut { case, message } if !message.contains(STEP_KEY) => failed(case, &message),
        other => Sanitized::Skipped(other.message().unwrap_or(other.kind()).to_owned()),
    }
}
