//! An experiment that may be recommended, and the limit that the floor of its case sets to what is expected of it.

use super::contract::{Case, Experiment};

/// An experiment with the speed-up that it should bring on its case.
pub(super) struct Candidate {
    /// The expected speed-up, by which experiments are ranked.
    pub(super) gain: f64,
    /// The experiment.
    pub(super) experiment: Experiment,
}

/// Returns the experiment with the largest expected gain, of several the first, with its expectation limited by the floor.
pub(super) fn most(candidates: Vec<Candidate>, cases: &[Case]) -> Option<Experiment> {
    let ranked = candidates.into_iter().map(|Candidate { gain, experiment }| {
        let most = floor_us(&experiment, cases).map_or(f64::INFINITY, |floor_us| experiment.before_us / floor_us);
        Candidate { gain: gain.min(most), experiment }
    });
    let best = ranked.reduce(|best, one| if one.gain > best.gain { one } else { best })?;
    Some(above_floor(best.experiment, cases))
}

/// Ends the range of the expected time at the floor of the case, and says so. The ratios of other cases, the ranges of
/// predictions and the quartiles of other pairs know nothing of it.
pub(super) fn above_floor(mut experiment: Experiment, cases: &[Case]) -> Experiment {
    let floor_us = floor_us(&experiment, cases);
    if let (Some(after_us), Some(floor_us)) = (&mut experiment.after_us, floor_us)
        && after_us[0] < floor_us
    {
        *after_us = after_us.map(|us| us.max(floor_us));
        experiment.expected_from += "; the range ends at the floor, which no kernel beats";
    }
    experiment
}

/// Returns the floor of an experiment's case. A best variant below it shows that the ceilings are wrong, which the report
/// remarks on; then the best time is the limit.
fn floor_us(experiment: &Experiment, cases: &[Case]) -> Option<f64> {
    let case = cases.iter().find(|case| case.case == experiment.case)?;
    case.floor_us.map(|floor_us| floor_us.min(experiment.before_us))
}
