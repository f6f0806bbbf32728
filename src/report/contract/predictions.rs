//! The contract of claims: what was predicted, and how well it held.

use serde::Serialize;

use crate::domain::claims::hypothesis::Score;
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::claims::prediction::{Direction, Strength};
use crate::domain::ids::{CaseName, IterationId};

/// What an iteration was to show, and what it showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// The iteration that tested it.
    pub iteration: IterationId,
    /// The case on which it is tested.
    pub case: CaseName,
    /// Where the configuration comes from: `move`, `coverage`, `warm_start`, `family_default`, `opening`, `random`,
    /// `initial_kernel`, `committed_winner`, `confirmation`, `injected_fault` or `unknown`.
    pub kind: &'static str,
    /// How it was expected to act, such as `tile_size`.
    pub mechanism: Mechanism,
    /// What was tried, and what was expected of it.
    pub claim: String,
    /// The evidence for it.
    pub evidence: String,
    /// How much evidence there was; null without a claim.
    pub strength: Option<Strength>,
    /// The 80% range of the predicted speed-up over the reference, low and high. Null if nothing was predicted.
    pub predicted: Option<[f64; 2]>,
    /// The median of the predicted speed-up. Null without a claim, and for ranges of an older optloop, which did not
    /// say how probable they are.
    pub predicted_median: Option<f64>,
    /// The direction in which the time was claimed to change: `faster`, `slower` or `either`.
    pub direction: Option<Direction>,
    /// What the prediction is over: `initial_kernel`, `incumbent`, `baseline` or `iteration`.
    pub reference: &'static str,
    /// That iteration.
    pub relative_to: Option<IterationId>,
    /// The actual speed-up over the reference.
    pub actual: Option<f64>,
    /// `in_range`, `above`, `below`, `untested` or `no_claim`; null if the iteration never ended.
    pub score: Option<Score>,
    /// The continuous ranked probability score of the prediction; null without a claim or an outcome.
    pub crps: Option<f64>,
    /// That of the forecast "no change".
    pub crps_no_change: Option<f64>,
}

/// The number of claims by score, and of faster variants among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Predictions {
    /// The outcome was in the predicted range.
    pub in_range: u64,
    /// Above it.
    pub above: u64,
    /// Below it.
    pub below: u64,
    /// Nothing to compare.
    pub untested: u64,
    /// Iterations that claimed nothing.
    pub no_claim: u64,
    /// Of the claims with an outcome, those whose variant was faster than its reference, whatever was predicted.
    pub faster: u64,
}

/// How well predictions with a stated probability held.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Calibration {
    /// A row for each kind of claim, and for each band of predicted speed-ups of that kind.
    pub kept: Vec<Kept>,
    /// Which mechanisms and parameters paid, the most often faster first.
    pub pays: Vec<Pay>,
    /// Changes that were slower every time, and that are not tried again without new evidence; the most tried first.
    pub refuted: Vec<Refuted>,
}

/// How well the claims of a kind held.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kept {
    /// The kind.
    pub kind: &'static str,
    /// The band of predicted medians, low and high, null at an open end. Null for all claims of the kind.
    pub band: Option<[Option<f64>; 2]>,
    /// Claims with an outcome.
    pub claims: usize,
    /// Whether there are enough of them (50) to judge coverage.
    pub enough: bool,
    /// Share of outcomes in the 80% range.
    pub coverage: f64,
    /// Its 95% interval (Wilson).
    pub coverage_ci: [f64; 2],
    /// Median factor between the ends of the ranges, over the first claims.
    pub first_width: f64,
    /// The same over the last claims.
    pub last_width: f64,
    /// What is left of the logarithm of the width, with its 95% interval: estimate, low and high. Null below 50
    /// claims.
    pub narrowed: Option<[f64; 3]>,
    /// The median factor that the last claims would have with what was known after the first ones of the kind. Null below 50 claims, or if
    /// fewer than half of the last claims could have been made then.
    pub early_width: Option<f64>,
    /// What is left of the logarithm of the width of the same claims, the median of the last ones with its 95% interval: estimate,
    /// low and high. Null like `early_width`.
    pub learnt: Option<[f64; 3]>,
    /// Mean continuous ranked probability score of the predictions. Smaller is better.
    pub crps: f64,
    /// That of the forecast "no change".
    pub crps_no_change: f64,
    /// Mean of the paired differences, prediction minus "no change", with its 95% bootstrap interval: estimate, low and
    /// high. Below 0, the predictions are better.
    pub crps_difference: [f64; 3],
    /// Variants that were faster than their reference.
    pub faster: usize,
}

/// How often a mechanism, or a parameter of a family, made a variant faster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pay {
    /// The mechanism, such as `tile_size`.
    pub mechanism: Mechanism,
    /// The family; null for all changes by the mechanism.
    pub family: Option<String>,
    /// The parameter; null for all changes by the mechanism.
    pub parameter: Option<String>,
    /// Changes with an outcome. Of a parameter, only changes of it alone count.
    pub tries: usize,
    /// Those that were faster than their reference.
    pub faster: usize,
    /// The median of their speed-ups.
    pub median: f64,
    /// The largest of their speed-ups.
    pub best: f64,
}

/// A change that was slower every time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refuted {
    /// The family.
    pub family: String,
    /// The parameter.
    pub parameter: String,
    /// Its value before.
    pub from: i64,
    /// Its value after.
    pub to: i64,
    /// How often it was tried, and slower.
    pub tries: usize,
    /// The median of the speed-ups.
    pub median: f64,
    /// The cases on which it was tried.
    pub cases: Vec<CaseName>,
}
