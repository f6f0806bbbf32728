//! What a session knows: the sum of its records.
//!
//! [`SessionState::apply`] is the only way in which a session learns. The live loop calls it after each write, and
//! `resume` calls it with the records of the store. So both know the same. It is pure: no clock, no device, no files.

mod beaten;
pub(super) mod calls;
pub(super) mod case_state;
mod gains;
mod ranking;
mod score;
mod suspects;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use self::calls::Calls;
use self::case_state::{BestCandidate, Candidate, CaseState, MAX_DEATHS, Remeasured};
use self::suspects::{Suspects, Suspicion};
use super::meter::Meter;
use super::setup::SessionSetup;
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::history::attempt::Attempt;
use crate::domain::history::{ConfigurationId, History, Pending};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::comparison::Role;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::incumbent::Incumbent;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::models::call_record::CallEnded;
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::experiment::Scaling;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::journal::{Begun, Concluded, Disqualified, Record};
use crate::domain::record::{CaseRecord, Final};
use crate::domain::statistics::timing::Timing;

/// What an improvement means to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gain {
    /// The session has found it.
    Win,
    /// An earlier session has found it. It is measured again.
    Remeasured,
    /// The committed winner of another case. It beats the start, but the case's own winner is yet to be measured.
    OnTheWay,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(super) struct SessionState {
    setup: Arc<SessionSetup>,
    cases: BTreeMap<CaseName, CaseState>,
    history: History,
    meter: Meter,
    /// Iterations that have begun and not ended.
    in_flight: BTreeMap<IterationId, Begun>,
    /// The experiments that have begun. None is tried twice.
    experiments: Vec<Scaling>,
    /// The calls of language models.
    calls: Calls,
    /// The number of processes that died while a configuration was in flight.
    deaths: HashMap<ConfigurationId, u32>,
    suspects: Suspects,
}

impl SessionState {
    /// Makes a state with nothing but the setup.
    pub fn new(setup: Arc<SessionSetup>) -> Self {
        let case = |name: &CaseName| {
            let known = setup.known.iter().find(|known| known.here && known.case == *name).cloned();
            (name.clone(), CaseState::new(known))
        };
        let cases = setup.workload.cases.iter().map(|of| case(&of.name)).collect();
        let meter = Meter::new(setup.rate(), setup.gpus);
        Self {
            setup,
            cases,
            history: History::default(),
            meter,
            in_flight: BTreeMap::new(),
            experiments: Vec::new(),
            calls: Calls::default(),
            deaths: HashMap::new(),
            suspects: Suspects::default(),
        }
    }

    /// Returns what the session works on.
    pub fn setup(&self) -> &SessionSetup {
        &self.setup
    }

    /// Returns what the session works on, for tasks in the background.
    pub fn shared_setup(&self) -> Arc<SessionSetup> {
        Arc::clone(&self.setup)
    }

    /// Returns what proposers and the judge see.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns what the session has used.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the elapsed time at which a step that still runs is given up.
    pub fn hard_end(&self) -> Duration {
        self.meter.hard_end(&self.setup.options.budget, self.setup.options.grace)
    }

    /// Returns the iterations that have begun before the last one.
    pub fn begun_before(&self) -> u64 {
        (self.meter.finished() + self.in_flight.len() as u64).saturating_sub(1)
    }

