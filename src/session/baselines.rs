//! The baselines of a session: timed once, before its first iteration.

use anyhow::Context;

use super::event::Event;
use super::{Compiled, Session, environment};
use crate::domain::device::TimeSource;
use crate::domain::evaluation::Evaluation;
use crate::domain::record::Baseline;
use crate::domain::verdict::{Decision, Verdict};
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
                let (us, time_source) = (best.timing.median_ns / 1e3, TimeSource::Measured);
                self.observer.event(&Event::Baseline { case: &case.name, name: &best.name, us, time_source });
                self.baselines.push(best.clone());
            }
        }
        Ok(())
    }

    /// Takes the modelled time of the reference's seed for the baseline of a case, where times are modelled.
    pub(super) async fn seed_as_baseline(
        &mut self,
        compiled: &Compiled,
        evaluation: &Evaluation,
        decisions: &[Decision],
    ) -> anyhow::Result<()> {
        let (time_source, reference) = (self.parts.worker.info().time_source, &self.parts.workload.reference);
        if time_source == TimeSource::Measured || compiled.proposal.variant.family != *reference {
            return Ok(());
        }
        for start in decisions.iter().filter(|decision| decision.verdict == Verdict::Start) {
            let measurement = evaluation.measurements.iter().find(|measurement| measurement.case == start.case);
            let Some(measurement) = measurement else { continue };
            let Some(timing) = measurement.best_timing() else { continue };
            let name = Baseline::reference_name(time_source, reference);
            let baseline = Baseline {
                case: start.case.clone(),
                name,
                regime: measurement.regime,
                timing: timing.clone(),
                eager_ns: None,
                relative_l2: Some(measurement.correctness.relative_l2),
            };
            let recorded = self.parts.store.record_baseline(self.id, &baseline).await;
            recorded.context("Failed to record a baseline")?;
            let us = timing.median_ns / 1e3;
            self.observer.event(&Event::Baseline { case: &baseline.case, name: &baseline.name, us, time_source });
            self.baselines.push(baseline);
        }
        Ok(())
    }

    /// Returns the fastest baseline of a case.
    pub(super) fn baseline(&self, case: &str) -> Option<&Baseline> {
        self.baselines.iter().find(|baseline| baseline.case == case)
    }

    /// Times the baselines within the budget. A measured time says nothing about a modelled one, so nothing is measured for a
    /// modelled device.
    async fn baselines_in_time(&mut self) -> Result<Baselines, String> {
        if self.parts.worker.info().time_source == TimeSource::Modelled {
            return Err("it could only be measured, and times are modelled: the reference's seed stands in".to_owned());
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
