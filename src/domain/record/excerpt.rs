//! What a record holds of a session that has too many iterations to read them all: an excerpt, and figures about all of
//! them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Serialize;

use super::IterationRecord;
use crate::domain::budget::phase::StepTimes;
use crate::domain::claims::hypothesis::Score;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::proposal::origin::Purpose;

/// A selection of a session's iterations: those that the figures of a report come from, and some spread evenly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Excerpt {
    /// Figures about all iterations.
    pub totals: Totals,
    /// What the session had used when each iteration of the excerpt was on record, in their order.
    pub used: Vec<Used>,
    /// The iterations of the excerpt that are spread evenly over the session. Shares and medians are taken from them alone,
    /// because the others were selected for what came of them.
    pub even: BTreeSet<IterationId>,
    /// Wins that are not in the excerpt. It has the latest.
    pub wins_left_out: u64,
}

/// The wall time and the money that a session has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Used {
    /// Seconds since it began, without the time between an interruption and its resumption.
    pub wall_s: f64,
    /// US dollars, of iterations alone.
    pub usd: f64,
}

/// Figures about all iterations of a session, whether its record holds them or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Iterations begun.
    pub iterations: u64,
    /// Iterations that ended, by kind of outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Wrong and cheating variants, by the check that caught them.
    pub caught: BTreeMap<String, u64>,
    /// Different variants.
    pub variants: u64,
    /// Results on a case.
    pub results: u64,
    /// Correct times by case, without those of experiments. Cases without one may be left out.
    pub timed: BTreeMap<CaseName, u64>,
    /// Committed winners measured again.
    pub remeasured: u64,
    /// Variants that were screened.
    pub screened: u64,
    /// Results on a case of these.
    pub screened_results: u64,
    /// Comparisons that confirmed something, without those of committed winners.
    pub comparisons: u64,
    /// Claims by score.
    pub scores: BTreeMap<String, u64>,
    /// Tested claims whose variant was faster than its reference.
    pub faster: u64,
    /// The steps of the initial kernel and of committed winners measured again.
    pub first_steps: StepTimes,
    /// The steps of all other iterations.
    pub other_steps: StepTimes,
    /// Whether the steps of every iteration were recorded.
    pub steps_known: bool,
}

impl Totals {
    /// Counts iterations, all of a session.
    pub fn of(iterations: &[IterationRecord]) -> Self {
        let mut totals = Self { steps_known: true, ..Self::default() };
        for iteration in iterations {
            totals.add(iteration);
        }
        totals.variants = iterations.iter().map(|iteration| &iteration.hash).collect::<HashSet<_>>().len() as u64;
        totals
    }

    fn add(&mut self, iteration: &IterationRecord) {
        let results = iteration.measurements.len() as u64;
        self.iterations += 1;
        self.results += results;
        for found in &iteration.measurements {
            let is_correct = found.best_timing().is_some() && found.verdict != Some(Verdict::Rejected);
            if is_correct && iteration.rationale.purpose != Purpose::Experiment {
                *self.timed.entry(found.case.clone()).or_default() += 1;
            }
            let is_compared = found.comparison.is_some() && iteration.rationale.purpose != Purpose::Remeasurement;
            self.comparisons += u64::from(is_compared);
        }
        self.remeasured += u64::from(iteration.rationale.purpose == Purpose::Remeasurement);
        if let Some(score) = iteration.score {
            *self.scores.entry(score.name().to_owned()).or_default() += 1;
            let is_tested = !matches!(score, Score::Untested | Score::NoClaim);
            self.faster += u64::from(is_tested && iteration.actual.is_some_and(|actual| actual > 1.0));
        }
        let Some(outcome) = &iteration.outcome else { return };
        *self.outcomes.entry(outcome.kind().to_owned()).or_default() += 1;
        if let Some(check) = outcome.check() {
            *self.caught.entry(check.name().to_owned()).or_default() += 1;
        }
        if iteration.rationale.purpose == Purpose::Screening {
            self.screened += 1;
            self.screened_results += results;
        }
        self.steps_known &= iteration.steps.is_some();
        let is_first = matches!(iteration.rationale.purpose, Purpose::Initial | Purpose::Remeasurement);
        let steps = if is_first { &mut self.first_steps } else { &mut self.other_steps };
        *steps += iteration.steps.unwrap_or_else(|| guessed(iteration));
    }

    /// Returns the iterations that never ended.
    pub fn unfinished(&self) -> u64 {
        self.iterations - self.outcomes.values().sum::<u64>()
    }

    /// Counts the iterations with a kind of outcome, one of [`Outcome::KINDS`].
    pub fn outcome(&self, kind: &str) -> u64 {
        debug_assert!(Outcome::KINDS.contains(&kind));
        self.outcomes.get(kind).copied().unwrap_or_default()
    }
}

/// Returns the steps of an iteration that was recorded without them: its comparisons are known, and the rest of its
/// device time counts as screening.
fn guessed(iteration: &IterationRecord) -> StepTimes {
    let comparisons = iteration.measurements.iter().filter_map(|found| found.comparison.as_ref()?.wall_s);
    let comparison_s: f64 = comparisons.sum();
    let screening_s = (iteration.device_s.unwrap_or_default() - comparison_s).max(0.0);
    StepTimes { screening_s, comparison_s, ..StepTimes::default() }
}
