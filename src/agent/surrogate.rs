//! A Gaussian process over the configurations of one family on one case: the expected logarithm of a time, and how sure
//! that is.
//!
//! The kernel is Matérn 5/2 with a length for each parameter. The lengths and the noise maximise the marginal likelihood with a weak prior. The
//! variance of the process follows from them in closed form.

use numerics::linear::{self, Process};
use rand::Rng;
use rand::rngs::SmallRng;
use rand_distr::StandardNormal;

use crate::domain::family::Family;
use crate::domain::op::Dims;
use crate::domain::variant::Params;

/// The logarithm above the fastest time from which differences count less. How slow a slow configuration is says little
/// about the fast ones.
const SLOW: f64 = 0.2;

/// Prior of a length, in ranges of the parameter, and of the noise, in standard deviations of the times: the median.
/// Both have a standard deviation of 1 as logarithms.
const PRIOR_LENGTH: f64 = 0.7;
const PRIOR_NOISE: f64 = 0.05;

/// Random steps of the first fit and of each later one, which begins where the last one ended.
const FIRST_STEPS: usize = 80;
const STEPS: usize = 25;

/// Added to the diagonal, so that rounding does not make a matrix indefinite.
const JITTER: f64 = 1e-8;

/// Maps configurations to points: for each parameter with several values, a position from 0 to 1. Maps them to features
/// too, for models that scale each feature by themselves.
#[derive(Clone)]
pub(super) struct Encoding {
    parameters: Vec<(String, Vec<(i64, f64)>)>,
    /// The places of the parameters whose products and quotients are features: those with more than two values.
    graded: Vec<usize>,
}

impl Encoding {
    /// Makes the encoding of a family. The position of a value is the mean of its rank and of its logarithm's place, so
    /// that 1, 2, 4 and 8 are evenly spaced, and 16 values between 16 and 256 are not all at one end.
    pub fn of(family: &Family) -> Self {
        let several = family.params.iter().filter(|(_, param)| param.values.len() > 1);
        let parameters: Vec<_> = several.map(|(name, param)| (name.clone(), positions(&param.values))).collect();
        let graded = (0..parameters.len()).filter(|place| parameters[*place].1.len() > 2).collect();
        Self { parameters, graded }
    }

    /// Returns the features of a configuration that is compiled for some dimensions: the logarithm of each parameter,
    /// then those of the product and the quotient of every two, then those of the dimensions.
    pub fn features(&self, params: &Params, dims: &Dims) -> Vec<f64> {
        let value = |(name, _): &(String, _)| log(params.get(name).copied().unwrap_or(0));
        let mut features: Vec<f64> = self.parameters.iter().map(value).collect();
        for (order, a) in self.graded.iter().enumerate() {
            for b in &self.graded[order + 1..] {
                let (a, b) = (features[*a], features[*b]);
                features.extend([a + b, a - b]);
            }
        }
        features.extend(dims.values().map(|dim| log(*dim)));
        features
    }

    /// Returns the point of a configuration.
    pub fn point(&self, params: &Params) -> Vec<f64> {
        let position = |(name, positions): &(String, Vec<(i64, f64)>)| {
            let value = params.get(name).copied();
            positions.iter().find(|(known, _)| Some(*known) == value).map_or(0.5, |(_, position)| *position)
        };
        self.parameters.iter().map(position).collect()
    }
}

/// Returns the logarithm of a value to the base 2. 0 stands beside the positive values, as half of 1.
fn log(value: i64) -> f64 {
    if value > 0 { (value as f64).log2() } else { value as f64 - 1.0 }
}

fn positions(values: &[i64]) -> Vec<(i64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = (sorted.len() - 1).max(1) as f64;
    // With negative values, only the rank counts.
    let (lo, hi) = (log(sorted[0]), log(sorted[sorted.len() - 1]));
    let has_logs = sorted[0] >= 0 && sorted.len() > 2 && hi > lo;
    let position = |(rank, value): (usize, &i64)| {
        let by_rank = rank as f64 / last;
        let by_log = if has_logs { (log(*value) - lo) / (hi - lo) } else { by_rank };
        (*value, f64::midpoint(by_rank, by_log))
    };
    sorted.iter().enumerate().map(position).collect()
}

