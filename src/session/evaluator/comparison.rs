//! The comparisons of a session: a candidate against the incumbent and the baseline, and the finals.

use std::time::Instant;

use anyhow::Context;

use crate::domain::device::gpu_state::Load;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::floor::floor_ns;
use crate::domain::measurement::settings::Measuring;
use crate::domain::record::journal::Disqualified;
use crate::runner::baseline::BaselineProcess;
use crate::runner::comparison::{self, BaselineEntry, ComparisonError, Extent, Terms, with_control};
use crate::runner::inputs;
use crate::session::evaluator::{Evaluator, Setback};
use crate::session::pipeline::kernel_cache::{CandidateKernel, KernelCache};
use crate::session::state::SessionState;

/// The float64 work of a comparison's check, over that of a screening run's. Every participant has passed the check of
/// a screening run already.
const CHECK_SHARE: f64 = 0.1;

/// The longest that the initial kernel may sample in a comparison where it stands in for the baseline, in nanoseconds.
const MAX_INITIAL_KERNEL_NS: f64 = 5e9;

/// The participants of a comparison other than the challenger.
pub(super) type Others = Vec<(Role, CandidateKernel)>;

impl Evaluator {
    /// Compares a challenger with others in fresh workers, until no other participant fails. A setback is the
    /// challenger's. Others that also fail alone are added to `disqualified`.
    pub async fn compare(
        &mut self,
        state: &SessionState,
        cache: &mut KernelCache,
        challenger: &CandidateKernel,
        mut others: Others,
        extent: Extent,
        disqualified: &mut Vec<Disqualified>,
    ) -> Result<Comparison, Setback> {
        self.comparisons += 1;
        let case = challenger.case();
        self.baseline.take_if(|process| process.pid().is_none());
        let has_backend = state.case(case).is_some_and(|case| case.backend().is_some());
        if self.baseline.is_none() || !has_backend {
            let stand_in = stand_in(state, cache, challenger).await?;
            others.extend(stand_in.map(|participant| (Role::Baseline, participant)));
        }
        loop {
            let (participant, outcome) = match self.run_comparison(state, challenger, &others, extent).await {
                Ok(comparison) => return Ok(comparison),
                Err(ComparisonError::Machine(error)) => {
                    return Err(anyhow::Error::new(error).context("Failed to run a comparison").into());
                }
                Err(ComparisonError::Failed { participant, outcome }) => (participant, outcome),
            };
            if !(1..=others.len()).contains(&participant) {
                let is_held_out = outcome.check() == Some(Check::HeldOutInputs);
                if is_held_out && has_near_ties(&others) && !self.fails_alone(state, challenger, &outcome).await? {
                    drop_near_ties(&mut others, &outcome);
                    continue;
                }
                return Err(Setback::Variant(outcome));
            }
            let (role, failed) = others.remove(participant - 1);
            if role == Role::Baseline {
                tracing::warn!("a comparison continues without the initial kernel: {}", words(&outcome));
                continue;
            }
            if self.fails_alone(state, &failed, &outcome).await? {
                let out = failed.disqualified(&outcome);
                let recorded = self.store.disqualify(&out).await;
                recorded.map_err(anyhow::Error::new).context("Failed to record a disqualification")?;
                disqualified.push(out);
            } else if has_near_ties(&others) {
                drop_near_ties(&mut others, &outcome);
            } else {
                return Err(Setback::Variant(blame(challenger, &failed, &outcome)));
            }
        }
    }

    /// Returns whether a participant that failed beside the others also fails without them.
    async fn fails_alone(
        &mut self,
        state: &SessionState,
        failed: &CandidateKernel,
        outcome: &Outcome,
    ) -> anyhow::Result<bool> {
        let alone = if outcome.check() == Some(Check::HeldOutInputs) {
            // A kernel that stops computing after thousands of executions fails only after the acceptance checks. No
            // other kernel ran when it failed, but an earlier one may have written into its workspace.
            self.run_comparison(state, failed, &[], Extent::default()).await.map(drop).map_err(Setback::from)
        } else {
            self.accept(state, failed).await
        };
        match alone {
            Ok(()) => Ok(false),
            Err(Setback::Variant(_)) => Ok(true),
            Err(Setback::Machine(error)) => Err(error.context("Failed to screen a participant separately")),
        }
    }

