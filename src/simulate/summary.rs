//! The figures of a proposer on a space.

use serde::Serialize;

use super::expected::{Expected, Quartiles, survival};
use super::run::Run;
use crate::domain::statistics::{mean_interval, median};
use crate::spaces::RecordedSpace;

/// The numbers of evaluations after which the best configurations are shown.
pub const BUDGETS: [usize; 4] = [25, 50, 100, 200];

/// The distances to the optimum to reach, as shares of its time.
pub const WITHIN: [f64; 2] = [0.05, 0.01];

/// What a proposer reached on a space. Times are multiples of the optimum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The space's name.
    pub space: String,
    /// The proposer's name.
    pub proposer: String,
    /// The median best time after each of [`BUDGETS`] evaluations. None beyond the length of the runs, or if half of the
    /// runs have found nothing that works.
    pub medians: [Option<f64>; 4],
    /// How soon and how often it came near the optimum.
    pub reached: [Reached; 2],
    /// The mean share of evaluations that failed.
    pub failed: f64,
    /// The score: 0 for random search, 1 for finding the optimum at once.
    pub score: f64,
    /// Its 95% interval over the runs, low and high. None for random search, which is computed.
    pub score_interval: Option<[f64; 2]>,
    /// The mean best time after 1, 2, 3... evaluations. A run that has found nothing counts as the slowest time.
    pub mean: Vec<f64>,
    /// The quartiles of the best time after 1, 2, 3... evaluations, with the same rule.
    pub quartiles: Vec<Quartiles>,
}

/// How soon and how often runs came near the optimum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reached {
    /// The distance to the optimum, as a share of its time.
    pub within: f64,
    /// The median number of evaluations. None if fewer than half of the runs came that near.
    pub evaluations: Option<f64>,
    /// The share of runs that came that near.
    pub share: f64,
}

/// The name of random search in summaries.
const RANDOM: &str = "random, exact";

impl Summary {
    /// Summarises random search. Its score is 0 by definition.
    pub fn of_random(space: &RecordedSpace, expected: &Expected) -> Self {
        let optimum_ns = expected.times_ns[0];
        let reached = WITHIN.map(|within| {
            let good = expected.times_ns.partition_point(|ns| *ns <= optimum_ns * (1.0 + within));
            let share = |draws: usize| 1.0 - survival(expected.times_ns.len(), draws).nth(good).unwrap_or(0.0);
            let evaluations = (1..=expected.mean_ns.len()).find(|draws| share(*draws) >= 0.5);
            Reached { within, evaluations: evaluations.map(|count| count as f64), share: share(expected.mean_ns.len()) }
        });
        let over = |ns: f64| ns / optimum_ns;
        let quartiles: Vec<Quartiles> = expected.quartiles_ns.iter().map(|quartiles| quartiles.map(over)).collect();
        Self {
            space: space.name.clone(),
            proposer: RANDOM.to_owned(),
            medians: BUDGETS.map(|budget| quartiles.get(budget - 1).map(|[_, median, _]| *median)),
            reached,
            failed: space.failed_share(),
            score: 0.0,
            score_interval: None,
            mean: expected.mean_ns.iter().copied().map(over).collect(),
            quartiles,
        }
    }

    /// Summarises runs: each has the best time in nanoseconds after 1, 2, 3... evaluations.
    pub fn of(space: &RecordedSpace, proposer: &str, runs: &[Run], expected: &Expected) -> Self {
        let (optimum_ns, slowest_ns) = (space.optimum_ns(), expected.slowest_ns());
        let over: Vec<Vec<f64>> =
            runs.iter().map(|run| run.best_ns.iter().map(|ns| ns.min(slowest_ns) / optimum_ns).collect()).collect();
        let scores: Vec<f64> =
            over.iter().map(|run| score(run, expected.mean_ns().iter().map(|ns| ns / optimum_ns))).collect();
        let (score, interval) = mean_interval(&scores).unzip();
        let after = |budget: usize| -> Option<f64> {
            let best: Option<Vec<f64>> = runs.iter().map(|run| run.best_ns.get(budget - 1).copied()).collect();
            median(&best?).filter(|ns| ns.is_finite()).map(|ns| ns / optimum_ns)
        };
        let length = over.first().map_or(0, Vec::len);
        let column = |at: usize| over.iter().map(|run| run[at]).collect::<Vec<f64>>();
        Self {
            space: space.name.clone(),
            proposer: proposer.to_owned(),
            medians: BUDGETS.map(after),
            reached: WITHIN.map(|within| reached(&over, within)),
            failed: failed_share(runs),
            score: score.unwrap_or(0.0),
            score_interval: interval.map(|interval| [interval.lo, interval.hi]),
            mean: (0..length).map(|at| column(at).iter().sum::<f64>() / over.len() as f64).collect(),
            quartiles: (0..length).map(|at| quartiles(column(at))).collect(),
        }
    }
}

/// Returns the score of a run: the mean, over all evaluations, of the share of random search's distance to the optimum
/// that the run has saved. All times are multiples of the optimum. Evaluations at which random search is expected to be
/// at the optimum do not count.
fn score(run: &[f64], expected: impl Iterator<Item = f64>) -> f64 {
    /// The smallest distance that is not a rounding error.
    const MIN: f64 = 1e-9;
    let saved = run.iter().zip(expected).filter(|(_, expected)| *expected > 1.0 + MIN);
    let saved: Vec<f64> = saved.map(|(best, expected)| (expected - best) / (expected - 1.0)).collect();
    if saved.is_empty() { 0.0 } else { saved.iter().sum::<f64>() / saved.len() as f64 }
}

fn failed_share(runs: &[Run]) -> f64 {
    let evaluations: usize = runs.iter().map(|run| run.best_ns.len()).sum();
    runs.iter().map(|run| run.failures).sum::<usize>() as f64 / evaluations.max(1) as f64
}

fn reached(over: &[Vec<f64>], within: f64) -> Reached {
    let first = |run: &Vec<f64>| run.iter().position(|best| *best <= 1.0 + within).map(|place| (place + 1) as f64);
    let firsts: Vec<Option<f64>> = over.iter().map(first).collect();
    let share = firsts.iter().flatten().count() as f64 / firsts.len().max(1) as f64;
    let evaluations: Vec<f64> = firsts.into_iter().map(|first| first.unwrap_or(f64::INFINITY)).collect();
    Reached { within, evaluations: median(&evaluations).filter(|count| count.is_finite()), share }
}

fn quartiles(mut values: Vec<f64>) -> Quartiles {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    [at(0.25), median(&values).unwrap_or_else(|| at(0.5)), at(0.75)]
}
