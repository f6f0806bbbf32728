//! Has the device evaluate and confirm variants, by what the session knows.

mod acceptance;
pub(super) mod checks_ahead;
mod comparison;
mod failed_checks;
pub(super) mod first_looks;
pub(super) mod proven;
pub(super) mod screening;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::Mutex;

use self::failed_checks::FailedChecks;
use self::first_looks::FirstLooks;
use self::proven::Proven;
use self::screening::Prepared;
use super::decide::Confirming;
use super::pipeline::duplicates::Duplicates;
use super::pipeline::kernel_cache::{CandidateKernel, Kernel, KernelCache};
use super::pipeline::{Assessed, Compiled};
use super::state::SessionState;
use super::state::case_state::Candidate;
use crate::domain::budget::phase::StepTimes;
use crate::domain::device::TimeSource;
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::journal::Disqualified;
use crate::domain::variant::VariantHash;
use crate::runner::baseline::BaselineProcess;
use crate::runner::comparison::Extent;
use crate::runner::monitor::Monitor;
use crate::runner::sanitizer::Sanitizer;
use crate::runner::worker::{AskError, Worker};
use crate::store::Store;

/// The device side of a session.
pub(super) struct Evaluator {
    pub worker: Worker,
    /// Checks candidates of a real GPU on a virtual one.
    pub sanitizer: Option<SharedSanitizer>,
    /// Families with a wrong variant that was checked on the virtual GPU. One each is enough to find a compiler at fault.
    pub explained: HashSet<String>,
    /// The families that are known to be right on hidden shapes.
    pub first_looks: FirstLooks,
    /// The machine codes that need not be measured again.
    pub duplicates: Duplicates,
    pub proven: Proven,
    /// What variants have failed when they were about to win.
    pub failed: FailedChecks,
    /// The sources and cases that passed them before the baselines were known, and have yet to be compared.
    accepted_early: HashSet<(VariantHash, String)>,
    pub monitor: Option<Monitor>,
    /// Samples the baselines as long as the session runs, if there is a baseline program.
    pub baseline: Option<BaselineProcess>,
    /// Comparisons held. Each has its own inputs.
    pub comparisons: u64,
    /// The time of each kind of step, since an iteration or a final last took it.
    pub steps: StepTimes,
    /// Takes disqualifications as they happen. A comparison continues without the variant, and may be cut short.
    pub store: Store,
}

/// An evaluator that works in the background, while the session concludes what other devices have screened. Whoever waits for that work
/// must not lock it.
pub(super) type SharedEvaluator = Arc<Mutex<Evaluator>>;

/// A sanitizer that works beside the device.
pub(super) type SharedSanitizer = Arc<Mutex<Sanitizer>>;

/// The reason why a variant goes no further.
#[derive(Debug)]
pub(super) enum Setback {
    /// The variant failed.
    Variant(Outcome),
    /// The machine failed.
    Machine(anyhow::Error),
}

impl From<anyhow::Error> for Setback {
    fn from(error: anyhow::Error) -> Self {
        Self::Machine(error)
    }
}

impl From<AskError> for Setback {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Variant(outcome) => Self::Variant(outcome),
            AskError::Machine(error) => Self::Machine(error.into()),
        }
    }
}

/// The result of an iteration.
pub(super) struct Evaluated {
    pub evaluation: Evaluation,
    /// How long each kind of step took.
    pub steps: StepTimes,
    /// Other variants that failed in its comparisons.
    pub disqualified: Vec<Disqualified>,
    /// The kernel, if it compiled and has launch plans.
    pub kernel: Option<Arc<Kernel>>,
    /// The device that has screened it, if that was not home.
    pub lane: Option<String>,
}

