//! What a session has gained on each case so far.
//!
//! The figures are those of the case's final, else of the comparison that the best variant won, else those of its own
//! run: the same as the report's.

use super::case_state::{Candidate, CaseState};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::comparison::{Comparison, Participant, Role, paired_ratio};
use crate::domain::record::gain::{CaseGain, GainResult, SLOWER};
use crate::domain::record::{Baseline, BaselineKind};
use crate::domain::statistics::Ratio;
use crate::domain::variant::{Params, VariantHash};
use crate::session::state::SessionState;

/// The best variant of a case, with the comparison that gave its time.
struct Best<'a> {
    iteration: IterationId,
    hash: &'a VariantHash,
    ns: f64,
    deciding: Option<(&'a Comparison, &'a Participant)>,
}

/// A time that no comparison of this session has confirmed.
struct Unconfirmed {
    us: f64,
    iteration: Option<IterationId>,
    /// Whether an earlier session has committed it.
    is_committed: bool,
}

/// What the session began with on a case.
struct Began {
    iteration: Option<IterationId>,
    hash: Option<VariantHash>,
    ns: f64,
}

impl SessionState {
    /// Returns what the session has gained on each case, in the workload's order.
    pub fn gains(&self) -> Vec<CaseGain> {
        self.setup().workload.cases.iter().filter_map(|case| self.gain_on(&case.name)).collect()
    }

    /// Returns what the session has gained on a case. None if there is no such case.
    pub fn gain_on(&self, name: &CaseName) -> Option<CaseGain> {
        let case = self.case(name)?;
        Some(self.gain_with(name, case, self.best(name, case)))
    }

    /// Returns what the session has gained on a case with a winner that it commits.
    pub fn gain_of(&self, name: &CaseName, winner: &Candidate) -> Option<CaseGain> {
        let case = self.case(name)?;
        // Usually the incumbent, unless that is of a family that is not searched.
        let best = self.best(name, case).filter(|best| best.iteration == winner.iteration);
        let own = || {
            let deciding = winner.measurement.comparison.as_ref();
            let deciding = deciding.and_then(|comparison| Some((comparison, comparison.challenger()?)));
            let ns = winner.measurement.best_timing()?.median_ns;
            Some(Best { iteration: winner.iteration, hash: &winner.hash, ns, deciding })
        };
        Some(self.gain_with(name, case, best.or_else(own)))
    }

    fn gain_with(&self, name: &CaseName, case: &CaseState, best: Option<Best<'_>>) -> CaseGain {
        let began = self.began(name, case);
        let gain = best.as_ref().zip(began.as_ref()).map(|(best, began)| best.over(began));
        let alone = || {
            let baseline = case.baseline()?;
            let (name, kind, ns) = (baseline.name.clone(), baseline.kind, baseline.timing.median_ns);
            let ratio = best.as_ref().map(|best| Quotient { estimate: ns / best.ns, interval: None });
            Some(Beside { name, kind, ns, ratio })
        };
        let beside = best.as_ref().and_then(|best| self.in_comparison(best, case)).or_else(alone);
        let over_baseline = beside.as_ref().and_then(|beside| beside.ratio);
        let is_new =
            best.as_ref().zip(began.as_ref()).is_some_and(|(best, began)| began.hash.as_ref() != Some(best.hash));
        let known = CaseGain {
            case: name.clone(),
            initial_us: case.start_ns.map(|ns| ns / 1e3),
            before_us: case.before.as_ref().map(|before| before.ns / 1e3),
            now_us: best.as_ref().map(|best| best.ns / 1e3),
            iteration: best.as_ref().map(|best| best.iteration),
            family: None,
            params: Params::default(),
            gain: gain.map(|gain| gain.estimate),
            gain_ci: gain.and_then(|gain| gain.interval),
            baseline: beside.as_ref().map(|beside| beside.name.clone()),
            baseline_kind: beside.as_ref().map(|beside| beside.kind),
            baseline_us: beside.as_ref().map(|beside| beside.ns / 1e3),
            over_baseline: over_baseline.map(|ratio| ratio.estimate),
            over_baseline_ci: over_baseline.and_then(|ratio| ratio.interval),
            result: match (&best, gain) {
                (Some(_), Some(gain)) if is_new && gain.estimate > 1.0 => GainResult::Improved,
                (Some(_), _) => GainResult::Unchanged,
                (None, _) => GainResult::Unmeasured,
            },
        };
        let is_slower = is_new && gain.is_some_and(|gain| gain.estimate < SLOWER);
        let gain = match self.unconfirmed_best(name, case, (is_slower, known.now_us)) {
            Some(Unconfirmed { us, iteration, is_committed }) => CaseGain {
                before_us: if is_committed { Some(us) } else { known.before_us },
                now_us: Some(us),
                iteration,
                gain: None,
                gain_ci: None,
                over_baseline: None,
                over_baseline_ci: None,
                result: GainResult::NotConfirmed,
                ..known
            },
            None => known,
        };
        self.with_configuration(gain)
    }

