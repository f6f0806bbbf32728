//! The contests of a session: a promising variant against the incumbent and the baseline, and the finals.

use std::time::Instant;

use anyhow::Context;

use super::{Compiled, Session};
use crate::domain::artifact::Artifact;
use crate::domain::check::Check;
use crate::domain::contest::{Contest, Role, near_tie};
use crate::domain::device::TimeSource;
use crate::domain::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::floor::{Floor, floor_ns};
use crate::domain::variant::Variant;
use crate::domain::verdict::{Decision, Verdict};
use crate::runner::baseline::BaselineProcess;
use crate::runner::contest::{self, BaselineEntry, ContestError, Entry, Terms, with_twin};
use crate::runner::evaluate::CaseRequest;
use crate::runner::inputs;

/// The float64 work of a contest's check, over that of a screening's: every entrant has passed one already.
const CHECK_SHARE: f64 = 0.1;

/// The longest that the reference kernel may sample in a contest in which it stands for the baseline.
const MOST_REFERENCE_NS: f64 = 5e9;

/// The most near-ties that a final settles: each costs a confirmation's time.
pub(super) const MOST_RIVALS: usize = 4;

/// The most near-ties of a case that are kept beside its incumbent, each with its CUBIN and PTX: those that a final takes, and as many
/// again in case its first ones fail. On a plateau of the search space every second variant is one.
pub(super) const MOST_KEPT: usize = 2 * MOST_RIVALS;

/// A variant that can take part in a contest on a case: the incumbent, or one that is nearly as fast.
#[derive(Clone)]
pub(super) struct Contender {
    pub(super) iteration: i64,
    pub(super) variant: Variant,
    pub(super) artifact: Artifact,
    pub(super) request: CaseRequest,
    pub(super) measurement: Measurement,
}

impl Contender {
    /// Makes a contender of what was measured on a case; none if it was not timed.
    pub(super) fn of(iteration: i64, compiled: &Compiled, measurement: &Measurement) -> Option<Self> {
        let request = compiled.cases.as_ref().ok()?.iter().find(|request| request.case.name == measurement.case)?;
        Some(Self {
            iteration,
            variant: compiled.proposal.variant.clone(),
            artifact: compiled.artifact.as_ref().ok()?.clone(),
            request: request.clone(),
            measurement: measurement.clone(),
        })
    }

    pub(super) fn screened_ns(&self) -> Option<f64> {
        self.measurement.screening.as_ref().map(|timing| timing.median_ns)
    }

    fn entry(&self, role: Role) -> Entry<'_> {
        Entry {
            role,
            name: format!("{} {}", self.variant.family, self.variant.hash.short()),
            iteration: Some(self.iteration),
            artifact: &self.artifact,
            plan: &self.request.plan,
        }
    }
}

