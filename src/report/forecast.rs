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

/// How many changes of kernels' sources docs/kernels.md describes, and how many of them helped. What was given up early is
/// hardly among them.
pub(super) const CHANGES: usize = 66;
pub(super) const HELPED: usize = 30;

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

    /// Tables under "What helped" and "What did not help".
    #[test]
    fn the_changes_that_helped_are_those_that_the_page_describes() {
        let page = include_str!("../../docs/kernels.md");
        let (mut helped, mut all, mut helps) = (0, 0, None);
        let mut lines = page.lines().peekable();
        while let Some(line) = lines.next() {
            let is_head = lines.peek().is_some_and(|next| next.starts_with("|--"));
            match line.trim_start_matches(['*', '|', ' ']) {
                head if head.to_lowercase().starts_with("what helped") => helps = Some(true),
                head if head.to_lowercase().starts_with("what did not help") => helps = Some(false),
                _ if !line.is_empty() && !line.starts_with('|') => helps = None,
                _ if line.starts_with('|') && !line.starts_with("|--") && !is_head => {
                    all += usize::from(helps.is_some());
                    helped += usize::from(helps == Some(true));
                }
                _ => {}
            }
        }
        assert_eq!((helped, all), (HELPED, CHANGES));
    }
}
