//! Asks a model of the times of a family on a case which of many candidates may be the fastest.
//!
//! It takes the candidate with the lowest optimistic time: the expected logarithm less a multiple of its standard
//! deviation (a lower confidence bound: Srinivas et al., Gaussian Process Optimization in the Bandit Setting, 2010).
//! Failures have no time. They lower the probability that similar candidates work, which counts against these.

use std::collections::HashMap;

use rand::rngs::SmallRng;

use super::candidates::{Candidate, Candidates};
use super::forest::Forest;
use super::place::{Place, timed};
use super::surrogate::{Encoding, Lengths, Observations, Surrogate};
use super::{SearchContext, claims};
use crate::domain::history::{Finished, History};
use crate::domain::ids::CaseName;
use crate::domain::origin::{Change, Origin};
use crate::domain::proposal::Suggestion;
use crate::domain::variant::Params;

/// Timed configurations of a family from which a model is asked. Until then, configurations are random.
pub(super) const MIN_OBSERVATIONS: usize = 12;

/// The most observations of a model: the fastest and the latest. The cost of a process grows with the cube of their
/// number.
const MAX_FASTEST: usize = 96;
const MAX_LATEST: usize = 96;

/// Lengths and noise are fitted again after this share of new results, and at least this many.
const REFIT_SHARE: f64 = 0.1;
const REFIT: usize = 3;

/// Standard deviations below the expected logarithm at which a candidate is judged. With expected improvement instead,
/// the search stays near the first good configuration of the recorded convolution (docs/simulate.md).
const OPTIMISM: f64 = 2.0;

/// Standard deviations of the times by which a candidate that surely fails is judged slower.
const FAILURE: f64 = 3.0;

/// Failures that count, the latest ones.
const MAX_FAILURES: usize = 64;

/// A kind of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    /// A Gaussian process. It learns smooth spaces from few observations.
    Process,
    /// A forest. It learns products of parameters and sharp edges.
    Forest,
}

/// What is kept from one proposal to the next.
#[derive(Default)]
pub(super) struct ModelSearch {
    candidates: HashMap<(String, CaseName), Candidates>,
    /// What is known about the kernel of each family on a case, and how many results it was fitted to.
    lengths: HashMap<(String, CaseName), (Lengths, usize)>,
}

impl ModelSearch {
    /// Suggests the candidate with the lowest optimistic time, with a claim over the fastest configuration of its
    /// family. `Ok(None)` with too few observations, and where no candidate is new.
    pub fn next<'a>(
        &mut self,
        model: Model,
        context: &SearchContext<'a>,
        history: &History,
        place: Place<'a>,
        rng: &mut SmallRng,
    ) -> Result<Option<Suggestion>, String> {
        let (family, case) = (place.family, place.case);
        let timed = timed(history, family, case);
        if timed.len() < MIN_OBSERVATIONS {
            return Ok(None);
        }
        let key = (family.name.clone(), case.name.clone());
        let candidates = self.candidates.entry(key).or_default();
        candidates.refresh(context, history, (family, case), &timed, rng)?;
        let new = candidates.new_ones(history);
        let expected = match model {
            Model::Process => expect_of_process(&mut self.lengths, place, &timed, &new, rng),
            Model::Forest => expect_of_forest(place, &timed, &new, rng),
        };
        let Some(expected) = expected else { return Ok(None) };
        let encoding = Encoding::of(family);
        let failures = failures(history, place, &encoding);
        let worked: Vec<Vec<f64>> = timed.iter().map(|(finished, _)| encoding.point(&finished.params)).collect();
        let judged = new.iter().zip(expected).map(|(candidate, (mean, sd))| {
            let fails = 1.0 - probability_to_work(&candidate.point, &worked, &failures);
            (mean - OPTIMISM * sd + FAILURE * fails, candidate)
        });
        let best = judged.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate.params.clone());
        match best {
            Some(params) => suggestion(context, history, place, &timed, params),
            None => Ok(None),
        }
    }
}

