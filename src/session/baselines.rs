//! The baselines of a session: timed once, before its first iteration.

use std::time::Duration;

use anyhow::Context;

use super::event::Event;
use super::{Compiled, Interrupt, Parts, Session, environment};
use crate::domain::evaluation::Evaluation;
use crate::domain::record::Baseline;
use crate::domain::regime::Regime;
use crate::domain::timing::Timing;
use crate::domain::verdict::{Decision, Verdict};
use crate::domain::workload::Case;
use crate::runner::baseline::{BaselineProcess, fastest};
use crate::runner::inputs;

impl Session<'_> {
    /// Times the baselines and puts them on record. Where there are none, the session says why and goes on.
    pub(super) async fn time_baselines(&mut self) -> anyhow::Result<()> {
        let mut process = match self.start_baseline().await {
            Ok(process) => process,
            Err(reason) => {
                self.observer.event(&Event::NoBaseline { reason: &reason });
                return Ok(());
            }
        };
        let environment = environment(&self.parts, process.hello().versions.get("torch").cloned());
        self.parts.store.amend_environment(self.id, &environment).await.context("Failed to record the environment")?;
        for case in self.parts.workload.cases.clone() {
            if self.baseline(&case.name).is_some() {
                // A session that goes on has timed it before.
                continue;
            }
            let found = match self.time_case(&mut process, &case).await {
                Ok(found) => found,
                Err(reason) => {
                    self.observer.event(&Event::NoBaseline { reason: &format!("{}: {reason}", case.name) });
                    if process.pid().is_none() {
                        break;
                    }
                    continue;
                }
            };
            let recorded = self.parts.store.record_baselines(self.id, &found).await;
            recorded.context("Failed to record the baselines of a case")?;
            if let Some(best) = found.first() {
                let (us, time_source) = (best.timing.median_ns / 1e3, process.hello().time_source);
                self.observer.event(&Event::Baseline { case: &case.name, name: &best.name, us, time_source });
                self.backends.insert(case.name.clone(), best.name.clone());
                self.baselines.extend(found);
            }
        }
        self.baseline_process = Some(process);
        Ok(())
    }

    /// Takes the time of the reference's seed for the baseline of a case that has no other.
    pub(super) async fn seed_as_baseline(
        &mut self,
        compiled: &Compiled,
        evaluation: &Evaluation,
        decisions: &[Decision],
    ) -> anyhow::Result<()> {
        if compiled.proposal.variant.family != self.parts.workload.reference {
            return Ok(());
        }
        for start in decisions.iter().filter(|decision| decision.verdict == Verdict::Start) {
            if self.baseline(&start.case).is_some() {
                continue;
            }
            let measurement = evaluation.measurements.iter().find(|measurement| measurement.case == start.case);
            let Some(measurement) = measurement else { continue };
            let Some(timing) = measurement.best_timing() else { continue };
            let relative_l2 = Some(measurement.correctness.relative_l2);
            self.stand_in(&start.case, measurement.regime, timing.clone(), relative_l2).await?;
        }
        Ok(())
    }

    /// Puts the time of the reference's seed on record as the baseline of a case.
    pub(super) async fn stand_in(
        &mut self,
        case: &str,
        regime: Regime,
        timing: Timing,
        relative_l2: Option<f64>,
    ) -> anyhow::Result<()> {
        let (time_source, us) = (self.parts.worker.info().time_source, timing.median_ns / 1e3);
        let name = Baseline::reference_name(time_source, &self.parts.workload.reference);
        let baseline = Baseline { case: case.to_owned(), name, regime, timing, eager_ns: None, relative_l2 };
        let recorded = self.parts.store.record_baselines(self.id, std::slice::from_ref(&baseline)).await;
        recorded.context("Failed to record a baseline")?;
        self.observer.event(&Event::Baseline { case: &baseline.case, name: &baseline.name, us, time_source });
        self.baselines.push(baseline);
        Ok(())
    }

    /// Returns the fastest baseline of a case.
    pub(super) fn baseline(&self, case: &str) -> Option<&Baseline> {
        self.baselines.iter().find(|baseline| baseline.case == case)
    }

    /// Starts the program, unless it is of no use: a virtual GPU models times, which no program can be timed beside.
    async fn start_baseline(&mut self) -> Result<BaselineProcess, String> {
        let info = self.parts.worker.info();
        if !info.replays {
            return Err("it could only be measured, and times are modelled: the reference's seed stands in".to_owned());
        }
        let Some(program) = &self.parts.baseline else {
            return Err("the workload names none: the reference's seed stands in".to_owned());
        };
        let left = self.order.budget.wall.saturating_sub(self.elapsed());
        let process = in_time(program.start(), left, &mut self.interrupt).await;
        let process = process.map_err(|reason| format!("{reason}; the reference's seed stands in"))?;
        let fits = process.hello().fits(info);
        fits.map_err(|reason| format!("{reason}; the reference's seed stands in"))?;
        Ok(process)
    }

    /// Times the backends of one case, the fastest first.
    async fn time_case(&mut self, process: &mut BaselineProcess, case: &Case) -> Result<Vec<Baseline>, String> {
        let Parts { workload, worker, .. } = &self.parts;
        let seed = inputs::mix(self.order.seed, &["baseline", &case.name]);
        let timed = async {
            let prepared = process.prepare(workload.op, workload.dtype, case, worker.info().l2_bytes, seed).await;
            let found = fastest(process, case, &prepared?, self.order.baseline_samples).await;
            process.release().await.and(found)
        };
        in_time(timed, self.order.budget.wall.saturating_sub(self.elapsed()), &mut self.interrupt).await
    }
}

/// Gives something up when the budget is spent or the session interrupted.
async fn in_time<T>(
    what: impl Future<Output = Result<T, String>>,
    left: Duration,
    interrupt: &mut Interrupt,
) -> Result<T, String> {
    tokio::select! {
        done = what => done,
        () = interrupt.reached(1) => Err("it was interrupted".to_owned()),
        () = tokio::time::sleep(left) => Err("the budget was spent on timing it".to_owned()),
    }
}
