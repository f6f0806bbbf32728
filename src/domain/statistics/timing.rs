//! A time with its samples.

use serde::{Deserialize, Serialize};

use super::sampling::MIN_SAMPLES;
use crate::domain::statistics::{Interval, median, median_interval};

/// Times of one plan on one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Nanoseconds of one execution of the plan, one value per graph replay.
    pub samples_ns: Vec<f64>,
    /// Executions of the plan in one replay. A sample is the replay's time divided by this number.
    pub launches_per_sample: u32,
    /// Median of the samples in nanoseconds.
    pub median_ns: f64,
    /// 95% bootstrap interval of the median, in nanoseconds.
    pub interval_ns: Interval,
}

impl Timing {
    /// Makes a timing of a modelled time: one computed value without noise, for one execution of the plan. The interval
    /// is the time itself. It does not say how far the model is from a real device.
    pub fn modelled(ns: f64) -> Self {
        Self { samples_ns: vec![ns], launches_per_sample: 1, median_ns: ns, interval_ns: Interval { lo: ns, hi: ns } }
    }

    /// Makes a timing of a recorded time, with the samples that the recording has. The recording's own figure counts,
    /// whatever it is of the samples, so the interval is the time itself.
    pub fn recorded(ns: f64, samples_ns: Vec<f64>) -> Self {
        let without_samples = Self::modelled(ns);
        if samples_ns.is_empty() { without_samples } else { Self { samples_ns, ..without_samples } }
    }

    /// Summarises samples. `None` for no samples.
    pub fn of(samples_ns: Vec<f64>, launches_per_sample: u32) -> Option<Self> {
        let median_ns = median(&samples_ns)?;
        let interval_ns = median_interval(&samples_ns)?;
        Some(Self { samples_ns, launches_per_sample, median_ns, interval_ns })
    }

    /// Multiplies every time by a factor.
    pub fn scale(&mut self, factor: f64) {
        let Self { samples_ns, median_ns, interval_ns, .. } = self;
        for ns in samples_ns.iter_mut().chain([median_ns, &mut interval_ns.lo, &mut interval_ns.hi]) {
            *ns *= factor;
        }
    }

    /// Returns the interval to show, in nanoseconds; none if there are too few samples for one, as for a modelled time, or
    /// if it is the time itself, as for a recorded one.
    pub fn shown_interval_ns(&self) -> Option<Interval> {
        let is_wide = self.interval_ns.lo < self.interval_ns.hi;
        (self.samples_ns.len() >= MIN_SAMPLES && is_wide).then_some(self.interval_ns)
    }

    /// Returns the interval to show in microseconds, low and high.
    pub fn shown_ci_us(&self) -> Option<[f64; 2]> {
        self.shown_interval_ns().map(|Interval { lo, hi }| [lo / 1e3, hi / 1e3])
    }
}