impl Session<'_> {
    /// Examines an evaluated variant on every case on which it is promising, and holds a contest on it where the device replays:
    /// its confirmation. When the budget is spent or a stop was asked for, the rest go without.
    pub(super) async fn confirm(
        &mut self,
        iteration: i64,
        compiled: &Compiled,
        evaluation: &mut Evaluation,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        for place in 0..evaluation.measurements.len() {
            if evaluation.outcome != Outcome::Measured {
                break;
            }
            let Some(challenger) = Contender::of(iteration, compiled, &evaluation.measurements[place]) else {
                continue;
            };
            let confirmed = if self.parts.worker.info().replays {
                if compiled.look {
                    break;
                }
                let Some(incumbent) = self.promising_against(&challenger, compiled) else { continue };
                if self.interrupt.requested() || self.elapsed() + self.finals_time() >= self.order.budget.wall {
                    break;
                }
                self.confirm_on(challenger, incumbent).await?.map(Some)
            } else if challenger.measurement.confirmation.is_some() {
                // Its time was modelled once more in the evaluation.
                self.examine(&challenger).await?.map(|()| None)
            } else {
                continue;
            };
            match confirmed {
                Ok(contest) => contest.into_iter().for_each(|contest| evaluation.measurements[place].confirm(contest)),
                Err(outcome) => evaluation.outcome = outcome,
            }
        }
        evaluation.device_s += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Examines a challenger and holds its contest. An outcome is what it failed with.
    async fn confirm_on(
        &mut self,
        challenger: Contender,
        incumbent: Contender,
    ) -> anyhow::Result<Result<Contest, Outcome>> {
        if let Err(outcome) = self.examine(&challenger).await? {
            return Ok(Err(outcome));
        }
        // Without the incumbent, if it fails on inputs that it had not met, this case starts anew.
        self.contest(&challenger, vec![(Role::Incumbent, incumbent)], false).await
    }

    /// Returns the incumbent that a screened challenger may beat. What is confirmed has been chosen by its look: to be screened anew
    /// takes nothing from it.
    fn promising_against(&self, challenger: &Contender, compiled: &Compiled) -> Option<Contender> {
        let case = &challenger.measurement.case;
        let incumbent = self.history.incumbents.get(case)?;
        let screening = challenger.measurement.screening.as_ref()?;
        let promising = || self.order.policy.promising(screening, self.incumbent_screened_ns(case));
        (compiled.is_confirmation() || promising())
            .then(|| self.contender(case, incumbent.iteration).cloned())
            .flatten()
    }

    /// Returns what a screened time is held against: the incumbent's screening, where there is one. Its time in a contest was
    /// taken in another way.
    pub(super) fn incumbent_screened_ns(&self, case: &str) -> Option<f64> {
        let incumbent = self.history.incumbents.get(case)?;
        let screened_ns = self.contender(case, incumbent.iteration).and_then(Contender::screened_ns);
        Some(screened_ns.unwrap_or(incumbent.timing.median_ns))
    }

    /// Returns what a time in screening is held against: the incumbent's, or for a look, which is to be the fastest of all, that of
    /// the fastest so far.
    pub(super) fn to_beat_ns(&self, case: &str, look: bool) -> Option<f64> {
        let incumbent_ns = self.incumbent_screened_ns(case)?;
        let fastest = self.history.fastest(case).filter(|_| look && self.parts.worker.info().replays);
        Some(fastest.map_or(incumbent_ns, |(_, ns)| ns.min(incumbent_ns)))
    }

    /// Turns an evaluation with a time below the floor into a cheat: the work cannot have been done, or the time is wrong.
    pub(super) fn refute(&self, evaluation: &mut Evaluation) {
        let info = self.parts.worker.info();
        if info.time_source == TimeSource::Modelled || evaluation.outcome != Outcome::Measured {
            return;
        }
        for measurement in &evaluation.measurements {
            let case = self.parts.workload.case(&measurement.case).ok();
            let floor = case.map(|case| Floor::of(&self.parts.workload, case, info));
            let refuted =
                floor.zip(measurement.best_timing()).filter(|(floor, timing)| floor.refutes(timing.median_ns));
            if let Some((floor, timing)) = refuted {
                let message = floor.refutation(timing.median_ns);
                evaluation.outcome = Outcome::Cheated { case: measurement.case.clone(), check: Check::Floor, message };
                return;
            }
        }
    }

    pub(super) fn contender(&self, case: &str, iteration: i64) -> Option<&Contender> {
        self.contenders.get(case)?.iter().find(|contender| contender.iteration == iteration)
    }

    /// Remembers the variants that later contests may need, and forgets those that have fallen behind.
    pub(super) fn remember_contenders(
        &mut self,
        iteration: i64,
        compiled: &Compiled,
        evaluation: &Evaluation,
        decisions: &[Decision],
    ) {
        if !self.parts.worker.info().replays {
            return;
        }
        for decision in decisions.iter().filter(|decision| decision.verdict != Verdict::Rejected) {
            let measurement = evaluation.measurements.iter().find(|m| m.case == decision.case);
            let Some(contender) = measurement.and_then(|m| Contender::of(iteration, compiled, m)) else { continue };
            let reference = self.parts.workload.reference == contender.variant.family;
            if decision.verdict == Verdict::Start && reference {
                self.references.insert(decision.case.clone(), contender.clone());
            }
            let contenders = self.contenders.entry(decision.case.clone()).or_default();
            // What is confirmed was looked at before.
            contenders.retain(|earlier| earlier.variant.hash != contender.variant.hash);
            contenders.push(contender);
            self.forget_slow(&decision.case);
        }
    }

    /// Keeps the incumbent of a case and those that its final may have to settle with.
    fn forget_slow(&mut self, case: &str) {
        let Some(contenders) = self.contenders.get_mut(case) else { return };
        let incumbent = self.history.incumbents.get(case).map(|incumbent| incumbent.iteration);
        let is_incumbent = |contender: &Contender| Some(contender.iteration) == incumbent;
        let Some(best_ns) = contenders.iter().find(|c| is_incumbent(c)).and_then(Contender::screened_ns) else {
            return;
        };
        contenders.retain(|c| is_incumbent(c) || c.screened_ns().is_some_and(|ns| near_tie(ns, best_ns)));
        let ns = |contender: &Contender| contender.screened_ns().unwrap_or(f64::MAX);
        contenders.sort_by(|a, b| (!is_incumbent(a)).cmp(&!is_incumbent(b)).then(ns(a).total_cmp(&ns(b))));
        contenders.truncate(1 + MOST_KEPT);
    }

    /// Holds a contest in fresh workers until nobody else fails. An outcome is the challenger's: whoever else fails by itself, too, is
    /// disqualified.
    pub(super) async fn contest(
        &mut self,
        challenger: &Contender,
        mut others: Vec<(Role, Contender)>,
        energy: bool,
    ) -> anyhow::Result<Result<Contest, Outcome>> {
        self.contests += 1;
        if self.baseline_process.as_ref().is_some_and(|process| process.pid().is_none()) {
            self.baseline_process = None;
        }
        if self.baseline_process.is_none() || !self.backends.contains_key(&challenger.request.case.name) {
            others.extend(self.reference_as_baseline(challenger).map(|reference| (Role::Baseline, reference)));
        }
        loop {
            let begun = Instant::now();
            let (entrant, outcome) = match self.hold(challenger, &others, energy).await {
                Ok(contest) => {
                    let each = begun.elapsed() / contest.entrants.len().max(1) as u32;
                    self.entrant_times.insert(challenger.request.case.name.clone(), each);
                    return Ok(Ok(contest));
                }
                Err(ContestError::Machine(error)) => return Err(error).context("Failed to hold a contest"),
                Err(ContestError::Failed { entrant, outcome }) => (entrant, outcome),
            };
            if !(1..=others.len()).contains(&entrant) {
                let is_fresh = outcome.check() == Some(Check::Fresh);
                if is_fresh && has_rivals(&others) && !self.fails_alone(challenger, &outcome).await? {
                    drop_rivals(&mut others, &outcome);
                    continue;
                }
                return Ok(Err(outcome));
            }
            let (role, failed) = others.remove(entrant - 1);
            if role == Role::Baseline {
                tracing::warn!("the reference left a contest: {}", outcome.message().unwrap_or(outcome.kind()));
                continue;
            }
            if !self.fails_alone(&failed, &outcome).await? {
                if has_rivals(&others) {
                    drop_rivals(&mut others, &outcome);
                    continue;
                }
                // By itself it is right, so what it fails with is the doing of another.
                let message = format!(
                    "iteration {} is right by itself and fails beside it: {}",
                    failed.iteration,
                    outcome.message().unwrap_or(outcome.kind())
                );
                let case = challenger.request.case.name.clone();
                return Ok(Err(Outcome::Cheated { case, check: Check::Surroundings, message }));
            }
            self.disqualify(&failed, &outcome).await?;
        }
    }

    /// Tells whether an entrant is wrong without the others, too: beside them it has failed.
    async fn fails_alone(&mut self, failed: &Contender, outcome: &Outcome) -> anyhow::Result<bool> {
        if outcome.check() != Some(Check::Fresh) {
            return Ok(self.examine(failed).await?.is_err());
        }
        // An examination is over before whoever gives the same for ever after thousands of executions does so. Nobody else ran when it
        // failed, but another one may have written into its workspace before.
        match self.hold(failed, &[], false).await {
            Ok(_) => Ok(false),
            Err(ContestError::Failed { .. }) => Ok(true),
            Err(ContestError::Machine(error)) => Err(error).context("Failed to hold a contest"),
        }
    }

    async fn hold(
        &mut self,
        challenger: &Contender,
        others: &[(Role, Contender)],
        energy: bool,
    ) -> Result<Contest, ContestError> {
        let case = &challenger.request.case;
        let terms = Terms {
            workload: &self.parts.workload,
            case,
            policy: &self.order.policy,
            min_sample_ns: self.order.min_sample_ns,
            oracle_flop: self.order.oracle_flop * CHECK_SHARE,
            input_seed: inputs::mix(self.order.seed, &["contest", &self.contests.to_string()]),
            floor_ns: floor_ns(&self.parts.workload, case, self.parts.worker.info()),
            screened_ns: challenger.screened_ns(),
            energy,
        };
        let pids: Vec<u32> = self.parts.worker.pid().into_iter().chain(self.baseline_pid()).collect();
        let mut worker = self.parts.worker.fresh().await?;
        let entries = [(Role::Challenger, challenger)].into_iter().chain(others.iter().map(|(role, c)| (*role, c)));
        let entries = with_twin(entries.map(|(role, contender)| contender.entry(role)).collect());
        let baseline = self.baseline_process.as_mut().zip(self.backends.get(&case.name).cloned());
        let baseline = baseline.map(|(process, backend)| BaselineEntry { process, backend });
        contest::hold(&mut worker, self.parts.monitor.as_ref(), &pids, &terms, &entries, baseline).await
    }

    fn baseline_pid(&self) -> Option<u32> {
        self.baseline_process.as_ref().and_then(BaselineProcess::pid)
    }

    /// Returns the reference kernel of a case where it stands for a baseline that is missing, if it can be afforded.
    fn reference_as_baseline(&self, challenger: &Contender) -> Option<Contender> {
        let reference = self.references.get(&challenger.measurement.case)?;
        let sample_ns = f64::max(reference.screened_ns()?, self.order.min_sample_ns);
        let affordable = sample_ns * self.order.policy.contest.least as f64 <= MOST_REFERENCE_NS;
        (affordable && reference.variant.hash != challenger.variant.hash).then(|| reference.clone())
    }
}

fn has_rivals(others: &[(Role, Contender)]) -> bool {
    others.iter().any(|(role, _)| *role == Role::Rival)
}

/// Goes on without the rivals: of a final's entrants they alone were never examined, and one of them spoils it for another.
fn drop_rivals(others: &mut Vec<(Role, Contender)>, outcome: &Outcome) {
    tracing::warn!("a final goes on without its rivals: {}", outcome.message().unwrap_or(outcome.kind()));
    others.retain(|(role, _)| *role != Role::Rival);
}
