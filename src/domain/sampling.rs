//! When enough samples are taken: pure rules, tested with synthetic noise.

use serde::{Deserialize, Serialize};

use super::statistics::{median, median_interval};

/// Samples without which nothing is decided.
pub const LEAST_SAMPLES: usize = 3;

/// When a series of samples ends: as soon as it is precise enough, and at a cap in any case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Samples to take in any case, unless time is up.
    pub least: usize,
    /// Samples never to exceed.
    pub most: usize,
    /// Half the width of the median's 95% interval over the median that is precise enough.
    pub relative_error: f64,
    /// Time after which the series ends, if it has [`LEAST_SAMPLES`].
    pub max_ns: f64,
}

impl Sampling {
    /// Tells whether these samples, each of so many launches, are all that it takes.
    pub fn is_over(&self, samples: &[f64], launches_per_sample: u32) -> bool {
        let taken_ns = samples.iter().sum::<f64>() * f64::from(launches_per_sample);
        let time_is_up = samples.len() >= LEAST_SAMPLES && taken_ns >= self.max_ns;
        let enough = samples.len() >= self.least.max(LEAST_SAMPLES) && self.precise(samples);
        samples.len() >= self.most || time_is_up || enough
    }

    fn precise(&self, samples: &[f64]) -> bool {
        let Some((median, interval)) = median(samples).zip(median_interval(samples)) else { return false };
        (interval.hi - interval.lo) / 2.0 <= self.relative_error * median
    }
}
