//! Medians and means of samples, and of resamples.

use rand::Rng;
use rand::rngs::SmallRng;

/// Returns the median of `values`, and changes their order: the middle value, or the mean of the two middle ones. `None` for
/// no values.
pub fn median_in_place(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    let lower = if is_odd { upper } else { below.iter().copied().max_by(f64::total_cmp)? };
    Some(f64::midpoint(lower, upper))
}

/// Returns the medians of so many bootstrap resamples, in ascending order. None for no samples.
pub fn bootstrap_medians(samples: &[f64], resamples: usize, rng: &mut SmallRng) -> Option<Vec<f64>> {
    sorted(samples, resamples, rng, median_in_place)
}

/// Returns the means of so many bootstrap resamples, in ascending order. None for no samples.
pub fn bootstrap_means(samples: &[f64], resamples: usize, rng: &mut SmallRng) -> Option<Vec<f64>> {
    sorted(samples, resamples, rng, |resample| Some(resample.iter().sum::<f64>() / resample.len() as f64))
}

fn sorted(
    samples: &[f64],
    resamples: usize,
    rng: &mut SmallRng,
    figure: impl Fn(&mut [f64]) -> Option<f64>,
) -> Option<Vec<f64>> {
    if samples.is_empty() {
        return None;
    }
    let mut resample = vec![0.0; samples.len()];
    let mut figures = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        resample.fill_with(|| samples[rng.random_range(0..samples.len())]);
        figures.push(figure(&mut resample)?);
    }
    figures.sort_by(f64::total_cmp);
    Some(figures)
}
