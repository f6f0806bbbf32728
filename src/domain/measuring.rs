//! How variants are measured.

use serde::{Deserialize, Serialize};

use super::verdict::Policy;

/// The settings of every measurement, in the units in which they are used. They are made from the configuration once, and
/// are part of every request that checks or times a variant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measuring {
    /// When enough samples are taken, and when a faster time counts.
    pub policy: Policy,
    /// The shortest sample, in nanoseconds: enough executions go into one replay.
    pub min_sample_ns: f64,
    /// Samples of each backend of a baseline.
    pub baseline_samples: usize,
    /// The most float64 work per check, in FLOP; beyond it a random sample of the rows is compared.
    pub oracle_flop: f64,
    /// The most work of one launch on a device that models its times, in FLOP. A heavier case is checked on a scaled one, where there
    /// is one.
    pub model_flop: f64,
}
