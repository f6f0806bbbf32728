//! Has a variant timed without each kind of instruction, and records the times or why there are none.

use anyhow::Context;

use crate::domain::code::ablation::{Ablated, Ablation};
use crate::domain::record::journal::Record;
use crate::error::error;
use crate::runner::ablation::{self, Lined};
use crate::runner::activity;
use crate::runner::messages::LaunchRequest;
use crate::session::decide::counters::OnCase;
use crate::session::event::Event;
use crate::session::{BUDGET, Session};

impl Session<'_> {
    /// Ablates a variant on a case and records its times. It is charged to the session, not to an iteration.
    pub(in crate::session) async fn ablate(&mut self, due: &OnCase) -> anyhow::Result<()> {
        let OnCase { iteration, case } = due;
        let begun = self.clock.running();
        let _running = activity::begin(format!("the ablations of iteration {iteration}"), None);
        let ablations = match self.deadline.clone().within(self.time_ablations(due)).await {
            Some(ablations) => ablations?,
            None => {
                let time_ns = Err(error!("there was no time left for it ({BUDGET})"));
                vec![Ablation::of_control(time_ns.map_err(String::from))]
            }
        };
        let now = self.clock.running();
        // Finals are no records, so the time since the last one may be theirs.
        let wall_s = now.saturating_sub(begun).as_secs_f64();
        let ablated = Ablated { iteration: *iteration, case: case.clone(), ablations, wall_s };
        let spent = self.state.meter().unrecorded(&self.time());
        let recorded = self.store.record_ablations(self.id, &ablated, spent).await;
        recorded.context("Failed to record ablations")?;
        self.clock.note_record(now);
        let problem = ablated.ablations.first().and_then(|control| control.time_ns.as_ref().err());
        self.observer.event(&match problem {
            None => Event::Ablated { case, iteration: *iteration },
            Some(reason) => Event::NotAblated { case, iteration: *iteration, reason },
        });
        self.state.apply(&Record::Ablated(Box::new(ablated)));
        self.state.apply(&Record::Booked(spent));
        Ok(())
    }

    async fn time_ablations(&mut self, due: &OnCase) -> anyhow::Result<Vec<Ablation>> {
        let request: LaunchRequest = self.launch_request(due, "ablate").await?;
        let min_sample_ns = self.state.setup().options.measuring.min_sample_ns;
        let lined = self.lined(due).await?;
        let mut evaluator = self.evaluator.lock().await;
        ablation::ablations(&mut evaluator.worker, &request, lined.as_ref(), min_sample_ns)
            .await
            .context("Failed to ablate a kernel")
    }

    /// Compiles a variant with the lines of its source. None for what winners have beaten: only its parts are of interest.
    async fn lined(&mut self, due: &OnCase) -> anyhow::Result<Option<Lined>> {
        let OnCase { iteration, case } = due;
        let is_winner = self.state.incumbent(case).is_some_and(|incumbent| incumbent.iteration == *iteration);
        let is_of_interest = is_winner || self.state.initial_kernel(case) == Some(*iteration);
        if !is_of_interest || !self.state.setup().device.replays() {
            return Ok(None);
        }
        let kernel = self.cache.kernel(self.state.setup(), *iteration).await?;
        Ok(Lined::of(self.cache.compiler(), &kernel.variant).await)
    }
}