    /// Returns the number of iterations that have begun and not ended.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.len() as u64
    }

    /// Returns the experiments that have begun.
    pub fn experiments(&self) -> &[Scaling] {
        &self.experiments
    }

    /// Returns what is known of calls to language models.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Returns what is known about a case.
    pub fn case(&self, name: &str) -> Option<&CaseState> {
        self.cases.get(name)
    }

    /// Returns what is known about each case, by name.
    pub fn cases(&self) -> impl Iterator<Item = (&CaseName, &CaseState)> {
        self.cases.iter()
    }

    /// Notes a configuration that was proposed and has not begun. A resumed session does not know it, and may propose
    /// it again.
    pub fn note_proposed(&mut self, configuration: ConfigurationId) {
        self.history.proposed.insert(configuration);
    }

    /// Notes a suggestion that has no result yet, for proposers that must not search at the same place for each of several devices. A
    /// resumed session does not know it.
    pub fn note_pending(&mut self, pending: Pending) {
        if self.setup.gpus > 1 {
            self.history.pending.push(pending);
        }
    }

    /// Notes a configuration that is not worth compiling. A resumed session does not know it, and finds out again.
    pub fn note_left_out(&mut self, configuration: ConfigurationId, attempt: Attempt) {
        self.history.proposed.insert(configuration);
        self.history.attempts.push(attempt);
    }

    /// Notes that the oldest configuration of a model was submitted, or that it cannot be tried. A resumed session does not
    /// know it, and finds out again.
    pub fn note_submitted(&mut self, can_be_tried: bool) {
        self.calls.note_submitted(can_be_tried, &self.history);
    }

    /// Applies one fact.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Resumed { used } => self.resume(*used),
            Record::Baseline(baseline) => self.case_mut(&baseline.case).baselines.push(baseline.clone()),
            Record::Begun(begun) => self.begin(begun),
            Record::Concluded(concluded) => self.conclude(concluded),
            Record::Disqualified(out) => self.disqualify(out),
            Record::Final(last) => self.apply_final(last),
            Record::Committed { iteration, case } => self.case_mut(case).committed(*iteration),
            Record::Counted(counted) => self.history.counters.push(counted.as_ref().clone()),
            Record::CountedBaseline(counted) => self.history.baseline_counters.push(counted.as_ref().clone()),
            Record::Ablated(ablated) => self.history.ablations.push(ablated.as_ref().clone()),
            Record::Booked(spent) => self.meter.book(*spent),
            Record::CallBegun(begun) => {
                self.calls.begin(begun);
                self.meter.reserve(self.calls.reserved().usd());
            }
            Record::CallEnded(ended) => self.end_call(ended),
        }
    }

    fn end_call(&mut self, ended: &CallEnded) {
        let family = self.calls.end(ended, &self.setup, &self.history);
        self.meter.reserve(self.calls.reserved().usd());
        if let Some(family) = family {
            Arc::make_mut(&mut self.setup).add_family(family);
        }
    }

    /// Drops what was in flight. It may be proposed again, unless it has ended too many processes.
    fn resume(&mut self, used: Duration) {
        self.meter.resume(used);
        for begun in std::mem::take(&mut self.in_flight).into_values() {
            if begun.rationale.purpose == Purpose::Experiment {
                continue;
            }
            let Some(configuration) = self.configuration(&begun) else { continue };
            let deaths = self.deaths.entry(configuration).or_default();
            *deaths += 1;
            if *deaths < MAX_DEATHS && begun.rationale.purpose != Purpose::Confirmation {
                self.history.proposed.remove(&configuration);
                self.calls.restore(begun.iteration);
            }
        }
        self.cases.values_mut().for_each(CaseState::resume);
    }

    fn begin(&mut self, begun: &Begun) {
        match &begun.rationale.origin {
            // Its configuration is that of an earlier iteration.
            Origin::ScaledCase(scaling) => self.experiments.push(scaling.clone()),
            // Its own may be proposed later.
            Origin::PathStep { .. } if begun.rationale.purpose == Purpose::Experiment => {}
            _ => self.history.proposed.extend(self.configuration(begun)),
        }
        if begun.rationale.purpose == Purpose::Confirmation {
            for case in &begun.cases {
                self.case_mut(&case.name).begin_confirmation(&begun.hash);
            }
        }
        self.calls.iteration_begun(begun);
        self.in_flight.insert(begun.iteration, begun.clone());
    }

    fn conclude(&mut self, concluded: &Concluded) {
        let Some(begun) = self.in_flight.remove(&concluded.iteration) else { return };
        self.history.pending.retain(|pending| pending.family != begun.family || pending.params != begun.params);
        self.meter.conclude(&begun, concluded);
        if begun.rationale.purpose == Purpose::Experiment {
            self.history.learn(&begun, concluded);
            return;
        }
        if concluded.outcome == Outcome::Measured {
            self.join(&begun.family);
        }
        let before_ns = self.history.fastest(&begun.rationale.hypothesis.case).map(|(_, ns)| ns);
        self.calls.iteration_concluded(&begun, concluded, before_ns, &self.setup);
        for found in &concluded.case_results {
            self.take_winner(&begun, found);
        }
        self.history.learn(&begun, concluded);
        self.calls.drop_stale(&self.history);
        self.part(&begun.family);
        if concluded.outcome == Outcome::Measured {
            for found in &concluded.case_results {
                self.keep_candidate(&begun, found);
            }
        }
        if begun.rationale.purpose == Purpose::Confirmation {
            self.end_confirmation(&begun, concluded);
        }
        self.note_best_candidates();
    }

    /// Has a family searched that a language model has written, once a variant was right.
    fn join(&mut self, family: &str) {
        if self.setup.generated.iter().any(|generated| generated == family) && !self.setup.is_searched(family) {
            Arc::make_mut(&mut self.setup).searched.push(family.to_owned());
        }
    }

    /// Has a family no longer searched that a language model has written, if its parameters have given less than what it lacks.
    fn part(&mut self, family: &str) {
        let is_generated = self.setup.generated.iter().any(|generated| generated == family);
        if is_generated && self.setup.is_searched(family) && beaten::is_beaten(&self.history, family) {
            Arc::make_mut(&mut self.setup).searched.retain(|searched| searched != family);
        }
    }

    /// Returns how likely a candidate is to fail the acceptance checks.
    pub fn suspicion(&self, candidate: &Candidate) -> Suspicion {
        let family = self.setup.families.iter().find(|family| family.name == candidate.family);
        let mechanism = |name: &str| family?.params.get(name).map(|param| param.mechanism);
        let is_arithmetic = |name: &str| mechanism(name) == Some(Mechanism::Arithmetic);
        self.suspects.suspicion(&candidate.family, &candidate.params, is_arithmetic)
    }

    /// Applies a verdict that makes a variant the start or the winner of its case.
    fn take_winner(&mut self, begun: &Begun, found: &CaseRecord) {
        let Some(timing) = found.best_timing() else { return };
        let previous = self.beaten(found).cloned();
        let is_searched = self.setup.is_searched(&begun.family);
        let is_first = self.setup.workload.initial_kernel.is_none() && !self.setup.samples_times();
        let case = self.case_mut(&found.case);
        case.remeasured |= case.is_known(&begun.family, &begun.params);
        let has_won = matches!(found.verdict, Some(Verdict::Start | Verdict::Improved));
        let is_rejected = matches!(found.verdict, None | Some(Verdict::Rejected));
        if !is_rejected && begun.rationale.origin.is_committed_winner_of(&found.case) {
            let (iteration, hash) = (begun.iteration, begun.hash.clone());
            case.note_remeasured(Remeasured { iteration, hash, ns: timing.median_ns, has_won });
        }
        match found.verdict {
            Some(Verdict::Start) => {
                case.start_ns.get_or_insert(timing.median_ns);
                // Where times are sampled, its final confirms it.
                let first =
                    candidate(begun, found).filter(|first| is_first && first.measurement.confirmation.is_some());
                if let Some(first) = first {
                    case.put_up(first, None, is_searched);
                }
            }
            Some(Verdict::Improved) => {
                if let Some(candidate) = candidate(begun, found) {
                    case.put_up(candidate, previous, is_searched);
                }
            }
            _ => {}
        }
    }

    fn keep_candidate(&mut self, begun: &Begun, found: &CaseRecord) {
        let verdict = found.verdict.filter(|verdict| *verdict != Verdict::Rejected);
        let (Some(verdict), Some(candidate)) = (verdict, candidate(begun, found)) else { return };
        let incumbent = self.history.incumbents.get(&found.case).map(|incumbent| incumbent.iteration);
        let is_initial = verdict == Verdict::Start && self.setup.workload.may_start_from(&begun.family);
        // Modelled times need no comparison, so no candidate waits for one.
        let is_sampled = self.setup.samples_times();
        let case = self.case_mut(&found.case);
        if let Some(comparison) = &found.comparison {
            case.time_comparison(comparison);
        }
        if is_initial {
            case.initial_kernel = Some(candidate.clone());
        }
        if is_sampled {
            case.keep(candidate, incumbent);
        }
    }

    fn end_confirmation(&mut self, begun: &Begun, concluded: &Concluded) {
        let failed = concluded.outcome != Outcome::Measured;
        for case in &begun.cases {
            let compared =
                concluded.case_results.iter().any(|found| found.case == case.name && found.comparison.is_some());
            self.case_mut(&case.name).end_confirmation(&begun.hash, failed || compared);
            if compared && !failed {
                self.suspects.note_passed(&begun.family, &begun.params);
            }
        }
    }

    fn disqualify(&mut self, out: &Disqualified) {
        if let Some(failed) = self.history.iteration(out.iteration) {
            self.suspects.note_failed(&failed.family, &failed.params);
        }
        self.history.forget(&out.hash, &out.case);
        self.case_mut(&out.case).disqualify(&out.hash);
        self.note_best_candidates();
    }

    /// Makes the winner of a final the incumbent.
    fn apply_final(&mut self, last: &Final) {
        let (comparison, case) = (&last.comparison, &last.comparison.conditions.case);
        let incumbent = self.history.incumbents.get(case);
        let previous = incumbent.map(|incumbent| incumbent.timing.clone());
        let is_first = self.is_first_kernel(case, last.winner);
        let previous = previous.filter(|_| !is_first);
        let is_new = is_first || incumbent.is_none_or(|incumbent| incumbent.iteration != last.winner);
        let state = self.case_mut(case);
        state.time_comparison(comparison);
        state.last_final = Some(last.clone());
        let winner = state.candidate(last.winner).cloned();
        let (true, Some(mut winner)) = (is_new, winner) else { return };
        winner.measurement.confirm(comparison.clone());
        let Some(timing) = winner.measurement.best_timing().cloned() else { return };
        self.suspects.note_passed(&winner.family, &winner.params);
        let (iteration, hash) = (winner.iteration, winner.hash.clone());
        let is_searched = self.setup.is_searched(&winner.family);
        self.case_mut(case).put_up(winner, previous, is_searched);
        self.history.incumbents.insert(case.clone(), Incumbent { iteration, hash, timing });
    }

    /// Tells whether a variant is the first right one of a case that began without a kernel, and not yet a winner. If nothing beats
    /// it, it is one.
    fn is_first_kernel(&self, case: &str, iteration: IterationId) -> bool {
        let is_it = |case: &CaseState| {
            let is_open = case.uncommitted.is_empty() && case.committed.is_empty();
            is_open && case.initial_kernel.as_ref().is_some_and(|first| first.iteration == iteration)
        };
        self.setup.workload.initial_kernel.is_none() && self.case(case).is_some_and(is_it)
    }

    /// Notes the fastest unconfirmed variant of each case, and since when.
    fn note_best_candidates(&mut self) {
        let finished = self.meter.finished();
        let candidates: Vec<_> =
            self.cases.keys().map(|case| self.best_candidate(case).map(|candidate| candidate.hash.clone())).collect();
        for (case, hash) in self.cases.values_mut().zip(candidates) {
            if case.best_candidate.as_ref().map(|best_candidate| &best_candidate.hash) != hash.as_ref() {
                case.best_candidate = hash.map(|hash| BestCandidate { hash, since: finished });
            }
        }
    }

    /// Returns the time that a winner has beaten: the one in the comparison that it won, else that of the incumbent
    /// before it.
    pub fn beaten<'a>(&'a self, found: &'a CaseRecord) -> Option<&'a Timing> {
        let compared = found.comparison.as_ref().and_then(|comparison| comparison.against(Role::Incumbent));
        let incumbent = || self.history.incumbents.get(&found.case).map(|incumbent| &incumbent.timing);
        compared.map(|(beaten, _)| &beaten.timing).or_else(incumbent)
    }

    /// Returns what an improvement means that an iteration has found and that is yet to be applied.
    pub fn gain(&self, begun: &Begun, case: &str) -> Gain {
        let on_the_way = || self.case(case).is_some_and(CaseState::awaits_remeasurement);
        match begun.rationale.purpose {
            _ if begun.rationale.origin.is_committed_winner_of(case) => Gain::Remeasured,
            Purpose::Remeasurement if on_the_way() => Gain::OnTheWay,
            _ => Gain::Win,
        }
    }

    /// Returns the configuration of a suggestion.
    pub fn configuration_of(&self, suggestion: &Suggestion) -> anyhow::Result<ConfigurationId> {
        let family = self.setup.family(&suggestion.family)?;
        let first = suggestion.cases.first().context("Failed to find a case for a proposal")?;
        Ok(ConfigurationId::new(&family.name, &family.specialization(first), &suggestion.params))
    }

    /// Returns the configuration of an iteration. None if its family no longer exists.
    fn configuration(&self, begun: &Begun) -> Option<ConfigurationId> {
        let family = self.setup.family(&begun.family).ok()?;
        Some(ConfigurationId::new(&family.name, &family.specialization(begun.cases.first()?), &begun.params))
    }

    fn case_mut(&mut self, name: &CaseName) -> &mut CaseState {
        self.cases.entry(name.clone()).or_default()
    }
}

fn candidate(begun: &Begun, found: &CaseRecord) -> Option<Candidate> {
    Some(Candidate {
        iteration: begun.iteration,
        family: begun.family.clone(),
        params: begun.params.clone(),
        hash: begun.hash.clone(),
        measurement: found.measurement()?,
    })
}
