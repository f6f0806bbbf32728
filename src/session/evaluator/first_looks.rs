//! The first look at families that optloop does not ship: hidden shapes and probes for the first variant that is timed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::device::TimeSource;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::proposal::origin::Purpose;
use crate::runner::first_look::{FailedLook, FirstLook, LookError};
use crate::runner::inputs;
use crate::runner::messages::PlannedCase;
use crate::runner::worker::Worker;
use crate::session::pipeline::kernel_cache::Kernel;
use crate::session::state::SessionState;

/// The families that need no first look: those that optloop ships, and those of which a variant has passed. Clones share them.
#[derive(Clone)]
pub(in crate::session) struct Passed(Arc<Mutex<HashSet<String>>>);

impl Passed {
    /// Tells whether a family needs no first look.
    pub fn has(&self, family: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(family)
    }

    fn note(&self, family: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(family.to_owned());
    }
}

/// Which families need no first look, and the time that is left for the others.
pub(in crate::session) struct FirstLooks {
    pub passed: Passed,
    /// What a variant of a family has failed. No other one passes without it.
    failed: HashMap<String, FailedLook>,
    left: Duration,
}

impl FirstLooks {
    /// Makes the first looks of a session. `left` is their time.
    pub fn new(shipped: Vec<String>, left: Duration) -> Self {
        let passed = Passed(Arc::new(Mutex::new(shipped.into_iter().collect())));
        Self { passed, failed: HashMap::new(), left }
    }

    fn is_due(&self, family: &str) -> bool {
        !self.passed.has(family) && (!self.left.is_zero() || self.failed.contains_key(family))
    }
}

impl FirstLooks {
    /// Takes a first look at a variant that was just timed, unless its family needs none. The outcome of a variant that
    /// fails becomes that of the evaluation. Returns how long it took.
    ///
    /// If the first variant of a family fails, the next one is looked at, too: one of them may be right.
    pub async fn take(
        &mut self,
        worker: &mut Worker,
        state: &SessionState,
        (kernel, purpose): (&Kernel, Purpose),
        evaluation: &mut Evaluation,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let (setup, variant) = (state.setup(), &kernel.variant);
        let is_executed = setup.device.time_source() != TimeSource::Recorded && purpose != Purpose::Experiment;
        if !is_executed || evaluation.outcome != Outcome::Measured || !self.is_due(&variant.family) {
            return Ok(Duration::ZERO);
        }
        // The case with the least work comes first.
        let measured = evaluation.measurements.first().and_then(|it| Some((it, it.best_timing()?)));
        let Some((measurement, timing)) = measured else { return Ok(Duration::ZERO) };
        let request = kernel.requests.iter().find(|request| request.case.name == measurement.case);
        let Some(request) = request else { return Ok(Duration::ZERO) };
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
        let looked = look.take(worker, self.left, self.failed.get(&variant.family)).await;
        let took = begun.elapsed();
        self.left = self.left.saturating_sub(took);
        match looked {
            Ok(skipped) => {
                for skipped in skipped {
                    tracing::warn!("{} was {skipped}", variant.family);
                }
                self.passed.note(&variant.family);
            }
            Err(LookError::Variant { outcome, on }) => {
                evaluation.outcome = outcome;
                self.failed.extend(on.map(|on| (variant.family.clone(), on)));
            }
            Err(LookError::Machine(error)) => return Err(error.into()),
        }
        evaluation.device_s += took.as_secs_f64();
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::Dims;

    #[test]
    fn a_family_that_has_failed_is_looked_at_without_time() {
        let mut looks = FirstLooks::new(vec!["shipped".to_owned()], Duration::ZERO);
        assert!(!looks.is_due("own"));
        for failed in [FailedLook::Probes, FailedLook::Shape(Dims::new(), 1)] {
            looks.failed.insert("own".to_owned(), failed);
            assert!(looks.is_due("own") && !looks.is_due("shipped"));
        }
    }
}
