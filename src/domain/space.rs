//! The valid configurations of a family on a case and device.

pub mod fit;
#[cfg(test)]
mod tests;
mod ways;

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::device::DeviceInfo;
use super::family::{Checker, ConfigurationError, Constraint, Family, Listed, Param};
use super::op::Dtype;
use super::variant::Params;
use super::workload::Case;
use crate::error::Error;
use ways::{OtherValue, Ways};

/// A family's search space on one case and device.
///
/// Spaces can hold millions of configurations, so they are not enumerated: configurations are drawn and checked.
#[derive(Clone, Copy)]
pub struct Space<'a> {
    /// The family.
    pub family: &'a Family,
    /// The case.
    pub case: &'a Case,
    /// Element type of the case's tensors.
    pub dtype: Dtype,
    /// The device.
    pub device: &'a DeviceInfo,
}

/// Draws before a random search walks the tree. Where one configuration in 60 is valid, 300 draws miss it once in 150.
const DRAWS: usize = 300;

/// How much further a change counts that brings back a cause of lost time. To load less often, the diagnosis once gave a row
/// a quarter of its threads, which gained 1.01x; more threads a block instead gained 2.34x (H100, 2026-11-27, `optloop diagnose`).
const BRINGS_BACK: f64 = 2.0;

/// Configurations to check when other parameters must change to allow a value. A dozen parameters have about as many
/// pairs.
const MAX_CANDIDATES: usize = 600;

/// The most steps towards the defaults. A step mostly sets a parameter to its default, so a dozen parameters need about as
/// many.
const MAX_STEPS: usize = 100;

/// Visited nodes of the tree after which a space counts as having no valid configuration.
const MAX_NODES: usize = 200_000;

