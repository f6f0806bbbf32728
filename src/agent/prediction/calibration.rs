//! Shapes the range of a prediction by the errors of earlier ones.
//!
//! An error is standardised: how far the outcome was from what the model expected, in its standard deviations. The
//! quantiles of earlier errors, of claims of the same kind, of a similar expectation and about a similar configuration,
//! replace those of a normal distribution. So the ranges have their stated coverage even where the model is wrong about
//! its own errors (conformal prediction with weights: Tibshirani et al., Conformal Prediction Under Covariate Shift,
//! 2019). A heavy-tailed prior makes the first ranges wide.
//!
//! Where the ranges of earlier claims still covered too many outcomes, or too few, the share that is left out of the
//! next range grows or shrinks with each of them (Gibbs and Candès, Adaptive Conformal Inference Under Distribution
//! Shift, 2021).

use super::differing;
use crate::domain::claims::prediction::{COVERAGE, Modelled};
use crate::domain::history::History;
use crate::domain::history::refuted::ln_speedup;
use crate::domain::variant::Params;

/// Weight of the prior, in claims.
const PRIOR_CLAIMS: f64 = 5.0;

/// The prior's 5%, 15%, ..., 95% quantiles: Student's t with 2 degrees of freedom, times 0.6. With the full spread, the
/// ranges of recorded sessions on an H200 and on a virtual one covered 93% (`tests/calibration.rs`, 2026-11-22).
const PRIOR: [f64; 10] = [-1.752, -0.832, -0.490, -0.267, -0.085, 0.085, 0.267, 0.490, 0.832, 1.752];

/// Weight of the errors of claims of another kind.
const OTHER_KIND: f64 = 0.5;

/// The expected logarithm at which similarity turns from a matter of differences into one of ratios. Claims of almost no
/// change have smaller errors than others, and claims of a large change are rare. On a linear scale, no length suited
/// both: with 0.3, ranges near no change covered 85% of their outcomes, and with 0.1, ranges below 0.5x covered 71% (three
/// sessions of 7 minutes on an H200, 2026-11-23; the second figure is a replay by `tests/calibration.rs`).
const NEAR_NO_CHANGE: f64 = 0.1;

/// The distance on the scale of [`size_of_change`] at which the weight of an error has fallen to 1/e. The range from 0.95x
/// to 1.05x is 2.7 of these distances wide, and the one from 0.5x to 0.8x is 3.0 wide.
const SIMILAR: f64 = 0.3;

/// The number of differing parameters at which the weight of an error has fallen to 1/e. A configuration of another family
/// differs in all of them. It was chosen in replays of sessions on H100s (decision 54, 2026-11-27); 4 to 8 hardly differ.
const DIFFERING: f64 = 4.0;

/// The number of later claims after which the weight of an error has halved. The model gets better as it learns. A claim
/// counts by its similarity, so that errors of a rare kind of claim are not outdated by those of common ones: when each
/// counted in full, ranges below 0.5x covered 68% of the outcomes of a session in which they were 120 of 2894 claims
/// (H200, 2026-11-25).
const HALVED: f64 = 60.0;

/// The number of the latest claims to use.
const LATEST: usize = 2000;

/// By how much the share outside of the range changes with a claim: it shrinks by 80% of this where the outcome was
/// outside, and grows by 20% where it was inside.
const STEP: f64 = 0.08;

/// Limits of the share outside of the range.
const MIN_OUTSIDE: f64 = 0.02;
const MAX_OUTSIDE: f64 = 0.6;

/// Half of the narrowest range, as a logarithm. Of 56 pairs of times of one variant on an H200, 41 differ by less.
const MIN_HALF_WIDTH: f64 = 0.004;

/// The errors of earlier claims, weighted for the next one.
pub(super) struct Calibration {
    /// Errors of earlier claims, standardised, each with its weight. Sorted by error.
    errors: Vec<(f64, f64)>,
    /// The share of the errors to leave out at both ends together.
    outside: f64,
}

/// A range of logarithms of speed-ups.
pub(super) struct Range {
    /// The 10% quantile.
    pub lo: f64,
    /// The median.
    pub median: f64,
    /// The 90% quantile.
    pub hi: f64,
}

