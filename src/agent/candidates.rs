//! The configurations of a family on a case that a model may choose from: random ones, and the neighbours of the fastest.
//!
//! A space may hold millions of configurations, and a proposal must take milliseconds. So random ones are kept from one
//! proposal to the next, and a part of them is replaced each time.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::SearchContext;
use super::surrogate::Encoding;
use crate::domain::family::Family;
use crate::domain::history::{ConfigurationId, Finished, History};
use crate::domain::ids::IterationId;
use crate::domain::variant::Params;
use crate::domain::workload::Case;

/// Random configurations that are kept.
const KEPT: usize = 1000;

/// Random configurations drawn for a proposal, at most, and the ones that they replace if all are there.
const DRAWN: usize = 250;
const REPLACED: usize = 50;

/// The fastest configurations whose neighbours are candidates.
const ELITE: usize = 4;

/// The neighbours of the fastest configuration whose neighbours are candidates in turn.
const HALFWAY: usize = 8;

/// A configuration that may be tried.
pub(super) struct Candidate {
    /// The configuration.
    pub params: Params,
    /// Its point for a Gaussian process.
    pub point: Vec<f64>,
    /// Its features for a forest.
    pub features: Vec<f64>,
    id: ConfigurationId,
}

/// The candidates of a family on a case.
#[derive(Default)]
pub(super) struct Candidates {
    random: VecDeque<Candidate>,
    ids: HashSet<ConfigurationId>,
    /// The neighbours of the fastest configurations, by their iterations.
    near: HashMap<IterationId, Vec<Candidate>>,
    /// Some at two steps from the fastest one.
    further: Vec<Candidate>,
}

impl Candidates {
    /// Draws new candidates around the fastest of the timed configurations, which come with their times.
    pub fn refresh<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        (family, case): (&'a Family, &'a Case),
        timed: &[(&Finished, f64)],
        rng: &mut SmallRng,
    ) -> Result<(), String> {
        let (space, encoding) = (context.space(family, case), Encoding::of(family));
        let specialization = family.specialization(case);
        let candidate = |params: Params| {
            let id = ConfigurationId::new(&family.name, &specialization, &params);
            Candidate { point: encoding.point(&params), features: encoding.features(&params), params, id }
        };
        self.random.retain(|candidate| !history.proposed.contains(&candidate.id));
        if self.random.len() >= KEPT {
            self.random.drain(..REPLACED);
        }
        self.ids = self.random.iter().map(|candidate| candidate.id).collect();
        let is_new = |params: &Params| context.is_new(family, params, case, history);
        for _ in 0..DRAWN.min(KEPT - self.random.len()) {
            let Some(params) = space.random_where(rng, is_new)? else { break };
            let drawn = candidate(params);
            if self.ids.insert(drawn.id) {
                self.random.push_back(drawn);
            }
        }
        let mut fastest: Vec<&(&Finished, f64)> = timed.iter().collect();
        fastest.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        fastest.truncate(ELITE);
        self.near.retain(|iteration, _| fastest.iter().any(|(finished, _)| finished.iteration == *iteration));
        for (finished, _) in &fastest {
            if let Entry::Vacant(place) = self.near.entry(finished.iteration) {
                let neighbours = space.neighbours(&finished.params)?.into_iter().map(|(_, params)| candidate(params));
                place.insert(neighbours.collect());
            }
        }
        self.further.clear();
        if let Some((finished, _)) = fastest.first() {
            // The configuration halfway need not be valid: where parameters share a resource, one makes room.
            let mut halfway = space.moves(&finished.params);
            halfway.shuffle(rng);
            for (first, params) in halfway.iter().take(HALFWAY) {
                let steps = space.neighbours(params)?.into_iter().filter(|(second, _)| second != first);
                self.further.extend(steps.map(|(_, params)| candidate(params)));
            }
        }
        Ok(())
    }

    /// Returns the candidates that were not proposed yet.
    pub fn new_ones(&self, history: &History) -> Vec<&Candidate> {
        let near = self.near.values().flatten().chain(&self.further);
        let all = self.random.iter().chain(near);
        let mut seen = HashSet::new();
        let mut new: Vec<&Candidate> =
            all.filter(|candidate| !history.proposed.contains(&candidate.id) && seen.insert(candidate.id)).collect();
        // A map has no order, and a seed must always give the same suggestions.
        new.sort_by(|a, b| a.params.values().cmp(b.params.values()));
        new
    }
}
