//! What a session knows about one case.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::{Comparison, near_tie};
use crate::domain::measurement::evaluation::Measurement;
use crate::domain::measurement::verdict::is_far_behind;
use crate::domain::proposal::KnownWinner;
use crate::domain::record::{Baseline, BaselineKind, Final};
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::{Params, VariantHash};

/// The most variants that a final settles between. Each costs the time of a confirmation.
pub(in crate::session) const MAX_NEAR_TIES: usize = 4;

/// The most near ties of a case that are kept beside its incumbent, and beside the fastest of each value of a parameter. A final takes half of them. The rest replace near
/// ties that fail. On a plateau of the search space every second variant is one.
const MAX_KEPT: usize = 2 * MAX_NEAR_TIES;

/// How far two sessions may be apart on the same kernel. Of 18 committed winners that were measured again on another H200
/// (2026-11-21, `optloop reproduce`), the furthest differed by 2.5%.
const BETWEEN_SESSIONS: f64 = 1.025;

/// Deaths of the process during a configuration's iterations after which it is not tried again. Two deaths are hardly
/// an accident: the configuration may crash the machine.
pub(super) const MAX_DEATHS: u32 = 2;

/// A variant that was measured on the case and may take part in its comparisons.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Candidate {
    pub iteration: IterationId,
    pub family: String,
    pub params: Params,
    pub hash: VariantHash,
    pub measurement: Measurement,
}

impl Candidate {
    pub fn screened_ns(&self) -> Option<f64> {
        self.measurement.screening.as_ref().map(|timing| timing.median_ns)
    }

    /// Tells whether another candidate takes so much longer that a comparison need not time it.
    pub fn is_far_ahead_of(&self, other: &Self) -> bool {
        self.screened_ns().zip(other.screened_ns()).is_some_and(|(own, other)| is_far_behind(other, own))
    }

    /// Returns whether a comparison has confirmed its time.
    pub fn is_compared(&self) -> bool {
        self.measurement.comparison.is_some()
    }
}

/// The fastest unconfirmed variant.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct BestCandidate {
    pub hash: VariantHash,
    /// Iterations that had ended when it became the fastest.
    pub since: u64,
}

/// A winner that the session has not committed yet.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Uncommitted {
    /// The winner.
    pub candidate: Candidate,
    /// The time that it has beaten.
    pub previous: Option<Timing>,
}

/// A committed winner of an earlier session, as this session has measured it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Remeasured {
    pub iteration: IterationId,
    pub hash: VariantHash,
    pub ns: f64,
    /// Whether it has beaten the incumbent. Otherwise it was only screened.
    pub has_won: bool,
}

/// The progress of a variant's confirmation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::session) struct Confirmation {
    in_flight: bool,
    /// It began since the session began or resumed.
    in_this_run: bool,
    /// It ended with a result: a comparison, or a failure.
    settled: bool,
    /// Processes that died during it.
    deaths: u32,
}

/// Everything that a session knows about one case.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::session) struct CaseState {
    /// The time of the first correct variant, in nanoseconds. Gains count from it.
    pub start_ns: Option<f64>,
    /// The baselines' times, the fastest first.
    pub baselines: Vec<Baseline>,
    /// The incumbent, and the variants that are nearly as fast or faster.
    pub candidates: Vec<Candidate>,
    /// The initial kernel, which stands in for a missing baseline.
    pub initial_kernel: Option<Candidate>,
    /// The fastest unconfirmed variant, and since when.
    pub best_candidate: Option<BestCandidate>,
    /// The session's winners since its last commit, the newest last. If that one fails later, the one before it is the
    /// winner.
    pub uncommitted: Vec<Uncommitted>,
    /// The sources that the session has committed.
    pub committed: Vec<VariantHash>,
    /// The iteration that measured the committed winner again, until it is linked to that winner's commit.
    pub unlinked: Option<IterationId>,
    /// What the session began with: the committed winner, as measured again.
    pub before: Option<Remeasured>,
    /// The last final.
    pub last_final: Option<Final>,
    /// The winner that an earlier session committed for this device, until another one replaces it.
    pub known: Option<KnownWinner>,
    /// Whether this session has measured that winner.
    pub remeasured: bool,
    /// The time of each participant of the last comparison.
    pub participant_time: Option<Duration>,
    confirmations: HashMap<VariantHash, Confirmation>,
}

