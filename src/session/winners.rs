//! The winners of a session, on their way into git.

use super::event::Event;
use super::{Compiled, Contender, Session};
use crate::domain::conditions::Conditions;
use crate::domain::contest::Role;
use crate::domain::evaluation::{Evaluation, Timing};
use crate::domain::sidecar::{self, Sidecar, SidecarEnvironment, SidecarMeasurement, SidecarVariant};
use crate::domain::verdict::{Decision, Verdict};
use crate::vcs::{BaselineTime, Figures, Repo, Winner};

impl Session<'_> {
    /// Queues the confirmed winners of an iteration for their commits, and tells whether there are any.
    pub(super) fn take_winners(
        &mut self,
        iteration: i64,
        compiled: &Compiled,
        evaluation: &Evaluation,
        decisions: &[Decision],
    ) -> bool {
        let mut won = false;
        for decision in decisions {
            let measurement = evaluation.measurements.iter().find(|m| m.case == decision.case);
            let Some(timing) = measurement.and_then(|m| m.best_timing()) else { continue };
            let hash = &compiled.proposal.variant.hash;
            let known = self.parts.known.iter().find(|known| known.here && known.case == decision.case);
            if known.is_some_and(|known| known.hash == *hash) {
                self.remeasured.insert(decision.case.clone());
            }
            if decision.verdict == Verdict::Start {
                self.starts.entry(decision.case.clone()).or_insert(timing.median_ns);
            }
            if decision.verdict != Verdict::Improved {
                continue;
            }
            // The incumbent's time in the very contest that it lost, where there was one.
            let contest = measurement.and_then(|measurement| measurement.contest.as_ref());
            let beaten =
                contest.and_then(|contest| contest.against(Role::Incumbent)).map(|(beaten, _)| beaten.timing.clone());
            let incumbent = self.history.incumbents.get(&decision.case);
            let previous = beaten.or_else(|| incumbent.map(|incumbent| incumbent.timing.clone()));
            let start_ns = self.starts.get(&decision.case).copied().unwrap_or(timing.median_ns);
            self.observer.event(&Event::Improved {
                case: &decision.case,
                from_us: previous.as_ref().map_or(timing.median_ns, |timing| timing.median_ns) / 1e3,
                to_us: timing.median_ns / 1e3,
                over_start: start_ns / timing.median_ns,
                time_source: self.parts.worker.info().time_source,
            });
            let contender = measurement.and_then(|measurement| Contender::of(iteration, compiled, measurement));
            if let Some(contender) = contender {
                won |= self.queue_winner(&decision.case, &contender, previous.as_ref());
            }
        }
        won
    }

    /// Queues a winner of a case for its commit, unless it is committed already or must not be. Tells whether there is
    /// something to commit or to link.
    pub(super) fn queue_winner(&mut self, case: &str, contender: &Contender, previous: Option<&Timing>) -> bool {
        let Some(timing) = contender.measurement.best_timing() else { return false };
        let known = self.parts.known.iter().find(|known| known.here && known.case == case);
        if known.is_some_and(|known| known.hash == contender.variant.hash) {
            // It is committed already, by an earlier session: HEAD holds it.
            self.uncommitted.remove(case);
            self.kept.push((contender.iteration, case.to_owned()));
            return true;
        }
        if known.is_some_and(|known| known.median_us * 1e3 <= timing.median_ns) && !self.remeasured.contains(case) {
            // Better than the start, but the committed winner was better still, and its turn is yet to come.
            return false;
        }
        let winner = self.winner(contender, timing, previous);
        self.uncommitted.insert(case.to_owned(), (contender.iteration, winner));
        true
    }

    /// Says why a winner is not committed, once.
    fn refuse(&mut self, case: &str, reason: &str) {
        if self.refusals.insert(case.to_owned(), reason.to_owned()).as_deref() != Some(reason) {
            self.observer.event(&Event::NotCommitted { case, reason });
        }
    }

    fn winner(&self, contender: &Contender, timing: &Timing, previous: Option<&Timing>) -> Winner {
        let sidecar = self.sidecar(contender, timing);
        let figures = |timing: &Timing| Figures {
            median_us: timing.median_ns / 1e3,
            ci_us: [timing.interval_ns.lo / 1e3, timing.interval_ns.hi / 1e3],
            samples: timing.samples_ns.len(),
        };
        let contest = contender.measurement.contest.as_ref();
        Winner {
            device: self.parts.worker.info().key(),
            workload: self.parts.workload.name.clone(),
            source: contender.variant.source.clone(),
            sidecar,
            previous: previous.map(figures),
            speedup: contest.and_then(|contest| contest.against(Role::Incumbent)).map(|(_, ratio)| ratio),
            baseline: BaselineTime::of(contest, self.baseline(&contender.measurement.case)),
            session: self.id,
            iteration: contender.iteration,
        }
    }

    /// Describes how to launch a winner, and what was found of it.
    fn sidecar(&self, contender: &Contender, timing: &Timing) -> Sidecar {
        let Contender { variant, artifact, request, measurement, .. } = contender;
        let (workload, info) = (&self.parts.workload, self.parts.worker.info());
        let won = SidecarVariant {
            family: variant.family.clone(),
            params: variant.params.clone(),
            hash: variant.hash.clone(),
        };
        Sidecar {
            schema: sidecar::SCHEMA.to_owned(),
            source: Some(won.source_name()),
            arch: artifact.arch.clone(),
            compile_options: artifact.options.clone(),
            tensors: sidecar::tensors(&workload.op.tensors(&request.case.dims, workload.dtype)),
            workspaces: sidecar::workspaces(&request.plan.workspaces),
            launches: request.plan.launches.clone(),
            variant: won,
            measurement: SidecarMeasurement::of(&Conditions::of(workload, &request.case, info), measurement, timing),
            environment: SidecarEnvironment {
                device: info.name.clone(),
                driver: info.driver.clone(),
                nvrtc: artifact.nvrtc.clone(),
                optloop: env!("CARGO_PKG_VERSION").to_owned(),
            },
        }
    }

    /// Commits the winners that are queued. One that cannot be committed stays queued: the index may be locked by now
    /// and free with the next winner.
    pub(super) async fn commit_pending(&mut self) -> anyhow::Result<()> {
        let head = self.parts.repo.as_ref().ok().and_then(Repo::head);
        for (iteration, case) in std::mem::take(&mut self.kept) {
            if let Some(head) = &head {
                self.parts.store.link_commit(iteration, &case, &head.0).await?;
            }
        }
        for (case, (iteration, winner)) in std::mem::take(&mut self.uncommitted) {
            let committed = match &self.parts.repo {
                Ok(repo) => repo.commit_winner(&winner).map_err(|error| error.to_string()),
                Err(reason) => Err(reason.clone()),
            };
            match committed {
                Ok(commit) => {
                    // What was committed before this session is in HEAD no more.
                    let known = self.parts.known.iter_mut().filter(|known| known.case == case);
                    known.for_each(|known| known.here = false);
                    self.parts.store.link_commit(iteration, &case, &commit.0).await?;
                    self.observer.event(&Event::Committed { case: &case, commit: &commit.0 });
                }
                Err(reason) => {
                    self.refuse(&case, &reason);
                    self.uncommitted.insert(case, (iteration, winner));
                }
            }
        }
        Ok(())
    }
}
