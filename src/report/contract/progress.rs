//! How the best times of a session developed.

use serde::Serialize;

use crate::domain::ids::{CaseName, IterationId};

/// How the best time of a case developed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// The case.
    pub case: CaseName,
    /// The first correct variant and every improvement on it, oldest first. The last one may be the final.
    pub steps: Vec<ProgressStep>,
    /// How many times were tried.
    pub tried_in_all: u64,
}

/// A best time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgressStep {
    /// `start`, `improved` or `final`. A final times the best variant again.
    pub kind: &'static str,
    /// Seconds of the session until it was on record.
    pub at_s: f64,
    /// What the iterations had cost by then, in US dollars. At a final, what the session cost.
    pub cost_usd: f64,
    /// The time.
    pub us: f64,
    /// The iteration.
    pub iteration: IterationId,
    /// The family.
    pub family: String,
}
