//! The finals of a session: what settles each case when the iterations are over.

use std::time::Duration;

use anyhow::Context;

use super::contests::MOST_RIVALS;
use super::event::Event;
use super::{Contender, Session};
use crate::domain::contest::{Contest, Role, beating, near_tie};
use crate::domain::incumbent::Incumbent;

/// What an entrant of a contest takes, about, until contests have shown it: three finals with seven entrants each took 7 s on an
/// H200 (2026-11-21), of which the energy is a half.
const ENTRANT_TIME: Duration = Duration::from_millis(170);

/// What the energy of two entrants takes, which is measured in finals only.
const ENERGY_TIME: Duration = Duration::from_millis(1200);

/// The challenger, its twin and the baseline: the entrants of a final beside the near-ties.
const LEAST_ENTRANTS: u32 = 3;

/// The most of the budget that is kept for the finals.
const FINALS_SHARE: f64 = 0.2;

/// How much a case needs its final, most first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// There is no confirmed figure without it, or a faster variant than that which has one. It is held even if the time is over.
    Settle,
    /// There are near-ties.
    Part,
    /// Its incumbent has a confirmation, and nothing is as fast.
    Figures,
}

/// What became of a rival that had to win once more.
enum Again {
    /// It did: the contest, and the new incumbent.
    Won(Box<(Contest, Contender)>),
    /// It was no faster this time. Nobody slower is asked.
    Lost,
    /// It failed. The next one is asked.
    PutOut,
}

