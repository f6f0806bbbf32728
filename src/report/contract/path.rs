//! Paths between two configurations of a family: what each parameter gained, one after another.

use serde::Serialize;

use crate::domain::ids::{CaseName, IterationId};
use crate::domain::proposal::origin;

/// A path that reached its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfigurationPath {
    /// The case.
    pub case: CaseName,
    /// The family.
    pub family: String,
    /// The iteration where it begins.
    pub from: IterationId,
    /// Its time.
    pub from_us: f64,
    /// The iteration that has the configuration where it ends.
    pub to: IterationId,
    /// The steps in order.
    pub steps: Vec<PathStep>,
}

/// A step on a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathStep {
    /// The iteration that timed it.
    pub iteration: IterationId,
    /// What it changes in the step before: one parameter, or as many as a constraint requires.
    pub changes: Vec<origin::Change>,
    /// Its time.
    pub us: f64,
    /// The time before over its own.
    pub gain: f64,
}

impl ConfigurationPath {
    /// Returns the time at its end.
    pub fn to_us(&self) -> f64 {
        self.steps.last().map_or(self.from_us, |step| step.us)
    }

    /// Returns the time at its beginning over that at its end.
    pub fn gain(&self) -> f64 {
        self.from_us / self.to_us()
    }
}
