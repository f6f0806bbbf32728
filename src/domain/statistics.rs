//! Medians and their confidence intervals.

pub mod sampling;
#[cfg(test)]
pub(crate) mod synthetic;
pub mod timing;

use numerics::samples::{bootstrap_means, bootstrap_medians, median_in_place};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

/// A 95% confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

/// The ratio of two times: how many times as fast one kernel is as another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The estimate. Above 1, the first kernel is faster; in a comparison, that is the challenger.
    pub estimate: f64,
    /// Its 95% interval.
    pub interval: Interval,
}

/// Resamples of a bootstrap. With 1,000, the Monte-Carlo error of a 95% limit is well below the interval's own width
/// (Efron and Tibshirani, An Introduction to the Bootstrap, section 19.3).
const RESAMPLES: usize = 1000;

/// The seed of every resampling.
const SEED: u64 = 0x0b00_7574_7261_7000;

/// Returns the median: the middle value, or the mean of the two middle ones. `None` for no samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    median_in_place(&mut sorted)
}

/// Returns the 95% percentile-bootstrap interval of the median. `None` for no samples.
///
/// A constant seeds the resampling, so the same samples always give the same interval.
pub fn median_interval(samples: &[f64]) -> Option<Interval> {
    Some(percentiles(&bootstrap_medians(samples, RESAMPLES, &mut SmallRng::seed_from_u64(SEED))?))
}

/// Returns the 95% interval of resampled figures in ascending order.
fn percentiles(resampled: &[f64]) -> Interval {
    let at = |share: f64| resampled[((resampled.len() - 1) as f64 * share).round() as usize];
    Interval { lo: at(0.025), hi: at(0.975) }
}

/// Returns the 95% interval of the median from the ranks of the samples. It is exact for every distribution, and cheap
/// enough to compute after every sample. `None` below 6 samples, whose extremes contain the median less often than 95
/// times in 100.
///
/// The number of samples below the median is binomial with one half. So the samples of ranks k and n + 1 - k enclose
/// the median, except with twice the probability of fewer than k.
pub fn rank_interval(samples: &[f64]) -> Option<Interval> {
    let below = rank_below(samples.len()).checked_sub(1)?;
    let above = samples.len() - 1 - below;
    let mut sorted = samples.to_vec();
    let (_, lo, rest) = sorted.select_nth_unstable_by(below, f64::total_cmp);
    let lo = *lo;
    let (_, hi, _) = rest.select_nth_unstable_by(above - below - 1, f64::total_cmp);
    Some(Interval { lo, hi: *hi })
}

/// The 97.5% quantiles of Student's t, for 1 to 10 degrees of freedom.
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// Returns the mean of two to eleven values with Student's 95% interval, for too few values to use ranks. It assumes
/// normal noise, and is wide. `None` for fewer values, or more.
pub fn student_interval(values: &[f64]) -> Option<(f64, Interval)> {
    let quantile = STUDENT.get(values.len().checked_sub(2)?)?;
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let reach = quantile * (variance / count).sqrt();
    Some((mean, Interval { lo: mean - reach, hi: mean + reach }))
}

/// Returns the largest `k` for which fewer than `k` of `n` coins show heads with a probability of at most 2.5%.
fn rank_below(n: usize) -> usize {
    // The terms are summed as logarithms, because one half to the power of 2,000 underflows.
    let mut ln_term = -(n as f64) * std::f64::consts::LN_2;
    let (mut tail, mut k) = (ln_term.exp(), 0);
    while tail <= 0.025 {
        k += 1;
        ln_term += ((n - k + 1) as f64 / k as f64).ln();
        tail += ln_term.exp();
    }
    k
}

/// Returns the 95% interval of `over / under`, two independent estimates with their 95% intervals.
///
/// The method is Zou and Donner's MOVER (2008), applied to logarithms. The lower limit is `ln(over / under)` minus
/// `sqrt((below over)² + (above under)²)`, and likewise upwards. It needs no samples, which committed figures do not
/// have. Each estimate must lie within its own interval.
pub fn ratio_interval(over: (f64, Interval), under: (f64, Interval)) -> Interval {
    let below = |(value, interval): (f64, Interval)| (value / interval.lo).ln();
    let above = |(value, interval): (f64, Interval)| (interval.hi / value).ln();
    let estimate = over.0 / under.0;
    Interval {
        lo: estimate * (-below(over).hypot(above(under))).exp(),
        hi: estimate * above(over).hypot(below(under)).exp(),
    }
}

/// Returns the 95% interval of a share, `successes` out of `count` (Wilson, 1927). `None` for a count of 0.
pub fn share_interval(successes: usize, count: usize) -> Option<Interval> {
    const Z: f64 = 1.96;
    if count == 0 {
        return None;
    }
    let (n, share) = (count as f64, successes as f64 / count as f64);
    let middle = share + Z * Z / (2.0 * n);
    let reach = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Some(Interval { lo: ((middle - reach) / scale).max(0.0), hi: ((middle + reach) / scale).min(1.0) })
}

/// Returns the mean with its 95% percentile-bootstrap interval. `None` for no values. The resampling is seeded by a
/// constant, as in [`median_interval`].
pub fn mean_interval(values: &[f64]) -> Option<(f64, Interval)> {
    let means = bootstrap_means(values, RESAMPLES, &mut SmallRng::seed_from_u64(SEED))?;
    Some((values.iter().sum::<f64>() / values.len() as f64, percentiles(&means)))
}