/// Returns what a process expects of each candidate. None if its covariance is not definite.
fn expect_of_process(
    lengths: &mut HashMap<(String, CaseName), (Lengths, usize)>,
    place: Place<'_>,
    timed: &[(&Finished, f64)],
    candidates: &[&Candidate],
    rng: &mut SmallRng,
) -> Option<Vec<(f64, f64)>> {
    let encoding = Encoding::of(place.family);
    let known = representative(timed);
    let points = known.iter().map(|(finished, _)| encoding.point(&finished.params)).collect();
    let observations = Observations::new(points, &ln_times(&known))?;
    let kept = lengths.entry((place.family.name.clone(), place.case.name.clone()));
    let (lengths, fitted_to) = kept.or_insert_with(|| (Lengths::new(&encoding), 0));
    if timed.len() >= *fitted_to + REFIT + (*fitted_to as f64 * REFIT_SHARE) as usize {
        lengths.fit(&observations, rng);
        *fitted_to = timed.len();
    }
    let process = Surrogate::new(lengths, &observations)?;
    let points: Vec<&[f64]> = candidates.iter().map(|candidate| candidate.point.as_slice()).collect();
    Some(process.expect_all(&points))
}

/// Returns what a forest expects of each candidate.
fn expect_of_forest(
    place: Place<'_>,
    timed: &[(&Finished, f64)],
    candidates: &[&Candidate],
    rng: &mut SmallRng,
) -> Option<Vec<(f64, f64)>> {
    let encoding = Encoding::of(place.family);
    let known = representative(timed);
    let features: Vec<Vec<f64>> = known.iter().map(|(finished, _)| encoding.features(&finished.params)).collect();
    let rows: Vec<&[f64]> = features.iter().map(Vec::as_slice).collect();
    let observations = Observations::new(Vec::new(), &ln_times(&known))?;
    let forest = Forest::grow(&rows, observations.targets(), rng);
    Some(candidates.iter().map(|candidate| forest.expect(&candidate.features)).collect())
}

fn ln_times(known: &[(&Finished, f64)]) -> Vec<f64> {
    known.iter().map(|(_, ns)| ns.ln()).collect()
}

/// Returns the points of the latest failures of a family on a case.
fn failures(history: &History, place: Place<'_>, encoding: &Encoding) -> Vec<Vec<f64>> {
    let failed = history.attempts.iter().rev().filter(|attempt| {
        !attempt.worked && attempt.family == place.family.name && attempt.cases.contains(&place.case.name)
    });
    failed.take(MAX_FAILURES).map(|attempt| encoding.point(&attempt.params)).collect()
}

/// Returns the share of the results near a point that worked, with half a success where there are none.
fn probability_to_work(point: &[f64], worked: &[Vec<f64>], failures: &[Vec<f64>]) -> f64 {
    if failures.is_empty() {
        return 1.0;
    }
    let near = |others: &[Vec<f64>]| -> f64 { others.iter().map(|other| closeness(point, other)).sum() };
    let (worked, failed) = (near(worked) + 0.5, near(failures));
    worked / (worked + failed)
}

/// Returns how much one result says about another: 1 at the same point, and little beyond half the range of one
/// parameter.
fn closeness(a: &[f64], b: &[f64]) -> f64 {
    let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    (-square / 0.125).exp()
}

/// Returns the latest and the fastest of many timed configurations.
fn representative<'h>(timed: &[(&'h Finished, f64)]) -> Vec<(&'h Finished, f64)> {
    if timed.len() <= MAX_FASTEST + MAX_LATEST {
        return timed.to_vec();
    }
    let (older, latest) = timed.split_at(timed.len() - MAX_LATEST);
    let mut fastest = older.to_vec();
    fastest.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    fastest.into_iter().take(MAX_FASTEST).chain(latest.iter().copied()).collect()
}

/// Suggests a configuration with a claim over the fastest one of its family.
fn suggestion<'a>(
    context: &SearchContext<'a>,
    history: &History,
    place: Place<'a>,
    timed: &[(&Finished, f64)],
    params: Params,
) -> Result<Option<Suggestion>, String> {
    let Some((fastest, _)) = timed.iter().min_by(|(_, a), (_, b)| a.total_cmp(b)) else { return Ok(None) };
    let origin = Origin::Move { changes: Change::between(&fastest.params, &params) };
    let of = (place.family, place.case);
    let hypothesis = claims::of_change(context, history, of, (fastest, &params), &origin);
    context.suggestion(place.family, params, place.case, hypothesis, origin, Some(fastest.iteration)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_failures_is_unlikely_to_work() {
        let (worked, failures) = ([vec![0.0, 0.0], vec![0.1, 0.0]], [vec![1.0, 1.0], vec![0.9, 1.0]]);
        let chance = |x: f64| probability_to_work(&[x, x], &worked, &failures);
        assert!(chance(0.0) > 0.95 && chance(1.0) < 0.3, "{} {}", chance(0.0), chance(1.0));
        assert_eq!(probability_to_work(&[1.0, 1.0], &worked, &[]), 1.0);
    }
}
