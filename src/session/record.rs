//! Records what happens, applies it to the state and tells the observer.

use std::sync::Arc;

use anyhow::Context;

use super::evaluator::Evaluated;
use super::event::Event;
use super::pipeline::Compiled;
use super::state::Gain;
use super::{BUDGET, Session};
use crate::domain::budget::phase::{PhaseTime, StepTimes};
use crate::domain::claims::prediction::Crps;
use crate::domain::ids::CaseName;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::measurement::verdict::{Decision, Verdict, judge};
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::CaseRecord;
use crate::domain::record::journal::{Begun, Concluded, Disqualified, Record};
use crate::runner::compile::CompileError;
use crate::store::Finish;

impl Session<'_> {
    /// Records an iteration before the device is touched, so that a crash leaves a trace.
    pub(super) async fn begin(&mut self, compiled: &Compiled) -> anyhow::Result<Begun> {
        let iteration = self.store.begin(self.id, &compiled.proposal).await?;
        let begun = Begun::of(iteration, &compiled.proposal, compiled.code());
        self.state.apply(&Record::Begun(Box::new(begun.clone())));
        Ok(begun)
    }

    /// Judges an evaluation, records it and keeps the winners.
    pub(super) async fn conclude(
        &mut self,
        begun: &Begun,
        compiled: &Compiled,
        evaluated: Evaluated,
    ) -> anyhow::Result<()> {
        let Evaluated { evaluation, steps, disqualified, kernel, lane } = evaluated;
        self.disqualify(&disqualified).await?;
        let decisions = match begun.rationale.purpose {
            // Its case is none of the workload's, so there is nothing to decide.
            Purpose::Experiment => Vec::new(),
            _ => judge(&self.state.history().incumbents, &evaluation, self.state.setup().policy()),
        };
        let now = self.clock.running();
        let wall = self.clock.since_record(now);
        let spent = self.state.meter().unrecorded(&self.time());
        let concluded = Concluded::of(begun.iteration, &evaluation, &decisions, spent, wall);
        let disqualifications = self.state.disqualifications(begun, &concluded);
        let left_out = self.pipeline.take_left_out();
        self.store_conclusion(
            begun,
            compiled,
            (&evaluation, steps, left_out, lane.as_deref()),
            &decisions,
            &concluded,
            &disqualifications,
        )
        .await?;
        // Not before: what could not be recorded is still booked on the session when it ends.
        self.clock.note_record(now);
        let improvements = self.improvements(begun, &concluded);
        if let Some(kernel) = &kernel {
            self.cache.put(begun.iteration, Arc::clone(kernel));
        }
        self.pipeline.refill();
        let record = Record::Concluded(Box::new(concluded));
        self.state.apply(&record);
        let Record::Concluded(concluded) = record else { return Ok(()) };
        if let Some(kernel) = &kernel {
            self.ask_why(begun, &concluded, kernel);
        }
        self.tell_iteration(begun, &evaluation.outcome, &decisions, &improvements);
        self.tell_cut(begun, compiled, &evaluation);
        // A variant that was screened and did not win changes no gain. Each gain takes two intervals of ratios.
        let may_change_gain = |found: &&CaseRecord| {
            begun.rationale.purpose != Purpose::Screening || found.verdict == Some(Verdict::Improved)
        };
        if self.state.setup().workload.may_start_from(&begun.family) {
            self.stand_in_for_baselines().await?;
        }
        self.tell_gains(concluded.case_results.iter().filter(may_change_gain).map(|found| &found.case));
        improvements.iter().for_each(|improvement| self.tell_improvement(begun, improvement));
        self.apply_disqualified(&disqualifications);
        self.cache.tidy(&self.state);
        if decisions.iter().any(|decision| decision.verdict == Verdict::Improved) {
            self.keep_winners().await?;
        }
        self.tell_client(begun, compiled)
    }

    /// Records how long work took that belongs to no iteration.
    pub(super) async fn record_phase(&self, time: &PhaseTime) -> anyhow::Result<()> {
        self.store.record_phase(self.id, time).await.context("Failed to record the time of a phase")
    }

    async fn store_conclusion(
        &self,
        begun: &Begun,
        compiled: &Compiled,
        (evaluation, steps, left_out, lane): (&Evaluation, StepTimes, u64, Option<&str>),
        decisions: &[Decision],
        concluded: &Concluded,
        disqualified: &[Disqualified],
    ) -> anyhow::Result<()> {
        let hypothesis = &begun.rationale.hypothesis;
        let actual = self.state.actual_speedup(hypothesis, evaluation, decisions);
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
            score: hypothesis.score(actual),
            crps: Crps::of(hypothesis.prediction, actual),
            spent: concluded.spent,
            wall_s: concluded.wall.as_secs_f64(),
            steps,
            left_out,
            lane,
            disqualified,
        };
        self.store.finish(begun.iteration, &finish).await.context("Failed to record an iteration")
    }

    /// Disqualifies variants on the cases where they failed on inputs that were new to them. What a comparison has
    /// recorded already stays as it is.
    pub(super) async fn disqualify(&mut self, disqualified: &[Disqualified]) -> anyhow::Result<()> {
        for out in disqualified {
            self.store.disqualify(out).await.context("Failed to record a disqualification")?;
        }
        self.apply_disqualified(disqualified);
        Ok(())
    }

    fn apply_disqualified(&mut self, disqualified: &[Disqualified]) {
        for out in disqualified {
            self.state.apply(&Record::Disqualified(out.clone()));
            let Disqualified { iteration, case, reason, .. } = out;
            self.observer.event(&Event::Disqualified { case, iteration: *iteration, reason });
        }
        self.tell_gains(disqualified.iter().map(|out| &out.case));
    }

    /// Tells the observer what the session has gained on cases, if that has changed since it was told.
    pub(super) fn tell_gains<'c>(&mut self, cases: impl IntoIterator<Item = &'c CaseName>) {
        for case in cases {
            let gain = self.state.gain_on(case).filter(|gain| self.told.get(case) != Some(gain));
            if let Some(gain) = gain {
                self.observer.event(&Event::Case(&gain));
                self.told.insert(case.clone(), gain);
            }
        }
    }

    fn tell_iteration(
        &mut self,
        begun: &Begun,
        outcome: &Outcome,
        decisions: &[Decision],
        improvements: &[Improvement],
    ) {
        let (meter, time) = (self.state.meter(), self.time());
        self.observer.event(&Event::Iteration {
            iteration: begun.iteration,
            finished: meter.finished(),
            outcome,
            hypothesis: &begun.rationale.hypothesis,
            origin: &begun.rationale.origin,
            decisions: (&begun.rationale.origin, decisions),
            wins: improvements.iter().filter(|improvement| improvement.gain == Gain::Win).count(),
            elapsed_s: meter.elapsed(&time).as_secs_f64(),
            cost_usd: meter.recorded().total_usd(),
        });
    }

    /// Tells the observer that a variant was not timed on all of its cases, because the time ended. One that was dropped has the
    /// verdicts that say why.
    fn tell_cut(&self, begun: &Begun, compiled: &Compiled, evaluation: &Evaluation) {
        let (done, of) = (evaluation.measurements.len(), compiled.cases.as_ref().map_or(0, Vec::len));
        if evaluation.outcome == Outcome::Measured && done < of && !self.is_dropped(compiled, evaluation) {
            let what = &format!("iteration {}", begun.iteration);
            self.observer.event(&Event::CutShort { what, done: Some(done), of: Some(of), limit: BUDGET });
        }
    }

    /// Returns whether a variant was so slow on its first cases that it was not timed on the others.
    fn is_dropped(&self, Compiled { proposal, .. }: &Compiled, evaluation: &Evaluation) -> bool {
        let to_beat_ns = |case: &str| self.state.to_beat_ns(case, proposal.rationale.purpose);
        let times = evaluation.measurements.iter();
        let times = times.filter_map(|found| Some((found.screening.as_ref()?.median_ns, to_beat_ns(&found.case))));
        proposal.may_be_dropped() && self.state.setup().policy().is_dropped(&times.collect::<Vec<_>>())
    }

    /// Returns the improvements of an iteration that is yet to be applied.
    fn improvements(&self, begun: &Begun, concluded: &Concluded) -> Vec<Improvement> {
        let improved = concluded.case_results.iter().filter(|found| found.verdict == Some(Verdict::Improved));
        let improvement = |found: &CaseRecord| {
            let ns = found.best_timing()?.median_ns;
            let measurement = found.measurement()?;
            let initial = self.state.initial_kernel(&found.case);
            let over_initial = initial.and_then(|initial| self.state.over_iteration(&measurement, initial));
            let start_ns = self.state.case(&found.case).and_then(|case| case.start_ns);
            Some(Improvement {
                case: found.case.clone(),
                gain: self.state.gain(begun, &found.case),
                from_ns: self.state.beaten(found).map_or(ns, |beaten| beaten.median_ns),
                ns,
                over_start: over_initial.unwrap_or(start_ns.unwrap_or(ns) / ns),
            })
        };
        improved.filter_map(improvement).collect()
    }

    fn tell_improvement(&mut self, begun: &Begun, improvement: &Improvement) {
        let Improvement { case, gain, from_ns, ns, over_start } = improvement;
        let (to_us, over_start, time_source) = (ns / 1e3, *over_start, self.state.setup().device.time_source());
        self.observer.event(&match gain {
            Gain::Win => Event::Improved { case, from_us: from_ns / 1e3, to_us, over_start, time_source },
            Gain::Remeasured => {
                let Origin::CommittedWinner { device, .. } = &begun.rationale.origin else { return };
                Event::Remeasured { case, iteration: begun.iteration, device, us: to_us, over_start, time_source }
            }
            Gain::OnTheWay => return,
        });
    }
}

/// A new incumbent of a case.
struct Improvement {
    case: CaseName,
    gain: Gain,
    /// The time that it has beaten.
    from_ns: f64,
    ns: f64,
    /// Its speed-up over the start: paired where one run timed both.
    over_start: f64,
}
