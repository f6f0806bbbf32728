//! The proposer `bayes`: a Gaussian process over the configurations of a family says which of many candidates may be
//! fastest.
//!
//! It tries the candidate with the lowest optimistic time: the expected logarithm less a multiple of its standard
//! deviation (a lower confidence bound: Srinivas et al., Gaussian Process Optimization in the Bandit Setting, 2010).

use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::diagnosis::{Diagnosis, Headroom};
use super::initial_design::{InitialDesign, Next};
use super::random::Draw;
use super::surrogate::{Encoding, Lengths, Observations, Surrogate};
use super::{Proposer, SearchContext, claims};
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::ids::CaseName;
use crate::domain::origin::{Change, Origin};
use crate::domain::proposal::Suggestion;
use crate::domain::variant::Params;
use crate::domain::workload::Case;

/// Timed configurations of a family from which the process is asked. Until then, configurations are random.
const MIN_OBSERVATIONS: usize = 12;

/// The most observations of a process: the fastest and the latest. Its cost grows with the cube of their number.
const MAX_FASTEST: usize = 128;
const MAX_LATEST: usize = 128;

/// Results after which lengths and noise are fitted again.
const REFIT: usize = 4;

/// Random configurations among the candidates.
const RANDOM_CANDIDATES: usize = 200;

/// The fastest configurations whose neighbours are candidates.
const ELITE: usize = 4;

/// The most candidates that differ from the fastest configuration in two parameters.
const SECOND_STEPS: usize = 150;

/// Standard deviations below the expected logarithm at which a candidate is judged. With expected improvement instead,
/// the search stays near the first good configuration of the recorded convolution (docs/simulate.md).
const OPTIMISM: f64 = 2.0;

/// Exponent of a family's weight: the best time on a case over the family's own.
const FAMILY_POWER: f64 = 3.0;

/// The weight of a family that was not timed on a case.
const UNSEEN: f64 = 0.3;

/// Bayesian optimisation with one process for each family and case.
pub struct Bayes {
    rng: SmallRng,
    initial_design: InitialDesign,
    draw: Draw,
    /// What is known about the kernel of each family on a case, and how many results it was fitted to.
    lengths: HashMap<(String, CaseName), (Lengths, usize)>,
}

impl Bayes {
    /// Makes a proposer. Its random choices are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            initial_design: InitialDesign::default(),
            draw: Draw::default(),
            lengths: HashMap::new(),
        }
    }

    /// Chooses a case. Its chance grows with the logarithm of its distance to the floor.
    fn choose_case<'a>(&mut self, context: &SearchContext<'a>, diagnosis: &Diagnosis) -> Option<&'a Case> {
        let weight = |headroom: &Headroom| 0.2 + headroom.factor().max(1.0).ln();
        let chosen = diagnosis.headroom.choose_weighted(&mut self.rng, weight).ok()?;
        context.workload.cases.iter().find(|case| case.name == chosen.case)
    }

    fn choose_family<'a>(&mut self, context: &SearchContext<'a>, history: &History, case: &Case) -> Option<&'a Family> {
        context.families.choose_weighted(&mut self.rng, |family| weight(history, family, case)).ok().copied()
    }

    /// Returns the candidate with the lowest optimistic time. None if there is no new one.
    fn best_candidate<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        (family, case): (&'a Family, &'a Case),
        timed: &[(&Finished, f64)],
    ) -> Result<Option<Params>, String> {
        let encoding = Encoding::of(family);
        let known = representative(timed);
        let points = known.iter().map(|(finished, _)| encoding.point(&finished.params)).collect();
        let ln_times: Vec<f64> = known.iter().map(|(_, ns)| ns.ln()).collect();
        let Some(observations) = Observations::new(points, &ln_times) else { return Ok(None) };
        let kept = self.lengths.entry((family.name.clone(), case.name.clone()));
        let (lengths, fitted_to) = kept.or_insert_with(|| (Lengths::new(&encoding), 0));
        if timed.len() >= *fitted_to + REFIT {
            lengths.fit(&observations, &mut self.rng);
            *fitted_to = timed.len();
        }
        let lengths = lengths.clone();
        let Some(process) = Surrogate::new(&lengths, &observations) else { return Ok(None) };
        let candidates = self.candidates(context, history, (family, case), timed)?;
        let optimistic = |params: &Params| {
            let (mean, sd) = process.expect(&encoding.point(params));
            mean - OPTIMISM * sd
        };
        let judged = candidates.into_iter().map(|params| (optimistic(&params), params));
        Ok(judged.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, params)| params))
    }

    /// Returns new configurations: random ones, the neighbours of the fastest ones, and some at two steps from the
    /// fastest.
    fn candidates<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        (family, case): (&'a Family, &'a Case),
        timed: &[(&Finished, f64)],
    ) -> Result<Vec<Params>, String> {
        let space = context.space(family, case);
        let is_new = |params: &Params| context.is_new(family, params, case, history);
        let mut candidates = Vec::new();
        for _ in 0..RANDOM_CANDIDATES {
            match space.random_where(&mut self.rng, is_new)? {
                Some(params) => candidates.push(params),
                None => break,
            }
        }
        let mut fastest: Vec<&(&Finished, f64)> = timed.iter().collect();
        fastest.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        for (finished, _) in fastest.iter().take(ELITE) {
            candidates.extend(space.neighbours(&finished.params)?.into_iter().map(|(_, params)| params));
        }
        if let Some((finished, _)) = fastest.first() {
            let mut halfway = space.moves(&finished.params);
            halfway.shuffle(&mut self.rng);
            let mut further = Vec::new();
            for (first, params) in &halfway {
                further.extend(space.neighbours(params)?.into_iter().filter(|(second, _)| second != first));
                if further.len() >= SECOND_STEPS {
                    break;
                }
            }
            candidates.extend(further.into_iter().map(|(_, params)| params));
        }
        candidates.retain(is_new);
        Ok(candidates)
    }
}

