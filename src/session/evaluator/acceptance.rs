//! The acceptance checks of a variant that is about to win. They are too slow for every variant.

use std::time::Instant;

use super::failed_checks::FailedCheck;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::op::{Dims, Op, show_dims};
use crate::domain::variant::Variant;
use crate::domain::workload::{Case, Tolerance};
use crate::runner::inputs;
use crate::runner::messages::{AcceptanceRequest, Accepted, PlannedCase, Skipped, on_hidden_shape};
use crate::runner::planning;
use crate::runner::sanitizer::{Sanitized, Subject};
use crate::runner::worker::{AskError, may_be_slow};
use crate::session::evaluator::{Evaluator, Setback, SharedSanitizer};
use crate::session::pipeline::kernel_cache::{CandidateKernel, Kernel};
use crate::session::setup::SessionSetup;
use crate::session::state::SessionState;

/// The largest error of a variant, over the baseline's own. The two are measured on different inputs. The errors of one
/// FP32 kernel on four cases lay between 2.7e-7 and 3.1e-7 (H200, 2026-11-20, `optloop start --workload
/// attention-fp32-large-d`).
const ERROR_MARGIN: f64 = 1.25;

/// The number of hidden shapes for a source that has passed the acceptance checks on another case.
const HIDDEN_OF_KNOWN: usize = 2;

impl Evaluator {
    /// Runs the acceptance checks of a variant on a case on the device: first those that another variant of the family has
    /// failed, then new ones.
    pub async fn accept(&mut self, state: &SessionState, challenger: &CandidateKernel) -> Result<(), Setback> {
        let of = (challenger.kernel.variant.family.as_str(), challenger.case());
        if let Some(FailedCheck { draw, part }) = self.failed.of(of.0, of.1).cloned() {
            let again = AcceptanceRequest { only: Some(part), ..request(state, challenger, &draw)? };
            let begun = Instant::now();
            let accepted = self.accept_in_time(state, again).await;
            self.steps.acceptance_s += begun.elapsed().as_secs_f64();
            accepted?;
        }
        let draw = draw(state.meter().finished(), state.setup().options.draws_anew);
        let accepted = self.accept_drawn(state, challenger, &draw).await;
        if let Err(Setback::Variant(outcome)) = &accepted {
            self.failed.note(of, draw, outcome);
        }
        accepted
    }

    /// Runs the acceptance checks of a variant on a case, and checks it on a virtual GPU meanwhile.
    pub async fn accept_and_sanitize(
        &mut self,
        state: &SessionState,
        challenger: &CandidateKernel,
    ) -> Result<(), Setback> {
        let sanitized = Self::sanitized(self.sanitizer.clone(), state, challenger);
        let (accepted, sanitized) = tokio::join!(self.accept(state, challenger), sanitized);
        accepted.and(sanitized)
    }

    /// Runs them on shapes and inputs that are drawn from a word.
    async fn accept_drawn(
        &mut self,
        state: &SessionState,
        challenger: &CandidateKernel,
        draw: &str,
    ) -> Result<(), Setback> {
        let mut request = request(state, challenger, draw)?;
        if self.proven.has(&challenger.kernel.variant.hash) {
            // The same source has passed on all of them, for another case.
            request.hidden.truncate(HIDDEN_OF_KNOWN);
        }
        let shapes: Vec<Dims> =
            [&request.case].into_iter().chain(&request.hidden).map(|it| it.case.dims.clone()).collect();
        let begun = Instant::now();
        let accepted = self.accept_in_time(state, request).await;
        self.steps.acceptance_s += begun.elapsed().as_secs_f64();
        let accepted = accepted?;
        let (iteration, case) = (challenger.candidate.iteration, challenger.case());
        tracing::debug!("iteration {iteration} passed the acceptance checks on {case}: {accepted:?}");
        for skipped in &accepted.skipped {
            tracing::warn!("iteration {iteration} was {skipped}");
        }
        let is_checked = |shape: &Dims| accepted.skipped.iter().all(|skipped| skipped.dims != *shape);
        self.proven.add(&challenger.kernel.variant.hash, shapes.into_iter().filter(is_checked));
        Ok(())
    }