/// Returns the value below which `share` (0 to 1) of the samples lie, by linear interpolation. `None` for no samples.
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    Some(below + (above - below) * position.fract())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::statistics::synthetic::repeats;
    use proptest::prelude::*;
    use rand_distr::{Distribution, Normal};

    #[test]
    fn known_medians_and_quantiles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
    }

    #[test]
    fn an_interval_of_equal_samples_is_a_point() {
        assert_eq!(median_interval(&[7.0; 50]), Some(Interval { lo: 7.0, hi: 7.0 }));
    }

    /// A 95% interval must miss the true median about once in twenty. Over 400 seeded draws of 60 normal samples, the
    /// number of misses is binomial(400, 0.05): mean 20, standard deviation 4.4.
    #[test]
    fn the_interval_covers_the_true_median_as_often_as_it_says() {
        let normal = Normal::new(100.0, 5.0).unwrap();
        let mut rng = SmallRng::seed_from_u64(1);
        let all = repeats(100, 400);
        let missed = (0..all)
            .filter(|_| {
                let samples: Vec<f64> = (0..60).map(|_| normal.sample(&mut rng)).collect();
                let Interval { lo, hi } = median_interval(&samples).unwrap();
                !(lo..=hi).contains(&100.0)
            })
            .count();
        assert!((all / 50..=all * 9 / 100).contains(&missed), "{missed} of {all} intervals missed");
    }

    #[test]
    fn the_interval_of_two_values_covers_the_true_mean_as_often_as_it_says() {
        let normal = Normal::new(100.0, 5.0).unwrap();
        let mut rng = SmallRng::seed_from_u64(2);
        for count in [2, 3, 11] {
            let missed = (0..400)
                .filter(|_| {
                    let values: Vec<f64> = (0..count).map(|_| normal.sample(&mut rng)).collect();
                    let (_, Interval { lo, hi }) = student_interval(&values).unwrap();
                    !(lo..=hi).contains(&100.0)
                })
                .count();
            assert!((8..=36).contains(&missed), "{missed} of 400 intervals of {count} values missed");
        }
        assert!(student_interval(&[1.0]).is_none() && student_interval(&[1.0; 12]).is_none());
    }

    /// The expected ranks are from tables of the sign test, such as Conover's A3.
    #[test]
    fn the_ranks_of_the_interval_are_those_of_the_tables() {
        let ranks: Vec<usize> = [5, 6, 8, 9, 20, 50, 100].into_iter().map(rank_below).collect();
        assert_eq!(ranks, [0, 1, 1, 2, 6, 18, 40]);
        assert_eq!(rank_below(2000), 956, "the normal approximation says 1000 - 1.96 * 22.4 = 956.2");

        let samples: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(rank_interval(&samples), Some(Interval { lo: 6.0, hi: 15.0 }));
        assert_eq!(rank_interval(&samples[..6]), Some(Interval { lo: 15.0, hi: 20.0 }));
        assert_eq!(rank_interval(&samples[..5]), None);
    }

    /// Of 1000 ratios of two medians, at most 7% may miss the true one: 5% plus three standard deviations of that
    /// count.
    #[test]
    fn the_interval_of_a_ratio_covers_the_true_ratio() {
        let mut rng = SmallRng::seed_from_u64(2);
        let mut side = |mean: f64| {
            let normal = Normal::new(mean, 5.0).unwrap();
            let samples: Vec<f64> = (0..40).map(|_| normal.sample(&mut rng)).collect();
            (median(&samples).unwrap(), rank_interval(&samples).unwrap())
        };
        let missed = (0..1000)
            .filter(|_| {
                let (over, under) = (side(110.0), side(100.0));
                let Interval { lo, hi } = ratio_interval(over, under);
                !(lo..=hi).contains(&1.1)
            })
            .count();
        assert!((1..=70).contains(&missed), "{missed} of 1000 intervals missed");
    }

    #[test]
    fn a_ratio_of_times_without_noise_has_no_interval_to_speak_of() {
        let point = |ns| (ns, Interval { lo: ns, hi: ns });
        assert_eq!(ratio_interval(point(30.0), point(20.0)), Interval { lo: 1.5, hi: 1.5 });
    }

    /// Figures of the first notebooks: 1.281 +- 0.004 ms and 0.086 ms must never overlap.
    #[test]
    fn an_outlier_does_not_move_the_median() {
        let mut samples = vec![1.281; 499];
        samples.push(40.0);
        assert_eq!(median(&samples), Some(1.281));
        assert_eq!(median_interval(&samples), Some(Interval { lo: 1.281, hi: 1.281 }));
    }

    proptest! {
        #[test]
        fn the_interval_lies_within_the_samples_and_holds_the_median(
            samples in proptest::collection::vec(0.1_f64..1e6, 1..80)
        ) {
            let interval = median_interval(&samples).unwrap();
            let (low, high) = (quantile(&samples, 0.0).unwrap(), quantile(&samples, 1.0).unwrap());
            prop_assert!(low <= interval.lo && interval.lo <= interval.hi && interval.hi <= high);
            if let Some(ranks) = rank_interval(&samples) {
                let median = median(&samples).unwrap();
                prop_assert!(low <= ranks.lo && ranks.lo <= median && median <= ranks.hi && ranks.hi <= high);
            }
        }
    }
}