/// What is known about the kernel: it is kept from one fit to the next.
#[derive(Clone)]
pub(super) struct Lengths {
    ln_lengths: Vec<f64>,
    ln_noise: f64,
    is_fitted: bool,
}

impl Lengths {
    /// Starts with the prior.
    pub fn new(encoding: &Encoding) -> Self {
        let ln_lengths = vec![PRIOR_LENGTH.ln(); encoding.parameters.len()];
        Self { ln_lengths, ln_noise: PRIOR_NOISE.ln(), is_fitted: false }
    }

    /// Fits lengths and noise to observations by random steps: each changes one of them, and some all lengths together.
    pub fn fit(&mut self, observations: &Observations, rng: &mut SmallRng) {
        let steps = if self.is_fitted { STEPS } else { FIRST_STEPS };
        self.is_fitted = true;
        let mut best = self.cost(observations);
        for _ in 0..steps {
            let mut next = self.clone();
            let normal = |rng: &mut SmallRng| rng.sample::<f64, _>(StandardNormal);
            if next.ln_lengths.is_empty() || rng.random_bool(0.2) {
                next.ln_noise += 0.7 * normal(rng);
            } else {
                let one = rng.random_range(0..next.ln_lengths.len());
                next.ln_lengths[one] += 0.8 * normal(rng);
                if rng.random_bool(0.3) {
                    let all = 0.3 * normal(rng);
                    next.ln_lengths.iter_mut().for_each(|length| *length += all);
                }
            }
            let cost = next.cost(observations);
            if cost < best {
                (best, *self) = (cost, next);
            }
        }
    }

    /// Returns the negative logarithm of the posterior, up to a constant. Infinite if the matrix is not definite.
    fn cost(&self, observations: &Observations) -> f64 {
        let Some(process) = Surrogate::new(self, observations) else { return f64::INFINITY };
        let count = observations.targets.len() as f64;
        let of_diagonal: f64 = (0..observations.targets.len()).map(|i| process.cholesky[i][i].ln()).sum();
        let prior: f64 = self.ln_lengths.iter().map(|length| (length - PRIOR_LENGTH.ln()).powi(2)).sum::<f64>()
            + (self.ln_noise - PRIOR_NOISE.ln()).powi(2);
        0.5 * count * process.variance.ln() + of_diagonal + 0.5 * prior
    }
}

/// Configurations with their times, standardised.
pub(super) struct Observations {
    points: Vec<Vec<f64>>,
    /// Logarithms of the times, less their mean, over their standard deviation.
    targets: Vec<f64>,
}

impl Observations {
    /// Makes observations of points and the logarithms of their times. None with fewer than two.
    pub fn new(points: Vec<Vec<f64>>, ln_times: &[f64]) -> Option<Self> {
        let fastest = ln_times.iter().copied().reduce(f64::min).filter(|_| ln_times.len() > 1)?;
        let flat =
            |ln: f64| if ln > fastest + SLOW { fastest + SLOW + 0.5 * (ln - fastest - SLOW).ln_1p() } else { ln };
        let flat: Vec<f64> = ln_times.iter().copied().map(flat).collect();
        let mean = flat.iter().sum::<f64>() / flat.len() as f64;
        let sd = (flat.iter().map(|ln| (ln - mean).powi(2)).sum::<f64>() / flat.len() as f64).sqrt().max(1e-9);
        Some(Self { points, targets: flat.iter().map(|ln| (ln - mean) / sd).collect() })
    }

    /// Returns every `step`th observation.
    pub fn every(&self, step: usize) -> Self {
        let points = self.points.iter().step_by(step).cloned().collect();
        Self { points, targets: self.targets.iter().step_by(step).copied().collect() }
    }

    /// Returns the targets: the logarithms of the times, standardised.
    pub fn targets(&self) -> &[f64] {
        &self.targets
    }
}