impl Proposer for Bayes {
    fn name(&self) -> &'static str {
        "bayes"
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, String> {
        match self.initial_design.next(context, history, under_way)? {
            Next::Suggestion(suggestion) => return Ok(Some(*suggestion)),
            Next::Wait => return Ok(None),
            Next::Done => {}
        }
        let case = match self.choose_case(context, diagnosis) {
            Some(case) => case,
            None => match context.workload.cases.choose(&mut self.rng) {
                Some(case) => return self.draw.next(context, history, &case.name, |_, _| 1.0, &mut self.rng),
                None => return Ok(None),
            },
        };
        if let Some(family) = self.choose_family(context, history, case) {
            let timed = timed(history, family, case);
            if timed.len() >= MIN_OBSERVATIONS
                && let Some(params) = self.best_candidate(context, history, (family, case), &timed)?
            {
                return suggestion(context, history, (family, case), &timed, params);
            }
        }
        let weight = |family: &Family, case: &Case| weight(history, family, case);
        self.draw.next(context, history, &case.name, weight, &mut self.rng)
    }
}

/// Returns the timed configurations of a family on a case, with their times in nanoseconds, oldest first.
fn timed<'h>(history: &'h History, family: &Family, case: &Case) -> Vec<(&'h Finished, f64)> {
    let of_family = history.finished.iter().filter(|finished| finished.family == family.name);
    of_family.filter_map(|finished| Some((finished, finished.time_ns(&case.name)?))).collect()
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
    (family, case): (&'a Family, &'a Case),
    timed: &[(&Finished, f64)],
    params: Params,
) -> Result<Option<Suggestion>, String> {
    let Some((fastest, _)) = timed.iter().min_by(|(_, a), (_, b)| a.total_cmp(b)) else { return Ok(None) };
    let origin = Origin::Move { changes: Change::between(&fastest.params, &params) };
    let hypothesis = claims::of_change(context, history, (family, case), (fastest, &params), &origin);
    context.suggestion(family, params, case, hypothesis, origin, Some(fastest.iteration)).map(Some)
}

/// Returns the weight of a family on a case, relative to the fastest family.
fn weight(history: &History, family: &Family, case: &Case) -> f64 {
    let own_ns = timed(history, family, case).into_iter().map(|(_, ns)| ns).reduce(f64::min);
    let of_all = history.fastest(&case.name);
    own_ns.zip(of_all).map_or(UNSEEN, |(own_ns, (_, best_ns))| (best_ns / own_ns).powf(FAMILY_POWER))
}
