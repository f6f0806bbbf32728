//! The evaluator of kernels that a person or a program names: it checks and times each one, and puts it on record with its claim.
//! `bench` and `check` call it. A session evaluates the same trial by what it knows, and its record has the same form
//! ([`crate::evaluated`]).

use std::time::Duration;

use anyhow::Context;

use crate::config::Config;
use crate::domain::claims::hypothesis::Reference;
use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::measurement::settings::Measuring;
use crate::domain::proposal::Proposal;
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::Environment;
use crate::domain::variant::Variant;
use crate::domain::workload::{Case, Workload};
use crate::evaluated::Evaluated;
use crate::runner::first_look::{FirstLook, LookError};
use crate::runner::messages::{CaseRequest, PlannedCase, Skipped};
use crate::runner::trial::{Seeds, Trial};
use crate::runner::worker::{Worker, WorkerError};
use crate::single::{self, Claim, Ended, Singles};
use crate::store::Store;

/// The context of an error of the store.
const UNRECORDED: &str = "Failed to record an evaluation";

/// Evaluates kernels on a device, and puts them on record.
pub struct Evaluator {
    worker: Worker,
    measuring: Measuring,
    /// Takes what is evaluated. None for a verb that puts nothing on record.
    singles: Option<Singles>,
}

/// A kernel on a case.
pub struct Kernel<'a> {
    /// What it computes.
    pub workload: &'a Workload,
    /// Its rendered source.
    pub variant: &'a Variant,
    /// The case.
    pub case: &'a Case,
    /// The case with its launch plan, or why the plan cannot be filled in.
    pub planned: Result<&'a CaseRequest, &'a str>,
    /// Its machine code, or why there is none.
    pub compiled: Result<&'a Artifact, &'a Rejection>,
}

/// Why a kernel does not compile.
pub struct Rejection {
    /// The first error, at the user's file and line where they are known.
    pub message: String,
    /// The compiler's log.
    pub log: String,
}

/// What is said about a kernel before it is tried.
#[derive(Clone, Copy)]
pub struct Said<'a> {
    /// What is claimed. None if nothing is.
    pub claim: Option<&'a Claim>,
    /// What the claim is relative to.
    pub reference: Reference,
    /// The iteration that measured the kernel before.
    pub parent: Option<IterationId>,
    /// Whether its times may be compared with others.
    pub purpose: Purpose,
    /// The time of the reference under the same conditions, in nanoseconds, if it is known.
    pub over_ns: Option<f64>,
}

/// How to try a kernel.
pub struct Try<'a> {
    /// The seeds of each run. The first run that is not right is the last.
    pub seeds: Vec<Seeds>,
    /// The first look at its family, if it is due once the kernel was right.
    pub look: Option<Look<'a>>,
}

/// A first look at a kernel's family: on hidden shapes and probes.
pub struct Look<'a> {
    /// The family.
    pub family: &'a Family,
    /// The time that it may take.
    pub within: Duration,
    /// The seed of the shapes and inputs.
    pub seed: u64,
}

/// An evaluation that has begun.
pub struct Open {
    proposal: Proposal,
    /// Its number. None if nothing is put on record.
    pub iteration: Option<IterationId>,
}

/// What became of a kernel.
pub struct Found {
    /// Its number. None if nothing is put on record.
    pub iteration: Option<IterationId>,
    /// What the device found.
    pub evaluation: Evaluation,
    /// The time on its case, if the output was right there, whatever the first look found.
    pub measured: Option<Measurement>,
    /// Why the oracle cannot tell what is right, if it cannot.
    pub oracle: Option<String>,
    /// The hidden shapes on which the first look could not check it.
    pub skipped: Vec<Skipped>,
}

impl Evaluator {
    /// Makes an evaluator that records nothing yet.
    pub fn new(worker: Worker, measuring: Measuring) -> Self {
        Self { worker, measuring, singles: None }
    }

