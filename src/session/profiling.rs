//! Has the hardware counters of a variant read, and records them or why there are none.

use anyhow::Context;

use super::event::Event;
use super::evidence::OnCase;
use super::{BUDGET, Session};
use crate::domain::counters::{Counted, Counters};
use crate::domain::journal::Record;
use crate::domain::regime::Regime;
use crate::runner::activity;
use crate::runner::inputs;
use crate::runner::messages::{LaunchRequest, ProblemRequest};

impl Session<'_> {
    /// Profiles a variant on a case and records the counters. It is charged to the session, not to an iteration.
    pub(super) async fn profile(&mut self, due: &OnCase) -> anyhow::Result<()> {
        let _running = activity::begin(format!("the hardware counters of iteration {}", due.iteration), None);
        let counters = match self.deadline.clone().within(self.count(due)).await {
            Some(counters) => counters?,
            None => Err(format!("there was no time left for them ({BUDGET})")),
        };
        let now = self.clock.running();
        let counted = Counted {
            iteration: due.iteration,
            case: due.case.clone(),
            counters,
            wall_s: self.clock.since_record(now).as_secs_f64(),
        };
        let spent = self.state.meter().unrecorded(&self.time());
        let recorded = self.store.record_counters(self.id, &counted, spent).await;
        recorded.context("Failed to record hardware counters")?;
        self.clock.note_record(now);
        let (iteration, case) = (due.iteration, &due.case);
        self.observer.event(&match &counted.counters {
            Ok(_) => Event::Counters { case, iteration },
            Err(reason) => Event::NoCounters { reason },
        });
        self.state.apply(&Record::Counted(Box::new(counted)));
        self.state.apply(&Record::Booked(spent));
        Ok(())
    }

    /// Returns the request to execute a variant's plan on a case.
    pub(super) async fn launch_request(&mut self, due: &OnCase, purpose: &str) -> anyhow::Result<LaunchRequest> {
        let kernel = self.shelf.kernel(self.state.setup(), due.iteration).await?;
        let request = kernel.requests.iter().find(|request| request.case.name == due.case);
        let request = request.context("Failed to find the launch plan of a variant")?;
        let setup = self.state.setup();
        Ok(LaunchRequest {
            artifact: kernel.artifact.clone(),
            plan: request.plan.clone(),
            cold: request.case.regime.on(&setup.device) == Regime::Cold,
            problem: Some(ProblemRequest {
                op: setup.workload.op.source(),
                dtype: setup.workload.dtype,
                case: request.case.clone(),
            }),
            seed: inputs::mix(setup.options.seed, &[purpose]),
        })
    }

    /// Reads the counters. The inner error says why there are none, which does not end the session.
    async fn count(&mut self, due: &OnCase) -> anyhow::Result<Result<Counters, String>> {
        let request = self.launch_request(due, "profile").await?;
        Ok(self.profiler.count(&request).await)
    }
}
