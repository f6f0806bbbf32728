//! What a report advises to do next, and what that would gain and cost.

use serde::Serialize;

use crate::domain::ids::CaseName;
use crate::domain::variant::Params;

/// The experiment that the report recommends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    /// Where it comes from: `remedy` (of a cause of lost time), `parameter` (its effect on other pairs), `transfer` (the
    /// best variant of another case) or `new_kernel`.
    pub kind: &'static str,
    /// The case.
    pub case: CaseName,
    /// What to do.
    pub change: String,
    /// Why it should help.
    pub because: String,
    /// The family and configuration to measure. Null if a new kernel has to be written.
    pub configuration: Option<Configuration>,
    /// The time before.
    pub before_us: f64,
    /// The expected time after it, low and high. Null if it is not known.
    pub after_us: Option<[f64; 2]>,
    /// What the expected time rests on. Empty if it is not known.
    pub expected_from: String,
}

/// A configuration of a family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Configuration {
    /// The family.
    pub family: String,
    /// Its parameters.
    pub params: Params,
}

/// What to do after a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// `experiment`, `stop`, `go_on`, `wider_values`, `another_family` or `new_kernel`.
    pub kind: &'static str,
    /// What to do.
    pub what: String,
    /// The families to search, or the one whose source a new kernel would change; empty for all.
    pub families: Vec<String>,
    /// What it should gain.
    pub gain: String,
    /// The expected factor over all cases (geometric mean); that of a new kernel, if it becomes faster at all. Null if the
    /// data does not tell.
    pub expected: Option<f64>,
    /// The factor over all cases that it gains at most. Null if no bound is known.
    pub most: Option<f64>,
    /// Minutes of the device. Null if unknown.
    pub minutes: Option<f64>,
    /// US dollars for the device. Null if unknown.
    pub usd: Option<f64>,
    /// What may go wrong.
    pub risk: String,
    /// Whether the report recommends it.
    pub recommended: bool,
    /// Whether it comes after the recommended one.
    pub then: bool,
}

/// The gains of the second half of a search, and what they suggest for more of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// Share of the session's time after its last improvement. Null without an improvement.
    pub share_after_last_gain: Option<f64>,
    /// Improvements in the first half of the search.
    pub early_gains: u64,
    /// Improvements in the second half of the search.
    pub late_gains: u64,
    /// When that half began, in seconds since the start of the session.
    pub late_from_s: f64,
    /// Seconds of that half.
    pub late_s: f64,
    /// The median factor of one improvement. Null without one.
    pub gain_size: Option<f64>,
    /// Wall time to extrapolate over in seconds: another session as long as this one.
    pub more_s: f64,
    /// Expected improvements in that time.
    pub expected_gains: f64,
    /// Its 95% interval, of a Poisson count.
    pub expected_gains_ci: [f64; 2],
    /// The expected factor over all cases (geometric mean), low, middle and high.
    pub factor: [f64; 3],
}
