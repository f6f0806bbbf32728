//! The proposer `portfolio`: a bandit divides the budget over several ways to search, over families and over cases.
//!
//! Each attempt is credited with what it gained: the logarithm of the fastest time before over the fastest time after,
//! summed over the cases. The chance of a way to search is its share of the budget at the start, times its gain per
//! second of the device relative to that of all. A way that has nothing to propose passes to the next, so none idles.

mod yields;

use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use self::yields::Yields;
use super::diagnosis::Diagnosis;
use super::evolution;
use super::initial_design::{InitialDesign, Next};
use super::local::{self, Local};
use super::model_search::{MIN_OBSERVATIONS, Model, ModelSearch};
use super::place::{Place, choose_case, timed, weight};
use super::random::Draw;
use super::{Proposer, SearchContext};
use crate::domain::attempt::Attempt;
use crate::domain::family::Family;
use crate::domain::history::{ConfigurationId, History};
use crate::domain::ids::CaseName;
use crate::domain::proposal::Suggestion;
use crate::domain::workload::Case;

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

/// Every way with its share of the budget at the start. The first two have little to propose, and good reasons. The
/// models learn different spaces well (docs/simulate.md). The others find what models miss.
const WAYS: [(Way, f64); 8] = [
    (Way::Remedy, 1.0),
    (Way::WarmStart, 0.5),
    (Way::Forest, 1.0),
    (Way::Process, 1.0),
    (Way::Local, 0.05),
    (Way::Coverage, 0.03),
    (Way::Evolution, 0.05),
    (Way::Random, 0.05),
];

/// The least cost of an attempt in seconds. A recorded or modelled time costs nothing.
const MIN_COST_S: f64 = 1e-3;

/// A portfolio of ways to search.
pub struct Portfolio {
    rng: SmallRng,
    initial_design: InitialDesign,
    draw: Draw,
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
    /// Makes a proposer. Its random choices are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            initial_design: InitialDesign::default(),
            draw: Draw::default(),
            local: Local::new("local", seed),
            models: ModelSearch::default(),
            under_way: HashMap::new(),
            credited: 0,
            fastest_ns: HashMap::new(),
            ways: Yields::new(),
            families: Yields::new(),
            cases: Yields::new(),
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
        for time in history.iteration(attempt.iteration).iter().flat_map(|finished| &finished.times) {
            let fastest = self.fastest_ns.entry(time.case.clone()).or_insert(time.median_ns);
            gain += (*fastest / time.median_ns).ln().max(0.0);
            *fastest = fastest.min(time.median_ns);
        }
        gain
    }

    /// Returns the ways in a random order. Each comes first with a chance equal to its share of the weights.
    fn order(&mut self) -> Vec<Way> {
        let mut left: Vec<(Way, f64)> = WAYS.iter().map(|(way, share)| (*way, share * self.ways.factor(way))).collect();
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

    /// Asks one way for a suggestion. `Ok(None)` if it has none.
    fn ask<'a>(
        &mut self,
        way: Way,
        context: &SearchContext<'a>,
        diagnosis: &Diagnosis,
        history: &History,
        place: Place<'a>,
    ) -> Result<Option<Suggestion>, String> {
        let case = place.case;
        match way {
            Way::Remedy => local::remedy(context, diagnosis, history, case),
            Way::WarmStart => local::warm_start(context, history, case),
            Way::Forest => self.models.next(Model::Forest, context, history, place, &mut self.rng),
            Way::Process => self.models.next(Model::Process, context, history, place, &mut self.rng),
            Way::Local => self.local.walk(context, history, case),
            Way::Coverage => self.local.coverage(context, history, case),
            Way::Evolution => evolution::child(context, history, place, &mut self.rng),
            Way::Random => {
                let weight = |family: &Family, case: &Case| weight(history, family, case);
                self.draw.next(context, history, &case.name, weight, &mut self.rng)
            }
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
        super::PORTFOLIO
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, String> {
        self.credit(context, history);
        match self.initial_design.next(context, history, under_way)? {
            Next::Suggestion(suggestion) => return Ok(Some(*suggestion)),
            Next::Wait => return Ok(None),
            Next::Done => {}
        }
        let factor = |case: &str| self.cases.factor(&case.into());
        let case = choose_case(context, diagnosis, factor, &mut self.rng);
        let place = case.and_then(|case| self.choose_place(context, history, case));
        let Some(place) = place else {
            let Some(case) = context.workload.cases.choose(&mut self.rng) else { return Ok(None) };
            return self.draw.next(context, history, &case.name, |_, _| 1.0, &mut self.rng);
        };
        let known = timed(history, place.family, place.case).len();
        for way in self.order() {
            // Without observations to learn from, a search learns the most from random configurations.
            let is_informed = known >= MIN_OBSERVATIONS || matches!(way, Way::Remedy | Way::WarmStart);
            let way = if is_informed { way } else { Way::Random };
            if let Some(suggestion) = self.ask(way, context, diagnosis, history, place)? {
                let family = context.family(&suggestion.family).unwrap_or(place.family);
                let case = suggestion.cases.first().unwrap_or(place.case);
                let id = ConfigurationId::new(&family.name, &family.specialization(case), &suggestion.params);
                let found_for = (suggestion.family.clone(), place.case.name.clone());
                self.under_way.insert(id, (way, found_for.0, found_for.1));
                return Ok(Some(suggestion));
            }
        }
        Ok(None)
    }
}