    /// Runs a comparison and notes how long it took. This includes the start of its process, for which a session has to
    /// wait.
    async fn run_comparison(
        &mut self,
        state: &SessionState,
        challenger: &CandidateKernel,
        others: &[(Role, CandidateKernel)],
        extent: Extent,
    ) -> Result<Comparison, ComparisonError> {
        let begun = Instant::now();
        let compared = self.sample_in_turns(state, challenger, others, extent).await;
        let wall_s = begun.elapsed().as_secs_f64();
        self.steps.comparison_s += wall_s;
        compared.map(|comparison| Comparison { wall_s: Some(wall_s), ..comparison })
    }

    async fn sample_in_turns(
        &mut self,
        state: &SessionState,
        challenger: &CandidateKernel,
        others: &[(Role, CandidateKernel)],
        extent: Extent,
    ) -> Result<Comparison, ComparisonError> {
        let (setup, case) = (state.setup(), &challenger.request.case);
        let measuring = setup.options.measuring;
        let terms = Terms {
            workload: &setup.workload,
            case,
            measuring: Measuring { oracle_flop: measuring.oracle_flop * CHECK_SHARE, ..measuring },
            input_seed: inputs::mix(setup.options.seed, &["comparison", &self.comparisons.to_string()]),
            floor_ns: floor_ns(&setup.workload, case, &setup.device),
            screened_ns: challenger.candidate.screened_ns(),
            extent,
            load: Load::Bursts,
        };
        let baseline_pid = self.baseline.as_ref().and_then(BaselineProcess::pid);
        let pids: Vec<u32> = self.worker.pid().into_iter().chain(baseline_pid).collect();
        let mut worker = self.worker.fresh().await?;
        let entries = [(Role::Challenger, challenger)].into_iter().chain(others.iter().map(|(role, one)| (*role, one)));
        let entries = with_control(entries.map(|(role, one)| one.entry(role)).collect());
        let backend = state.case(&case.name).and_then(|case| case.backend()).map(str::to_owned);
        let baseline = self.baseline.as_mut().zip(backend);
        let baseline =
            baseline.map(|(process, backend)| BaselineEntry::baseline(process, backend)).into_iter().collect();
        comparison::run(&mut worker, self.monitor.as_ref(), &pids, &terms, &entries, baseline).await
    }
}

impl From<ComparisonError> for Setback {
    fn from(error: ComparisonError) -> Self {
        match error {
            ComparisonError::Failed { outcome, .. } => Self::Variant(outcome),
            ComparisonError::Machine(error) => Self::Machine(error.into()),
        }
    }
}

impl CandidateKernel {
    /// Makes its disqualification on its case.
    pub fn disqualified(&self, outcome: &Outcome) -> Disqualified {
        Disqualified {
            iteration: self.candidate.iteration,
            hash: self.candidate.hash.clone(),
            case: self.case().into(),
            reason: words(outcome).to_owned(),
        }
    }
}

/// Returns the initial kernel of a case that stands in for a missing baseline, if there is time for it.
async fn stand_in(
    state: &SessionState,
    cache: &mut KernelCache,
    challenger: &CandidateKernel,
) -> anyhow::Result<Option<CandidateKernel>> {
    let measuring = &state.setup().options.measuring;
    let initial = state.case(challenger.case()).and_then(|case| case.initial_kernel.as_ref());
    let initial = initial.filter(|initial| {
        let sample_ns = initial.screened_ns().map(|ns| ns.max(measuring.min_sample_ns));
        let affordable = |ns| ns * measuring.policy.comparison.min_samples as f64 <= MAX_INITIAL_KERNEL_NS;
        sample_ns.is_some_and(affordable) && initial.hash != challenger.candidate.hash
    });
    match initial {
        Some(initial) => cache.candidate_kernel(state.setup(), initial.clone()).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the challenger's outcome when it made another participant fail. That participant is right when it runs
/// alone.
fn blame(challenger: &CandidateKernel, failed: &CandidateKernel, outcome: &Outcome) -> Outcome {
    let iteration = failed.candidate.iteration;
    let message = format!("iteration {iteration} is correct alone, but fails in a comparison: {}", words(outcome));
    Outcome::Cheated { case: challenger.case().into(), check: Check::GuardRegions, message }
}

fn words(outcome: &Outcome) -> &str {
    outcome.message().unwrap_or(outcome.kind())
}

fn has_near_ties(others: &[(Role, CandidateKernel)]) -> bool {
    others.iter().any(|(role, _)| *role == Role::NearTie)
}

/// Removes the near ties. Of a final's participants, they alone have not passed the acceptance checks, and one of them
/// disturbs another.
fn drop_near_ties(others: &mut Others, outcome: &Outcome) {
    tracing::warn!("a final continues without its near ties: {}", words(outcome));
    others.retain(|(role, _)| *role != Role::NearTie);
}
