//! The proposer `bayes`: a Gaussian process over the configurations of a family says which of many candidates may be
//! fastest.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::diagnosis::Diagnosis;
use super::initial_design::{InitialDesign, Next};
use super::model_search::{Model, ModelSearch};
use super::place::{Place, choose_case, weight};
use super::random::Draw;
use super::{Proposer, SearchContext};
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::proposal::Suggestion;
use crate::domain::workload::Case;

/// Bayesian optimisation with one process for each family and case.
pub struct Bayes {
    rng: SmallRng,
    initial_design: InitialDesign,
    draw: Draw,
    search: ModelSearch,
}

impl Bayes {
    /// Makes a proposer. Its random choices are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            initial_design: InitialDesign::default(),
            draw: Draw::default(),
            search: ModelSearch::default(),
        }
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
        let rng = &mut self.rng;
        let Some(case) = choose_case(context, diagnosis, |_| 1.0, rng) else {
            let Some(case) = context.workload.cases.choose(rng) else { return Ok(None) };
            return self.draw.next(context, history, &case.name, |_, _| 1.0, rng);
        };
        if let Ok(family) = context.families.choose_weighted(rng, |family| weight(history, family, case)) {
            let place = Place { family, case };
            if let Some(suggestion) = self.search.next(Model::Process, context, history, place, rng)? {
                return Ok(Some(suggestion));
            }
        }
        let weight = |family: &Family, case: &Case| weight(history, family, case);
        self.draw.next(context, history, &case.name, weight, rng)
    }
}
