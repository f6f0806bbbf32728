//! Predicted speed-ups as distributions, and their proper score.
//!
//! A prediction states the median and the central 80% range of a speed-up. Between and beyond them, the logarithm of
//! the speed-up has a two-piece Laplace distribution: half of the probability on each side of the median, with one
//! scale below it and one above it. Its tails are heavier than those of a normal distribution.

use serde::{Deserialize, Serialize};

/// The share of outcomes that the range of a prediction should cover.
pub const COVERAGE: f64 = 0.8;

/// The predicted speed-up of a variant over a named earlier time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The median. None for a range that an older optloop recorded without saying how probable it is.
    pub median: Option<f64>,
    /// The 10% quantile.
    pub lo: f64,
    /// The 90% quantile.
    pub hi: f64,
    /// What the prediction rests on.
    pub strength: Strength,
    /// The model's output before calibration of the range. None if no model was used.
    pub model: Option<Modelled>,
}

/// What a model predicts for the logarithm of a speed-up before calibration. Later predictions are calibrated by how
/// far earlier outcomes were from `mean`, in units of `sd`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    /// Expected logarithm of the speed-up.
    pub mean: f64,
    /// Its standard deviation.
    pub sd: f64,
}

/// How much evidence a prediction rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// None: only a prior.
    Prior,
    /// One or two results that are similar.
    Weak,
    /// Three to nine.
    Moderate,
    /// Ten or more.
    Strong,
}

impl Strength {
    /// Grades a number of similar results.
    pub fn of(results: usize) -> Self {
        match results {
            0 => Self::Prior,
            1..3 => Self::Weak,
            3..10 => Self::Moderate,
            _ => Self::Strong,
        }
    }

    /// Returns the name that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prior => "prior",
            Self::Weak => "weak",
            Self::Moderate => "moderate",
            Self::Strong => "strong",
        }
    }
}

/// The direction in which a prediction expects the time to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The whole range is above 1.
    Faster,
    /// The whole range is below 1.
    Slower,
    /// The range includes 1.
    Either,
}

impl Direction {
    /// Returns the name that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Either => "either",
        }
    }
}

impl Prediction {
    /// Returns the direction in which the time is expected to change.
    pub fn direction(&self) -> Direction {
        match self {
            Self { lo, .. } if *lo > 1.0 => Direction::Faster,
            Self { hi, .. } if *hi < 1.0 => Direction::Slower,
            _ => Direction::Either,
        }
    }

    /// Tells whether a speed-up lies in the range.
    pub fn covers(&self, speedup: f64) -> bool {
        self.lo <= speedup && speedup <= self.hi
    }

    /// Returns the probability of a higher speed-up. None for a range without a median.
    pub fn chance_above(&self, speedup: f64) -> Option<f64> {
        let median = self.median?.ln();
        let off = speedup.ln() - median;
        let side = scale(if off < 0.0 { median - self.lo.ln() } else { self.hi.ln() - median }).max(f64::MIN_POSITIVE);
        let beyond = 0.5 * (-off.abs() / side).exp();
        Some(if off < 0.0 { 1.0 - beyond } else { beyond })
    }

    /// Returns the width of the range: the factor between its ends.
    pub fn width(&self) -> f64 {
        self.hi / self.lo
    }

    /// Returns the continuous ranked probability score (CRPS) of the prediction for an actual speed-up: how far the
    /// predicted distribution of the logarithm was from the outcome. The unit is that of the logarithm, 0 is best, and
    /// in expectation no forecast does better than the true distribution (Gneiting and Raftery, Strictly Proper Scoring
    /// Rules, Prediction, and Estimation, 2007, section 4.2). None for a range without a median.
    ///
    /// The score is the integral of `(F(z) - [z >= y])²`. Let `y` lie a distance `t` from the median, on a side of
    /// scale `b`, with scale `c` on the other side. Then the integral of this distribution is
    /// `t + b exp(-t / b) - 7 b / 8 + c / 8`. With equal scales, it is the known score of the Laplace distribution.
    pub fn crps(&self, speedup: f64) -> Option<f64> {
        let median = self.median?.ln();
        let (below, above) = (scale(median - self.lo.ln()), scale(self.hi.ln() - median));
        let off = speedup.ln() - median;
        let (side, other) = if off < 0.0 { (below, above) } else { (above, below) };
        let distance = off.abs();
        let tail = if side > 0.0 { side * (-distance / side).exp() } else { 0.0 };
        Some(distance + tail - 7.0 / 8.0 * side + other / 8.0)
    }
}

