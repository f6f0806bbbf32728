//! Experiments: iterations that show what a time depends on. They win nothing.
//!
//! One kind runs a variant on more or less work than a case has. A variant that fills the device takes twice as long for
//! twice the independent work. One that leaves it idle does not. A time that hardly changes with the sequential work consists
//! mostly of start-up and shutdown.
//!
//! The other kind walks a path between two configurations of a family, and changes one parameter at a time. The steps tell
//! what each parameter contributes to what all of them gain (Fawcett and Hoos, Analysing differences between algorithm
//! configurations through ablation, 2016).

use serde::{Deserialize, Serialize};

use crate::domain::ids::{CaseName, IterationId};
use crate::domain::op::Axis;
use crate::domain::variant::{Params, VariantHash};
use crate::domain::workload::Case;

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

/// A path between the configurations of two iterations of a family, on a case that both have timed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// The iteration where it begins.
    pub from: IterationId,
    /// The iteration that has the configuration where it ends.
    pub to: IterationId,
    /// The case.
    pub case: CaseName,
}

/// A configuration on a path that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct PathStep {
    /// The path.
    pub path: Path,
    /// The configuration. It differs in one parameter from the last one that was timed, or in as many as a constraint requires.
    pub params: Params,
    /// Median time in nanoseconds. None if it was not timed, because it does not compile or is not correct.
    pub time_ns: Option<f64>,
}