    /// Has all that is evaluated of a workload put on record in a store, from now on. Returns the session of this record.
    pub async fn record_in(
        &mut self,
        store: Store,
        (config, nvrtc): (&Config, &str),
        workload: &Workload,
    ) -> anyhow::Result<SessionId> {
        let environment = Environment::here(self.device().clone(), nvrtc, None);
        let mut singles = Singles::new(store, environment, config)?;
        let session = singles.session(workload).await.context("Failed to begin a record")?;
        self.singles = Some(singles);
        Ok(session)
    }

    /// Has all that is evaluated put on record in a store, from now on: in a session for each workload.
    pub fn record_all_in(&mut self, store: Store, config: &Config, nvrtc: &str) -> anyhow::Result<()> {
        let environment = Environment::here(self.device().clone(), nvrtc, None);
        self.singles = Some(Singles::new(store, environment, config)?);
        Ok(())
    }

    /// Ends the record, with the error that ended the work, if any. Returns the evaluations on it.
    pub async fn end_record(&self, error: Option<&anyhow::Error>) -> anyhow::Result<&[IterationId]> {
        let Some(singles) = &self.singles else { return Ok(&[]) };
        singles.end(error).await.context("Failed to end the record")?;
        Ok(singles.concluded())
    }

    /// Reads everything that is on record by now.
    pub async fn evaluated(&self) -> anyhow::Result<Vec<Evaluated>> {
        let mut all = Vec::new();
        if let Some(singles) = &self.singles {
            for iteration in singles.concluded() {
                all.push(Evaluated::read(singles.store(), *iteration).await?);
            }
        }
        Ok(all)
    }

    /// Returns the device.
    pub fn device(&self) -> &DeviceInfo {
        self.worker.info()
    }

    /// Returns the worker, for what is no evaluation of one kernel.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Returns the process of the worker, if it has one.
    pub fn pid(&self) -> Option<u32> {
        self.worker.pid()
    }

    /// Returns how to measure.
    pub fn measuring(&self) -> Measuring {
        self.measuring
    }

    /// Sets the number of samples of every participant of a comparison. More are taken to fill its last rounds.
    pub fn take_samples(&mut self, samples: usize) {
        let comparison = &mut self.measuring.policy.comparison;
        (comparison.min_samples, comparison.max_samples) = (samples, samples);
    }

    /// Checks and times a kernel alone, and puts the result on record. A kernel that fails is a result. An error means that the
    /// machine is at fault.
    pub async fn evaluate(&mut self, kernel: &Kernel<'_>, said: Said<'_>, how: Try<'_>) -> anyhow::Result<Found> {
        let open = self.begin(kernel.workload, kernel.variant, kernel.case, said).await?;
        let iteration = open.iteration;
        let found = Found { iteration, ..self.tried(kernel, how).await? };
        let own_ns = found.measured.as_ref().and_then(Measurement::best_timing).map(|timing| timing.median_ns);
        let actual = said.over_ns.zip(own_ns).map(|(over, own)| over / own);
        self.conclude(open, kernel, &found.evaluation, actual).await?;
        Ok(found)
    }

    async fn tried(&mut self, kernel: &Kernel<'_>, Try { seeds, look }: Try<'_>) -> anyhow::Result<Found> {
        let not_run = |outcome| Found {
            iteration: None,
            evaluation: Evaluation::without_device(outcome),
            measured: None,
            oracle: None,
            skipped: Vec::new(),
        };
        let (artifact, request) = match (kernel.compiled, kernel.planned) {
            (Ok(artifact), Ok(request)) => (artifact, request),
            (Err(Rejection { message, .. }), _) => {
                return Ok(not_run(Outcome::RejectedByCompiler { message: message.clone() }));
            }
            (_, Err(problem)) => return Ok(not_run(Outcome::Pruned { message: problem.to_owned() })),
        };
        let mut evaluation = Evaluation::without_device(Outcome::Measured);
        for seeds in seeds {
            let trial = self.trial(kernel.workload, artifact, vec![request.clone()], seeds);
            evaluation = match trial.run(&mut self.worker).await {
                Err(WorkerError::Oracle(problem)) => {
                    let oracle = Some(problem.clone());
                    return Ok(Found { oracle, ..not_run(Outcome::Pruned { message: problem }) });
                }
                evaluated => evaluated.context("Failed to evaluate a kernel")?,
            };
            if evaluation.outcome != Outcome::Measured {
                break;
            }
        }
        let measured = evaluation.measurements.first().filter(|_| evaluation.outcome == Outcome::Measured).cloned();
        let mut found = Found { iteration: None, evaluation, measured, oracle: None, skipped: Vec::new() };
        if let Some(look) = look {
            self.look_first((kernel, artifact, request), look, &mut found).await?;
        }
        Ok(found)
    }

