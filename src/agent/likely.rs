//! Which configurations of a family are likely to work, as a forest has learnt it from attempts.

use std::collections::HashMap;
use std::sync::Arc;

use super::forest::Forest;
use super::surrogate::Encoding;
use crate::domain::family::Family;
use crate::domain::variant::Params;
use crate::domain::workload::Case;

/// Which configurations of a family are likely to work.
pub(super) struct Likely {
    encoding: Encoding,
    forest: Forest,
    threshold: f64,
}

/// The families that had failures, with what is known about these.
pub(super) type LikelyByFamily = HashMap<String, Arc<Likely>>;

impl Likely {
    /// Makes it of a forest that expects 1 for what works and 0 for what fails. A configuration is tried if its
    /// probability to work is at least the threshold.
    pub fn new(encoding: Encoding, forest: Forest, threshold: f64) -> Self {
        Self { encoding, forest, threshold }
    }

    /// Returns whether a configuration is likely enough to work to be tried.
    pub fn allows(&self, family: &Family, params: &Params, case: &Case) -> bool {
        self.probability(&self.encoding.features(params, &family.specialization(case))) >= self.threshold
    }

    /// Returns the probability to work at which a configuration is tried.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Returns the probability that a configuration with these features works.
    pub fn probability(&self, features: &[f64]) -> f64 {
        self.forest.expect(features).0
    }
}
