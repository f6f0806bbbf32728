//! Recalls what a session knew when its process ended, from its record.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use futures::stream::{self, StreamExt};

use super::contests::MOST_KEPT;
use super::event::Event;
use super::{Contender, Session, requests};
use crate::domain::contest::{Contest, Role, near_tie};
use crate::domain::evaluation::{Measurement, Outcome};
use crate::domain::history::{History, Point};
use crate::domain::incumbent::Incumbent;
use crate::domain::record::{Baseline, CaseRecord, IterationRecord, SessionRecord};
use crate::domain::timing::Timing;
use crate::domain::variant::VariantHash;
use crate::domain::verdict::Verdict;
use crate::runner::compile::CompileError;
use crate::runner::evaluate::CaseRequest;
use crate::store::{Launched, Past};
use crate::vcs::FoundBy;

/// How often a point may be in flight when a process dies. Twice is no accident: it may be what takes the machine down.
const MOST_DEATHS: usize = 2;

/// An iteration of the record with what it found on one case.
type Found<'r> = (&'r IterationRecord, &'r CaseRecord);

impl Session<'_> {
    /// Takes up everything that the session had found when it ended, and commits the winners that were not committed then.
    pub(super) async fn recall(&mut self, mut past: Past) -> anyhow::Result<()> {
        past.record.strike_out();
        let record = &past.record;
        self.used = past.used;
        self.spent = record.session.cost;
        self.finished = record.session.iterations - record.session.unfinished;
        self.history = History::of(record, &self.parts.families);
        self.history.proposed.extend(self.deadly(record));
        self.recall_finals(record);
        self.recall_confirmations(record);
        for (_, found) in winners(record).filter(|(_, found)| found.verdict == Some(Verdict::Start)) {
            let start_ns = found.best_timing().map(|timing| timing.median_ns);
            start_ns.map(|ns| self.starts.entry(found.case.clone()).or_insert(ns));
        }
        self.recall_baselines(record).await?;
        self.recall_contenders(record).await?;
        self.recall_winners(record).await?;
        self.commit_pending().await
    }

    /// Returns the points that were in flight at too many ends.
    fn deadly(&self, record: &SessionRecord) -> Vec<Point> {
        let mut deaths: HashMap<Point, usize> = HashMap::new();
        for iteration in record.iterations.iter().filter(|iteration| iteration.outcome.is_none()) {
            let family = self.parts.families.iter().find(|family| family.name == iteration.family);
            let (Some(family), Some(case)) = (family, iteration.cases.first()) else { continue };
            *deaths.entry(Point::new(&family.name, &family.specialization(case), &iteration.params)).or_default() += 1;
        }
        deaths.retain(|_, count| *count >= MOST_DEATHS);
        deaths.into_keys().collect()
    }

    /// Takes up which confirmations have come to something, or ended the process too often.
    fn recall_confirmations(&mut self, record: &SessionRecord) {
        let mut deaths: HashMap<(String, VariantHash), usize> = HashMap::new();
        for iteration in record.iterations.iter().filter(|iteration| record.confirms(iteration)) {
            let failed = iteration.outcome.as_ref().is_some_and(|outcome| *outcome != Outcome::Measured);
            for case in &iteration.cases {
                let asked = (case.name.clone(), iteration.hash.clone());
                let died = deaths.entry(asked.clone()).or_default();
                *died += usize::from(iteration.outcome.is_none());
                // One for which there was no time any more is asked again.
                let held = iteration.measurements.iter().any(|m| m.case == case.name && m.contest.is_some());
                if failed || held || *died >= MOST_DEATHS {
                    self.asked.insert(asked);
                }
            }
        }
    }

    /// Makes the winner of a final the incumbent, as long as nothing has come after it: the incumbent took part, and lost.
    fn recall_finals(&mut self, record: &SessionRecord) {
        for last in &record.finals {
            let case = &last.contest.conditions.case;
            let Some(incumbent) = self.history.incumbents.get(case) else { continue };
            let took_part = last.contest.entrants.iter().any(|entrant| entrant.iteration == Some(incumbent.iteration));
            let won = |(iteration, found): &Found<'_>| iteration.id == last.winner && found.case == *case;
            let winner = measured(record).find(won).map(|(iteration, _)| iteration);
            let (true, Some(winner), Some(best)) = (took_part, winner, last.contest.challenger()) else { continue };
            if winner.id != incumbent.iteration && best.iteration == Some(winner.id) {
                let (hash, timing) = (winner.hash.clone(), best.timing.clone());
                let incumbent = Incumbent { iteration: winner.id, hash, timing };
                self.history.incumbents.insert(case.clone(), incumbent);
            }
        }
    }

    /// Takes up the baselines on record. A seed whose process died before it could stand in for one does so now.
    async fn recall_baselines(&mut self, record: &SessionRecord) -> anyhow::Result<()> {
        for baseline in &record.baselines {
            let program = !Baseline::is_reference(&baseline.name);
            if program && !self.backends.contains_key(&baseline.case) {
                self.backends.insert(baseline.case.clone(), baseline.name.clone());
            }
            self.baselines.push(baseline.clone());
        }
        for (iteration, found) in winners(record) {
            let seed = found.verdict == Some(Verdict::Start) && iteration.family == self.parts.workload.reference;
            if seed
                && self.baseline(&found.case).is_none()
                && let Some(timing) = found.best_timing()
            {
                let relative_l2 = found.correctness.map(|correctness| correctness.relative_l2);
                self.stand_in(&found.case, found.regime, timing.clone(), relative_l2).await?;
            }
        }
        Ok(())
    }

    /// Takes up the variants that later contests may need.
    async fn recall_contenders(&mut self, record: &SessionRecord) -> anyhow::Result<()> {
        if !self.parts.worker.info().replays {
            return Ok(());
        }
        let (mut chosen, mut references) = (Vec::new(), Vec::new());
        for (case, incumbent) in &self.history.incumbents {
            let screened = |(_, found): &Found<'_>| found.screening.as_ref().map(|screening| screening.median_ns);
            let of_case: Vec<Found<'_>> = measured(record).filter(|(_, found)| found.case == *case).collect();
            let best = of_case.iter().find(|(iteration, _)| iteration.id == incumbent.iteration);
            let best_ns = best.and_then(screened);
            // A variant that was looked at and confirmed is one, as it was confirmed.
            let latest: HashMap<_, _> = of_case.iter().map(|found| (&found.0.hash, found)).collect();
            let others = latest.into_values().filter(|(iteration, _)| iteration.hash != incumbent.hash);
            let timed = others.filter_map(|found| Some((screened(found)?, *found)));
            let mut near: Vec<(f64, Found<'_>)> =
                timed.filter(|(ns, _)| best_ns.is_some_and(|best_ns| near_tie(*ns, best_ns))).collect();
            // As many as were kept when it ended: on a plateau of the search space the record has any number of them.
            near.sort_by(|(a, (of_a, _)), (b, (of_b, _))| a.total_cmp(b).then(of_a.id.cmp(&of_b.id)));
            chosen.extend(best.into_iter().copied().chain(near.into_iter().take(MOST_KEPT).map(|(_, found)| found)));
            references.extend(of_case.iter().copied().rfind(|(iteration, found)| {
                found.verdict == Some(Verdict::Start) && iteration.family == self.parts.workload.reference
            }));
        }
        for contender in self.rebuilt(&chosen).await? {
            self.contenders.entry(contender.measurement.case.clone()).or_default().push(contender);
        }
        for contender in self.rebuilt(&references).await? {
            self.references.insert(contender.measurement.case.clone(), contender);
        }
        Ok(())
    }

    /// Links the commits that a dying process could not link any more, and queues the winners that it did not commit.
    async fn recall_winners(&mut self, record: &SessionRecord) -> anyhow::Result<()> {
        let own = self.own_commits(record);
        for FoundBy { commit, iteration, case, .. } in &own {
            let linked = measured(record)
                .any(|(other, found)| other.id == *iteration && found.case == *case && found.commit.is_some());
            if !linked {
                self.parts.store.link_commit(*iteration, case, &commit.0).await?;
                self.observer.event(&Event::Committed { case, commit: &commit.0 });
            }
        }
        for known in self.parts.known.iter_mut().filter(|known| known.here) {
            if own.iter().any(|found| found.case == known.case) {
                // What was committed before this session is in HEAD no more.
                known.here = false;
            } else if measured(record).any(|(other, found)| other.hash == known.hash && found.case == known.case) {
                self.remeasured.insert(known.case.clone());
            }
        }
        let mut waiting: Vec<(Found<'_>, Option<&Timing>)> = Vec::new();
        for (case, incumbent) in &self.history.incumbents {
            let best =
                measured(record).find(|(iteration, found)| iteration.id == incumbent.iteration && found.case == *case);
            let Some(best) = best else { continue };
            let committed = best.1.commit.is_some()
                || own.iter().any(|found| found.iteration == incumbent.iteration && found.case == *case);
            // A start is committed by nobody, unless a final has made it the best.
            let won = best.1.verdict == Some(Verdict::Improved) || final_of(record, best).is_some();
            if won && !committed {
                waiting.push((best, beaten(record, best)));
            }
        }
        let found: Vec<Found<'_>> = waiting.iter().map(|(found, _)| *found).collect();
        for mut contender in self.rebuilt(&found).await? {
            let case = contender.measurement.case.clone();
            let of_contender =
                |((iteration, found), _): &&(Found<'_>, _)| iteration.id == contender.iteration && found.case == case;
            let Some((best, previous)) = waiting.iter().find(of_contender) else { continue };
            if let Some(held) = final_of(record, *best) {
                contender.measurement.confirm(held.clone());
            }
            self.queue_winner(&case, &contender, *previous);
        }
        Ok(())
    }

    /// Returns the commits that this very session has made.
    fn own_commits(&self, record: &SessionRecord) -> Vec<FoundBy> {
        let Ok(repo) = &self.parts.repo else { return Vec::new() };
        let mut commits = repo.commits_of(self.id).unwrap_or_else(|reason| {
            tracing::warn!("commits of this session are not looked for: {reason}");
            Vec::new()
        });
        // Sessions of other projects and stores have the same numbers.
        commits.retain(|commit| {
            measured(record).any(|(iteration, found)| {
                iteration.id == commit.iteration && iteration.hash == commit.variant && found.case == commit.case
            })
        });
        commits
    }

    /// Makes contenders of what is on record: the plan from the store, the artifact from the compiler's cache or compiled again.
    async fn rebuilt(&self, found: &[Found<'_>]) -> anyhow::Result<Vec<Contender>> {
        let iterations: HashSet<i64> = found.iter().map(|(iteration, _)| iteration.id).collect();
        let mut launched = HashMap::new();
        for iteration in iterations {
            launched.insert(iteration, self.parts.store.launched(iteration).await?);
        }
        let compilations = launched.iter().map(|(iteration, (variant, _))| {
            let (iteration, variant, compiler) = (*iteration, variant.clone(), self.parts.compiler.clone());
            async move { tokio::task::spawn_blocking(move || (iteration, compiler.compile(&variant))).await }
        });
        // Each that is not in the cache is a process with memory of its own.
        let mut compilations = stream::iter(compilations).buffer_unordered(self.order.compile_ahead.max(1));
        let mut artifacts = HashMap::new();
        while let Some(compiled) = compilations.next().await {
            match compiled.context("Failed to compile in the background")? {
                (iteration, Ok(artifact)) => drop(artifacts.insert(iteration, artifact)),
                (_, Err(CompileError::Broken(message))) => anyhow::bail!("Failed to compile: {message}"),
                (iteration, Err(refused)) => tracing::warn!("iteration {iteration} is passed over: {refused}"),
            }
        }
        let contender = |(iteration, found): &Found<'_>| {
            let launched = launched.get(&iteration.id)?;
            Some(Contender {
                iteration: iteration.id,
                variant: launched.0.clone(),
                artifact: artifacts.get(&iteration.id)?.clone(),
                request: self.request(iteration, &found.case, launched)?,
                measurement: measurement(found)?,
            })
        };
        Ok(found.iter().filter_map(contender).collect())
    }

    /// Returns what was asked of the device. A scaled case is worked out anew, which only the family as it was can do.
    fn request(&self, iteration: &IterationRecord, case: &str, (variant, plans): &Launched) -> Option<CaseRequest> {
        let (workload, device) = (&self.parts.workload, self.parts.worker.info());
        let case = iteration.cases.iter().find(|other| other.name == case)?;
        let plan = plans.get(&case.name)?.clone();
        let family = self.parts.families.iter().find(|family| family.name == variant.family);
        let asked = family.and_then(|family| {
            requests::of_case(family, &variant.params, case, workload, device, self.order.model_flop).ok()
        });
        let scaled = asked.filter(|asked| asked.plan == plan).and_then(|asked| asked.scaled);
        Some(CaseRequest { case: case.clone(), plan, incumbent_ns: None, scaled })
    }
}

/// Returns everything that was found of correct variants, oldest first.
fn measured(record: &SessionRecord) -> impl Iterator<Item = Found<'_>> {
    let correct = record.iterations.iter().filter(|iteration| iteration.outcome == Some(Outcome::Measured));
    let found = correct.flat_map(|iteration| iteration.measurements.iter().map(move |found| (iteration, found)));
    found.filter(|(_, found)| !matches!(found.verdict, None | Some(Verdict::Rejected)))
}

/// Returns every start and improvement, oldest first.
fn winners(record: &SessionRecord) -> impl Iterator<Item = Found<'_>> {
    measured(record).filter(|(_, found)| matches!(found.verdict, Some(Verdict::Start | Verdict::Improved)))
}

