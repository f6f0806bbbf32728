//! What a report advises to do next.

use serde::Serialize;

use crate::domain::ids::{CaseName, IterationId};
use crate::domain::proposal::origin::Change;
use crate::domain::variant::Params;

/// What to do after a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The next step.
    pub next: Step,
    /// What to do after an experiment, whatever it shows. Null if the next step is no experiment.
    pub then: Option<Step>,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// What it is.
    pub kind: StepKind,
    /// The experiment. Null for other steps.
    pub experiment: Option<NextExperiment>,
    /// The families to search. Empty for all.
    pub families: Vec<String>,
    /// The parameters that need more values. Empty for other steps.
    pub edges: Vec<Edge>,
    /// The case for which a new kernel promises most. Null for other steps.
    pub case: Option<CaseName>,
    /// The expected factor over all cases (geometric mean). Null if the data does not tell.
    pub expected: Option<f64>,
    /// Seconds of the device. Null if unknown.
    pub seconds: Option<f64>,
    /// US dollars for the device. Null if unknown.
    pub usd: Option<f64>,
}

/// The kinds of steps, in the order in which they are considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Mend the kernel: every variant failed.
    Mend,
    /// Measure one configuration.
    Experiment,
    /// Continue the search.
    GoOn,
    /// Add values to parameters whose best value is at an end of its list, then search again.
    WiderValues,
    /// Search families that have hardly been tried.
    AnotherFamily,
    /// Write a kernel.
    NewKernel,
    /// Stop.
    Stop,
}

/// A configuration that is expected to be faster than the best variant of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextExperiment {
    /// Where it comes from: `remedy` (of a cause of lost time), `parameter` (its effect on other pairs) or `transfer` (the
    /// best variant of another case).
    pub source: &'static str,
    /// The case.
    pub case: CaseName,
    /// The iteration of the best variant, to compare with. Null if it is not known.
    pub against: Option<IterationId>,
    /// The family.
    pub family: String,
    /// The parameters.
    pub params: Params,
    /// What it changes in the best variant. Empty if its family is another one.
    pub changes: Vec<Change>,
    /// The rule of the cause that it removes. Null for other sources.
    pub rule: Option<&'static str>,
    /// The case whose best variant it is. Null for other sources.
    pub of_case: Option<CaseName>,
    /// The time before.
    pub before_us: f64,
    /// The expected speed-up. At most to the floor.
    pub expected: f64,
}

/// A parameter whose best value is at an end of the values that the session tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// The family.
    pub family: String,
    /// The parameter.
    pub parameter: String,
    /// Its best value.
    pub value: i64,
    /// Whether that is the largest one. Otherwise it is the smallest.
    pub is_largest: bool,
    /// The cases whose best variants have it.
    pub cases: Vec<CaseName>,
}

/// The gains of the two halves of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// Seconds of the session after its last improvement. Null without an improvement.
    pub since_last_gain_s: Option<f64>,
    /// Improvements in the first half of the search.
    pub early_gains: u64,
    /// Improvements in the second half of the search.
    pub late_gains: u64,
    /// Seconds of a half.
    pub half_s: f64,
    /// The median factor of one improvement. Null without one.
    pub gain_size: Option<f64>,
    /// The expected factor over all cases (geometric mean) of another session as long as this one.
    pub expected: f64,
}