impl Evaluator {
    pub fn new(
        worker: Worker,
        sanitizer: Option<Sanitizer>,
        monitor: Option<Monitor>,
        store: Store,
        first_looks: FirstLooks,
    ) -> Self {
        Self {
            worker,
            sanitizer: sanitizer.map(|sanitizer| Arc::new(Mutex::new(sanitizer))),
            explained: HashSet::new(),
            first_looks,
            duplicates: Duplicates::default(),
            proven: Proven::default(),
            failed: FailedChecks::default(),
            accepted_early: HashSet::new(),
            monitor,
            baseline: None,
            comparisons: 0,
            steps: StepTimes::default(),
            store,
        }
    }

    /// Evaluates a variant, and confirms it if that is its purpose. No case is begun that may not end `within` the time
    /// that is left. `confirming` is asked before each confirmation.
    pub async fn evaluate(
        &mut self,
        state: &SessionState,
        cache: &mut KernelCache,
        iteration: IterationId,
        assessed: &Assessed,
        within: Duration,
        confirming: impl Fn() -> Confirming,
    ) -> anyhow::Result<Evaluated> {
        let begun = Instant::now();
        let evaluation = match screening::prepare(state, &self.duplicates, assessed, within)? {
            Prepared::Known(evaluation) => evaluation,
            Prepared::Trial(trial) => trial.run(&mut self.worker).await.context("Failed to evaluate a variant")?,
        };
        self.steps.screening_s += begun.elapsed().as_secs_f64();
        self.finish(state, cache, (iteration, &assessed.compiled), evaluation, confirming).await
    }

    /// Does what follows when a variant was screened, here or on another device: explains what is wrong, takes a first look, and
    /// confirms it if that is due.
    pub async fn finish(
        &mut self,
        state: &SessionState,
        cache: &mut KernelCache,
        (iteration, compiled): (IterationId, &Compiled),
        mut evaluation: Evaluation,
        confirming: impl Fn() -> Confirming,
    ) -> anyhow::Result<Evaluated> {
        self.duplicates.note(iteration, compiled, &evaluation);
        let kernel = Kernel::of(compiled);
        if let Some(kernel) = &kernel {
            self.explain(state, kernel, &mut evaluation).await?;
            let looked = (&**kernel, compiled.proposal.rationale.purpose);
            let took = self.first_looks.take(&mut self.worker, state, looked, &mut evaluation).await?;
            self.steps.acceptance_s += took.as_secs_f64();
        }
        let mut disqualified = Vec::new();
        if let Some(kernel) = &kernel {
            let started = Instant::now();
            let purpose = compiled.proposal.rationale.purpose;
            for place in 0..evaluation.measurements.len() {
                if evaluation.outcome != Outcome::Measured {
                    break;
                }
                let candidate = kernel.candidate(iteration, evaluation.measurements[place].clone());
                let Some(due) = due(state, candidate, purpose, &confirming) else { continue };
                match self.confirm(state, cache, kernel, due, &mut disqualified).await {
                    Ok(comparison) => {
                        comparison
                            .into_iter()
                            .for_each(|comparison| evaluation.measurements[place].confirm(comparison));
                    }
                    Err(Setback::Variant(outcome)) => evaluation.outcome = outcome,
                    Err(Setback::Machine(error)) => return Err(error),
                }
            }
            evaluation.device_s += started.elapsed().as_secs_f64();
        }
        let steps = std::mem::take(&mut self.steps);
        Ok(Evaluated { evaluation, steps, disqualified, kernel, lane: None })
    }

    /// Confirms a variant on a case, on the device and on a virtual GPU at once. One that has passed both checks while the
    /// baselines were unknown is only compared.
    async fn confirm(
        &mut self,
        state: &SessionState,
        cache: &mut KernelCache,
        kernel: &Arc<Kernel>,
        due: ToConfirm<'_>,
        disqualified: &mut Vec<Disqualified>,
    ) -> Result<Option<Comparison>, Setback> {
        let challenger = CandidateKernel::new(kernel, due.candidate)?;
        let accepted = (challenger.candidate.hash.clone(), challenger.case().to_owned());
        let incumbent = due.incumbent;
        if self.accepted_early.remove(&accepted) {
            return self.compare_with_incumbent(state, cache, &challenger, incumbent, disqualified).await;
        }
        let sanitized = Self::sanitized(self.sanitizer.clone(), state, &challenger);
        let on_device = self.accept_and_compare(state, cache, &challenger, incumbent, disqualified);
        let (on_device, sanitized) = tokio::join!(on_device, sanitized);
        let (compared, ended) = on_device?;
        self.steps.sanitizer_s += ended.elapsed().as_secs_f64();
        sanitized?;
        // A modelled time is confirmed without a comparison, and that was all.
        if incumbent.is_none() && state.setup().samples_times() {
            self.accepted_early.insert(accepted);
        }
        Ok(compared)
    }

