//! How the variants of a case compare with each other.

use super::case_state::{Candidate, CaseState, MAX_NEAR_TIES};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::comparison::near_tie;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::journal::{Begun, Concluded, Disqualified};
use crate::session::state::SessionState;

/// How far a kernel may be behind the best of its case, as a factor, to be worth counters, ablations and a final.
const NEAR: f64 = 5.0;

/// The reason for a disqualification after a comparison that does not count.
const BELOW_FLOOR: &str = "its time in the comparison is below the floor";

impl SessionState {
    /// Returns the incumbent of a case, if it can take part in comparisons.
    pub fn incumbent(&self, case: &str) -> Option<&Candidate> {
        let incumbent = self.history().incumbents.get(case)?;
        self.case(case)?.candidate(incumbent.iteration)
    }

    /// Returns the time that a screened time is compared with: the incumbent's own screening run, if there is one. Its
    /// time in a comparison was taken in another way.
    pub fn incumbent_screened_ns(&self, case: &str) -> Option<f64> {
        let incumbent = self.history().incumbents.get(case)?;
        let screened_ns = self.incumbent(case).and_then(Candidate::screened_ns);
        Some(screened_ns.unwrap_or(incumbent.timing.median_ns))
    }

    /// Tells whether a time is within a factor of 5 of the best one of the case, ours or the baseline program's.
    pub fn is_near_the_best(&self, case: &str, ns: f64) -> bool {
        let fastest = self.history().fastest(case).map(|(_, ns)| ns);
        let program = self.case(case).and_then(CaseState::program).map(|program| program.timing.median_ns);
        fastest.into_iter().chain(program).all(|best_ns| ns <= NEAR * best_ns)
    }

    /// Returns the time to beat in screening: the incumbent's. Where times are sampled, a variant that is only screened
    /// has to beat the fastest variant so far.
    pub fn to_beat_ns(&self, case: &str, purpose: Purpose) -> Option<f64> {
        let incumbent_ns = self.incumbent_screened_ns(case)?;
        let is_screening = purpose == Purpose::Screening && self.setup().samples_times();
        let fastest = self.history().fastest(case).filter(|_| is_screening);
        Some(fastest.map_or(incumbent_ns, |(_, ns)| ns.min(incumbent_ns)))
    }

    /// Returns the variants of a case that would replace the incumbent but have had no comparison.
    pub fn unconfirmed(&self, case: &str) -> impl Iterator<Item = &Candidate> {
        let bar_ns = self.incumbent_screened_ns(case);
        let candidates = self.case(case).into_iter().flat_map(|case| &case.candidates);
        candidates.filter(|candidate| !candidate.is_compared()).filter(move |candidate| {
            let screening = candidate.measurement.screening.as_ref();
            screening.is_some_and(|screening| self.setup().policy().promising(screening, bar_ns))
        })
    }

    /// Returns the fastest of the unconfirmed variants whose confirmation was not asked for. A committed winner of the case
    /// comes before all others, because it is what they must beat. Those come last that are likely to fail.
    pub fn best_candidate(&self, case: &str) -> Option<&Candidate> {
        let state = self.case(case)?;
        let is_first = |candidate: &Candidate| self.is_committed_winner(case, candidate);
        let ns = |candidate: &Candidate| candidate.screened_ns().unwrap_or(f64::MAX);
        let open = self.unconfirmed(case).filter(|candidate| !state.is_confirmation_asked(&candidate.hash));
        open.min_by(|a, b| {
            let by_checks = is_first(b).cmp(&is_first(a)).then(self.suspicion(a).cmp(&self.suspicion(b)));
            by_checks.then(ns(a).total_cmp(&ns(b)))
        })
    }

    /// Tells whether an earlier session has committed a variant for a case, for this device or another one.
    pub fn is_committed_winner(&self, case: &str, candidate: &Candidate) -> bool {
        let is_known = self.case(case).is_some_and(|of| of.is_known(&candidate.family, &candidate.params));
        let iteration = self.history().iteration(candidate.iteration);
        is_known || iteration.is_some_and(|iteration| iteration.rationale.origin.is_committed_winner_of(case))
    }

    /// Returns the variants that screening cannot tell from `best`, in any order. None if `best` was not screened.
    pub fn near_ties<'a>(&'a self, case: &str, best: &'a Candidate) -> Option<impl Iterator<Item = &'a Candidate>> {
        let best_ns = best.screened_ns()?;
        let others = self.case(case)?.candidates.iter().filter(|other| other.hash != best.hash);
        Some(others.filter(move |other| other.screened_ns().is_some_and(|ns| near_tie(ns, best_ns))))
    }

    /// Returns the near ties that take part in a final, the fastest first.
    pub fn finalists(&self, case: &str, best: &Candidate) -> Vec<Candidate> {
        let mut near_ties = by_time(self.near_ties(case, best).into_iter().flatten());
        near_ties.sort_by_key(|one| self.suspicion(one));
        near_ties.truncate(MAX_NEAR_TIES);
        near_ties
    }

    /// Returns the candidates of a case whose incumbent is far behind the best, the fastest first, but those last that are likely to fail. Such an incumbent is an initial
    /// kernel that nothing has replaced yet. Empty for any other incumbent.
    pub fn successors(&self, case: &str) -> Vec<Candidate> {
        let is_far = |ns: f64| !self.is_near_the_best(case, ns);
        let incumbent_ns = self.incumbent(case).and_then(Candidate::screened_ns);
        if !incumbent_ns.is_some_and(is_far) {
            return Vec::new();
        }
        let mut successors = by_time(self.unconfirmed(case));
        successors.sort_by_key(|one| self.suspicion(one));
        successors
    }

    /// Returns the disqualifications of a variant's earlier iterations that follow from this one. A variant that is
    /// rejected in its confirmation is disqualified on that case. One that failed is also disqualified wherever it was
    /// only screened. Where it was confirmed before, its win stands.
    pub fn disqualifications(&self, begun: &Begun, concluded: &Concluded) -> Vec<Disqualified> {
        if begun.rationale.purpose != Purpose::Confirmation {
            return Vec::new();
        }
        let (hash, outcome) = (&begun.hash, &concluded.outcome);
        let failed = *outcome != Outcome::Measured;
        let times = || self.history().times_of(hash);
        let rejected = |case: &str| {
            concluded.case_results.iter().any(|found| found.case == case && found.verdict == Some(Verdict::Rejected))
        };
        let confirmed = |case: &str| times().any(|(_, time)| time.case == case && !time.screened_only);
        let out = times().filter(|(_, time)| rejected(&time.case) || (failed && !confirmed(&time.case)));
        // Once for each case, by its last iteration.
        let out: std::collections::BTreeMap<CaseName, IterationId> =
            out.map(|(iteration, time)| (time.case.clone(), iteration)).collect();
        let reason = if failed { outcome.message().unwrap_or(outcome.kind()) } else { BELOW_FLOOR };
        let disqualified =
            |(case, iteration)| Disqualified { iteration, hash: hash.clone(), case, reason: reason.to_owned() };
        out.into_iter().map(disqualified).collect()
    }
}

/// Returns candidates by their screened time, the fastest first.
fn by_time<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Vec<Candidate> {
    let ns = |candidate: &Candidate| candidate.screened_ns().unwrap_or(f64::MAX);
    let mut all: Vec<Candidate> = candidates.cloned().collect();
    all.sort_by(|a, b| ns(a).total_cmp(&ns(b)));
    all
}
