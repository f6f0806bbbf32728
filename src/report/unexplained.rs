//! How much of the distance between the best times and their floors no cause accounts for.

use super::contract::{Case, Report};
use super::limiter;

/// The multiple of the floor from which a distance has to be explained.
const NEAR: f64 = 1.5;

/// The share of the distance, as a logarithm, from which a cause explains most of it.
const MOST: f64 = 0.5;

/// The cases for which no cause explains most of the distance to the floor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unexplained<'a> {
    /// How many there are.
    pub(super) cases: usize,
    /// The one with the largest distance that is left.
    pub(super) most: Distance<'a>,
    /// Whether another one is farther, above an empty launch. No kernel comes near that, so its distance tells less.
    pub(super) is_launch_left_out: bool,
}

/// The distance of a best variant from its floor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Distance<'a> {
    /// The case.
    pub(super) case: &'a Case,
    /// The time over the floor.
    pub(super) far: f64,
    /// How much of that factor the first cause accounts for.
    pub(super) gain: f64,
}

impl Distance<'_> {
    /// Returns the factor that is left without the cause.
    pub(super) fn rest(&self) -> f64 {
        self.far / self.gain
    }

    fn is_above_launch(&self) -> bool {
        self.case.roofline.as_ref().is_some_and(|roofline| roofline.floor_limiter == "launch")
    }
}

/// Returns the cases for which no cause explains most of the distance to the floor. None if there are none. Where the winner
/// was ablated, its breakdown says what the time is.
pub(super) fn of(report: &Report) -> Option<Unexplained<'_>> {
    let distance = |case| Some(of_case(case, report)?).filter(|one| one.gain.ln() < MOST * one.far.ln());
    let open: Vec<Distance<'_>> = report.cases.iter().filter_map(distance).collect();
    let largest = |a: &Distance<'_>, b: &Distance<'_>| a.rest().total_cmp(&b.rest());
    let any = open.iter().copied().max_by(largest)?;
    let most = open.iter().copied().filter(|one| !one.is_above_launch()).max_by(largest).unwrap_or(any);
    Some(Unexplained { cases: open.len(), most, is_launch_left_out: most.rest() < any.rest() })
}

fn of_case<'a>(case: &'a Case, report: &Report) -> Option<Distance<'a>> {
    let far = case.best_us? / case.floor_us?;
    let gain = limiter::first_cause(case, &report.diagnoses).map_or(1.0, |cause| cause.gain.max(1.0));
    let is_measured = case.breakdown.as_ref().is_some_and(|one| one.other().is_some());
    (far >= NEAR && !is_measured).then_some(Distance { case, far, gain })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record, report};
    use super::*;

    /// The first case takes 50 times its floor, and the second 400 times an empty launch.
    #[test]
    fn the_largest_distance_is_one_above_more_than_an_empty_launch() {
        let mut report = report(&record());
        let told = |report: &Report| {
            let found = of(report).unwrap();
            (found.cases, found.most.case.case.to_string(), found.most.far, found.is_launch_left_out)
        };
        assert_eq!(told(&report), (2, "b8h8s512".to_owned(), 400.0, false), "both floors are empty launches");
        report.cases[0].roofline.as_mut().unwrap().floor_limiter = "L2";
        assert_eq!(told(&report), (2, "b1h1s128".to_owned(), 50.0, true));
        report.cases.iter_mut().for_each(|case| case.floor_us = case.best_us);
        assert!(of(&report).is_none(), "nothing is left to explain");
    }
}
