//! Counts time, money and iterations: what a session has used, and what is left.

use std::time::Duration;

use crate::domain::budget::cost::{Rate, Spent};
use crate::domain::budget::{Budget, Stop};
use crate::domain::proposal::origin::Purpose;
use crate::domain::record::journal::{Begun, Concluded};

/// The least estimated time of a confirmation on one case, until confirmations have shown it. One beside an initial kernel
/// of 0.3 s took 8 s (H200, 2026-11-21, `optloop start --workload attention-fp16-long`).
const CONFIRMATION_TIME: Duration = Duration::from_secs(8);

/// How many screening runs take as long as a confirmation, where the tensors are so large that checks take most of the
/// time. A stencil of 67 million points was screened in 1.7 s and confirmed in 26 s, and a dot product of as many elements in 3 s and
/// 47 s (H100, 2026-11-26, docs/measuring, "Four kernels that optloop had never seen").
const SCREENINGS_OF_A_CONFIRMATION: u32 = 16;

/// The part of the grace that is kept for the end of a session: the last commits, its record and its report. The
/// report of a session of 3,003 cases took 1.1 s (two busy cores, development build, 2026-11-22, `optloop report 1`).
pub(super) const CLOSING_TIME: Duration = Duration::from_secs(2);

/// What a session has used, by its records.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Meter {
    /// The price of a device. None if it costs nothing.
    rate: Option<Rate>,
    /// The devices that are held.
    gpus: usize,
    /// Wall time used before the session was resumed. Zero in a new session.
    used: Duration,
    /// Iterations that have ended.
    finished: u64,
    /// Money and device time on record.
    spent: Spent,
    /// What is kept for the calls of language models that are under way, in US dollars.
    reserved_usd: f64,
    /// The time of all confirmations so far, and their number of cases.
    confirmations: (Duration, u32),
    /// The same of all screening runs.
    screenings: (Duration, u32),
}

/// Readings of the clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Time {
    /// Since the session began or was resumed.
    pub running: Duration,
    /// Since the last iteration was recorded.
    pub since_record: Duration,
}

