//! What a kernel that becomes faster gains of what bounds it.
//!
//! A part of the time, measured without it, bounds what a kernel against that part gains. What it will gain is not known
//! before it is written, so the forecast is what earlier kernels did (reference class forecasting: Flyvbjerg, Project
//! Management Journal 37(3), 2006). The earlier kernels are those of one family that beat another family's on the same case,
//! where the slower one's parts were measured. Kernels that beat nothing are not among them, so the forecast is
//! about one that succeeds.

use super::format::percent;

/// The lead's logarithm over that of the bound, which the largest part of the slower kernel sets: the quartiles of 23 pairs
/// of families on a case, in twelve sessions on H100s and H200s (docs/ablations.md).
const QUARTILES: [f64; 3] = [0.12, 0.35, 0.68];

/// How many pairs that were.
pub(super) const PAIRS: usize = 23;

/// Returns the quartiles of the gain for a bound of `most`. Both are factors.
pub(super) fn quartiles(most: f64) -> [f64; 3] {
    QUARTILES.map(|share| most.powf(share))
}

/// Says what those kernels gained of the bound.
pub(super) fn share() -> String {
    let [lower, _, upper] = QUARTILES;
    format!("{} to {}", percent(lower), percent(upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_forecast_below_its_bound() {
        assert_eq!(quartiles(1.0), [1.0; 3]);
        let [lower, middle, upper] = quartiles(1.5);
        assert!(1.0 < lower && lower < middle && middle < upper && upper < 1.5);
    }
}
