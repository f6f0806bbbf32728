//! What a session has gained on a case.

use serde::Serialize;

use crate::domain::ids::{CaseName, IterationId};
use crate::domain::record::BaselineKind;
use crate::domain::variant::Params;

/// The gain below which a variant is slower than the committed winner, beyond the noise of two runs.
pub const SLOWER: f64 = 0.97;

/// What a session has gained on a case so far. All times are medians in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseGain {
    /// The case.
    pub case: CaseName,
    /// The time of the first correct variant: of the initial kernel, if that is correct.
    pub initial_us: Option<f64>,
    /// The time of the committed winner that the session began with, as the session measured it. None without one.
    pub before_us: Option<f64>,
    /// The time of the best variant. None without a correct one.
    pub now_us: Option<f64>,
    /// The iteration that measured the best variant.
    pub iteration: Option<IterationId>,
    /// The family of the best variant.
    pub family: Option<String>,
    /// The parameters of the best variant. Empty without one.
    pub params: Params,
    /// The speed-up of the best variant over the committed winner, else over the first correct variant.
    pub gain: Option<f64>,
    /// The 95% interval of the gain, if one run timed both.
    pub gain_ci: Option<[f64; 2]>,
    /// The name of the fastest baseline.
    pub baseline: Option<String>,
    /// Whether that is a program, or the initial kernel in place of one.
    pub baseline_kind: Option<BaselineKind>,
    /// The time of the baseline.
    pub baseline_us: Option<f64>,
    /// The time of the baseline over that of the best variant.
    pub over_baseline: Option<f64>,
    /// The 95% interval of that ratio, if one run timed both.
    pub over_baseline_ci: Option<[f64; 2]>,
    /// What became of the case.
    pub result: GainResult,
}

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GainResult {
    /// The session has found a faster variant than it began with.
    Improved,
    /// The best variant is what the session began with.
    Unchanged,
    /// The committed winner is faster than every variant that was confirmed, and was only screened itself. Its time
    /// is shown, and no ratio.
    NotConfirmed,
    /// No variant is correct, or none was measured.
    Unmeasured,
}

impl GainResult {
    /// Returns the word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::Unchanged => "unchanged",
            Self::NotConfirmed => "not confirmed",
            Self::Unmeasured => "unmeasured",
        }
    }
}

impl CaseGain {
    /// Returns whether every ratio is of one run.
    pub fn is_paired(&self) -> bool {
        let paired = |ratio: Option<f64>, interval: Option<[f64; 2]>| ratio.is_none() || interval.is_some();
        paired(self.gain, self.gain_ci) && paired(self.over_baseline, self.over_baseline_ci)
    }
}
