//! Screens the first results of another machine again on home, and one in fifty of the others. A machine that disagrees twice is not
//! used any more, and what it has screened is screened again.
//!
//! A winner is always compared on home. So a machine that lies can only hide good variants.

use std::collections::HashMap;

use crate::domain::ids::IterationId;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::statistics::timing::Timing;
use crate::runner::inputs;

/// So many results of each machine are checked at first.
const FIRST: u64 = 2;

/// One in so many of the others is checked.
const ONE_IN: u64 = 50;

/// How often a machine may disagree: a kernel may fail at random, and a time may be disturbed once.
const DISAGREEMENTS: u32 = 2;

/// How far two times of a variant may be apart, as a factor. Screening runs are within a few percent of each other.
const APART: f64 = 1.3;

/// What is known of the machines, by the name of the card.
pub(super) struct SpotChecks {
    seed: u64,
    cards: HashMap<String, Card>,
}

#[derive(Default)]
struct Card {
    results: u64,
    /// What it has screened, and home has not.
    screened: Vec<IterationId>,
    disagreed: u32,
}

impl SpotChecks {
    /// Knows no machine yet. Which results are checked follows from the seed, which workers do not know.
    pub fn new(seed: u64) -> Self {
        Self { seed, cards: HashMap::new() }
    }

    /// Takes note of a result. Returns whether home has to check it.
    pub fn note(&mut self, card: &str, iteration: IterationId) -> bool {
        let known = self.cards.entry(card.to_owned()).or_default();
        known.results += 1;
        let drawn = inputs::mix(self.seed, &["spot check", &iteration.to_string()]);
        let is_checked = known.results <= FIRST || drawn.is_multiple_of(ONE_IN);
        if !is_checked {
            known.screened.push(iteration);
        }
        is_checked
    }

    /// Tells whether a machine has disagreed too often.
    pub fn is_out(&self, card: &str) -> bool {
        self.cards.get(card).is_some_and(|card| card.disagreed >= DISAGREEMENTS)
    }

    /// Returns what has to be screened again because a machine is not used any more: all that only it has screened.
    pub fn leave_out(&mut self, card: &str) -> Vec<IterationId> {
        self.cards.get_mut(card).map(|known| std::mem::take(&mut known.screened)).unwrap_or_default()
    }

    /// Compares a machine's result with home's. Returns what has to be screened again if the machine has disagreed too often.
    pub fn compare(&mut self, card: &str, theirs: &Evaluation, homes: &Evaluation) -> Option<Vec<IterationId>> {
        if agree(theirs, homes) {
            return None;
        }
        let known = self.cards.get_mut(card)?;
        known.disagreed += 1;
        (known.disagreed == DISAGREEMENTS).then(|| self.leave_out(card))
    }
}

/// Tells whether two machines have found the same. A slow variant may be left on some cases.
fn agree(one: &Evaluation, other: &Evaluation) -> bool {
    if one.outcome != Outcome::Measured || other.outcome != Outcome::Measured {
        return one.outcome.kind() == other.outcome.kind();
    }
    one.measurements.iter().all(|found| {
        let same = other.measurements.iter().find(|same| same.case == found.case);
        let ns = |timing: Option<&Timing>| timing.map(|timing| timing.median_ns);
        let times = ns(found.screening.as_ref()).zip(same.and_then(|same| ns(same.screening.as_ref())));
        times.is_none_or(|(one, other)| one / other <= APART && other / one <= APART)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::synthetic::{CASES, evaluation, measurement};

    fn timed(us: u32) -> Evaluation {
        evaluation(Outcome::Measured, vec![measurement(CASES[0], us, None)])
    }

    fn wrong() -> Evaluation {
        let message = "it hangs".to_owned();
        evaluation(Outcome::TimedOut { case: CASES[0].into(), message }, Vec::new())
    }

    #[test]
    fn the_first_two_results_and_one_in_fifty_are_checked() {
        let mut checks = SpotChecks::new(1);
        assert_eq!([5001, 5002].map(|number| checks.note("rack/0", IterationId(number))), [true; 2]);
        let checked = (0..5000).filter(|number| checks.note("rack/0", IterationId(*number))).count();
        assert!((70..130).contains(&checked), "{checked}");
    }

    #[test]
    fn a_machine_that_disagrees_twice_is_out_and_its_results_are_open_again() {
        let mut checks = SpotChecks::new(1);
        let screened: Vec<_> = (0..20).map(IterationId).filter(|one| !checks.note("rack/0", *one)).collect();
        checks.note("rack/1", IterationId(20));
        // Times differ by a few percent, and a failure is the same failure.
        assert_eq!(checks.compare("rack/0", &timed(100), &timed(110)), None);
        assert_eq!(checks.compare("rack/0", &wrong(), &wrong()), None);
        assert_eq!(checks.compare("rack/0", &timed(300), &timed(100)), None);
        assert!(!checks.is_out("rack/0"));
        let open = checks.compare("rack/0", &wrong(), &timed(100)).unwrap();
        assert!(open.len() > 10, "{open:?}");
        assert_eq!(open, screened, "home has screened the others");
        assert_eq!([checks.is_out("rack/0"), checks.is_out("rack/1")], [true, false]);
        assert_eq!(checks.compare("rack/0", &wrong(), &timed(100)), None, "it is open already");
    }
}
