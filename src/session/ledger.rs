//! What is written down of an iteration: what was found, what it cost, and what became of its claim.

use std::time::Instant;

use anyhow::Context;

use super::event::Event;
use super::{Compiled, Session};
use crate::domain::cost::Spent;
use crate::domain::device::TimeSource;
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::domain::hypothesis::{Hypothesis, Score};
use crate::domain::verdict::Decision;
use crate::runner::compile::CompileError;
use crate::store::Finish;

impl Session<'_> {
    /// Writes a finished iteration down, with its share of the cost and the score of its claim.
    pub(super) async fn record(
        &mut self,
        iteration: i64,
        compiled: &Compiled,
        evaluation: &Evaluation,
        decisions: &[Decision],
    ) -> anyhow::Result<()> {
        let hypothesis = &compiled.proposal.hypothesis;
        let actual = self.actual_speedup(hypothesis, evaluation, decisions);
        let spent = self.unrecorded();
        let wall_s = self.last_record.elapsed().as_secs_f64();
        self.last_record = Instant::now();
        self.spent += spent;
        self.finished += 1;
        let cases = compiled.cases.as_deref().unwrap_or_default();
        let plans: Vec<_> = cases.iter().map(|request| (request.case.name.as_str(), &request.plan)).collect();
        let finish = Finish {
            artifact: compiled.artifact.as_ref().ok(),
            compile_log: match &compiled.artifact {
                Err(CompileError::Rejected { log }) => Some(log),
                _ => None,
            },
            plans: &plans,
            evaluation,
            decisions,
            actual_speedup: actual,
            // What is confirmed is claimed to be as fast as it was found to be: no prediction.
            score: if compiled.is_confirmation() { Score::Untested } else { hypothesis.score(actual) },
            spent,
            wall_s,
        };
        self.parts.store.finish(iteration, &finish).await.context("Failed to record an iteration")?;
        self.observer.event(&Event::Iteration {
            iteration,
            finished: self.finished,
            outcome: &evaluation.outcome,
            hypothesis,
            decisions,
            elapsed_s: self.elapsed().as_secs_f64(),
            cost_usd: self.spent.total_usd(),
        });
        Ok(())
    }

    /// Returns the speed-up that a claim is held against: over the iteration it refers to, else over the incumbent.
    fn actual_speedup(&self, claim: &Hypothesis, evaluation: &Evaluation, decisions: &[Decision]) -> Option<f64> {
        if evaluation.outcome != Outcome::Measured {
            return None;
        }
        let measurement = evaluation.measurements.iter().find(|m| m.case == claim.case)?;
        let reference = claim.relative_to.and_then(|iteration| self.history.iteration(iteration));
        match reference.and_then(|finished| finished.times.iter().find(|time| time.case == claim.case)) {
            Some(time) => Some(time.median_ns / measurement.best_timing()?.median_ns),
            None => decisions.iter().find(|decision| decision.case == claim.case)?.speedup,
        }
    }

    /// Returns what has been spent since the last record. A modelled device costs nothing.
    pub(super) fn unrecorded(&self) -> Spent {
        match self.parts.worker.info().time_source() {
            TimeSource::Measured => Spent::holding(self.last_record.elapsed().as_secs_f64(), self.order.rate),
            TimeSource::Modelled => Spent::default(),
        }
    }
}
