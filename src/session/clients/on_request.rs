//! What the device does because a client asks for it: comparisons of two iterations, and experiments with one.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::asked::{Answered, Versus};
use super::requests::answering;
use super::view::View;
use crate::domain::budget::phase::{Phase, PhaseTime};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::comparison::Role;
use crate::error::{Error, error};
use crate::runner::activity;
use crate::runner::comparison::Extent;
use crate::session::Session;
use crate::session::decide::counters::OnCase;
use crate::session::evaluator::Setback;
use crate::session::pipeline::Assessed;
use crate::session::state::case_state::Candidate;

/// The most experiments on scaled cases for one request. Each takes as long as an evaluation.
const MOST_SCALED: usize = 3;

/// What a client is told when the rest of the budget is needed for the end.
const NO_TIME: &str = "there is no time left for it: the rest of the budget is for the finals";

impl Session<'_> {
    /// Has two iterations take turns on a case. The error is what the client is told instead.
    pub(super) async fn compare_on_request(&mut self, asked: &Versus) -> anyhow::Result<Result<Answered, Error>> {
        let Versus { iteration, with, case } = asked;
        if !self.state.setup().samples_times() {
            // Modelled times do not vary, so the record is all there is to know.
            return Ok(Ok(Answered::Compared(None)));
        }
        for one in [iteration, with] {
            if let Err(problem) = self.is_comparable(*one, case) {
                return Ok(Err(problem));
            }
        }
        if !self.has_time_for(self.state.final_time(case)) {
            return Ok(Err(Error::new(NO_TIME)));
        }
        let begun = Instant::now();
        let compared = self.take_turns(asked).await?;
        let (wall_s, steps) = (begun.elapsed().as_secs_f64(), self.take_steps().await);
        self.record_phase(&PhaseTime { phase: Phase::Comparison, case: Some(case.clone()), wall_s, steps }).await?;
        Ok(compared)
    }

    async fn take_turns(
        &mut self,
        Versus { iteration, with, case }: &Versus,
    ) -> anyhow::Result<Result<Answered, Error>> {
        let (own, other) = (self.participant(*iteration, case).await?, self.participant(*with, case).await?);
        let challenger = self.cache.candidate_kernel(self.state.setup(), own).await?;
        let others = vec![(Role::NearTie, self.cache.candidate_kernel(self.state.setup(), other).await?)];
        let _running = activity::begin(format!("the comparison of iterations {iteration} and {with}"), None);
        let extent = Extent { energy: false, rounds_within: Some(self.state.rounds_of_final()) };
        let view = View::of(
            self.requests.as_ref().map(|requests| requests.tuned()),
            (&self.state, &self.store, self.id),
            &self.cache,
            &self.explanations,
            self.clock,
        );
        let mut disqualified = Vec::new();
        let compared = {
            let (state, cache) = (&self.state, &mut self.cache);
            let mut evaluator = self.evaluator.lock().await;
            let compare = evaluator.compare(state, cache, &challenger, others, extent, &mut disqualified);
            tokio::select! {
                never = answering(self.requests.as_mut(), view.as_ref()) => match never {},
                compared = self.deadline.within(compare) => compared,
            }
        };
        drop(view);
        self.disqualify(&disqualified).await?;
        match compared {
            None => Ok(Err(Error::new(NO_TIME))),
            Some(Ok(comparison)) => Ok(Ok(Answered::Compared(Some(Box::new(comparison))))),
            Some(Err(Setback::Machine(error))) => Err(error),
            Some(Err(Setback::Variant(outcome))) => {
                self.disqualify(&[challenger.disqualified(&outcome)]).await?;
                let why = outcome.message().unwrap_or(outcome.kind());
                Ok(Err(error!("iteration {iteration} was wrong on the inputs of the comparison, and is out: {why}")))
            }
        }
    }

    /// Times an iteration without kinds of instructions and on scaled cases, as far as that is not known and there is time.
    pub(super) async fn experiment_on_request(&mut self, iteration: IterationId) -> anyhow::Result<Result<(), Error>> {
        let Some(finished) = self.state.history().iteration(iteration) else {
            return Ok(Err(error!("iteration {iteration} has no correct time in this session")));
        };
        let (hash, times) = (finished.hash.clone(), finished.times.clone());
        for case in times.into_iter().map(|time| time.case) {
            let is_open = self.state.history().ablations_of(&hash, &case).is_empty() && self.state.may_ablate();
            if is_open && self.has_time_for(self.state.ablation_time()) {
                self.ablate(&OnCase { iteration, case: case.clone() }).await?;
            }
        }
        for _ in 0..MOST_SCALED {
            let takes = self.state.meter().screening_time();
            let Some(due) = self.state.experiment_with(iteration).filter(|_| self.has_time_for(takes)) else { break };
            match self.deadline.clone().within(self.experiment(&due)).await {
                Some(prepared) => Box::pin(self.iterate(Assessed::of(prepared?, &self.state))).await?,
                None => break,
            }
        }
        Ok(Ok(()))
    }

    /// Tells whether an iteration has a time on a case that a comparison can take. The error says why not.
    fn is_comparable(&self, iteration: IterationId, case: &CaseName) -> Result<(), Error> {
        let finished = self.state.history().iteration(iteration);
        match finished.and_then(|finished| finished.time_ns(case)) {
            None => Err(error!("iteration {iteration} has no correct time on `{case}` in this session")),
            Some(_) => Ok(()),
        }
    }

    /// Tells whether there is time and money for a step, beside what the end of the session takes.
    fn has_time_for(&self, takes: Duration) -> bool {
        let (budget, time, kept) = (&self.state.setup().options.budget, self.time(), self.state.closing_time());
        let meter = self.state.meter();
        takes <= meter.left(budget, &time, kept)
            && meter.affords(budget, &time, takes + self.state.finals_device_time())
    }

    /// Returns a variant that was measured on a case, for a comparison.
    async fn participant(&self, iteration: IterationId, case: &CaseName) -> anyhow::Result<Candidate> {
        if let Some(kept) = self.state.case(case).and_then(|state| state.candidate(iteration)) {
            return Ok(kept.clone());
        }
        let record = self.store.iteration(iteration).await?.iteration;
        let measured =
            record.measurements.iter().find(|found| found.case == *case).and_then(|found| found.measurement());
        let measurement = measured.with_context(|| format!("Failed to find the time of iteration {iteration}"))?;
        Ok(Candidate { iteration, family: record.family, params: record.params, hash: record.hash, measurement })
    }
}
