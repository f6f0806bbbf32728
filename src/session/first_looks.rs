//! The first look at families that optloop does not ship: hidden shapes and probes for the first variant that is timed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::evaluator::Evaluator;
use super::shelf::Kernel;
use super::state::SessionState;
use crate::domain::device::TimeSource;
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::domain::op::Dims;
use crate::domain::origin::Purpose;
use crate::runner::first_look::{FirstLook, LookError};
use crate::runner::inputs;
use crate::runner::messages::PlannedCase;

/// Which families need no first look, and the time that is left for the others.
pub(super) struct FirstLooks {
    /// Those that optloop ships, and those of which a variant has passed.
    passed: HashSet<String>,
    /// The hidden shapes on which a variant of a family has failed. No other one passes without them.
    failed: HashMap<String, Dims>,
    left: Duration,
}

impl FirstLooks {
    /// Makes the first looks of a session. `left` is their time.
    pub fn new(shipped: Vec<String>, left: Duration) -> Self {
        Self { passed: shipped.into_iter().collect(), failed: HashMap::new(), left }
    }

    fn is_due(&self, family: &str) -> bool {
        !self.passed.contains(family) && (!self.left.is_zero() || self.failed.contains_key(family))
    }
}

impl Evaluator {
    /// Takes a first look at a variant that was just timed, unless its family needs none. The outcome of a variant that
    /// fails becomes that of the evaluation.
    ///
    /// If the first variant of a family fails, the next one is looked at, too: one of them may be right.
    pub async fn look_first(
        &mut self,
        state: &SessionState,
        kernel: &Arc<Kernel>,
        purpose: Purpose,
        evaluation: &mut Evaluation,
    ) -> anyhow::Result<()> {
        let (setup, variant) = (state.setup(), &kernel.variant);
        let is_executed = setup.device.time_source() != TimeSource::Recorded && purpose != Purpose::Experiment;
        if !is_executed || evaluation.outcome != Outcome::Measured || !self.first_looks.is_due(&variant.family) {
            return Ok(());
        }
        // The case with the least work comes first.
        let Some((measurement, timing)) = evaluation.measurements.first().and_then(|it| Some((it, it.best_timing()?)))
        else {
            return Ok(());
        };
        let request = kernel.requests.iter().find(|request| request.case.name == measurement.case);
        let Some(request) = request else { return Ok(()) };
        let own = PlannedCase { case: request.case.clone(), plan: request.plan.clone() };
        let look = FirstLook {
            family: setup.family(&variant.family)?,
            params: &variant.params,
            workload: &setup.workload,
            artifact: &kernel.artifact,
            case: request.scaled.as_ref().unwrap_or(&own),
            screened_ns: timing.median_ns,
            measuring: setup.options.measuring,
            seed: inputs::mix(setup.options.seed, &["first look", &variant.family]),
        };
        let begun = Instant::now();
        let known = self.first_looks.failed.get(&variant.family).cloned();
        let looked = look.take(&mut self.worker, self.first_looks.left, known.as_ref()).await;
        let took = begun.elapsed();
        self.first_looks.left = self.first_looks.left.saturating_sub(took);
        self.steps.acceptance_s += took.as_secs_f64();
        evaluation.device_s += took.as_secs_f64();
        match looked {
            Ok(()) => {
                self.first_looks.passed.insert(variant.family.clone());
            }
            Err(LookError::Variant { outcome, on }) => {
                evaluation.outcome = outcome;
                self.first_looks.failed.extend(on.map(|on| (variant.family.clone(), on)));
            }
            Err(LookError::Machine(error)) => return Err(error.into()),
        }
        Ok(())
    }
}
