//! How variants are measured.

use serde::{Deserialize, Serialize};

use super::verdict::Policy;
use crate::domain::statistics::sampling::Sampling;

/// The fewest samples of a backend of a baseline: two turns.
const LEAST_BASELINE_SAMPLES: usize = 20;

/// The error at which the median of a backend is precise enough to find the fastest. Backends this near count as equal.
const BASELINE_ERROR: f64 = 0.01;

/// The settings of every measurement, in the units of their use. They are made once from the configuration, and are
/// part of every request that checks or times a variant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measuring {
    /// When enough samples are taken, and when a faster time counts.
    pub policy: Policy,
    /// The shortest sample, in nanoseconds. One replay has enough executions to reach it.
    pub min_sample_ns: f64,
    /// The most samples of each backend of a baseline.
    pub baseline_samples: usize,
    /// The most float64 work per check, in FLOP. Beyond it, only a random sample of the rows is compared.
    pub oracle_flop: f64,
    /// The most work of one launch on a device that models its times, in FLOP. A heavier case is checked on smaller
    /// dimensions if the op has some.
    pub model_flop: f64,
}

impl Measuring {
    /// Returns when enough samples of a backend are taken, while the fastest is searched for. Comparisons measure that one
    /// more precisely.
    pub fn baseline(&self) -> Sampling {
        Sampling {
            min_samples: LEAST_BASELINE_SAMPLES,
            max_samples: self.baseline_samples,
            relative_error: BASELINE_ERROR,
            max_ns: f64::INFINITY,
        }
    }
}