/// Returns the contest in which a variant took its case from the incumbent when the iterations were over, if it did.
fn final_of<'r>(record: &'r SessionRecord, (iteration, found): Found<'_>) -> Option<&'r Contest> {
    let of_case =
        record.finals.iter().filter(|last| last.contest.conditions.case == found.case && last.winner == iteration.id);
    of_case.map(|last| &last.contest).rfind(|contest| contest.against(Role::Incumbent).is_some())
}

/// Returns the time that a winner has beaten: in the contest that settled it, else that of the winner before it.
fn beaten<'r>(record: &'r SessionRecord, (iteration, found): Found<'r>) -> Option<&'r Timing> {
    let contest = final_of(record, (iteration, found)).or(found.contest.as_ref());
    let in_contest = contest.and_then(|contest| contest.against(Role::Incumbent)).map(|(beaten, _)| &beaten.timing);
    let before = || {
        let before = winners(record).filter(|(other, won)| other.id < iteration.id && won.case == found.case);
        before.last().and_then(|(_, won)| won.best_timing())
    };
    in_contest.or_else(before)
}

fn measurement(found: &CaseRecord) -> Option<Measurement> {
    Some(Measurement {
        case: found.case.clone(),
        regime: found.regime,
        correctness: found.correctness?,
        screening: found.screening.clone(),
        confirmation: found.confirmation.clone(),
        contest: found.contest.clone(),
        ctas: found.ctas?,
        profile: found.profile.clone(),
    })
}
