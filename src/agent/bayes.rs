//! The proposer `bayes`: a Gaussian process over the configurations of a family says which of many candidates may be
//! fastest.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::diagnosis::Diagnosis;
use super::feasibility::Feasibility;
use super::model_search::{Model, ModelSearch};
use super::opening::{Opening, Step, choose_family};
use super::{Constants, Proposer, SearchContext};
use crate::domain::history::History;
use crate::domain::proposal::Suggestion;
use crate::error::Error;

/// Bayesian optimisation with one process for each family and case.
pub struct Bayes {
    rng: SmallRng,
    opening: Opening,
    feasibility: Feasibility,
    search: ModelSearch,
}

impl Bayes {
    /// Makes a proposer. Its random choices are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        let constants = Constants::default();
        Self {
            rng: SmallRng::seed_from_u64(seed),
            opening: Opening::default(),
            feasibility: Feasibility::default(),
            search: ModelSearch::new(constants.optimism, constants.failure),
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
    ) -> Result<Option<Suggestion>, Error> {
        let rng = &mut self.rng;
        let case = match self.opening.next(context, diagnosis, history, (under_way, |_| 1.0), rng)? {
            Step::Propose(suggestion) => return Ok(suggestion.map(|suggestion| *suggestion)),
            Step::Search(case) => case,
        };
        let avoiding = self.feasibility.avoiding(context, history, rng);
        if let Some(place) = choose_family(context, history, case, rng) {
            for context in [&avoiding, context] {
                if let Some(suggestion) = self.search.next(Model::Process, context, history, place, rng)? {
                    return Ok(Some(suggestion));
                }
            }
        }
        self.opening.random(context, history, case, rng)
    }
}
