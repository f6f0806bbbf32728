//! The baselines of a session: timed once, before its first iteration.

use anyhow::Context;

use super::event::Event;
use super::{Session, environment};
use crate::domain::device::TimeSource;
use crate::domain::record::Baseline;
use crate::runner::baseline::Baselines;

impl Session<'_> {
    /// Times the baselines and puts them on record. Where there are none, the session says why and goes on.
    pub(super) async fn time_baselines(&mut self) -> anyhow::Result<()> {
        let found = match self.baselines_in_time().await {
            Ok(found) => found,
            Err(reason) => {
                self.observer.event(&Event::NoBaseline { reason: &reason });
                return Ok(());
            }
        };
        let store = &self.parts.store;
        let environment = environment(&self.parts, found.versions.get("torch").cloned());
        store.amend_environment(self.id, &environment).await.context("Failed to record the environment")?;
        for baseline in &found.timed {
            store.record_baseline(self.id, baseline).await.context("Failed to record a baseline")?;
        }
        for case in &self.parts.workload.cases {
            let of_case = found.timed.iter().filter(|baseline| baseline.case == case.name);
            if let Some(best) = of_case.min_by(|a, b| a.timing.median_ns.total_cmp(&b.timing.median_ns)) {
                let us = best.timing.median_ns / 1e3;
                self.observer.event(&Event::Baseline { case: &case.name, name: &best.name, us });
                self.baselines.push(best.clone());
            }
        }
        Ok(())
    }

    /// Returns the fastest baseline of a case.
    pub(super) fn baseline(&self, case: &str) -> Option<&Baseline> {
        self.baselines.iter().find(|baseline| baseline.case == case)
    }

    /// Times the baselines within the budget. A measured time says nothing about a modelled one, so a modelled device has
    /// none.
    async fn baselines_in_time(&mut self) -> Result<Baselines, String> {
        if self.parts.worker.info().time_source == TimeSource::Modelled {
            return Err("times are modelled, and a baseline could only be measured".to_owned());
        }
        let Some(program) = &self.parts.baseline else { return Err("the workload names none".to_owned()) };
        let left = self.order.budget.wall.saturating_sub(self.started.elapsed());
        tokio::select! {
            found = program.time(&self.parts.workload) => found,
            () = self.interrupt.reached(1) => Err("it was interrupted".to_owned()),
            () = tokio::time::sleep(left) => Err("the budget was spent on timing it".to_owned()),
        }
    }
}
