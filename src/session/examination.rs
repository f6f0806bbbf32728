//! The examination of a variant that is about to win.

use anyhow::Context;

use super::{Contender, Session};
use crate::domain::evaluation::Outcome;
use crate::domain::op::Dtype;
use crate::domain::record::Baseline;
use crate::domain::workload::Tolerance;
use crate::runner::inputs;
use crate::runner::messages::{ExamineRequest, PlannedCase};
use crate::runner::planning;

/// How far beyond the baseline's own error a variant's may be: the two are taken on other inputs. The errors of one FP32 kernel on
/// four cases lay between 2.7e-7 and 3.1e-7 (H200, 2026-11-20, `optloop start --workload attention-fp32-large-d`).
const ERROR_MARGIN: f64 = 1.25;

impl Session<'_> {
    /// Asks a variant everything that is too slow to ask of every variant. An outcome is what it failed with.
    pub(super) async fn examine(&mut self, challenger: &Contender) -> anyhow::Result<Result<(), Outcome>> {
        let request = self.examination_of(challenger)?;
        let examined = self.parts.worker.examine(request).await.context("Failed to examine a variant")?;
        Ok(examined.map(|examination| {
            let (iteration, case) = (challenger.iteration, &challenger.measurement.case);
            tracing::debug!("iteration {iteration} passed its examination on {case}: {examination:?}");
        }))
    }

    fn examination_of(&self, challenger: &Contender) -> anyhow::Result<ExamineRequest> {
        let (workload, device) = (&self.parts.workload, self.parts.worker.info());
        let family = self.parts.family(&challenger.variant.family)?;
        let asked = &challenger.request;
        let own = PlannedCase { case: asked.case.clone(), plan: asked.plan.clone() };
        let case = asked.scaled.clone().unwrap_or(own);
        let hidden = planning::hidden(family, &challenger.variant.params, &case.case, workload, device);
        Ok(ExamineRequest {
            artifact: challenger.artifact.clone(),
            op: workload.op.name().to_owned(),
            dtype: workload.dtype,
            tolerance: workload.tolerance,
            accuracy: self.tolerance(&asked.case.name),
            case,
            hidden,
            measuring: self.order.measuring,
            input_seed: inputs::mix(self.order.seed, &["examination", &self.finished.to_string(), &asked.case.name]),
        })
    }

    /// Returns the largest errors that a winner may have: in FP32 no worse than the baseline's own. A user of the baseline takes any
    /// of its backends, so the least accurate one is the yardstick.
    fn tolerance(&self, case: &str) -> Tolerance {
        let Tolerance { relative_l2, worst_row } = self.parts.workload.tolerance;
        let of_case = self.baselines.iter().filter(|b| b.case == case && !Baseline::is_reference(&b.name));
        let errors = of_case.filter_map(|baseline| baseline.relative_l2);
        let limit = errors.reduce(f64::max).filter(|_| self.parts.workload.dtype == Dtype::F32);
        let limit = limit.map_or(relative_l2, |error| relative_l2.min(error * ERROR_MARGIN));
        Tolerance { relative_l2: limit, worst_row }
    }
}
