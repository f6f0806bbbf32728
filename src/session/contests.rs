//! The contests of a session: a promising variant against the incumbent and the baseline, and the finals.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::event::Event;
use super::{Compiled, Session};
use crate::domain::artifact::Artifact;
use crate::domain::check::Check;
use crate::domain::contest::{Contest, Role, near_tie, settle};
use crate::domain::device::TimeSource;
use crate::domain::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::floor::{Floor, floor_ns};
use crate::domain::incumbent::Incumbent;
use crate::domain::variant::Variant;
use crate::domain::verdict::{Decision, Verdict};
use crate::runner::baseline::BaselineProcess;
use crate::runner::contest::{self, BaselineEntry, ContestError, Entry, Terms, with_twin};
use crate::runner::evaluate::CaseRequest;
use crate::runner::inputs;

/// The most near-ties that a final settles: each costs a confirmation's time.
const MOST_RIVALS: usize = 4;

/// What the final of a case takes, about: three with seven entrants each took 7 s on an H200 (2026-11-21), of which the
/// energy is a half.
const FINAL_TIME: Duration = Duration::from_secs(3);

/// The most of the budget that is kept for the finals.
const FINALS_SHARE: f64 = 0.2;

/// The float64 work of a contest's check, over that of a screening's: every entrant has passed one already.
const CHECK_SHARE: f64 = 0.1;

