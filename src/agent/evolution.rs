//! The proposer `evolution`: a new configuration takes each value from one of two fast ones, and a few values change.
//!
//! The parents win tournaments among the timed configurations, so slow ones have children too, but rarely.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::diagnosis::Diagnosis;
use super::opening::{Opening, Step, choose_family};
use super::place::{Place, timed};
use super::{Proposer, SearchContext, claims};
use crate::domain::family::{Family, Param};
use crate::domain::history::{Finished, History};
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::origin::{Change, Origin};
use crate::domain::variant::Params;
use crate::error::Error;

/// Timed configurations of a family from which it evolves. Until then, configurations are random.
const POPULATION: usize = 10;

/// Configurations in a tournament.
const TOURNAMENT: usize = 3;

/// Children that may be invalid or known before the search gives up.
const MAX_CHILDREN: usize = 60;

/// A genetic search with one population for each family and case.
pub struct Evolution {
    rng: SmallRng,
    opening: Opening,
}

impl Evolution {
    /// Makes a proposer. Its random choices are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), opening: Opening::default() }
    }
}

impl Proposer for Evolution {
    fn name(&self) -> &'static str {
        "evolution"
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, Error> {
        let rng = &mut self.rng;
        let case = match self.opening.next(context, diagnosis, history, (under_way, |_| 1.0), rng)? {
            Step::Propose(suggestion) => return Ok(suggestion.map(|suggestion| *suggestion)),
            Step::Search(case) => case,
        };
        if let Some(place) = choose_family(context, history, case, rng)
            && let Some(suggestion) = child(context, history, place, rng)?
        {
            return Ok(Some(suggestion));
        }
        self.opening.random(context, history, case, rng)
    }
}

/// Suggests a child of two fast configurations of a family on a case, with a claim over the first. `Ok(None)` with a
/// small population, or if all children are known or invalid.
pub(super) fn child<'a>(
    context: &SearchContext<'a>,
    history: &History,
    place: Place<'a>,
    rng: &mut SmallRng,
) -> Result<Option<Suggestion>, Error> {
    let Place { family, case } = place;
    let timed: Vec<(&Finished, f64)> = timed(history, family, case).collect();
    if timed.len() < POPULATION {
        return Ok(None);
    }
    for _ in 0..MAX_CHILDREN {
        let (Some(mother), Some(father)) = (fast_one(&timed, rng), fast_one(&timed, rng)) else { return Ok(None) };
        let params = mix(family, &mother.params, &father.params, rng);
        if !context.is_open(family, &params, case, history) || !context.space(family, case).contains(&params)? {
            continue;
        }
        let origin = Origin::Move { changes: Change::between(&mother.params, &params) };
        let hypothesis = claims::of_change(context, history, (family, case), (mother, &params), &origin);
        return context.suggestion(family, params, case, hypothesis, origin, Some(mother.iteration)).map(Some);
    }
    Ok(None)
}

/// Returns the winner of a tournament.
fn fast_one<'h>(timed: &[(&'h Finished, f64)], rng: &mut SmallRng) -> Option<&'h Finished> {
    let rivals = timed.choose_multiple(rng, TOURNAMENT);
    rivals.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(finished, _)| *finished)
}

/// Takes each value from one of two configurations. On average, one value in all changes to a random one.
fn mix(family: &Family, mother: &Params, father: &Params, rng: &mut SmallRng) -> Params {
    let changes = 1.0 / family.params.len().max(1) as f64;
    let value = |(name, param): (&String, &Param)| {
        let parent = if rng.random_bool(0.5) { mother } else { father };
        let kept = parent.get(name).copied().unwrap_or(param.default);
        let changed = if rng.random_bool(changes) { param.values.choose(rng).copied() } else { None };
        (name.clone(), changed.unwrap_or(kept))
    };
    family.params.iter().map(value).collect()
}
