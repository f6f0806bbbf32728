//! The proposer `random`: random configurations only, the control that a better proposer must beat.

use std::collections::HashSet;

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::diagnosis::Diagnosis;
use super::initial_design::{InitialDesign, Next};
use super::{Proposer, SearchContext};
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::ids::CaseName;
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::origin::Origin;
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::Error;

/// Starts with the initial design, then draws configurations uniformly from the valid ones.
pub struct Random {
    rng: SmallRng,
    initial_design: InitialDesign,
    draw: Draw,
}

impl Random {
    /// Makes a proposer whose draws are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), initial_design: InitialDesign::default(), draw: Draw::default() }
    }
}

impl Proposer for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        _diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, Error> {
        match self.initial_design.next(context, history, under_way)? {
            Next::Suggestion(suggestion) => return Ok(Some(*suggestion)),
            Next::Wait => return Ok(None),
            Next::Done => {}
        }
        let Some(case) = context.workload.cases.choose(&mut self.rng) else { return Ok(None) };
        self.draw.next(context, history, &case.name, |_, _| 1.0, &mut self.rng)
    }
}

/// Draws new configurations at random. Remembers which spaces have none left, because the search is slow.
#[derive(Default)]
pub(super) struct Draw {
    /// Family and case of each space without new configurations.
    exhausted: HashSet<(String, CaseName)>,
}

impl Draw {
    /// Draws a new configuration of a random family, chosen by weight. It prefers the given case, and takes another one
    /// if the case has no new configuration. Returns `Ok(None)` if no case has one.
    pub(super) fn next(
        &mut self,
        context: &SearchContext<'_>,
        history: &History,
        preferred: &str,
        weight: impl Fn(&Family, &Case) -> f64,
        rng: &mut SmallRng,
    ) -> Result<Option<Suggestion>, Error> {
        let mut cases: Vec<&Case> = context.workload.cases.iter().collect();
        cases.shuffle(rng);
        cases.sort_by_key(|case| case.name != preferred);
        for case in cases {
            for family in in_random_order(&context.families, |family| weight(family, case), rng) {
                let place = (family.name.clone(), case.name.clone());
                if self.exhausted.contains(&place) {
                    continue;
                }
                let is_open = |params: &Params| context.is_open(family, params, case, history);
                match draw(context, family, case, is_open, rng)? {
                    Some(params) => return suggestion(context, history, family, case, params).map(Some),
                    None if context.avoids_failures() => {}
                    None => drop(self.exhausted.insert(place)),
                }
            }
        }
        Ok(None)
    }
}

/// Draws an open configuration. Where failures are avoided, it gives up soon, because others are open without that.
fn draw<'a>(
    context: &SearchContext<'a>,
    family: &'a Family,
    case: &'a Case,
    is_open: impl Fn(&Params) -> bool,
    rng: &mut SmallRng,
) -> Result<Option<Params>, Error> {
    let space = context.space(family, case);
    if context.avoids_failures() { space.sample_where(rng, is_open) } else { space.random_where(rng, is_open) }
}

/// Shuffles families. Each comes first with a chance equal to its share of the weights (Efraimidis and Spirakis, 2006).
fn in_random_order<'a>(
    families: &[&'a Family],
    weight: impl Fn(&Family) -> f64,
    rng: &mut SmallRng,
) -> Vec<&'a Family> {
    let mut keyed: Vec<(f64, &Family)> = families
        .iter()
        .map(|family| (rng.random::<f64>().ln() / weight(family).max(f64::MIN_POSITIVE), *family))
        .collect();
    keyed.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    keyed.into_iter().map(|(_, family)| family).collect()
}

fn suggestion<'a>(
    context: &SearchContext<'a>,
    history: &History,
    family: &'a Family,
    case: &Case,
    params: Params,
) -> Result<Suggestion, Error> {
    let incumbent = history.incumbents.get(&case.name);
    let hypothesis = Hypothesis::without_claim(
        format!("a random configuration of {} is tried on {}", family.name, case.name),
        "random configurations explore: nothing is predicted about them".to_owned(),
        case.name.clone(),
        incumbent.map_or(Reference::Incumbent, |incumbent| Reference::Iteration(incumbent.iteration)),
    );
    context.suggestion(family, params, case, hypothesis, Origin::Random, None)
}