impl Calibration {
    /// Collects the errors of the claims so far, for a claim of a kind about a configuration of a family that expects the
    /// logarithm `mean`.
    pub fn of(history: &History, kind: &str, family: &str, params: &Params, mean: f64) -> Self {
        let mut errors: Vec<(f64, f64)> = PRIOR.map(|error| (error, PRIOR_CLAIMS / PRIOR.len() as f64)).to_vec();
        let mut outside = 1.0 - COVERAGE;
        let claims = history.finished.iter().rev().filter_map(|finished| {
            let prediction = finished.rationale.hypothesis.prediction?;
            let of_kind = if finished.rationale.origin.name() == kind { 1.0 } else { OTHER_KIND };
            let alike = of_kind * alike(&finished.params, params, finished.family == family);
            Some((prediction, prediction.model?, ln_speedup(history, finished)?, alike))
        });
        let (here, mut later) = (size_of_change(mean), 0.0);
        for (prediction, modelled, ln, alike) in claims.take(LATEST) {
            let distance = (size_of_change(modelled.mean) - here).abs();
            let similarity = alike * (-distance / SIMILAR).exp();
            let weight = similarity * 0.5_f64.powf(later / HALVED);
            later += similarity;
            errors.push(((ln - modelled.mean) / modelled.sd, weight));
            let missed = if prediction.covers(ln.exp()) { 0.0 } else { 1.0 };
            outside += STEP * weight * (1.0 - COVERAGE - missed);
        }
        errors.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Self { errors, outside: outside.clamp(MIN_OUTSIDE, MAX_OUTSIDE) }
    }

    /// Returns the range of a claim.
    pub fn range(&self, modelled: Modelled) -> Range {
        let tail = self.outside / 2.0;
        let at = |share: f64| modelled.mean + modelled.sd * self.quantile(share);
        let median = at(0.5);
        Range { lo: at(tail).min(median - MIN_HALF_WIDTH), median, hi: at(1.0 - tail).max(median + MIN_HALF_WIDTH) }
    }

    /// Returns a weighted quantile, interpolated between the middles of the weights.
    fn quantile(&self, share: f64) -> f64 {
        let total: f64 = self.errors.iter().map(|(_, weight)| weight).sum();
        let (mut below, mut previous) = (0.0, None);
        for (error, weight) in &self.errors {
            let middle = (below + weight / 2.0) / total;
            if middle >= share {
                return match previous {
                    Some((at, before)) if middle > at => before + (error - before) * (share - at) / (middle - at),
                    _ => *error,
                };
            }
            (below, previous) = (below + weight, Some((middle, *error)));
        }
        previous.map_or(0.0, |(_, error)| error)
    }
}

/// Returns the similarity of an earlier configuration to the one in question.
fn alike(earlier: &Params, asked: &Params, same_family: bool) -> f64 {
    let apart = if same_family { differing(earlier, asked) } else { asked.len() };
    (-(apart as f64) / DIFFERING).exp()
}

/// Maps an expected logarithm to a scale on which claims with the same distance are equally similar: linear near no
/// change, logarithmic far from it.
fn size_of_change(mean: f64) -> f64 {
    mean.signum() * (mean.abs() / NEAR_NO_CHANGE).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errors: &[(f64, f64)], outside: f64) -> Range {
        Calibration { errors: errors.to_vec(), outside }.range(Modelled { mean: 0.0, sd: 0.1 })
    }

    #[test]
    fn the_first_range_is_wide_and_symmetric() {
        let first = Calibration::of(&History::default(), "move", "f", &Params::default(), 0.0)
            .range(Modelled { mean: 0.5, sd: 0.1 });
        assert!((first.median - 0.5).abs() < 1e-9 && (first.hi - 0.5 - (0.5 - first.lo)).abs() < 1e-9);
        assert!((first.hi - 0.5 - 0.129).abs() < 1e-3, "{}", first.hi);
    }

    #[test]
    fn the_more_parameters_differ_the_less_an_error_counts() {
        let params = |values: [i64; 2]| Params::from([("P1".to_owned(), values[0]), ("P2".to_owned(), values[1])]);
        let asked = params([1, 2]);
        let [same, one, both] = [[1, 2], [1, 4], [2, 4]].map(|values| alike(&params(values), &asked, true));
        assert!(same == 1.0 && same > one && one > both, "{same}, {one}, {both}");
        assert_eq!(alike(&asked, &asked, false), both, "another family differs in all parameters");
    }

    #[test]
    fn quantiles_follow_the_weights_and_the_share_to_leave_out() {
        let even: Vec<(f64, f64)> = (-10..=10).map(|error| (f64::from(error), 1.0)).collect();
        let range = of(&even, 0.2);
        assert!((range.hi - 0.84).abs() < 0.01 && (range.lo + 0.84).abs() < 0.01, "{} to {}", range.lo, range.hi);
        assert!(of(&even, 0.5).hi < range.hi, "the more is left out, the narrower the range");
        // Most of the weight is on errors above 0: the model was too pessimistic.
        let above: Vec<(f64, f64)> =
            even.iter().map(|(error, _)| (*error, if *error > 0.0 { 9.0 } else { 1.0 })).collect();
        assert!(of(&above, 0.2).median > 0.3);
        // A model that was exact still leaves room for the noise of two runs.
        assert!((of(&[(0.0, 1.0)], 0.2).hi - MIN_HALF_WIDTH).abs() < 1e-12);
    }
}