/// A process that knows its observations.
pub(super) struct Surrogate<'a> {
    /// The inverse of each length.
    inverse: Vec<f64>,
    observations: &'a Observations,
    /// The lower triangle of the Cholesky factor of the covariance, in units of the variance.
    cholesky: Vec<Vec<f64>>,
    /// The covariance's inverse times the targets.
    weights: Vec<f64>,
    variance: f64,
}

impl<'a> Surrogate<'a> {
    /// Conditions a process on observations. None if the covariance is not definite.
    pub fn new(lengths: &Lengths, observations: &'a Observations) -> Option<Self> {
        let noise = (2.0 * lengths.ln_noise).exp() + JITTER;
        let inverse: Vec<f64> = lengths.ln_lengths.iter().map(|ln| (-ln).exp()).collect();
        let points = &observations.points;
        let cholesky = linear::cholesky(linear::covariances(&inverse, points, noise))?;
        let weights = linear::solve_transposed(&cholesky, linear::solve(&cholesky, observations.targets.clone()));
        let fit: f64 = weights.iter().zip(&observations.targets).map(|(weight, target)| weight * target).sum();
        let variance = (fit / points.len() as f64).max(1e-12);
        Some(Self { inverse, observations, cholesky, weights, variance })
    }

    /// Returns the expected target of each point and its standard deviation. A target is a standardised logarithm of a
    /// time. Many points together take much less time than one after the other.
    pub fn expect_all(&self, points: &[&[f64]]) -> Vec<(f64, f64)> {
        let Self { inverse, cholesky, weights, .. } = self;
        let process = Process { inverse, points: &self.observations.points, cholesky, weights };
        let sd = |explained: f64| (self.variance * (1.0 - explained).max(1e-10)).sqrt();
        let expected = points.chunks(linear::TOGETHER).flat_map(|points| process.expect(points));
        expected.map(|(mean, explained)| (mean, sd(explained))).collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn values_are_placed_by_rank_and_logarithm() {
        let places = |values: &[i64]| positions(values).iter().map(|(_, at)| (at * 100.0).round()).collect::<Vec<_>>();
        assert_eq!(places(&[1, 2, 4, 8, 16]), [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(places(&[0, 1]), [0.0, 100.0]);
        assert_eq!(places(&[-2, 0, 2]), [0.0, 50.0, 100.0]);
        assert_eq!(places(&[16, 240, 256]), [0.0, 74.0, 100.0]);
    }

    #[test]
    fn a_process_knows_its_observations_and_is_unsure_elsewhere() {
        let points: Vec<Vec<f64>> = [0.0, 0.25, 0.5].map(|x| vec![x]).to_vec();
        let observations = Observations::new(points, &[3.0, 2.9, 3.1]).unwrap();
        let encoding = Encoding { parameters: vec![("P".to_owned(), Vec::new())], graded: Vec::new() };
        let lengths = Lengths { ln_noise: 1e-4_f64.ln(), ..Lengths::new(&encoding) };
        let process = Surrogate::new(&lengths, &observations).unwrap();
        let expected = process.expect_all(&[&[0.25], &[1.0]]);
        let (mean, sd) = expected[0];
        let fastest = observations.targets[1];
        assert!((mean - fastest).abs() < 1e-3 && sd < 1e-2, "{mean} {sd}");
        assert!(expected[1].1 > 10.0 * sd);
    }

    #[test]
    fn a_fit_finds_which_parameter_matters() {
        let mut rng = SmallRng::seed_from_u64(1);
        let points: Vec<Vec<f64>> = (0..40).map(|_| vec![rng.random(), rng.random()]).collect();
        let ln_times: Vec<f64> = points.iter().map(|point| 0.4 * (6.0 * point[0]).sin()).collect();
        let observations = Observations::new(points, &ln_times).unwrap();
        let parameters = ["A", "B"].map(|name| (name.to_owned(), Vec::new())).to_vec();
        let encoding = Encoding { parameters, graded: Vec::new() };
        let mut lengths = Lengths::new(&encoding);
        lengths.fit(&observations, &mut rng);
        assert!(lengths.ln_lengths[0] + 0.7 < lengths.ln_lengths[1], "{:?}", lengths.ln_lengths);
    }
}