    /// Adds the configuration of the best variant to a gain.
    fn with_configuration(&self, gain: CaseGain) -> CaseGain {
        match gain.iteration.and_then(|iteration| self.history().iteration(iteration)) {
            Some(best) => CaseGain { family: Some(best.family.clone()), params: best.params.clone(), ..gain },
            None => gain,
        }
    }

    /// Returns what a case has that is faster than the variant whose time is confirmed, which is `now_us`: a committed winner that was
    /// screened again, one for which there was no time, or a candidate if the confirmed variant is far behind.
    fn unconfirmed_best(
        &self,
        name: &CaseName,
        case: &CaseState,
        (is_slower, now_us): (bool, Option<f64>),
    ) -> Option<Unconfirmed> {
        let screened = case.before.as_ref().filter(|_| is_slower);
        let screened = screened.map(|before| (before.ns / 1e3, Some(before.iteration), true));
        let committed = || {
            let us = case.known.as_ref().filter(|_| case.awaits_remeasurement())?.median_us?;
            now_us.is_none_or(|now_us| us < now_us).then_some((us, None, true))
        };
        let candidate = || {
            let fastest = self.successors(name).into_iter().next()?;
            Some((fastest.screened_ns()? / 1e3, Some(fastest.iteration), false))
        };
        let (us, iteration, is_committed) = screened.or_else(committed).or_else(candidate)?;
        Some(Unconfirmed { us, iteration, is_committed })
    }

    /// Returns the baseline in the comparison that gave the best variant's time.
    fn in_comparison(&self, best: &Best<'_>, case: &CaseState) -> Option<Beside> {
        let (baseline, ratio) = best.paired(|other| other.role == Role::Baseline)?;
        // A variant that stands in is the initial kernel.
        let initial = case.initial_kernel.as_ref().filter(|_| baseline.iteration.is_some());
        let times = self.setup().device.time_source();
        let (name, kind) = match initial {
            Some(initial) => {
                let origin = self.history().iteration(initial.iteration).map(|iteration| &iteration.rationale.origin);
                (Baseline::initial_kernel_name(times, &initial.family, origin), BaselineKind::InitialKernel)
            }
            None => (baseline.name.clone(), BaselineKind::Program),
        };
        Some(Beside { name, kind, ns: baseline.timing.median_ns, ratio: Some(Quotient::paired(ratio)) })
    }

    fn best<'a>(&'a self, name: &CaseName, case: &'a CaseState) -> Option<Best<'a>> {
        let incumbent = self.history().incumbents.get(name)?;
        let is_own = |participant: &&Participant| {
            participant.iteration == Some(incumbent.iteration) && participant.role != Role::Control
        };
        let last = case.last_final.as_ref().filter(|last| last.winner == incumbent.iteration);
        let last = last.map(|last| &last.comparison);
        let won = || case.candidate(incumbent.iteration)?.measurement.comparison.as_ref();
        let deciding = last.or_else(won);
        let deciding = deciding.and_then(|comparison| Some((comparison, comparison.participants.iter().find(is_own)?)));
        let ns = deciding.map_or(incumbent.timing.median_ns, |(_, own)| own.timing.median_ns);
        Some(Best { iteration: incumbent.iteration, hash: &incumbent.hash, ns, deciding })
    }

