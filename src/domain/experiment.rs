//! Experiments: a variant on more or less work than a case has, which shows what its time depends on.
//!
//! A variant that fills the device takes twice as long for twice the independent work. One that leaves it idle does
//! not. A time that hardly changes with the sequential work consists mostly of start-up and shutdown.

use serde::{Deserialize, Serialize};

use super::ids::{CaseName, IterationId};
use super::op::Axis;
use super::variant::VariantHash;
use super::workload::Case;

/// What an experiment changes, and on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// The iteration that measured the variant on the case itself.
    pub of: IterationId,
    /// The case of the workload.
    pub case: CaseName,
    /// Which work is changed.
    pub axis: Axis,
    /// The size of the changed dimension over that of the case.
    pub factor: f64,
}

impl Scaling {
    /// Names the changed case. No case of a workload has spaces in its name.
    pub fn case_name(&self) -> CaseName {
        CaseName::from(format!("{} {} x{}", self.case, self.axis.name(), self.factor).as_str())
    }
}

/// The result of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Its iteration.
    pub iteration: IterationId,
    /// What was changed, and on what.
    pub scaling: Scaling,
    /// The changed case, with its dimensions.
    pub case: Case,
    /// The variant. It has the hash of the original one, unless the changed dimension is rendered into the source.
    pub hash: VariantHash,
    /// Median time in nanoseconds.
    pub time_ns: f64,
    /// Blocks (CTAs) of the largest launch.
    pub ctas: u64,
}
