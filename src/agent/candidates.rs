//! The configurations of a family on a case that a model may choose from: random ones, and the neighbours of the fastest.
//!
//! A space may hold millions of configurations, and a proposal must take milliseconds. So candidates are kept from one
//! proposal to the next, and each proposal checks only a few configurations against the constraints.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::SearchContext;
use super::place::Place;
use super::surrogate::Encoding;
use crate::domain::history::{ConfigurationId, Finished, History};
use crate::domain::ids::IterationId;
use crate::domain::op::Dims;
use crate::domain::variant::Params;
use crate::error::Error;

/// Random configurations that are kept: those that a model judged the best.
const KEPT: usize = 100;

/// Random configurations that join them for a proposal, and how many may be drawn to find as many valid ones.
const FRESH: usize = 80;
const DRAWS: usize = 800;

/// The fastest configurations whose neighbours are candidates.
const ELITE: usize = 4;

/// The neighbours of the fastest configuration whose neighbours are candidates in turn. Each proposal adds those of one.
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
    /// How a model judged it the last time: the lower, the better.
    judged: Cell<f64>,
}

impl Candidate {
    /// Notes how a model judges it: the lower, the better.
    pub fn judge(&self, judged: f64) {
        self.judged.set(judged);
    }
}

/// The candidates of a family on a case.
pub(super) struct Candidates {
    encoding: Encoding,
    /// The dimensions that are compiled in.
    dims: Dims,
    random: Vec<Candidate>,
    /// The neighbours of the fastest configurations, by their iterations.
    near: BTreeMap<IterationId, Vec<Candidate>>,
    further: Further,
}

/// Configurations at two steps from the fastest one.
#[derive(Default)]
struct Further {
    of: Option<IterationId>,
    /// The configurations halfway that are yet to be asked for their neighbours.
    halfway: Vec<(String, Params)>,
    found: Vec<Candidate>,
}

impl Candidates {
    /// Starts without candidates.
    pub fn new(place: Place<'_>) -> Self {
        Self {
            encoding: Encoding::of(place.family),
            dims: place.family.specialization(place.case),
            random: Vec::new(),
            near: BTreeMap::new(),
            further: Further::default(),
        }
    }

    /// Returns how configurations become points.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Returns the features of a configuration.
    pub fn features(&self, params: &Params) -> Vec<f64> {
        self.encoding.features(params, &self.dims)
    }

    /// Draws new candidates around the fastest of the timed configurations, which come with their times.
    pub fn refresh<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        place: Place<'a>,
        timed: &[(&Finished, f64)],
        rng: &mut SmallRng,
    ) -> Result<(), Error> {
        self.draw(context, history, place, rng)?;
        let space = context.space(place.family, place.case);
        let mut fastest: Vec<&(&Finished, f64)> = timed.iter().collect();
        fastest.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        fastest.truncate(ELITE);
        self.near.retain(|iteration, _| fastest.iter().any(|(finished, _)| finished.iteration == *iteration));
        for (finished, _) in &fastest {
            if !self.near.contains_key(&finished.iteration) {
                let neighbours = space.neighbours(&finished.params)?.into_iter();
                let near = neighbours.map(|(_, params)| self.candidate(place, params)).collect();
                self.near.insert(finished.iteration, near);
            }
        }
        if let Some((finished, _)) = fastest.first() {
            self.go_further(context, place, finished, rng)?;
        }
        Ok(())
    }

    /// Replaces the random candidates that were judged the worst.
    fn draw<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        place: Place<'a>,
        rng: &mut SmallRng,
    ) -> Result<(), Error> {
        let space = context.space(place.family, place.case);
        self.random.retain(|candidate| !context.is_proposed(&candidate.id, history));
        self.random.sort_by(|a, b| a.judged.get().total_cmp(&b.judged.get()));
        self.random.truncate(KEPT);
        for params in space.sample(rng, (FRESH, DRAWS))? {
            self.random.push(self.candidate(place, params));
        }
        Ok(())
    }

    /// Adds some configurations at two steps from the fastest one. The one halfway need not be valid: where parameters
    /// share a resource, one makes room for the other.
    fn go_further<'a>(
        &mut self,
        context: &SearchContext<'a>,
        place: Place<'a>,
        fastest: &Finished,
        rng: &mut SmallRng,
    ) -> Result<(), Error> {
        let space = context.space(place.family, place.case);
        if self.further.of != Some(fastest.iteration) {
            let mut halfway = space.moves(&fastest.params);
            halfway.shuffle(rng);
            halfway.truncate(HALFWAY);
            self.further = Further { of: Some(fastest.iteration), halfway, found: Vec::new() };
        }
        if let Some((first, params)) = self.further.halfway.pop() {
            let steps = space.neighbours(&params)?.into_iter().filter(|(second, _)| *second != first);
            let found: Vec<Candidate> = steps.map(|(_, params)| self.candidate(place, params)).collect();
            self.further.found.extend(found);
        }
        Ok(())
    }

    fn candidate(&self, place: Place<'_>, params: Params) -> Candidate {
        let id = ConfigurationId::new(&place.family.name, &self.dims, &params);
        Candidate {
            point: self.encoding.point(&params),
            features: self.features(&params),
            params,
            id,
            judged: Cell::new(f64::INFINITY),
        }
    }

    /// Returns the candidates that were not proposed yet.
    pub fn new_ones(&self, context: &SearchContext<'_>, history: &History) -> Vec<&Candidate> {
        let near = self.near.values().flatten().chain(&self.further.found);
        let mut seen = HashSet::new();
        let is_new = |candidate: &&Candidate| !context.is_proposed(&candidate.id, history) && seen.insert(candidate.id);
        near.chain(&self.random).filter(is_new).collect()
    }
}
