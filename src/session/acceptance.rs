//! The acceptance checks of a variant that is about to win. They are too slow for every variant.

use super::evaluator::{Evaluator, Setback};
use super::shelf::CandidateKernel;
use super::state::SessionState;
use crate::domain::op::Dtype;
use crate::domain::workload::Tolerance;
use crate::runner::inputs;
use crate::runner::messages::{AcceptanceRequest, PlannedCase};
use crate::runner::planning;

/// The largest error of a variant, over the baseline's own. The two are measured on different inputs. The errors of one
/// FP32 kernel on four cases lay between 2.7e-7 and 3.1e-7 (H200, 2026-11-20, `optloop start --workload
/// attention-fp32-large-d`).
const ERROR_MARGIN: f64 = 1.25;

impl Evaluator {
    /// Runs the acceptance checks of a variant on a case.
    pub async fn accept(&mut self, state: &SessionState, challenger: &CandidateKernel) -> Result<(), Setback> {
        let request = request(state, challenger)?;
        let acceptance = self.worker.accept(request).await?;
        let (iteration, case) = (challenger.candidate.iteration, challenger.case());
        tracing::debug!("iteration {iteration} passed the acceptance checks on {case}: {acceptance:?}");
        Ok(())
    }
}

fn request(state: &SessionState, challenger: &CandidateKernel) -> anyhow::Result<AcceptanceRequest> {
    let setup = state.setup();
    let (workload, device, options) = (&setup.workload, &setup.device, &setup.options);
    let (variant, request) = (&challenger.kernel.variant, &challenger.request);
    let own = PlannedCase { case: request.case.clone(), plan: request.plan.clone() };
    let case = request.scaled.clone().unwrap_or(own);
    let hidden = planning::hidden(setup.family(&variant.family)?, &variant.params, &case.case, workload, device);
    let finished = state.meter().finished().to_string();
    Ok(AcceptanceRequest {
        artifact: challenger.kernel.artifact.clone(),
        op: workload.op.name().to_owned(),
        dtype: workload.dtype,
        tolerance: workload.tolerance,
        accuracy: accuracy(state, &request.case.name),
        case,
        hidden,
        measuring: options.measuring,
        input_seed: inputs::mix(options.seed, &["acceptance", &finished, &request.case.name]),
    })
}

/// Returns the largest errors that a winner may have: in FP32 no larger than the baseline's own. A user of the baseline
/// accepts any of its backends, so the least accurate one sets the limit.
fn accuracy(state: &SessionState, case: &str) -> Tolerance {
    let workload = &state.setup().workload;
    let Tolerance { relative_l2, worst_row } = workload.tolerance;
    let baselines = state.case(case).into_iter().flat_map(|case| &case.baselines);
    let errors = baselines.filter(|baseline| !baseline.is_initial_kernel()).filter_map(|baseline| baseline.relative_l2);
    let limit = errors.reduce(f64::max).filter(|_| workload.dtype == Dtype::F32);
    let limit = limit.map_or(relative_l2, |error| relative_l2.min(error * ERROR_MARGIN));
    Tolerance { relative_l2: limit, worst_row }
}