impl Session<'_> {
    /// Returns the part of the budget that is kept for the finals: what they will take, about.
    pub(super) fn finals_time(&self) -> Duration {
        if !self.parts.worker.info().replays {
            return Duration::ZERO;
        }
        let cases = self.parts.workload.cases.iter();
        let needed: Duration = cases.map(|case| self.final_time(&case.name)).sum();
        needed.min(self.order.budget.wall.mul_f64(FINALS_SHARE))
    }

    /// Returns what the final of a case takes, about, going by its last contest.
    fn final_time(&self, case: &str) -> Duration {
        let entrants = LEAST_ENTRANTS + self.near_ties(case).map_or(0, |ties| ties.count().min(MOST_RIVALS)) as u32;
        let each = self.entrant_times.get(case).copied().unwrap_or(ENTRANT_TIME);
        let held = each.saturating_mul(entrants).saturating_add(ENERGY_TIME);
        // What nobody has confirmed is examined first, or must win once more.
        if self.need(case) == Some(Need::Settle) { held.saturating_mul(2) } else { held }
    }

    /// Returns how much a case needs its final; none where there can be no final.
    fn need(&self, case: &str) -> Option<Need> {
        let incumbent = self.history.incumbents.get(case)?;
        let incumbent = self.contender(case, incumbent.iteration)?;
        let screening = incumbent.measurement.screening.as_ref()?;
        if !self.order.policy.affordable(screening) {
            return None;
        }
        let confirmed = incumbent.measurement.contest.is_some() && self.unconfirmed(case).next().is_none();
        Some(match confirmed {
            false => Need::Settle,
            true if self.near_ties(case)?.next().is_some() => Need::Part,
            true => Need::Figures,
        })
    }

    /// Holds the finals, of those cases first that need it most: the incumbent, those within the noise of it, the A/A control and the
    /// baseline in one run. Near-ties are settled here, and these are the figures of the report. A case for which no time is left
    /// keeps the figures of its confirmation.
    pub(super) async fn hold_finals(&mut self) -> anyhow::Result<()> {
        let cases = self.parts.workload.cases.iter();
        let mut due: Vec<(Need, String)> =
            cases.filter_map(|case| Some((self.need(&case.name)?, case.name.clone()))).collect();
        // Stable: as the workload has them.
        due.sort_by_key(|(need, _)| *need);
        for (need, case) in due {
            if self.interrupt.requested() {
                return Ok(());
            }
            let until = self.elapsed() + self.final_time(&case);
            if need != Need::Settle && until > self.order.budget.wall {
                let reason = "there is no time left for it, so the figures of its confirmation stand";
                self.observer.event(&Event::NoFinal { case: &case, reason });
                continue;
            }
            let mut interrupt = self.interrupt.clone();
            let settled = tokio::select! {
                settled = self.settle(&case) => settled?,
                () = interrupt.reached(2) => return Ok(()),
            };
            if let Some((contest, winner)) = settled {
                self.record_final(&case, &contest, &winner).await?;
            }
        }
        self.commit_pending().await
    }

    /// Settles a case. Returns the contest whose figures count, with the winner; none without a final.
    async fn settle(&mut self, case: &str) -> anyhow::Result<Option<(Contest, Contender)>> {
        let Some((contest, incumbent, rivals)) = self.final_contest(case).await? else { return Ok(None) };
        for index in beating(&contest) {
            let beats = |rival: &&Contender| Some(rival.iteration) == contest.entrants[index].iteration;
            let Some(rival) = rivals.iter().find(beats) else { continue };
            match self.confirm_rival(&incumbent, rival.clone()).await? {
                Again::Won(won) => return Ok(Some(*won)),
                Again::Lost => break,
                Again::PutOut => {}
            }
        }
        Ok(Some((contest, incumbent)))
    }

    /// Puts a final on record. Never given up halfway: an interrupt ends contests only.
    async fn record_final(&mut self, case: &str, contest: &Contest, winner: &Contender) -> anyhow::Result<()> {
        self.parts.store.record_final(self.id, contest, winner.iteration).await.context("Failed to record a final")?;
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
        let mut in_place_of_another = false;
        loop {
            let Some(incumbent) = self.history.incumbents.get(case) else { return Ok(None) };
            let Some(mut incumbent) = self.contender(case, incumbent.iteration).cloned() else { return Ok(None) };
            let screening = incumbent.measurement.screening.as_ref();
            if !screening.is_some_and(|screening| self.order.policy.affordable(screening)) {
                return Ok(None);
            }
            let rivals = self.rivals(case);
            let entered = rivals.iter().map(|rival| (Role::Rival, rival.clone())).collect();
            // A start has won nothing yet, so nobody has examined it.
            let examined =
                if incumbent.measurement.contest.is_none() { self.examine(&incumbent).await? } else { Ok(()) };
            let held = match examined {
                Ok(()) => self.contest(&incumbent, entered, true).await?,
                Err(outcome) => Err(outcome),
            };
            match held {
                Ok(contest) => {
                    if in_place_of_another {
                        incumbent.measurement.confirm(contest.clone());
                        self.install(case, &incumbent);
                    }
                    return Ok(Some((contest, incumbent, rivals)));
                }
                Err(outcome) => self.disqualify(&incumbent, &outcome).await?,
            }
            // It stands in, and is committed only once it has been examined and timed.
            if let Some(next) = rivals.into_iter().next() {
                self.stand(case, &next);
                in_place_of_another = true;
            }
        }
    }

    /// Makes a contender the incumbent of its case.
    fn stand(&mut self, case: &str, contender: &Contender) {
        if let Some(timing) = contender.measurement.best_timing().cloned() {
            let (iteration, hash) = (contender.iteration, contender.variant.hash.clone());
            self.history.incumbents.insert(case.to_owned(), Incumbent { iteration, hash, timing });
        }
    }

    /// Makes a contender the incumbent of its case, and queues it for its commit.
    fn install(&mut self, case: &str, contender: &Contender) {
        let previous = self.history.incumbents.get(case).map(|incumbent| incumbent.timing.clone());
        self.stand(case, contender);
        self.queue_winner(case, contender, previous.as_ref());
    }

    /// The fastest of several looks faster than it is, so it must win once more, on other inputs.
    async fn confirm_rival(&mut self, incumbent: &Contender, mut rival: Contender) -> anyhow::Result<Again> {
        let held = match self.examine(&rival).await? {
            Ok(()) => self.contest(&rival, vec![(Role::Incumbent, incumbent.clone())], true).await?,
            Err(outcome) => Err(outcome),
        };
        let contest = match held {
            Ok(contest) => contest,
            Err(outcome) => {
                self.disqualify(&rival, &outcome).await?;
                return Ok(Again::PutOut);
            }
        };
        let beaten = contest.against(Role::Incumbent).is_some_and(|(incumbent, _)| contest.beats(incumbent));
        if !beaten || contest.below_floor() {
            return Ok(Again::Lost);
        }
        rival.measurement.confirm(contest.clone());
        let case = rival.measurement.case.clone();
        self.install(&case, &rival);
        Ok(Again::Won(Box::new((contest, rival))))
    }

    /// Returns the variants whose screening cannot tell them from the incumbent, the fastest first.
    fn rivals(&self, case: &str) -> Vec<Contender> {
        let ns = |contender: &Contender| contender.screened_ns().unwrap_or(f64::MAX);
        let mut rivals: Vec<Contender> = self.near_ties(case).into_iter().flatten().cloned().collect();
        rivals.sort_by(|a, b| ns(a).total_cmp(&ns(b)));
        rivals.truncate(MOST_RIVALS);
        rivals
    }

    /// Returns the same in any order, or none without an incumbent that was screened.
    fn near_ties(&self, case: &str) -> Option<impl Iterator<Item = &Contender>> {
        let incumbent = self.contender(case, self.history.incumbents.get(case)?.iteration)?;
        let best_ns = incumbent.screened_ns()?;
        let others = self.contenders.get(case)?.iter().filter(|other| other.variant.hash != incumbent.variant.hash);
        Some(others.filter(move |other| other.screened_ns().is_some_and(|ns| near_tie(ns, best_ns))))
    }
}
