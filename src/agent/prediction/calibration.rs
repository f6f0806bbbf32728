//! Shapes the range of a prediction by the errors of earlier ones.
//!
//! An error is standardised: how far the outcome was from what the model expected, in its standard deviations. The
//! quantiles of earlier errors, of claims of the same kind and of a similar expectation, replace those of a normal
//! distribution. This is split conformal prediction with weights (Tibshirani et al., Conformal Prediction Under
//! Covariate Shift, 2019): the ranges cover what they say even where the model is wrong about its own errors. A
//! heavy-tailed prior makes the first ranges wide.

use crate::domain::history::History;
use crate::domain::prediction::{COVERAGE, Modelled};
use crate::domain::refuted::ln_speedup;

/// Weight of the prior, in claims.
const PRIOR_CLAIMS: f64 = 8.0;

/// Deciles of the prior, from the 5% quantile to the 95% quantile: Student's t with 2 degrees of freedom.
const PRIOR: [f64; 10] = [-2.920, -1.386, -0.816, -0.445, -0.142, 0.142, 0.445, 0.816, 1.386, 2.920];

/// Weight of the errors of claims of another kind.
const OTHER_KIND: f64 = 0.2;

/// The difference of expected logarithms at which the weight of an error has fallen to 1/e.
const BAND: f64 = 0.3;

/// The number of claims after which the weight of an error has halved. The model gets better as it learns.
const HALVED: f64 = 150.0;

/// Half of the narrowest range, as a logarithm. Two screening runs of one variant differ by as much.
const LEAST: f64 = 0.004;

/// Errors of earlier claims, standardised, each with its weight. Sorted by error.
pub(super) struct Calibration {
    errors: Vec<(f64, f64)>,
}

/// A range of logarithms of speed-ups.
pub(super) struct Range {
    pub lo: f64,
    pub median: f64,
    pub hi: f64,
}

impl Calibration {
    /// Collects the errors of the claims so far, for a claim of a kind that expects `mean`.
    pub fn of(history: &History, kind: &str, mean: f64) -> Self {
        let mut errors: Vec<(f64, f64)> = PRIOR.map(|error| (error, PRIOR_CLAIMS / PRIOR.len() as f64)).to_vec();
        let claims = history.finished.iter().rev().filter_map(|finished| {
            let modelled = finished.hypothesis.prediction?.model?;
            Some((modelled, ln_speedup(history, finished)?, finished.origin.name() == kind))
        });
        for (age, (modelled, ln, same_kind)) in claims.enumerate() {
            let recency = 0.5_f64.powf(age as f64 / HALVED);
            let band = (-(modelled.mean - mean).abs() / BAND).exp();
            let weight = recency * band * if same_kind { 1.0 } else { OTHER_KIND };
            errors.push(((ln - modelled.mean) / modelled.sd, weight));
        }
        errors.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Self { errors }
    }

    /// Returns the range of a claim.
    pub fn range(&self, modelled: Modelled) -> Range {
        let tail = (1.0 - COVERAGE) / 2.0;
        let at = |share: f64| modelled.mean + modelled.sd * self.quantile(share);
        let median = at(0.5);
        Range { lo: at(tail).min(median - LEAST), median, hi: at(1.0 - tail).max(median + LEAST) }
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