impl Space<'_> {
    /// Tells whether a configuration satisfies every constraint. If it is incomplete, only constraints that can be
    /// evaluated count.
    pub fn contains(&self, params: &Params) -> Result<bool, Error> {
        match self.family.check(params, self.case, self.dtype, self.device) {
            Ok(()) => Ok(true),
            Err(ConfigurationError::Constraint { .. }) => Ok(false),
            Err(ConfigurationError::Manifest(message)) => Err(message.into()),
        }
    }

    /// Returns the configuration from which a session starts: the defaults if they are valid, else a valid
    /// configuration near them. `Ok(None)` when there is no valid configuration.
    ///
    /// The search tries the values of every parameter from its default outwards and takes the first valid
    /// configuration. It then moves that configuration towards the defaults, parameter by parameter, for as long as it
    /// stays valid.
    pub fn start(&self) -> Result<Option<Params>, Error> {
        let defaults = self.family.defaults();
        if self.contains(&defaults)? {
            return Ok(Some(defaults));
        }
        if let Some(listed) = &self.family.listed {
            return Ok(self.nearest_listed(listed, &defaults));
        }
        let outwards = |name: &str, values: &mut Vec<i64>| {
            let rank = |value: &i64| self.family.params[name].values.iter().position(|v| v == value).unwrap_or(0);
            let home = rank(&defaults[name]);
            values.sort_by_key(|value| rank(value).abs_diff(home));
        };
        match self.first_in_tree(outwards, |_| true)? {
            Some(found) => self.move_towards(&defaults, found).map(Some),
            None => Ok(None),
        }
    }

    /// Moves a valid configuration towards `goal` until no single parameter can move closer and stay valid, or for so many
    /// steps.
    fn move_towards(&self, goal: &Params, mut params: Params) -> Result<Params, Error> {
        for _ in 0..MAX_STEPS {
            let here = self.distance(goal, &params);
            let closer = self
                .neighbours(&params)?
                .into_iter()
                .map(|(_, configuration)| (self.distance(goal, &configuration), configuration));
            match closer.min_by_key(|(distance, _)| *distance) {
                Some((distance, configuration)) if distance < here => params = configuration,
                _ => break,
            }
        }
        Ok(params)
    }

    /// Draws a valid configuration: uniformly where valid ones are common, else by a random walk down the tree of
    /// parameters. `Ok(None)` when there is no valid configuration.
    pub fn random(&self, rng: &mut impl Rng) -> Result<Option<Params>, Error> {
        self.random_where(rng, |_| true)
    }

    /// Draws a valid configuration that satisfies `wanted`, as `random` does. `Ok(None)` when there is none.
    pub fn random_where(&self, rng: &mut impl Rng, wanted: impl Fn(&Params) -> bool) -> Result<Option<Params>, Error> {
        if let Some(listed) = &self.family.listed {
            return Ok(self.draw_listed(listed, rng, wanted));
        }
        if let Some(found) = self.sample_where(rng, &wanted)? {
            return Ok(Some(found));
        }
        self.first_in_tree(|_, values| values.shuffle(rng), wanted)
    }

    /// Draws a valid configuration that satisfies `wanted`, uniformly. `Ok(None)` where some hundred draws find none.
    pub fn sample_where(&self, rng: &mut impl Rng, wanted: impl Fn(&Params) -> bool) -> Result<Option<Params>, Error> {
        let mut checker = self.checker();
        for _ in 0..DRAWS {
            if let Some(params) = self.draw(&mut checker, rng)?.filter(&wanted) {
                return Ok(Some(params));
            }
        }
        Ok(None)
    }

    /// Draws configurations uniformly, and returns those that are valid: at most `most`, of at most `draws`.
    pub fn sample(&self, rng: &mut impl Rng, (most, draws): (usize, usize)) -> Result<Vec<Params>, Error> {
        let mut checker = self.checker();
        let mut valid = Vec::new();
        for _ in 0..draws {
            if valid.len() < most {
                valid.extend(self.draw(&mut checker, rng)?);
            }
        }
        Ok(valid)
    }

    /// Draws a configuration. None if it is not valid.
    fn draw(&self, checker: &mut Checker<'_>, rng: &mut impl Rng) -> Result<Option<Params>, Error> {
        if let Some(listed) = &self.family.listed {
            return Ok(listed.configurations().choose(rng).map(|values| self.family.configuration(values)));
        }
        let value = |param: &Param| *param.values.choose(rng).expect("a parameter has a value");
        let values: Vec<i64> = self.family.params.values().map(value).collect();
        Ok(checker.allows(&values)?.then(|| self.family.configuration(&values)))
    }

    fn checker(&self) -> Checker<'_> {
        Checker::new(self.family, self.case, self.dtype, self.device)
    }

    /// Draws a listed configuration that satisfies `wanted`, uniformly.
    fn draw_listed(&self, listed: &Listed, rng: &mut impl Rng, wanted: impl Fn(&Params) -> bool) -> Option<Params> {
        let wanted = |values: &&Vec<i64>| Some(self.family.configuration(values)).filter(|params| wanted(params));
        let all = listed.configurations();
        if let Some(found) = (0..DRAWS).find_map(|_| wanted(&all.choose(rng)?)) {
            return Some(found);
        }
        let mut all: Vec<&Vec<i64>> = all.iter().collect();
        all.shuffle(rng);
        all.iter().find_map(wanted)
    }

    /// Returns the listed configuration that is the fewest steps away from a configuration.
    fn nearest_listed(&self, listed: &Listed, from: &Params) -> Option<Params> {
        let all = listed.configurations().iter().map(|values| self.family.configuration(values));
        all.min_by_key(|params| self.distance(from, params))
    }

    /// Returns the first valid and wanted configuration of a depth-first search over the parameters. `order` orders the
    /// values of each parameter. The search leaves a branch as soon as a constraint fails on the parameters chosen so
    /// far.
    fn first_in_tree(
        &self,
        mut order: impl FnMut(&str, &mut Vec<i64>),
        wanted: impl Fn(&Params) -> bool,
    ) -> Result<Option<Params>, Error> {
        self.descend(&mut Params::new(), &mut order, &wanted, &mut 0)
    }

    fn descend(
        &self,
        chosen: &mut Params,
        order: &mut dyn FnMut(&str, &mut Vec<i64>),
        wanted: &dyn Fn(&Params) -> bool,
        nodes: &mut usize,
    ) -> Result<Option<Params>, Error> {
        let Some((name, param)) = self.family.params.get_index(chosen.len()) else {
            return Ok(wanted(chosen).then(|| chosen.clone()));
        };
        let mut values = param.values.clone();
        order(name, &mut values);
        for value in values {
            *nodes += 1;
            if *nodes > MAX_NODES {
                return Ok(None);
            }
            chosen.insert(name.clone(), value);
            if self.contains(chosen)?
                && let Some(found) = self.descend(chosen, order, wanted, nodes)?
            {
                return Ok(Some(found));
            }
            chosen.shift_remove(name);
        }
        Ok(None)
    }

    /// Returns the valid configurations that differ from `params` in one parameter, with the parameter's name.
    pub fn neighbours(&self, params: &Params) -> Result<Vec<(String, Params)>, Error> {
        if self.family.listed.is_some() {
            let moves = self.moves(params).into_iter();
            return Ok(moves.filter(|(_, neighbour)| self.family.listed_place(neighbour).is_some()).collect());
        }
        let mut checker = self.checker();
        let value = |(name, param): (&String, &Param)| params.get(name).copied().unwrap_or(param.default);
        let mut values: Vec<i64> = self.family.params.iter().map(value).collect();
        let mut neighbours = Vec::new();
        for (place, (name, param)) in self.family.params.iter().enumerate() {
            let here = values[place];
            for value in param.values.iter().filter(|value| **value != here) {
                values[place] = *value;
                if checker.allows(&values)? {
                    neighbours.push((name.clone(), self.family.configuration(&values)));
                }
            }
            values[place] = here;
        }
        Ok(neighbours)
    }

    /// Returns all configurations that differ from `params` in one parameter, valid or not, with the parameter's name.
    pub fn moves(&self, params: &Params) -> Vec<(String, Params)> {
        let values = self.family.params.iter().flat_map(|(name, param)| param.values.iter().map(move |v| (name, *v)));
        let others = values.filter(|(name, value)| params.get(*name) != Some(value));
        others.map(|(name, value)| (name.clone(), with(params, name, value))).collect()
    }

    /// Returns the valid configuration nearest to `params` in which a parameter has the given value. Where constraints
    /// forbid that change alone, one or two other parameters change, by the smallest share of their ranges; a change that
    /// brings back a cause that the manifest names counts as twice as far. `Ok(None)` where that is not
    /// enough.
    pub fn nearest_with(&self, params: &Params, parameter: &str, value: i64) -> Result<Option<Params>, Error> {
        let moved = with(params, parameter, value);
        if self.contains(&moved)? {
            return Ok(Some(moved));
        }
        let mut checker = self.checker();
        let here = |(name, param): (&String, &Param)| moved.get(name).copied().unwrap_or(param.default);
        let here: Vec<i64> = self.family.params.iter().map(here).collect();
        let others = self.family.params.iter().enumerate().filter(|(_, (name, _))| *name != parameter);
        let others = others.flat_map(|(place, (_, param))| other_values(place, param, here[place]));
        for way in Ways::of(others).take(MAX_CANDIDATES) {
            let mut values = here.clone();
            way.iter().for_each(|other| values[other.parameter] = other.value);
            if checker.allows(&values)? {
                return Ok(Some(self.family.configuration(&values)));
            }
        }
        Ok(None)
    }

    /// Explains why the defaults are not valid, for a user whose space is empty.
    pub fn why_not(&self, params: &Params) -> Option<String> {
        self.family.check(params, self.case, self.dtype, self.device).err().map(|error| error.to_string())
    }

    /// Returns why a family has no valid configuration on the case: the reasons of the constraints that exclude all of
    /// them. None if it has one.
    ///
    /// A constraint on dimensions alone excludes every configuration. Otherwise these are the constraints that the
    /// defaults violate and that no change of one parameter satisfies, or all that the defaults violate.
    pub fn excluded(&self) -> Result<Option<Vec<String>>, Error> {
        let violated = |params: &Params| {
            let violated = self.family.violated(params, self.case, self.dtype, self.device);
            violated.map_err(|error| error.to_string())
        };
        if !self.family.dtypes.contains(&self.dtype) {
            return Ok(Some(vec![format!("It does not compute in {}.", self.dtype.name())]));
        }
        if self.family.requires_sm > self.device.sm {
            let (needed, there) = (f64::from(self.family.requires_sm) / 10.0, f64::from(self.device.sm) / 10.0);
            let why = format!("It needs compute capability {needed:.1}, and the device has {there:.1}.");
            return Ok(Some(vec![why]));
        }
        let whys = |constraints: &[&Constraint]| Some(constraints.iter().map(|one| one.why.clone()).collect());
        let by_dimensions = violated(&Params::new())?;
        if !by_dimensions.is_empty() {
            return Ok(whys(&by_dimensions));
        }
        if self.start()?.is_some() {
            return Ok(None);
        }
        let defaults = self.family.defaults();
        let at_defaults = violated(&defaults)?;
        let mut stubborn = at_defaults.clone();
        for (_, moved) in self.moves(&defaults) {
            let still = violated(&moved)?;
            stubborn.retain(|one| still.iter().any(|other| std::ptr::eq(*one, *other)));
        }
        Ok(whys(if stubborn.is_empty() { &at_defaults } else { &stubborn }))
    }

    /// Counts the steps between two configurations. One step changes a parameter to a neighbouring value.
    fn distance(&self, from: &Params, to: &Params) -> usize {
        let steps = |(name, param): (&String, &Param)| {
            let at = |params: &Params| param.values.iter().position(|v| Some(v) == params.get(name)).unwrap_or(0);
            at(from).abs_diff(at(to))
        };
        self.family.params.iter().map(steps).sum()
    }
}

/// Returns the other values of a parameter, each with its distance as a share of the parameter's range.
fn other_values(parameter: usize, param: &Param, here: i64) -> impl Iterator<Item = OtherValue> {
    let here = param.values.iter().position(|value| *value == here).unwrap_or(0);
    let others = param.values.iter().enumerate().filter(move |(place, _)| *place != here);
    others.map(move |(place, value)| {
        let share = place.abs_diff(here) as f64 / param.values.len() as f64;
        let brings_back = param.helps.values().any(|direction| !direction.leads(param.values[here], *value));
        let far = if brings_back { BRINGS_BACK * share } else { share };
        OtherValue { far, parameter, value: *value }
    })
}

/// Returns the configuration with one parameter set to another value.
fn with(params: &Params, parameter: &str, value: i64) -> Params {
    let mut params = params.clone();
    params.insert(parameter.to_owned(), value);
    params
}