    /// Takes a first look at the family of a kernel that was right.
    async fn look_first(
        &mut self,
        (kernel, artifact, request): (&Kernel<'_>, &Artifact, &CaseRequest),
        Look { family, within, seed }: Look<'_>,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        let Some(timing) = found.measured.as_ref().and_then(Measurement::best_timing) else { return Ok(()) };
        let own = PlannedCase { case: request.case.clone(), plan: request.plan.clone() };
        let case = request.scaled.clone().unwrap_or(own);
        let look = FirstLook {
            family,
            params: &kernel.variant.params,
            workload: kernel.workload,
            artifact,
            case: &case,
            screened_ns: timing.median_ns,
            measuring: self.measuring,
            seed,
        };
        match look.take(&mut self.worker, within, None).await {
            Ok(skipped) => {
                found.skipped = skipped;
                Ok(())
            }
            Err(LookError::Variant { outcome, .. }) => {
                found.evaluation.outcome = outcome;
                Ok(())
            }
            Err(LookError::Machine(WorkerError::Oracle(problem))) => {
                found.oracle = Some(problem);
                Ok(())
            }
            Err(LookError::Machine(error)) => Err(error.into()),
        }
    }

    /// Returns the trial of a kernel on cases.
    pub fn trial<'t>(
        &self,
        workload: &'t Workload,
        artifact: &'t Artifact,
        cases: Vec<CaseRequest>,
        seeds: Seeds,
    ) -> Trial<'t> {
        Trial {
            workload,
            artifact,
            cases,
            measuring: self.measuring,
            seeds,
            within: None,
            drops_slow: false,
            explain: false,
        }
    }

    /// Records an evaluation that begins, if anything is recorded: before the device is touched.
    pub async fn begin(
        &mut self,
        workload: &Workload,
        variant: &Variant,
        case: &Case,
        said: Said<'_>,
    ) -> anyhow::Result<Open> {
        let Said { claim, reference, parent, purpose, .. } = said;
        let mut proposal = single::proposal(variant, case, claim, reference);
        (proposal.rationale.parent, proposal.rationale.purpose) = (parent, purpose);
        let iteration = match &mut self.singles {
            Some(singles) => Some(singles.begin(workload, &proposal).await.context(UNRECORDED)?),
            None => None,
        };
        Ok(Open { proposal, iteration })
    }

    /// Records what became of an evaluation. `actual`: the speed-up over the claim's reference, where both have a time.
    pub async fn conclude(
        &mut self,
        Open { proposal, iteration }: Open,
        kernel: &Kernel<'_>,
        evaluation: &Evaluation,
        actual: Option<f64>,
    ) -> anyhow::Result<()> {
        let (Some(singles), Some(iteration)) = (&mut self.singles, iteration) else { return Ok(()) };
        let plan: Option<&LaunchPlan> = kernel.planned.ok().map(|request| &request.plan);
        let compiled = kernel.compiled.map_err(|rejection| rejection.log.as_str());
        let ended = Ended { compiled, plan, evaluation, actual };
        singles.conclude(iteration, (kernel.workload, &proposal), ended).await.context(UNRECORDED)
    }
}

impl Said<'_> {
    /// Nothing is claimed of a kernel.
    pub const NOTHING: Self = Self {
        claim: None,
        reference: Reference::InitialKernel,
        parent: None,
        purpose: Purpose::Screening,
        over_ns: None,
    };
}
