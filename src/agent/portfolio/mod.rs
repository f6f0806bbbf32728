//! The proposer `portfolio`: a bandit divides the budget over several ways to search, over families and over cases.
//!
//! Each attempt is credited with what it gained: the logarithm of the fastest time before over the fastest time after,
//! summed over the cases. The chance of a way to search is its share of the budget at the start, times its gain per
//! second of the device relative to that of all. A way that has nothing to propose passes to the next, so none idles.

mod constants;
mod yields;

use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

pub use self::constants::Constants;
use self::yields::Yields;
use super::diagnosis::Diagnosis;
use super::evolution;
use super::feasibility::Feasibility;
use super::local::{self, Local};
use super::model_search::{Model, ModelSearch};
use super::opening::{Opening, Step};
use super::place::{Place, is_timed, weight};
use super::{Proposer, SearchContext};
use crate::domain::family::Family;
use crate::domain::history::attempt::Attempt;
use crate::domain::history::{ConfigurationId, History};
use crate::domain::ids::CaseName;
use crate::domain::proposal::Suggestion;
use crate::domain::workload::Case;
use crate::error::Error;

/// A way to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    /// What the diagnosis proposes against a cause of lost time.
    Remedy,
    /// The fastest configuration of another case.
    WarmStart,
    /// The candidate that a forest expects to be the fastest.
    Forest,
    /// The candidate that a Gaussian process expects to be the fastest.
    Process,
    /// A move around one of the fastest variants.
    Local,
    /// A value that was not tried near the fastest variant.
    Coverage,
    /// A child of two fast configurations.
    Evolution,
    /// A random configuration.
    Random,
}

/// Returns every way with its share of the budget at the start. The first two have little to propose, and good reasons.
/// The models learn different spaces well (docs/simulate.md). The others find what models miss.
fn ways(constants: &Constants) -> [(Way, f64); 8] {
    let other = constants.exploration;
    [
        (Way::Remedy, 0.5),
        (Way::WarmStart, 0.25),
        (Way::Forest, constants.forest),
        (Way::Process, 1.0 - constants.forest),
        (Way::Local, other),
        (Way::Coverage, other),
        (Way::Evolution, other),
        (Way::Random, other),
    ]
}

/// The least cost of an attempt in seconds. A recorded or modelled time costs nothing.
const MIN_COST_S: f64 = 1e-3;

/// A portfolio of ways to search.
pub struct Portfolio {
    name: &'static str,
    constants: Constants,
    rng: SmallRng,
    opening: Opening,
    feasibility: Feasibility,
    local: Local,
    models: ModelSearch,
    /// Which way proposed what is under way, by the place where it was looked for.
    under_way: HashMap<ConfigurationId, (Way, String, CaseName)>,
    /// The attempts of the history that were credited, and the fastest time on each case after them.
    credited: usize,
    fastest_ns: HashMap<CaseName, f64>,
    ways: Yields<Way>,
    families: Yields<(String, CaseName)>,
    cases: Yields<CaseName>,
}

impl Portfolio {
    /// Makes a proposer of a name. Its random choices are determined by `seed`.
    pub fn new(name: &'static str, seed: u64, constants: Constants) -> Self {
        Self {
            name,
            constants,
            rng: SmallRng::seed_from_u64(seed),
            opening: Opening::default(),
            feasibility: Feasibility::default(),
            local: Local::new("local", seed),
            models: ModelSearch::new(constants.optimism, constants.failure),
            under_way: HashMap::new(),
            credited: 0,
            fastest_ns: HashMap::new(),
            ways: Yields::new(constants.trust),
            families: Yields::new(constants.trust),
            cases: Yields::new(constants.trust),
        }
    }

    /// Credits the attempts that ended since the last proposal.
    fn credit(&mut self, context: &SearchContext<'_>, history: &History) {
        for attempt in history.attempts.iter().skip(self.credited) {
            let gain = self.gain(history, attempt);
            let case = context.workload.cases.iter().find(|case| attempt.cases.contains(&case.name));
            let Some((family, case)) = context.family(&attempt.family).zip(case) else { continue };
            let id = ConfigurationId::new(&family.name, &family.specialization(case), &attempt.params);
            let Some((way, family, case)) = self.under_way.remove(&id) else { continue };
            let cost = attempt.gpu_s.max(MIN_COST_S);
            self.ways.record(&way, gain, cost);
            self.cases.record(&case, gain, cost);
            self.families.record(&(family, case), gain, cost);
        }
        self.credited = history.attempts.len();
    }