/// The proper scores of a prediction, in units of the logarithm of a speed-up. Smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Crps {
    /// The prediction's.
    pub prediction: f64,
    /// That of the forecast "no change".
    pub no_change: f64,
}

impl Crps {
    /// Scores a prediction. None without one, without its median or without an outcome.
    pub fn of(prediction: Option<Prediction>, actual: Option<f64>) -> Option<Self> {
        let (prediction, actual) = prediction.zip(actual)?;
        Some(Self { prediction: prediction.crps(actual)?, no_change: crps_of_no_change(actual) })
    }
}

/// Returns the CRPS of the forecast "no change" for an actual speed-up. It puts all probability on 1, so its score is
/// the distance of the outcome from there.
pub fn crps_of_no_change(speedup: f64) -> f64 {
    speedup.ln().abs()
}

/// Returns the scale of a Laplace distribution's side whose outer 10% begin at a distance from the median. Of the half
/// on that side, a fifth lies further out: `exp(-distance / scale) = 1/5`.
fn scale(distance: f64) -> f64 {
    let beyond = (1.0 - COVERAGE) / 2.0;
    distance.max(0.0) / (0.5 / beyond).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(median: f64, lo: f64, hi: f64) -> Prediction {
        Prediction { median: Some(median), lo, hi, strength: Strength::Prior, model: None }
    }

    /// Integrates `(F(z) - [z >= y])²` in small steps.
    fn integrated(prediction: &Prediction, speedup: f64) -> f64 {
        let median = prediction.median.unwrap().ln();
        let (below, above) = (median - prediction.lo.ln(), prediction.hi.ln() - median);
        let step = 1e-4;
        let cumulated = |z: f64| match z - median {
            off if off < 0.0 => 0.5 * (5_f64.ln() * off / below).exp(),
            off => 1.0 - 0.5 * (-(5_f64.ln()) * off / above).exp(),
        };
        (-100_000..100_000)
            .map(|place| (f64::from(place) + 0.5) * step)
            .map(|z| (cumulated(z) - if z >= speedup.ln() { 1.0 } else { 0.0 }).powi(2) * step)
            .sum()
    }

    #[test]
    fn the_score_in_closed_form_is_the_integral_that_defines_it() {
        for prediction in [prediction(1.0, 0.8, 1.25), prediction(0.9, 0.5, 0.95), prediction(1.5, 1.4, 3.0)] {
            for speedup in [0.4, 0.9, 1.0, 1.5, 4.0] {
                let (closed, integral) = (prediction.crps(speedup).unwrap(), integrated(&prediction, speedup));
                assert!((closed - integral).abs() < 1e-3, "{prediction:?} {speedup}: {closed} against {integral}");
            }
        }
    }

    #[test]
    fn the_ends_of_a_range_are_its_quantiles() {
        let skewed = prediction(0.9, 0.5, 0.95);
        for (speedup, chance) in [(0.5, 0.9), (0.9, 0.5), (0.95, 0.1)] {
            assert!((skewed.chance_above(speedup).unwrap() - chance).abs() < 1e-9, "{speedup}");
        }
        assert!(skewed.chance_above(1.2).unwrap() < 1e-3);
    }

    #[test]
    fn a_narrow_prediction_is_scored_like_a_point() {
        let no_change = prediction(1.0, 1.0, 1.0);
        assert_eq!(no_change.crps(1.3), Some(crps_of_no_change(1.3)));
        assert_eq!(crps_of_no_change(0.5), 2_f64.ln());
        assert_eq!(Prediction { median: None, ..no_change }.crps(1.3), None);
    }

    #[test]
    fn of_two_that_cover_the_outcome_the_narrower_one_scores_better() {
        let score = |lo: f64, hi: f64| prediction(1.0, lo, hi).crps(1.02).unwrap();
        assert!(score(0.95, 1.05) < score(0.5, 2.0));
        // One that is narrow and wrong is worse than a wide one.
        let off = |lo: f64, hi: f64| prediction(1.0, lo, hi).crps(3.0).unwrap();
        assert!(off(0.95, 1.05) > off(0.5, 2.0));
    }

    #[test]
    fn the_direction_is_claimed_only_where_the_whole_range_is_on_one_side() {
        assert_eq!(prediction(1.2, 1.05, 1.4).direction(), Direction::Faster);
        assert_eq!(prediction(0.7, 0.5, 0.9).direction(), Direction::Slower);
        assert_eq!(prediction(0.9, 0.5, 1.1).direction(), Direction::Either);
        assert!(prediction(0.9, 0.5, 1.1).covers(0.5) && !prediction(0.9, 0.5, 1.1).covers(1.2));
    }
}
