//! Scores a claim against what it names.

use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::{Participant, Role};
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::measurement::verdict::Decision;
use crate::domain::proposal::origin::Origin;
use crate::session::state::SessionState;

impl SessionState {
    /// Returns the speed-up of an iteration over what its claim names. None if the two were not both timed.
    ///
    /// If one run timed both in turns, the ratio is paired. Otherwise it is the quotient of two runs.
    pub fn actual_speedup(&self, claim: &Hypothesis, evaluation: &Evaluation, decisions: &[Decision]) -> Option<f64> {
        if evaluation.outcome != Outcome::Measured {
            return None;
        }
        let found = evaluation.measurements.iter().find(|found| found.case == claim.case)?;
        match claim.reference {
            Reference::InitialKernel => self.over_iteration(found, self.initial_kernel(&claim.case)?),
            Reference::Iteration(iteration) => self.over_iteration(found, iteration),
            Reference::Incumbent => decisions.iter().find(|decision| decision.case == claim.case)?.speedup,
            Reference::Baseline => self.over_baseline(found),
        }
    }

    /// Returns the iteration that timed the initial kernel on a case.
    pub fn initial_kernel(&self, case: &str) -> Option<IterationId> {
        let mut finished = self.history().finished.iter();
        let initial = finished.find(|one| one.rationale.origin == Origin::InitialKernel && one.time_ns(case).is_some());
        initial.map(|initial| initial.iteration)
    }

    /// Returns the speed-up of a measurement over the variant of an earlier iteration.
    pub fn over_iteration(&self, found: &Measurement, iteration: IterationId) -> Option<f64> {
        let is_reference = |one: &&Participant| one.iteration == Some(iteration) && one.role != Role::Control;
        let time_ns = self.history().iteration(iteration)?.time_ns(&found.case)?;
        paired(found, is_reference).or_else(|| Some(time_ns / found.best_timing()?.median_ns))
    }

    fn over_baseline(&self, found: &Measurement) -> Option<f64> {
        let alone = || {
            let baseline = self.case(&found.case)?.baseline()?;
            Some(baseline.timing.median_ns / found.best_timing()?.median_ns)
        };
        paired(found, |one| one.role == Role::Baseline).or_else(alone)
    }
}

/// Returns the time of a participant of a measurement's comparison over the measured variant's.
fn paired(found: &Measurement, is_reference: impl FnMut(&&Participant) -> bool) -> Option<f64> {
    let comparison = found.comparison.as_ref()?;
    let reference = comparison.participants.iter().skip(1).find(is_reference)?;
    comparison.over_challenger(reference).map(|ratio| ratio.estimate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::claims::hypothesis::Score;
    use crate::domain::claims::prediction::{Prediction, Strength};
    use crate::domain::measurement::verdict::judge;
    use crate::domain::proposal::origin::Purpose;
    use crate::session::synthetic::{CASES, Scenario, evaluation, measurement, setup};

    /// The initial kernel takes 1000, the incumbent 10 and the baseline 20. A variant of 10.2 is 98 times as fast as
    /// the first, and no faster than the second.
    #[test]
    fn a_claim_is_scored_against_what_it_names_and_nothing_else() {
        let mut told = Scenario::new(setup());
        let initial = told.screened(0, Purpose::Initial, [1000, 1000]);
        let parent = told.screened(1, Purpose::Screening, [100, 100]);
        told.confirmed(2, 10);
        told.baseline(20);
        assert_eq!(told.state.initial_kernel(CASES[0]), Some(initial));
        let scored = |told: &Scenario, us: u32, reference: Reference| {
            let found = evaluation(Outcome::Measured, vec![measurement(CASES[0], us, None)]);
            let decisions = judge(&told.state.history().incumbents, &found, told.state.setup().policy());
            let claim = Hypothesis {
                prediction: Some(Prediction {
                    median: Some(10.0),
                    lo: 1.0,
                    hi: 1000.0,
                    strength: Strength::Prior,
                    model: None,
                }),
                ..Hypothesis::without_claim("c".to_owned(), "e".to_owned(), CASES[0].into(), reference)
            };
            let actual = told.state.actual_speedup(&claim, &found, &decisions);
            (actual.map(|actual| (actual * 100.0).round() / 100.0), claim.score(actual))
        };
        for (reference, actual, score) in [
            (Reference::InitialKernel, 50.0, Score::InRange),
            (Reference::Iteration(parent), 5.0, Score::InRange),
            (Reference::Baseline, 1.0, Score::InRange),
            (Reference::Incumbent, 0.5, Score::Below),
        ] {
            assert_eq!(scored(&told, 20, reference), (Some(actual), score), "{reference:?}");
        }
        // On a case where the initial kernel failed, nothing can be said about it.
        let unmeasured = Scenario::new(setup());
        assert_eq!(scored(&unmeasured, 20, Reference::InitialKernel), (None, Score::Untested));
    }

    #[test]
    fn a_speed_up_is_paired_where_one_run_timed_both() {
        let mut told = Scenario::new(setup());
        let initial = told.screened(0, Purpose::Initial, [100, 100]);
        // In the comparison the initial kernel takes 90, not the 100 of its own run.
        let own = IterationId(9);
        let found = measurement(CASES[0], 30, Some((own, initial, 90)));
        let over = told.state.over_iteration(&found, initial).unwrap();
        assert!((over - 3.0).abs() < 1e-9, "{over}");
    }
}