    /// Runs acceptance checks. A hidden shape with far more to do than the case, on which the kernel does not end in time, is
    /// skipped, as are all others with at least as much to do.
    async fn accept_in_time(
        &mut self,
        state: &SessionState,
        mut request: AcceptanceRequest,
    ) -> Result<Accepted, AskError> {
        let setup = state.setup();
        let own = request.case.case.dims.clone();
        let mut too_long = Vec::new();
        loop {
            let accepted = self.worker.accept(request.clone()).await;
            if let Err(AskError::Variant(Outcome::TimedOut { message, .. })) = &accepted
                && may_be_slow(message, &setup.device)
            {
                let slow = take_slow(setup.workload.op, &own, &mut request.hidden, message);
                if !slow.is_empty() {
                    too_long.extend(slow);
                    continue;
                }
            }
            return accepted.map(|accepted| Accepted { skipped: [too_long, accepted.skipped].concat(), ..accepted });
        }
    }

    /// Checks a challenger on a virtual GPU, on the CPU.
    pub async fn sanitized(
        sanitizer: Option<SharedSanitizer>,
        state: &SessionState,
        challenger: &CandidateKernel,
    ) -> Result<(), Setback> {
        match sanitize(sanitizer, state.setup(), &challenger.kernel, &challenger.request.case).await? {
            Sanitized::Passed { .. } => Ok(()),
            Sanitized::Skipped(reason) => {
                let iteration = challenger.candidate.iteration;
                tracing::debug!("iteration {iteration} was not checked on a virtual GPU: {reason}");
                Ok(())
            }
            Sanitized::Failed(outcome) => Err(Setback::Variant(outcome)),
        }
    }

    /// Finds out whether the compiler is to blame for a wrong output, once for each family.
    pub async fn explain(
        &mut self,
        state: &SessionState,
        kernel: &Kernel,
        evaluation: &mut Evaluation,
    ) -> anyhow::Result<()> {
        let is_new = !self.explained.contains(&kernel.variant.family);
        let case = evaluation.outcome.case().filter(|_| is_new && evaluation.outcome.is_wrong_result());
        let case = case.and_then(|case| state.setup().workload.case(case).ok());
        if let Some(case) = case {
            self.explained.insert(kernel.variant.family.clone());
            let begun = Instant::now();
            let sanitized = sanitize(self.sanitizer.clone(), state.setup(), kernel, case).await;
            self.steps.sanitizer_s += begun.elapsed().as_secs_f64();
            if sanitized?.is_right_on(case) {
                evaluation.outcome = evaluation.outcome.clone().of_machine_code();
            }
        }
        Ok(())
    }
}

/// Takes the hidden shape away on which a kernel took too long, and those with as much to do. Takes none if the
/// message names none, or one that has no more to do than the case.
fn take_slow(op: &dyn Op, own: &Dims, hidden: &mut Vec<PlannedCase>, message: &str) -> Vec<Skipped> {
    let is_named = |shape: &PlannedCase| message.starts_with(&on_hidden_shape(&show_dims(&shape.case.dims), ""));
    let is_longer = |shape: &PlannedCase| planning::is_longer(op, &shape.case.dims, own);
    let Some(named) = hidden.iter().find(|shape| is_named(shape) && is_longer(shape)) else {
        return Vec::new();
    };
    let (work, named) = (op.work(&named.case.dims), named.case.dims.clone());
    let is_slow = |shape: &PlannedCase| is_named(shape) || is_longer(shape) && op.work(&shape.case.dims) >= work;
    let (slow, rest): (Vec<_>, Vec<_>) = hidden.drain(..).partition(is_slow);
    *hidden = rest;
    let why = Skipped::on(named, message).why;
    slow.into_iter().map(|shape| Skipped { dims: shape.case.dims, why: why.clone() }).collect()
}

/// Returns what shapes and inputs are drawn from, after so many iterations. A client is told on which shape a check failed, so the
/// next shapes must not follow from anything that it may know.
fn draw(finished: u64, is_anew: bool) -> String {
    if is_anew { format!("{finished} {}", rand::random::<u64>()) } else { finished.to_string() }
}

/// Checks a kernel of a real GPU on a virtual one.
pub(super) async fn sanitize(
    sanitizer: Option<SharedSanitizer>,
    setup: &SessionSetup,
    kernel: &Kernel,
    case: &Case,
) -> anyhow::Result<Sanitized> {
    let Some(sanitizer) = sanitizer else {
        return Ok(Sanitized::Skipped("the session has no sanitizer".to_owned()));
    };
    let Variant { family, params, hash, .. } = &kernel.variant;
    let (family, artifact, workload) = (setup.family(family)?, &kernel.artifact, &setup.workload);
    let subject = Subject { family, params, hash, artifact, workload, case };
    let seed = inputs::mix(setup.options.seed, &["sanitize", hash.short()]);
    Ok(sanitizer.lock().await.check(subject, Some(&kernel.variant), setup.options.measuring, seed).await?)
}

