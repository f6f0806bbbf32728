//! How every search begins: with the initial design, then with random configurations until a case is measured.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::SearchContext;
use super::diagnosis::Diagnosis;
use super::initial_design::{InitialDesign, Next};
use super::place::{Place, choose_case, weight};
use super::random::Draw;
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::proposal::Suggestion;
use crate::domain::workload::Case;
use crate::error::Error;

/// The part of a search that all proposers have in common.
#[derive(Default)]
pub(super) struct Opening {
    initial_design: InitialDesign,
    draw: Draw,
}

/// What comes next in a search.
pub(super) enum Step<'a> {
    /// Propose this, or nothing for now.
    Propose(Option<Box<Suggestion>>),
    /// Search on this case.
    Search(&'a Case),
}

impl Opening {
    /// Returns the next step while `under_way` suggestions have no results yet. A case's chance to be searched grows
    /// with `factor`.
    pub fn next<'a>(
        &mut self,
        context: &SearchContext<'a>,
        diagnosis: &Diagnosis,
        history: &History,
        (under_way, factor): (usize, impl Fn(&str) -> f64),
        rng: &mut SmallRng,
    ) -> Result<Step<'a>, Error> {
        match self.initial_design.next(context, history, under_way)? {
            Next::Suggestion(suggestion) => return Ok(Step::Propose(Some(suggestion))),
            Next::Wait => return Ok(Step::Propose(None)),
            Next::Done => {}
        }
        if let Some(case) = choose_case(context, diagnosis, factor, rng) {
            return Ok(Step::Search(case));
        }
        // Nothing is measured yet: the default configurations are still under way, or none of them works.
        let Some(case) = context.workload.cases.choose(rng) else { return Ok(Step::Propose(None)) };
        let drawn = self.draw.next(context, history, &case.name, |_, _| 1.0, rng)?;
        Ok(Step::Propose(drawn.map(Box::new)))
    }

    /// Draws a random configuration, of a fast family and on the given case if there is a new one.
    pub fn random(
        &mut self,
        context: &SearchContext<'_>,
        history: &History,
        case: &Case,
        rng: &mut SmallRng,
    ) -> Result<Option<Suggestion>, Error> {
        let weight = |family: &Family, case: &Case| weight(history, family, case);
        self.draw.next(context, history, &case.name, weight, rng)
    }
}

/// Chooses a family on a case by its fastest time there.
pub(super) fn choose_family<'a>(
    context: &SearchContext<'a>,
    history: &History,
    case: &'a Case,
    rng: &mut SmallRng,
) -> Option<Place<'a>> {
    let family = context.families.choose_weighted(rng, |family| weight(history, family, case)).ok()?;
    Some(Place { family, case })
}
