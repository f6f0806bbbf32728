//! Asks a model of the times of a family on a case which of many candidates may be the fastest.
//!
//! It takes the candidate with the lowest optimistic time: the expected logarithm less a multiple of its standard
//! deviation (a lower confidence bound: Srinivas et al., Gaussian Process Optimization in the Bandit Setting, 2010).
//! Failures have no time. What is likely to fail is no candidate, and what may fail counts as slower.

use std::collections::HashMap;

use rand::rngs::SmallRng;

use super::candidates::{Candidate, Candidates};
use super::forest::Forest;
use super::place::{Place, timed};
use super::surrogate::{Lengths, Observations, Surrogate};
use super::{SearchContext, claims};
use crate::domain::history::{Finished, History, Pending};
use crate::domain::ids::CaseName;
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::origin::{Change, Origin};
use crate::domain::variant::Params;
use crate::error::Error;

/// The most observations of a model: the fastest and the latest. The cost of a process grows with the cube of their
/// number.
const MAX_FASTEST: usize = 64;
const MAX_LATEST: usize = 64;

/// A forest grows again after this share of new results. Until 64, it is each one.
const REGROWN_SHARE: f64 = 1.0 / 64.0;

/// Lengths and noise are fitted again after this share of new results, and at least this many.
const REFIT_SHARE: f64 = 0.1;
const REFIT: usize = 3;

/// The most observations that they are fitted to, evenly chosen: dozens of matrices are factored for a fit.
const MAX_FITTED: usize = 64;

/// A kind of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    /// A Gaussian process. It learns smooth spaces from few observations.
    Process,
    /// A forest. It learns products of parameters and sharp edges.
    Forest,
}

/// Searches with models, one of each kind for each family on a case.
pub(super) struct ModelSearch {
    /// Standard deviations below the expected logarithm at which a candidate is judged. With expected improvement
    /// instead, the search stays near the first good configuration of the recorded convolution (docs/simulate.md).
    optimism: f64,
    /// Standard deviations of the times by which a candidate that surely fails is judged slower.
    failure: f64,
    models: HashMap<(String, CaseName), Models>,
}

/// What is kept from one proposal to the next about a family on a case.
struct Models {
    candidates: Candidates,
    /// What is known about the kernel, and how many results it was fitted to.
    lengths: Lengths,
    fitted_to: usize,
    /// The forest, and how many results it was grown on.
    forest: Option<(Forest, usize)>,
}

impl ModelSearch {
    /// Starts without models, with the standard deviations that count for a candidate and against one that may fail.
    pub fn new(optimism: f64, failure: f64) -> Self {
        Self { optimism, failure, models: HashMap::new() }
    }

    fn models(&mut self, place: Place<'_>) -> &mut Models {
        let key = (place.family.name.clone(), place.case.name.clone());
        self.models.entry(key).or_insert_with(|| Models::new(place))
    }

    /// Suggests the candidate with the lowest optimistic time, with a claim over the fastest configuration of its
    /// family. `Ok(None)` with too few observations, and where no candidate is new.
    pub fn next<'a>(
        &mut self,
        model: Model,
        context: &SearchContext<'a>,
        history: &History,
        place: Place<'a>,
        rng: &mut SmallRng,
    ) -> Result<Option<Suggestion>, Error> {
        let timed: Vec<(&Finished, f64)> = timed(history, place.family, place.case).collect();
        let (optimism, failure) = (self.optimism, self.failure);
        let models = self.models(place);
        models.candidates.refresh(context, history, place, &timed, rng)?;
        let (open, works) = open(context, history, place, &models.candidates);
        let expected = match model {
            Model::Process => {
                let pending = pending(history, place);
                let kept = (&mut models.lengths, &mut models.fitted_to);
                expect_of_process(kept, &models.candidates, (&timed, &pending), &open, rng)
            }
            Model::Forest => expect_of_forest(&mut models.forest, &models.candidates, &timed, &open, rng),
        };
        let Some(expected) = expected else { return Ok(None) };
        let judged = open.iter().zip(expected).zip(works).map(|((candidate, (mean, sd)), works)| {
            let judged = mean - optimism * sd + failure * (1.0 - works);
            candidate.judge(judged);
            (judged, candidate)
        });
        let best = judged.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate.params.clone());
        match best {
            Some(params) => suggestion(context, history, place, &timed, params),
            None => Ok(None),
        }
    }
}

impl Models {
    fn new(place: Place<'_>) -> Self {
        let candidates = Candidates::new(place);
        let lengths = Lengths::new(candidates.encoding());
        Self { candidates, lengths, fitted_to: 0, forest: None }
    }
}