    /// Runs the acceptance checks of a variant, and compares it with the incumbent. Returns when that ended, too.
    async fn accept_and_compare(
        &mut self,
        state: &SessionState,
        cache: &mut KernelCache,
        challenger: &CandidateKernel,
        incumbent: Option<&Candidate>,
        disqualified: &mut Vec<Disqualified>,
    ) -> Result<(Option<Comparison>, Instant), Setback> {
        self.accept(state, challenger).await?;
        let compared = self.compare_with_incumbent(state, cache, challenger, incumbent, disqualified).await?;
        Ok((compared, Instant::now()))
    }

    /// Compares a variant with the incumbent, if one is due.
    async fn compare_with_incumbent(
        &mut self,
        state: &SessionState,
        cache: &mut KernelCache,
        challenger: &CandidateKernel,
        incumbent: Option<&Candidate>,
        disqualified: &mut Vec<Disqualified>,
    ) -> Result<Option<Comparison>, Setback> {
        let Some(incumbent) = incumbent else { return Ok(None) };
        let mut others = Vec::new();
        if !challenger.candidate.is_far_ahead_of(incumbent) {
            others.push((Role::Incumbent, cache.candidate_kernel(state.setup(), incumbent.clone()).await?));
        }
        self.compare(state, cache, challenger, others, Extent::default(), disqualified).await.map(Some)
    }
}

/// A variant that is due to be confirmed on a case.
struct ToConfirm<'s> {
    candidate: Candidate,
    /// The variant to compare it with. None where times are modelled, or while the baselines are unknown.
    incumbent: Option<&'s Candidate>,
}

/// Returns the confirmation of a variant that is due on a case. Its first screening run decided that. A slower one does
/// not cancel it.
fn due<'s>(
    state: &'s SessionState,
    candidate: Candidate,
    purpose: Purpose,
    confirming: impl Fn() -> Confirming,
) -> Option<ToConfirm<'s>> {
    if purpose == Purpose::Experiment || state.setup().device.time_source() == TimeSource::Recorded {
        // Nothing can be checked of a recording.
        return None;
    }
    if !state.setup().samples_times() {
        // The evaluation has modelled its time once more.
        let is_confirmed = candidate.measurement.confirmation.is_some();
        return is_confirmed.then_some(ToConfirm { candidate, incumbent: None });
    }
    let case = &candidate.measurement.case;
    let screening = candidate.measurement.screening.as_ref()?;
    let is_due = match purpose {
        Purpose::Screening | Purpose::Experiment => false,
        Purpose::Confirmation => true,
        // On the other cases, it is a candidate like any other. One comparison of the fastest variant is enough there.
        Purpose::Initial | Purpose::Remeasurement => {
            let is_own = state.case(case).is_some_and(|of| of.is_known(&candidate.family, &candidate.params));
            is_own && state.setup().policy().promising(screening, state.incumbent_screened_ns(case))
        }
    };
    let incumbent = state.incumbent(case).filter(|_| is_due)?;
    match confirming() {
        Confirming::No => None,
        // The baseline's error is the limit of its own.
        Confirming::Accept if state.setup().is_limited_by_baseline() => None,
        Confirming::Accept => Some(ToConfirm { candidate, incumbent: None }),
        Confirming::Compare => Some(ToConfirm { candidate, incumbent: Some(incumbent) }),
    }
}