impl CaseState {
    /// Makes the state of a case with nothing but its committed winner.
    pub fn new(known: Option<KnownWinner>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Returns the fastest baseline.
    pub fn baseline(&self) -> Option<&Baseline> {
        self.baselines.first()
    }

    /// Returns the time of the fastest backend of the baseline program.
    pub fn program(&self) -> Option<&Baseline> {
        self.baselines.iter().find(|baseline| baseline.kind == BaselineKind::Program)
    }

    /// Returns the name of the fastest backend of the baseline program.
    pub fn backend(&self) -> Option<&str> {
        self.program().map(|baseline| baseline.name.as_str())
    }

    /// Returns the candidate that an iteration measured.
    pub fn candidate(&self, iteration: IterationId) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.iteration == iteration)
    }

    /// Returns whether the kernel of an iteration may take part in a comparison or a commit.
    pub fn needs_kernel(&self, iteration: IterationId) -> bool {
        let winner = self.winner().map(|winner| &winner.candidate);
        let kept = self.candidates.iter().chain(&self.initial_kernel).chain(winner);
        kept.into_iter().any(|one| one.iteration == iteration)
    }

    /// Keeps a variant that later comparisons may need. Drops those that have fallen behind the incumbent.
    pub fn keep(&mut self, candidate: Candidate, incumbent: Option<IterationId>) {
        // A variant that was screened and then confirmed is one candidate.
        self.candidates.retain(|earlier| earlier.hash != candidate.hash);
        self.candidates.push(candidate);
        let is_incumbent = |candidate: &Candidate| Some(candidate.iteration) == incumbent;
        let best = self.candidates.iter().find(|candidate| is_incumbent(candidate));
        let Some(best_ns) = best.and_then(Candidate::screened_ns) else { return };
        let ns = |candidate: &Candidate| candidate.screened_ns().unwrap_or(f64::MAX);
        self.candidates.retain(|candidate| is_incumbent(candidate) || near_tie(ns(candidate), best_ns));
        self.candidates.sort_by(|a, b| (!is_incumbent(a)).cmp(&!is_incumbent(b)).then(ns(a).total_cmp(&ns(b))));
        let mut at = 0;
        let mut held = HashSet::new();
        self.candidates.retain(|candidate| {
            at += 1;
            let values = candidate.params.iter().map(|(name, value)| (candidate.family.clone(), name.clone(), *value));
            // Another value may be what is right, if the fastest are wrong.
            let is_first_of_a_value = values.fold(false, |is_first, value| held.insert(value) | is_first);
            at <= 1 + MAX_KEPT || is_first_of_a_value
        });
    }

    /// Returns whether a configuration is that of the committed winner, however its family's source has changed since.
    pub fn is_known(&self, family: &str, params: &Params) -> bool {
        self.known.as_ref().is_some_and(|known| known.is(family, params))
    }

    /// Marks a winner for its commit, unless HEAD has it, or has one that is as fast. A winner of a family that is not
    /// searched is there to be beaten, and is not committed again.
    pub fn put_up(&mut self, candidate: Candidate, previous: Option<Timing>, is_searched: bool) {
        let Some(timing) = candidate.measurement.best_timing() else { return };
        if let Some(known) = &self.known {
            if known.hash == candidate.hash {
                // It is the best again, and HEAD has it.
                self.uncommitted.clear();
                self.unlinked = Some(candidate.iteration);
                return;
            }
            // A winner whose time cannot be compared stays until it is measured again.
            let (known_ns, ns) = (known.median_us.map_or(0.0, |us| us * 1e3), timing.median_ns);
            let is_known = self.is_known(&candidate.family, &candidate.params);
            // It is the committed winner's configuration. Its family renders another source by now, so it needs a
            // commit only if it is faster.
            if is_known && known_ns < ns * BETWEEN_SESSIONS {
                self.uncommitted.clear();
                return;
            }
            // It is faster than the initial kernel, but not than the committed winner, which has yet to be measured
            // again.
            if !is_known && self.awaits_remeasurement() && known_ns <= ns {
                return;
            }
        }
        if is_searched {
            self.uncommitted.push(Uncommitted { candidate, previous });
        }
    }

    /// Returns the winner that is not committed yet.
    pub fn winner(&self) -> Option<&Uncommitted> {
        self.uncommitted.last()
    }

    /// Tells whether the committed winner of the case is yet to be measured again.
    pub fn awaits_remeasurement(&self) -> bool {
        self.known.is_some() && !self.remeasured && self.uncommitted.is_empty()
    }

    /// Notes that a committed winner of an earlier session was measured again. The fastest counts, and one that has won
    /// before one that was only screened.
    pub fn note_remeasured(&mut self, found: Remeasured) {
        let counts = |before: &Remeasured| (found.has_won, before.ns) > (before.has_won, found.ns);
        if self.before.as_ref().is_none_or(counts) {
            self.before = Some(found);
        }
    }

    /// Records the commit of a winner.
    pub fn committed(&mut self, iteration: IterationId) {
        if self.unlinked.take_if(|unlinked| *unlinked == iteration).is_some() {
            return;
        }
        let place = self.uncommitted.iter().position(|winner| winner.candidate.iteration == iteration);
        let Some(place) = place else { return };
        self.committed.extend(self.uncommitted.drain(..=place).map(|winner| winner.candidate.hash));
        // HEAD no longer holds the earlier winner.
        self.known = None;
    }

    /// Disqualifies a variant on this case.
    pub fn disqualify(&mut self, hash: &VariantHash) {
        self.candidates.retain(|candidate| candidate.hash != *hash);
        self.uncommitted.retain(|winner| winner.candidate.hash != *hash);
        self.before.take_if(|before| before.hash == *hash);
    }

    /// Records how long a comparison took.
    pub fn time_comparison(&mut self, comparison: &Comparison) {
        let wall = comparison.wall_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        if let Some(wall) = wall {
            self.participant_time = Some(wall / comparison.participants.len().max(1) as u32);
        }
    }

    /// Records that a variant's confirmation has begun.
    pub fn begin_confirmation(&mut self, hash: &VariantHash) {
        let confirmation = self.confirmations.entry(hash.clone()).or_default();
        (confirmation.in_flight, confirmation.in_this_run) = (true, true);
    }

    /// Records that a confirmation has ended, and whether it had a result.
    pub fn end_confirmation(&mut self, hash: &VariantHash, settled: bool) {
        let confirmation = self.confirmations.entry(hash.clone()).or_default();
        confirmation.in_flight = false;
        confirmation.settled |= settled;
    }

    /// Records that the process died and another one continues.
    pub fn resume(&mut self) {
        for confirmation in self.confirmations.values_mut() {
            confirmation.deaths += u32::from(confirmation.in_flight);
            (confirmation.in_flight, confirmation.in_this_run) = (false, false);
        }
    }

    /// Returns whether a variant's confirmation was asked for. One request is enough, unless there was no time for it.
    pub fn is_confirmation_asked(&self, hash: &VariantHash) -> bool {
        let requested = |one: &Confirmation| one.in_this_run || one.settled || one.deaths >= MAX_DEATHS;
        self.confirmations.get(hash).is_some_and(requested)
    }
}