    /// Returns what an attempt gained: the sum over its cases of the logarithm of the fastest time before over its own.
    fn gain(&mut self, history: &History, attempt: &Attempt) -> f64 {
        let mut gain = 0.0;
        let finished = attempt.iteration.and_then(|iteration| history.iteration(iteration));
        for time in finished.iter().flat_map(|finished| &finished.times) {
            let fastest = self.fastest_ns.entry(time.case.clone()).or_insert(time.median_ns);
            gain += (*fastest / time.median_ns).ln().max(0.0);
            *fastest = fastest.min(time.median_ns);
        }
        gain
    }

    /// Returns the ways in a random order. Each comes first with a chance equal to its share of the weights.
    fn order(&mut self) -> Vec<Way> {
        let shares = ways(&self.constants).into_iter();
        let mut left: Vec<(Way, f64)> = shares.map(|(way, share)| (way, share * self.ways.factor(&way))).collect();
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let all: f64 = left.iter().map(|(_, weight)| weight).sum();
            let mut drawn = self.rng.random::<f64>() * all;
            let place = left.iter().position(|(_, weight)| {
                drawn -= weight;
                drawn < 0.0
            });
            order.push(left.remove(place.unwrap_or(left.len() - 1)).0);
        }
        order
    }

    /// Returns the ways in the order in which to ask them about a place. Without observations to learn from, a search
    /// learns the most from random configurations.
    fn order_at(&mut self, history: &History, place: Place<'_>) -> Vec<Way> {
        let mut order = self.order();
        if !is_timed(history, place, self.constants.initial) {
            order.retain(|way| matches!(way, Way::Remedy | Way::WarmStart));
            order.push(Way::Random);
        }
        order
    }

    /// Notes which way proposed a suggestion.
    fn note(&mut self, way: Way, context: &SearchContext<'_>, place: Place<'_>, suggestion: &Suggestion) {
        let family = context.family(&suggestion.family).unwrap_or(place.family);
        let case = suggestion.cases.first().unwrap_or(place.case);
        let id = ConfigurationId::new(&family.name, &family.specialization(case), &suggestion.params);
        self.under_way.insert(id, (way, suggestion.family.clone(), place.case.name.clone()));
    }

    /// Asks one way for a suggestion. `Ok(None)` if it has none.
    fn ask<'a>(
        &mut self,
        way: Way,
        context: &SearchContext<'a>,
        diagnosis: &Diagnosis,
        history: &History,
        place: Place<'a>,
    ) -> Result<Option<Suggestion>, Error> {
        let case = place.case;
        match way {
            Way::Remedy => local::remedy(context, diagnosis, history, case),
            Way::WarmStart => local::warm_start(context, history, case),
            Way::Forest => self.models.next(Model::Forest, context, history, place, &mut self.rng),
            Way::Process => self.models.next(Model::Process, context, history, place, &mut self.rng),
            Way::Local => self.local.walk(context, history, case),
            Way::Coverage => self.local.coverage(context, history, case),
            Way::Evolution => evolution::child(context, history, place, &mut self.rng),
            Way::Random => self.opening.random(context, history, case, &mut self.rng),
        }
    }

    /// Chooses a family on a case by its fastest time and by what it gained there.
    fn choose_place<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        case: &'a Case,
    ) -> Option<Place<'a>> {
        let weight = |family: &&Family| {
            let gains = self.families.factor(&(family.name.clone(), case.name.clone()));
            weight(history, family, case) * gains
        };
        let family = *context.families.choose_weighted(&mut self.rng, weight).ok()?;
        Some(Place { family, case })
    }
}

impl Proposer for Portfolio {
    fn name(&self) -> &'static str {
        self.name
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, Error> {
        self.credit(context, history);
        let factor = |case: &str| self.cases.factor(&case.into());
        let step = self.opening.next(context, diagnosis, history, (under_way, factor), &mut self.rng)?;
        let case = match step {
            Step::Propose(suggestion) => return Ok(suggestion.map(|suggestion| *suggestion)),
            Step::Search(case) => case,
        };
        let Some(place) = self.choose_place(context, history, case) else { return Ok(None) };
        let avoiding = self.feasibility.avoiding(context, history, &mut self.rng);
        let order = self.order_at(history, place);
        // What is likely to fail is left for the end.
        for context in [&avoiding, context] {
            for way in &order {
                if let Some(suggestion) = self.ask(*way, context, diagnosis, history, place)? {
                    self.note(*way, context, place, &suggestion);
                    return Ok(Some(suggestion));
                }
            }
        }
        Ok(None)
    }
}