/// What is reserved for a later step.
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
    /// Makes a meter at zero.
    pub fn new(rate: Option<Rate>, gpus: usize) -> Self {
        let (used, finished, spent, none) = (Duration::ZERO, 0, Spent::default(), (Duration::ZERO, 0));
        Self { rate, gpus, used, finished, spent, reserved_usd: 0.0, confirmations: none, screenings: none }
    }

    /// Returns the iterations that have ended.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Returns the wall time used, over all resumptions.
    pub fn elapsed(&self, time: &Time) -> Duration {
        self.used + time.running
    }

    /// Returns the cost of holding the devices since the last record.
    pub fn unrecorded(&self, time: &Time) -> Spent {
        self.cost(time.since_record)
    }

    /// Returns what was spent, on record or not.
    pub fn spent(&self, time: &Time) -> Spent {
        let mut spent = self.spent;
        spent += self.unrecorded(time);
        spent
    }

    /// Returns what was spent, by the records.
    pub fn recorded(&self) -> Spent {
        self.spent
    }

    /// Returns the limit that is reached if `reserve` is kept for later.
    pub fn exhausted(&self, budget: &Budget, time: &Time, reserve: &Reserve) -> Option<Stop> {
        let spent_usd = self.committed_usd(time) + self.cost(reserve.device_time).total_usd();
        budget.exhausted(self.elapsed(time) + reserve.time, spent_usd, self.finished + reserve.iterations)
    }

    /// Returns what was spent, with what the calls of language models under way may cost.
    fn committed_usd(&self, time: &Time) -> f64 {
        self.spent(time).total_usd() + self.reserved_usd
    }

    /// Tells whether the money allows holding the devices for so much longer.
    pub fn affords(&self, budget: &Budget, time: &Time, device_time: Duration) -> bool {
        self.affords_usd(budget, time, device_time, 0.0)
    }

    /// Tells whether the money allows spending a sum beside so much device time.
    pub fn affords_usd(&self, budget: &Budget, time: &Time, device_time: Duration, usd: f64) -> bool {
        let committed_usd = self.committed_usd(time) + self.cost(device_time).total_usd();
        budget.max_cost_usd.is_none_or(|most| committed_usd + usd <= most)
    }

    /// Returns the device time that a sum pays for. Without limit where the device costs nothing.
    pub fn device_time_for(&self, usd: f64) -> Duration {
        let usd_per_second = self.cost(Duration::from_secs(1)).total_usd();
        Duration::try_from_secs_f64(usd / usd_per_second).unwrap_or(Duration::MAX)
    }

    /// Returns the wall time that is left if `kept` is kept for later.
    pub fn left(&self, budget: &Budget, time: &Time, kept: Duration) -> Duration {
        budget.wall.saturating_sub(self.elapsed(time) + kept)
    }

    /// Returns the elapsed time at which a step that still runs is given up. A session that is resumed after its time
    /// was spent has the grace once more.
    pub fn hard_end(&self, budget: &Budget, grace: Duration) -> Duration {
        budget.wall.max(self.used) + grace.saturating_sub(CLOSING_TIME)
    }

    /// Returns the estimated time of a confirmation on one case.
    pub fn confirmation_time(&self) -> Duration {
        match (self.confirmations, self.screenings) {
            ((_, 0), (_, 0)) => CONFIRMATION_TIME,
            ((_, 0), (taken, cases)) => CONFIRMATION_TIME.max(taken / cases * SCREENINGS_OF_A_CONFIRMATION),
            ((taken, cases), _) => taken / cases,
        }
    }

    /// Returns the estimated time of a screening run on one case.
    pub fn screening_time(&self) -> Duration {
        let (taken, cases) = self.screenings;
        taken.checked_div(cases).unwrap_or(CONFIRMATION_TIME)
    }

    /// Returns the time of all confirmations so far.
    pub fn confirmed(&self) -> Duration {
        self.confirmations.0
    }

    /// Counts an iteration that has ended.
    pub fn conclude(&mut self, begun: &Begun, concluded: &Concluded) {
        self.finished += 1;
        self.spent += concluded.spent;
        let counted = match begun.rationale.purpose {
            Purpose::Confirmation => &mut self.confirmations,
            Purpose::Screening => &mut self.screenings,
            _ => return,
        };
        // The wall time may include that of the baselines.
        counted.0 += concluded.device;
        counted.1 += begun.cases.len() as u32;
    }

    /// Counts what belongs to no single iteration.
    pub fn book(&mut self, spent: Spent) {
        self.spent += spent;
    }

    /// Keeps a sum for the calls of language models that are under way.
    pub fn reserve(&mut self, usd: f64) {
        self.reserved_usd = usd;
    }

    /// Continues from the wall time that was used before the session was resumed.
    pub fn resume(&mut self, used: Duration) {
        self.used = used;
    }

    fn cost(&self, held: Duration) -> Spent {
        self.rate.map_or_else(Spent::default, |rate| Spent::holding(self.gpus as f64 * held.as_secs_f64(), rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_open_calls_may_cost_is_kept_of_the_money() {
        let budget = Budget { wall: Duration::from_secs(60), max_cost_usd: Some(1.0), max_iterations: None };
        let (mut meter, time) = (Meter::new(None, 1), Time::default());
        meter.reserve(0.75);
        assert!(meter.affords_usd(&budget, &time, Duration::ZERO, 0.25));
        assert!(!meter.affords_usd(&budget, &time, Duration::ZERO, 0.5));
        assert_eq!(meter.exhausted(&budget, &time, &Reserve::default()), None);
        meter.reserve(1.0);
        assert_eq!(meter.exhausted(&budget, &time, &Reserve::default()), Some(Stop::Cost));
        meter.reserve(0.0);
        assert!(meter.affords_usd(&budget, &time, Duration::ZERO, 1.0));
    }

    #[test]
    fn every_device_that_is_held_costs_its_price() {
        let meter = |gpus| Meter::new(Some(Rate { gpu_usd_per_hour: 3.6 }), gpus);
        let time = Time { running: Duration::from_secs(10), since_record: Duration::from_secs(10) };
        let (one, four) = (meter(1).unrecorded(&time), meter(4).unrecorded(&time));
        assert_eq!((one.gpu_s, four.gpu_s), (10.0, 40.0));
        assert_eq!((one.gpu_usd, four.gpu_usd), (0.01, 0.04));
        assert_eq!(meter(4).device_time_for(0.04), Duration::from_secs(10));
    }
}
