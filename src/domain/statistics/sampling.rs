//! Rules for when enough samples are taken. They are pure, and tested with synthetic noise.

use serde::{Deserialize, Serialize};

use crate::domain::statistics::{median, rank_interval};

/// Fewest samples for any decision.
pub const MIN_SAMPLES: usize = 3;

/// When a series of samples ends: once it is precise enough, or at a cap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Fewest samples, unless time runs out.
    pub min_samples: usize,
    /// Most samples.
    pub max_samples: usize,
    /// Relative error that is precise enough: half the width of the median's 95% interval over the median.
    pub relative_error: f64,
    /// Time after which the series ends, however few samples it has, in nanoseconds.
    pub max_ns: f64,
}

impl Sampling {
    /// Tells whether the series is over, given the launches of each sample.
    pub fn is_over(&self, samples: &[f64], launches_per_sample: u32) -> bool {
        self.is_exhausted(samples, launches_per_sample) || self.is_enough(samples)
    }

    /// Returns the rule for a series that takes `part` samples where this one takes `of`.
    pub fn share(self, part: usize, of: usize) -> Self {
        Self { min_samples: self.min_samples * part / of, max_samples: (self.max_samples * part / of).max(1), ..self }
    }

    /// Tells whether no further sample may be taken. A single sample that takes as long as the whole series may is
    /// enough, because its length makes it precise.
    pub fn is_exhausted(&self, samples: &[f64], launches_per_sample: u32) -> bool {
        let taken_ns = samples.iter().sum::<f64>() * f64::from(launches_per_sample);
        samples.len() >= self.max_samples || taken_ns >= self.max_ns
    }

    /// Tells whether no further sample is needed.
    ///
    /// The rule sees only the spread of the samples at hand. On a machine whose clock has two states, all of them may
    /// be of one state. So a screened time only selects variants to measure again; a comparison decides.
    pub fn is_enough(&self, samples: &[f64]) -> bool {
        samples.len() >= self.min_samples.max(MIN_SAMPLES) && self.is_precise(samples)
    }

    fn is_precise(&self, samples: &[f64]) -> bool {
        let Some((median, interval)) = median(samples).zip(rank_interval(samples)) else { return false };
        (interval.hi - interval.lo) / 2.0 <= self.relative_error * median
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::statistics::synthetic::{Machine, Noise, SAMPLE_NS};

    const SAMPLING: Sampling = Sampling { min_samples: 7, max_samples: 50, relative_error: 0.002, max_ns: 2e9 };
    const LAUNCHES: u32 = 10;
    const NS: f64 = 20_000.0;

    /// Returns the samples of a series that ends by the rule.
    fn series(sampling: &Sampling, machine: &mut Machine) -> Vec<f64> {
        let mut samples = Vec::new();
        while !sampling.is_over(&samples, LAUNCHES) {
            samples.push(machine.sample(NS));
        }
        samples
    }

    /// Returns how many of 500 series have a median further than `off` from the true one, and their mean length.
    fn wrong_and_length(sampling: &Sampling, noise: Noise, off: f64) -> (usize, f64) {
        let all: Vec<Vec<f64>> = (0..500).map(|seed| series(sampling, &mut Machine::new(noise, seed))).collect();
        let wrong = all.iter().filter(|samples| (median(samples).unwrap() / NS - 1.0).abs() > off).count();
        (wrong, all.iter().map(Vec::len).sum::<usize>() as f64 / 500.0)
    }

    #[test]
    fn a_series_takes_the_least_even_without_noise_and_never_more_than_the_most() {
        assert_eq!(series(&SAMPLING, &mut Machine::new(Noise::default(), 0)).len(), 7);
        let noisy = Noise { white: 0.5, ..Noise::default() };
        assert_eq!(series(&SAMPLING, &mut Machine::new(noisy, 0)).len(), 50);
    }

    #[test]
    fn a_series_ends_when_its_time_is_up_even_after_one_sample() {
        let noisy = Noise { white: 0.5, ..Noise::default() };
        let brief = |max_ns| Sampling { max_ns, ..SAMPLING };
        assert_eq!(series(&brief(1.0), &mut Machine::new(noisy, 0)).len(), 1);
        let sampling = brief(20.0 * NS * f64::from(LAUNCHES));
        let samples = series(&sampling, &mut Machine::new(noisy, 0));
        let all_but_one: f64 = samples[..samples.len() - 1].iter().sum();
        assert!(samples.len() > MIN_SAMPLES && samples.len() < 50, "{} samples", samples.len());
        assert!(all_but_one * f64::from(LAUNCHES) < sampling.max_ns);
    }

    /// A test after every sample stops a little too early, so more than 5% of the medians are off by more than the
    /// asked share. The test allows 10%, and 1% by twice the share. No median is better than half a step of its clock.
    #[test]
    fn a_series_that_ends_early_has_the_requested_precision() {
        let uncapped = Sampling { max_samples: 1000, ..SAMPLING };
        let half_a_step = 0.5 * Noise::QUANTISED.tick_ns / SAMPLE_NS;
        for (name, noise, step) in [
            ("white", Noise::WHITE, 0.0),
            ("outliers", Noise::OUTLIERS, 0.0),
            ("quantised", Noise::QUANTISED, half_a_step),
        ] {
            let (off, length) = wrong_and_length(&uncapped, noise, 0.002 + step);
            assert!(off <= 50, "{name}: {off} of 500 medians are off by more than 0.2% after {length} samples");
            let (far_off, _) = wrong_and_length(&uncapped, noise, 0.004 + step);
            assert!(far_off <= 5, "{name}: {far_off} of 500 medians are off by more than 0.4%");
            assert!(length < 60.0, "{name}: {length} samples on average do not end early");
        }
    }

    #[test]
    fn a_sinking_clock_does_not_end_a_series_early() {
        let steep = Noise { drift: 1.0, ..Noise::WHITE };
        let lengths = (0..500).map(|seed| series(&SAMPLING, &mut Machine::new(steep, seed)).len());
        let short = lengths.filter(|&length| length < SAMPLING.max_samples).count();
        assert!(short <= 25, "{short} of 500 series under a drift of 5% in 50 samples ended early");
    }

    /// Samples of one clock state do not show that there is another: half the series are all of the slower one. This is
    /// why screening decides nothing.
    #[test]
    fn a_precise_series_in_the_slower_clock_state_is_still_wrong() {
        let (wrong, _) = wrong_and_length(&SAMPLING, Noise::BIMODAL, 0.05);
        assert!((200..=300).contains(&wrong), "{wrong} of 500 medians are off by more than 5%");
    }
}
