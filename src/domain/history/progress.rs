//! How a search has progressed on a case, and what the rest of it is expected to gain.
//!
//! Improvements are taken to come at a constant rate in the logarithm of the number of tries: as many from the 100th to
//! the 400th as from the 400th to the 1600th. This holds exactly for the records of random tries (Rényi, Théorie des
//! éléments saillants d'une suite d'observations, 1962). A search that learns has more of them early, and its rate is
//! therefore taken from the latest tries.

/// The latest tries, from which the rate is taken: those after the number of all tries over this.
const WINDOW: f64 = 4.0;

/// Improvements that are added to those counted in the window, so that a search without any keeps a chance.
const UNSEEN: f64 = 0.5;

/// The size that an improvement is taken to have before one was seen: 1%, which is what a confirmed gain of a long search
/// usually brings (docs/decisions/0062). It counts as one improvement among those in the window.
const USUAL_GAIN: f64 = 0.01;

/// What a search has tried on a case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Variants that were timed in a screening run.
    tries: u64,
    /// The improvements: the tries before each, and the logarithm of the old time over the new one.
    gains: Vec<(u64, f64)>,
}

impl Progress {
    /// Counts a variant that was timed.
    pub fn count_try(&mut self) {
        self.tries += 1;
    }

    /// Counts an improvement by a factor.
    pub fn count_gain(&mut self, factor: f64) {
        self.gains.push((self.tries, factor.ln()));
    }

    /// Returns the number of variants that were timed.
    pub fn tries(&self) -> u64 {
        self.tries
    }

    /// Returns the expected logarithm of the gain if the search becomes `longer` times as long.
    pub fn expected_ln_gain(&self, longer: f64) -> f64 {
        let latest = self.gains.iter().filter(|(tries, _)| *tries as f64 * WINDOW > self.tries as f64);
        let sizes: Vec<f64> = latest.map(|(_, size)| *size).collect();
        let count = sizes.len() as f64;
        let rate = (count + UNSEEN) / WINDOW.ln();
        let size = (sizes.iter().sum::<f64>() + USUAL_GAIN.ln_1p()) / (count + 1.0);
        rate * longer.max(1.0).ln() * size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(tries: u64, gains: &[(u64, f64)]) -> Progress {
        let gains = gains.iter().map(|(at, factor)| (*at, factor.ln())).collect();
        Progress { tries, gains }
    }

    #[test]
    fn a_search_without_gains_expects_little_and_less_as_the_rest_shrinks() {
        let idle = progress(1000, &[]);
        let expected = [16.0, 4.0, 2.0, 1.0].map(|longer| idle.expected_ln_gain(longer));
        assert!(expected.is_sorted_by(|a, b| a > b), "{expected:?}");
        assert_eq!(expected[3], 0.0);
        // Half an improvement of 1% is expected while the tries become four times as many.
        assert!((expected[1] - 0.5 * 0.01_f64.ln_1p()).abs() < 1e-12);
    }

    #[test]
    fn late_gains_promise_more_and_early_ones_are_forgotten() {
        let (late, early) = (progress(400, &[(300, 1.05)]), progress(400, &[(90, 10.0)]));
        assert!(late.expected_ln_gain(4.0) > 4.0 * early.expected_ln_gain(4.0));
        assert_eq!(early.expected_ln_gain(4.0), progress(400, &[]).expected_ln_gain(4.0));
    }

    /// Records of random tries: ln(n) of them are expected among n, whatever the distribution.
    #[test]
    fn the_expected_number_of_records_is_that_of_random_tries() {
        use rand::{Rng, SeedableRng};
        let mut rng = rand::rngs::SmallRng::seed_from_u64(1);
        let (mut expected, mut found) = (0.0, 0.0);
        for _ in 0..400 {
            let (mut known, mut best, mut later) = (Progress::default(), f64::INFINITY, 0.0);
            for tries in 0..1600 {
                let time: f64 = rng.random_range(1.0..2.0);
                known.tries = if tries < 400 { tries + 1 } else { 400 };
                if time < best {
                    // Each counts as 1%, so that only their number matters.
                    match tries < 400 {
                        true => known.count_gain(1.01),
                        false => later += 1.0,
                    }
                    best = time;
                }
            }
            expected += known.expected_ln_gain(4.0) / 0.01_f64.ln_1p();
            found += later;
        }
        // Half an improvement more than is counted is expected.
        assert!(expected > found && expected < 1.5 * found, "{expected} expected, {found} found");
    }
}