    fn began(&self, name: &CaseName, case: &CaseState) -> Option<Began> {
        if let Some(before) = &case.before {
            return Some(Began { iteration: Some(before.iteration), hash: Some(before.hash.clone()), ns: before.ns });
        }
        let iteration = self.initial_kernel(name);
        let initial = case.initial_kernel.as_ref().map(|initial| initial.hash.clone());
        Some(Began { iteration, hash: initial, ns: case.start_ns? })
    }
}

/// The baseline of a case, with its time over the best variant's.
struct Beside {
    name: String,
    kind: BaselineKind,
    ns: f64,
    ratio: Option<Quotient>,
}

/// A ratio of two times. It has an interval if one run timed both.
#[derive(Clone, Copy)]
struct Quotient {
    estimate: f64,
    interval: Option<[f64; 2]>,
}

impl Quotient {
    fn paired(ratio: Ratio) -> Self {
        Self { estimate: ratio.estimate, interval: Some([ratio.interval.lo, ratio.interval.hi]) }
    }
}

impl Best<'_> {
    fn over(&self, began: &Began) -> Quotient {
        if began.hash.as_ref() == Some(self.hash) {
            return Quotient { estimate: 1.0, interval: Some([1.0, 1.0]) };
        }
        let is_began = |other: &&Participant| other.iteration == began.iteration && other.role != Role::Control;
        let paired = began.iteration.and_then(|_| self.paired(is_began));
        paired.map_or(Quotient { estimate: began.ns / self.ns, interval: None }, |(_, ratio)| Quotient::paired(ratio))
    }

    /// Returns a participant of the deciding comparison, with its time over the best's.
    fn paired(&self, is_it: impl FnMut(&&Participant) -> bool) -> Option<(&Participant, Ratio)> {
        let (comparison, own) = self.deciding?;
        let other = comparison.participants.iter().find(is_it)?;
        Some((other, paired_ratio(&other.groups_ns, &own.groups_ns)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::proposal::origin::Purpose;
    use crate::session::synthetic::{CASES, Scenario, setup};

    #[test]
    fn a_committed_winner_that_was_only_screened_is_what_the_others_must_beat() {
        let mut told = Scenario::new(setup());
        told.screened(0, Purpose::Initial, [100, 100]);
        let committed = told.screened_from_another_device(1, [10, 100]);
        let gain = |told: &Scenario| told.state.gain_on(&CASES[0].into()).unwrap();
        let slower = gain(&told);
        assert_eq!((slower.result, slower.iteration), (GainResult::NotConfirmed, Some(committed)), "{slower:?}");
        assert_eq!((slower.before_us, slower.gain, slower.over_baseline), (slower.now_us, None, None), "{slower:?}");
        told.confirmed(2, 5);
        let faster = gain(&told);
        assert_eq!((faster.result, faster.gain), (GainResult::Improved, Some(2.0)), "{faster:?}");
    }

    #[test]
    fn a_candidate_that_was_only_screened_stands_where_the_naive_kernel_did() {
        let mut told = Scenario::new(setup());
        told.screened(0, Purpose::Initial, [100, 100]);
        let fast = told.screened(1, Purpose::Screening, [10, 60]);
        let gain = |case: &str| told.state.gain_on(&case.into()).unwrap();
        let far = gain(CASES[0]);
        assert_eq!((far.result, far.iteration, far.before_us), (GainResult::NotConfirmed, Some(fast), None), "{far:?}");
        assert_eq!(gain(CASES[1]).result, GainResult::Unchanged, "it is within 5x of the fastest");
    }
}
