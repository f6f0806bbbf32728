//! Time, money and iterations: what a session has used, and what is left.

use std::time::Duration;

use crate::domain::budget::{Budget, Stop};
use crate::domain::cost::{Rate, Spent};
use crate::domain::journal::{Begun, Concluded};
use crate::domain::origin::Purpose;

/// What a confirmation takes on one case, about, until some have shown it: one beside an initial kernel of 0.3 s took 8 s (H200,
/// 2026-11-21, `optloop start --workload attention-fp16-long`).
const CONFIRMATION_TIME: Duration = Duration::from_secs(8);

/// What a session has used, going by its records.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Meter {
    /// What the device costs; none if it costs nothing.
    rate: Option<Rate>,
    /// Wall time used before the session went on; none in one that has just begun.
    used: Duration,
    /// Iterations that have ended.
    finished: u64,
    /// Money and device time on record.
    spent: Spent,
    /// What confirmations have taken so far, and on how many cases.
    confirmations: (Duration, u32),
}

/// Readings of the clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Time {
    /// Since the session began or went on.
    pub running: Duration,
    /// Since the last iteration was recorded.
    pub since_record: Duration,
}

/// What has to be kept for something.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reserve {
    /// Wall time.
    pub time: Duration,
    /// Device time that costs money.
    pub device_time: Duration,
    /// Iterations.
    pub iterations: u64,
}

impl Meter {
    /// Makes a meter that stands at zero.
    pub fn new(rate: Option<Rate>) -> Self {
        let (used, finished, spent) = (Duration::ZERO, 0, Spent::default());
        Self { rate, used, finished, spent, confirmations: (Duration::ZERO, 0) }
    }

    /// Returns the iterations that have ended.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Returns the wall time used, over all resumptions.
    pub fn elapsed(&self, time: &Time) -> Duration {
        self.used + time.running
    }

    /// Returns what holding the device has cost since the last record.
    pub fn unrecorded(&self, time: &Time) -> Spent {
        self.cost(time.since_record)
    }

    /// Returns what was spent, with what is not on record yet.
    pub fn spent(&self, time: &Time) -> Spent {
        let mut spent = self.spent;
        spent += self.unrecorded(time);
        spent
    }

    /// Returns what is on record as spent.
    pub fn recorded(&self) -> Spent {
        self.spent
    }

    /// Tells which limit is reached when something is kept for later.
    pub fn exhausted(&self, budget: &Budget, time: &Time, reserve: &Reserve) -> Option<Stop> {
        let spent_usd = self.spent(time).total_usd() + self.cost(reserve.device_time).total_usd();
        budget.exhausted(self.elapsed(time) + reserve.time, spent_usd, self.finished + reserve.iterations)
    }

    /// Returns the wall time that is left when some is kept for later.
    pub fn left(&self, budget: &Budget, time: &Time, kept: Duration) -> Duration {
        budget.wall.saturating_sub(self.elapsed(time) + kept)
    }

    /// Returns what a confirmation takes on one case, about.
    pub fn confirmation_time(&self) -> Duration {
        let (taken, cases) = self.confirmations;
        if cases == 0 { CONFIRMATION_TIME } else { taken / cases }
    }

    /// Takes up an iteration that has ended.
    pub fn conclude(&mut self, begun: &Begun, concluded: &Concluded) {
        self.finished += 1;
        self.spent += concluded.spent;
        if begun.purpose == Purpose::Confirmation {
            self.confirmations.0 += concluded.wall;
            self.confirmations.1 += begun.cases.len() as u32;
        }
    }

    /// Takes up what no single iteration accounts for.
    pub fn book(&mut self, spent: Spent) {
        self.spent += spent;
    }

    /// Starts again from the wall time that was used until the session went on.
    pub fn resume(&mut self, used: Duration) {
        self.used = used;
    }

    fn cost(&self, held: Duration) -> Spent {
        self.rate.map_or_else(Spent::default, |rate| Spent::holding(held.as_secs_f64(), rate))
    }
}