/// Makes the request. `draw`: what its shapes and inputs are drawn from.
fn request(state: &SessionState, challenger: &CandidateKernel, draw: &str) -> anyhow::Result<AcceptanceRequest> {
    let setup = state.setup();
    let (workload, device, options) = (&setup.workload, &setup.device, &setup.options);
    let (variant, request) = (&challenger.kernel.variant, &challenger.request);
    let own = PlannedCase { case: request.case.clone(), plan: request.plan.clone() };
    let case = request.scaled.clone().unwrap_or(own);
    let seed = |of: &str| inputs::mix(options.seed, &[of, draw, &request.case.name]);
    let family = setup.family(&variant.family)?;
    let hidden = planning::hidden(family, &variant.params, &case.case, workload, device, seed("shapes"));
    let artifact = &challenger.kernel.artifact;
    let accuracy = accuracy(state, &request.case.name);
    let request = AcceptanceRequest::of(artifact, workload, case, options.measuring, seed("acceptance"));
    Ok(AcceptanceRequest { accuracy, hidden, ..request })
}

/// Returns the largest errors that a winner may have: in full FP32 no larger than the baseline's own. A user of the
/// baseline accepts any of its backends, so the least accurate one sets the limit. In TF32, the tolerance alone does: a
/// library may not use TF32 for every shape, and may round factors where a kernel truncates them.
fn accuracy(state: &SessionState, case: &str) -> Tolerance {
    let workload = &state.setup().workload;
    let Tolerance { relative_l2, worst_row } = workload.tolerance;
    let baselines = state.case(case).into_iter().flat_map(|case| &case.baselines);
    let errors = baselines.filter(|baseline| !baseline.is_initial_kernel()).filter_map(|baseline| baseline.relative_l2);
    let limit = errors.reduce(f64::max).filter(|_| state.setup().is_limited_by_baseline());
    let limit = limit.map_or(relative_l2, |error| relative_l2.min(limit_of(error)));
    Tolerance { relative_l2: limit, worst_row }
}

/// Returns the largest error of an FP32 winner beside a baseline with this error. An output of few numbers may be nearly
/// exact by chance, and one that is rounded once has an error of up to 2^-24, so no limit is lower than twice that.
fn limit_of(baseline_error: f64) -> f64 {
    (baseline_error * ERROR_MARGIN).max(f64::from(f32::EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::device::regime::Regime;
    use crate::domain::family::plan::LaunchPlan;

    #[test]
    fn a_shape_that_takes_too_long_and_larger_ones_are_skipped_unless_they_are_like_the_case() {
        let op = crate::ops::find("gemm").unwrap();
        let shape = |m: i64| PlannedCase {
            case: Case {
                name: "own".into(),
                dims: [("M", m), ("N", 64), ("K", 64)].map(|(name, size)| (name.to_owned(), size)).into(),
                regime: Regime::default(),
            },
            plan: LaunchPlan::default(),
        };
        let hidden = || [3, 1000, 65, 4000, 500].map(shape).to_vec();
        let message = |m: i64| on_hidden_shape(&show_dims(&shape(m).case.dims), "`launch` took over 10s");
        let mut left = hidden();
        let skipped = take_slow(op, &shape(64).case.dims, &mut left, &message(1000));
        assert_eq!(left.iter().map(|shape| shape.case.dims["M"]).collect::<Vec<_>>(), [3, 65, 500]);
        assert_eq!(skipped.iter().map(|skipped| skipped.dims["M"]).collect::<Vec<_>>(), [1000, 4000]);
        assert_eq!(skipped[1].why, "`launch` took over 10s");
        for other in [message(65), "`launch` took over 10s".to_owned()] {
            assert_eq!(take_slow(op, &shape(64).case.dims, &mut hidden(), &other), []);
        }
    }

    #[test]
    fn a_session_with_clients_draws_other_shapes_each_time() {
        assert_eq!(draw(3, false), draw(3, false), "a seed tries the same shapes");
        assert_ne!(draw(3, true), draw(3, true));
    }

    /// A sum of 1e8 numbers was refused on an H200 for an error of 5.7e-8, because torch's own was 4e-8.
    #[test]
    fn a_winner_may_be_as_inexact_as_the_baseline_but_need_not_be_better_than_rounded() {
        assert_eq!(limit_of(4e-7), 4e-7 * ERROR_MARGIN);
        assert!(limit_of(4e-8) > 0.5_f64.powi(24));
    }
}