/// Returns the candidates that may be suggested, each with its probability to work.
fn open<'c>(
    context: &SearchContext<'_>,
    history: &History,
    place: Place<'_>,
    candidates: &'c Candidates,
) -> (Vec<&'c Candidate>, Vec<f64>) {
    let new = candidates.new_ones(context, history).into_iter();
    match context.likely(place.family) {
        None => new.map(|candidate| (candidate, 1.0)).unzip(),
        Some(likely) => {
            let works = new.map(|candidate| (candidate, likely.probability(&candidate.features)));
            works.filter(|(_, works)| *works >= likely.threshold()).unzip()
        }
    }
}

/// Returns what a process expects of each candidate. None if its covariance is not definite.
fn expect_of_process(
    (lengths, fitted_to): (&mut Lengths, &mut usize),
    candidates: &Candidates,
    (timed, pending): (&[(&Finished, f64)], &[&Params]),
    open: &[&Candidate],
    rng: &mut SmallRng,
) -> Option<Vec<(f64, f64)>> {
    let known = representative(timed);
    let points = points(&known, &[], candidates);
    let observations = Observations::new(points, &ln_times(&known))?;
    if timed.len() >= *fitted_to + REFIT + (*fitted_to as f64 * REFIT_SHARE) as usize {
        lengths.fit(&observations.every(known.len().div_ceil(MAX_FITTED)), rng);
        *fitted_to = timed.len();
    }
    let observations = with_pending(&known, pending, candidates, observations)?;
    let process = Surrogate::new(lengths, &observations)?;
    let points: Vec<&[f64]> = open.iter().map(|candidate| candidate.point.as_slice()).collect();
    Some(process.expect_all(&points))
}

/// Adds configurations without results to the observations, with the mean of the times. So their neighbourhood promises less, and the
/// next suggestion lies elsewhere (the constant liar: Ginsbourger et al., Kriging Is Well-Suited to Parallelize Optimization, 2010).
fn with_pending(
    known: &[(&Finished, f64)],
    pending: &[&Params],
    candidates: &Candidates,
    observations: Observations,
) -> Option<Observations> {
    if pending.is_empty() {
        return Some(observations);
    }
    let mut times = ln_times(known);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    times.extend(pending.iter().map(|_| mean));
    Observations::new(points(known, pending, candidates), &times)
}

fn points(known: &[(&Finished, f64)], pending: &[&Params], candidates: &Candidates) -> Vec<Vec<f64>> {
    let params = known.iter().map(|(finished, _)| &finished.params).chain(pending.iter().copied());
    params.map(|params| candidates.encoding().point(params)).collect()
}

/// Returns the configurations of a family on a case that have no results yet.
fn pending<'h>(history: &'h History, Place { family, case }: Place<'_>) -> Vec<&'h Params> {
    let is_here = |pending: &&Pending| pending.family == family.name && pending.cases.contains(&case.name);
    history.pending.iter().filter(is_here).map(|pending| &pending.params).collect()
}

/// Returns what a forest expects of each candidate.
fn expect_of_forest(
    kept: &mut Option<(Forest, usize)>,
    candidates: &Candidates,
    timed: &[(&Finished, f64)],
    open: &[&Candidate],
    rng: &mut SmallRng,
) -> Option<Vec<(f64, f64)>> {
    let is_old = |grown_on: usize| (timed.len() - grown_on) as f64 > grown_on as f64 * REGROWN_SHARE;
    if kept.as_ref().is_none_or(|(_, grown_on)| timed.len() < *grown_on || is_old(*grown_on)) {
        let known = representative(timed);
        let features: Vec<Vec<f64>> = known.iter().map(|(finished, _)| candidates.features(&finished.params)).collect();
        let rows: Vec<&[f64]> = features.iter().map(Vec::as_slice).collect();
        let observations = Observations::new(Vec::new(), &ln_times(&known))?;
        *kept = Some((Forest::grow(&rows, observations.targets(), 0.0, rng), timed.len()));
    }
    let (forest, _) = kept.as_ref()?;
    Some(open.iter().map(|candidate| forest.expect(&candidate.features)).collect())
}

fn ln_times(known: &[(&Finished, f64)]) -> Vec<f64> {
    known.iter().map(|(_, ns)| ns.ln()).collect()
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
) -> Result<Option<Suggestion>, Error> {
    let Some((fastest, _)) = timed.iter().min_by(|(_, a), (_, b)| a.total_cmp(b)) else { return Ok(None) };
    let origin = Origin::Move { changes: Change::between(&fastest.params, &params) };
    let of = (place.family, place.case);
    let hypothesis = claims::of_change(context, history, of, (fastest, &params), &origin);
    context.suggestion(place.family, params, place.case, hypothesis, origin, Some(fastest.iteration)).map(Some)
}