/// The longest that the reference kernel may sample in a contest in which it stands for the baseline.
const MOST_REFERENCE_NS: f64 = 5e9;

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

    fn screened_ns(&self) -> Option<f64> {
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
    /// Holds a contest on every case on which an evaluated variant is promising: its confirmation. When the budget is spent or
    /// a stop was asked for, the rest go without.
    pub(super) async fn confirm(
        &mut self,
        iteration: i64,
        compiled: &Compiled,
        evaluation: &mut Evaluation,
    ) -> anyhow::Result<()> {
        if !self.parts.worker.info().replays || evaluation.outcome != Outcome::Measured {
            return Ok(());
        }
        let started = Instant::now();
        for place in 0..evaluation.measurements.len() {
            let Some(challenger) = Contender::of(iteration, compiled, &evaluation.measurements[place]) else {
                continue;
            };
            let Some(incumbent) = self.promising_against(&challenger) else { continue };
            let elapsed = self.elapsed() + self.finals_time();
            if self.interrupt.requested() || elapsed >= self.order.budget.wall {
                break;
            }
            match self.contest(&challenger, vec![(Role::Incumbent, incumbent)], false).await? {
                Ok(contest) => {
                    if contest.against(Role::Incumbent).is_none() {
                        // The incumbent failed on inputs that it had not met: this case starts anew.
                        self.history.incumbents.remove(&challenger.measurement.case);
                    }
                    evaluation.measurements[place].confirm(contest);
                }
                Err(outcome) => {
                    evaluation.outcome = outcome;
                    break;
                }
            }
        }
        evaluation.device_s += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Returns the incumbent that a screened challenger may beat.
    fn promising_against(&self, challenger: &Contender) -> Option<Contender> {
        let case = &challenger.measurement.case;
        let incumbent = self.history.incumbents.get(case)?;
        let screening = challenger.measurement.screening.as_ref()?;
        let promising = self.order.policy.promising(screening, self.incumbent_screened_ns(case));
        promising.then(|| self.contender(case, incumbent.iteration).cloned()).flatten()
    }

    /// Returns what a screened time is held against: the incumbent's screening, where there is one. Its time in a contest was
    /// taken in another way.
    pub(super) fn incumbent_screened_ns(&self, case: &str) -> Option<f64> {
        let incumbent = self.history.incumbents.get(case)?;
        let screened_ns = self.contender(case, incumbent.iteration).and_then(Contender::screened_ns);
        Some(screened_ns.unwrap_or(incumbent.timing.median_ns))
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
                let (us, floor_us) = (timing.median_ns / 1e3, floor.ns / 1e3);
                let message = format!(
                    "{us:.3} us are below the floor of {floor_us:.3} us ({}): nothing that does the work is so fast, or \
                     the ceilings are wrong (`optloop doctor --measure` takes them anew)",
                    floor.limiter.name()
                );
                evaluation.outcome = Outcome::Cheated { case: measurement.case.clone(), check: Check::Floor, message };
                return;
            }
        }
    }

    fn contender(&self, case: &str, iteration: i64) -> Option<&Contender> {
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
            self.contenders.entry(decision.case.clone()).or_default().push(contender);
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
    }

    /// Holds a contest in a fresh worker. An outcome is the challenger's: anyone else who fails is left out.
    async fn contest(
        &mut self,
        challenger: &Contender,
        mut others: Vec<(Role, Contender)>,
        energy: bool,
    ) -> anyhow::Result<Result<Contest, Outcome>> {
        let case = &challenger.request.case;
        self.contests += 1;
        let device = self.parts.worker.info();
        let terms = Terms {
            workload: &self.parts.workload,
            case,
            policy: &self.order.policy,
            min_sample_ns: self.order.min_sample_ns,
            oracle_flop: self.order.oracle_flop * CHECK_SHARE,
            input_seed: inputs::mix(self.order.seed, &["contest", &self.contests.to_string()]),
            floor_ns: floor_ns(&self.parts.workload, case, device),
            screened_ns: challenger.screened_ns(),
            energy,
        };
        let backend = self.backends.get(&case.name).cloned();
        if self.baseline_process.as_ref().is_some_and(|process| process.pid().is_none()) {
            self.baseline_process = None;
        }
        let pids: Vec<u32> = self.parts.worker.pid().into_iter().chain(self.baseline_pid()).collect();
        if backend.is_none() || self.baseline_process.is_none() {
            others.extend(self.reference_as_baseline(challenger).map(|reference| (Role::Baseline, reference)));
        }
        loop {
            let mut worker = self.parts.worker.fresh().await.context("Failed to start a worker for a contest")?;
            let entries = [(Role::Challenger, challenger)].into_iter().chain(others.iter().map(|(role, c)| (*role, c)));
            let entries = with_twin(entries.map(|(role, contender)| contender.entry(role)).collect());
            let baseline = self.baseline_process.as_mut().zip(backend.clone());
            let baseline = baseline.map(|(process, backend)| BaselineEntry { process, backend });
            let monitor = self.parts.monitor.as_ref();
            match contest::hold(&mut worker, monitor, &pids, &terms, &entries, baseline).await {
                Ok(contest) => return Ok(Ok(contest)),
                Err(ContestError::Machine(error)) => return Err(error).context("Failed to hold a contest"),
                Err(ContestError::Failed { entrant, outcome }) if (1..=others.len()).contains(&entrant) => {
                    let (role, failed) = others.remove(entrant - 1);
                    tracing::warn!(
                        "iteration {} left a contest on {} in which it was the {role:?}: {}",
                        failed.iteration,
                        case.name,
                        outcome.message().unwrap_or(outcome.kind())
                    );
                }
                Err(ContestError::Failed { outcome, .. }) => return Ok(Err(outcome)),
            }
        }
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

    /// Returns the part of the budget that is kept for the finals.
    pub(super) fn finals_time(&self) -> Duration {
        if !self.parts.worker.info().replays {
            return Duration::ZERO;
        }
        let cases = u32::try_from(self.parts.workload.cases.len()).unwrap_or(u32::MAX);
        FINAL_TIME.saturating_mul(cases).min(self.order.budget.wall.mul_f64(FINALS_SHARE))
    }

    /// Holds the final of every case: the incumbent, those within the noise of it, the A/A control and the baseline in one
    /// run. Near-ties are settled here, and these are the figures of the report.
    pub(super) async fn hold_finals(&mut self) -> anyhow::Result<()> {
        let cases: Vec<String> = self.parts.workload.cases.iter().map(|case| case.name.clone()).collect();
        for case in cases {
            if self.interrupt.requested() {
                return Ok(());
            }
            let mut interrupt = self.interrupt.clone();
            tokio::select! {
                held = self.hold_final(&case) => held?,
                () = interrupt.reached(2) => return Ok(()),
            }
        }
        self.commit_pending().await
    }

    async fn hold_final(&mut self, case: &str) -> anyhow::Result<()> {
        let Some((contest, incumbent, rivals)) = self.final_contest(case).await? else { return Ok(()) };
        let fastest = contest.entrants.get(settle(&contest)).and_then(|entrant| entrant.iteration);
        let rival = rivals.into_iter().find(|rival| Some(rival.iteration) == fastest);
        let (contest, winner) = match rival {
            None => (contest, incumbent),
            Some(rival) => self.confirm_rival(contest, incumbent, rival).await?,
        };
        self.parts.store.record_final(self.id, &contest, winner.iteration).await.context("Failed to record a final")?;
        let baseline = contest.against(Role::Baseline);
        self.observer.event(&Event::Final {
            case,
            iteration: winner.iteration,
            us: contest.challenger().map_or(f64::NAN, |challenger| challenger.timing.median_ns / 1e3),
            baseline: baseline.map(|(entrant, _)| entrant.name.as_str()),
            over_baseline: baseline.map(|(_, ratio)| ratio),
            noise: contest.noise(),
            time_source: contest.conditions.time_source,
        });
        Ok(())
    }

    /// Holds the final of a case that has an incumbent which can afford one. An incumbent that fails there, on inputs that it had
    /// not met, gives its place to the fastest of the rest.
    async fn final_contest(&mut self, case: &str) -> anyhow::Result<Option<(Contest, Contender, Vec<Contender>)>> {
        loop {
            let Some(incumbent) = self.history.incumbents.get(case) else { return Ok(None) };
            let Some(incumbent) = self.contender(case, incumbent.iteration).cloned() else { return Ok(None) };
            let screening = incumbent.measurement.screening.as_ref();
            if !screening.is_some_and(|screening| self.order.policy.affordable(screening)) {
                return Ok(None);
            }
            let rivals = self.rivals(case, &incumbent);
            let entered = rivals.iter().map(|rival| (Role::Rival, rival.clone())).collect();
            let outcome = match self.contest(&incumbent, entered, true).await? {
                Ok(contest) => return Ok(Some((contest, incumbent, rivals))),
                Err(outcome) => outcome,
            };
            let what = outcome.message().unwrap_or(outcome.kind());
            let reason = format!("iteration {} failed in the final: {what}", incumbent.iteration);
            self.observer.event(&Event::NotCommitted { case, reason: &reason });
            self.history.incumbents.remove(case);
            self.contenders.entry(case.to_owned()).or_default().retain(|c| c.variant.hash != incumbent.variant.hash);
            if let Some(next) = rivals.into_iter().next() {
                self.install(case, &next);
            }
        }
    }

    /// Makes a contender the incumbent of its case, and queues it for its commit.
    fn install(&mut self, case: &str, contender: &Contender) {
        let previous = self.history.incumbents.get(case).map(|incumbent| incumbent.timing.clone());
        if let Some(timing) = contender.measurement.best_timing().cloned() {
            let (iteration, hash) = (contender.iteration, contender.variant.hash.clone());
            self.history.incumbents.insert(case.to_owned(), Incumbent { iteration, hash, timing });
        }
        self.queue_winner(case, contender, previous.as_ref());
    }

    /// The fastest of several looks faster than it is, so it must win once more, on other inputs.
    async fn confirm_rival(
        &mut self,
        final_contest: Contest,
        incumbent: Contender,
        mut rival: Contender,
    ) -> anyhow::Result<(Contest, Contender)> {
        let held = self.contest(&rival, vec![(Role::Incumbent, incumbent.clone())], true).await?;
        let Ok(contest) = held else { return Ok((final_contest, incumbent)) };
        let beaten = contest.against(Role::Incumbent).is_some_and(|(incumbent, _)| contest.beats(incumbent));
        if !beaten || contest.below_floor() {
            return Ok((final_contest, incumbent));
        }
        rival.measurement.confirm(contest.clone());
        let case = rival.measurement.case.clone();
        self.install(&case, &rival);
        Ok((contest, rival))
    }

    /// Returns the variants whose screening cannot tell them from the incumbent, the fastest first.
    fn rivals(&self, case: &str, incumbent: &Contender) -> Vec<Contender> {
        let Some(best_ns) = incumbent.screened_ns() else { return Vec::new() };
        let near = |contender: &&Contender| {
            let other = contender.variant.hash != incumbent.variant.hash;
            other && contender.screened_ns().is_some_and(|ns| near_tie(ns, best_ns))
        };
        let mut rivals: Vec<Contender> =
            self.contenders.get(case).into_iter().flatten().filter(near).cloned().collect();
        rivals.sort_by(|a, b| a.screened_ns().unwrap_or(f64::MAX).total_cmp(&b.screened_ns().unwrap_or(f64::MAX)));
        rivals.truncate(MOST_RIVALS);
        rivals
    }
}
