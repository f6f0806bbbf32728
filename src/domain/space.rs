//! The points of a family that are valid on a case and device.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::device::DeviceInfo;
use super::family::{Family, PointError};
use super::op::Dtype;
use super::variant::Params;
use super::workload::Case;

/// A family's search space on one case and device.
///
/// Spaces can hold millions of points, so they are not enumerated: points are drawn and checked.
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

/// Draws before a random search for a valid point gives up. With one valid point in 300 it fails once in 10^14.
const MAX_DRAWS: usize = 10_000;

impl Space<'_> {
    /// Tells whether a point satisfies every constraint.
    pub fn contains(&self, params: &Params) -> Result<bool, String> {
        match self.family.check(params, self.case, self.dtype, self.device) {
            Ok(()) => Ok(true),
            Err(PointError::Constraint { .. }) => Ok(false),
            Err(PointError::Manifest(message)) => Err(message),
        }
    }

    /// Returns the point from which a session starts: the defaults where they are valid, else a valid point near them.
    ///
    /// Near: of 64 valid points drawn at random, each moved axis by axis towards the defaults for as long as it stays
    /// valid, the one that ends fewest steps away. `Ok(None)` when no valid point was found.
    pub fn start(&self) -> Result<Option<Params>, String> {
        let defaults = self.family.defaults();
        if self.contains(&defaults)? {
            return Ok(Some(defaults));
        }
        // A constant seed: the start of a case is the same in every session.
        let mut rng = SmallRng::seed_from_u64(1);
        let mut nearest: Option<Params> = None;
        for _ in 0..64 {
            let Some(drawn) = self.random(&mut rng)? else { break };
            let near = self.towards(&defaults, drawn)?;
            if nearest.as_ref().is_none_or(|best| self.distance(&defaults, &near) < self.distance(&defaults, best)) {
                nearest = Some(near);
            }
        }
        Ok(nearest)
    }

    /// Moves a valid point towards `goal` until no single axis can be moved closer and stay valid.
    fn towards(&self, goal: &Params, mut params: Params) -> Result<Params, String> {
        loop {
            let here = self.distance(goal, &params);
            let closer = self.neighbours(&params)?.into_iter().map(|(_, point)| (self.distance(goal, &point), point));
            match closer.min_by_key(|(distance, _)| *distance) {
                Some((distance, point)) if distance < here => params = point,
                _ => return Ok(params),
            }
        }
    }

    /// Draws a valid point uniformly. `Ok(None)` when none was found in 10,000 draws.
    pub fn random(&self, rng: &mut impl Rng) -> Result<Option<Params>, String> {
        for _ in 0..MAX_DRAWS {
            let params: Params = self
                .family
                .params
                .iter()
                .map(|(name, param)| (name.clone(), *param.values.choose(rng).expect("a parameter has a value")))
                .collect();
            if self.contains(&params)? {
                return Ok(Some(params));
            }
        }
        Ok(None)
    }

    /// Returns the valid points that differ from `params` along one axis, with the axis' name.
    pub fn neighbours(&self, params: &Params) -> Result<Vec<(String, Params)>, String> {
        let mut neighbours = Vec::new();
        for (name, param) in &self.family.params {
            for value in param.values.iter().filter(|value| Some(*value) != params.get(name)) {
                let mut neighbour = params.clone();
                neighbour.insert(name.clone(), *value);
                if self.contains(&neighbour)? {
                    neighbours.push((name.clone(), neighbour));
                }
            }
        }
        Ok(neighbours)
    }

    /// Explains why the defaults are not valid, for a user whose space is empty.
    pub fn why_not(&self, params: &Params) -> Option<String> {
        self.family.check(params, self.case, self.dtype, self.device).err().map(|error| error.to_string())
    }

    /// Counts the steps along the axes, a value to its neighbour being one.
    fn distance(&self, from: &Params, to: &Params) -> usize {
        let steps = |(name, param): (&String, &super::family::Param)| {
            let at = |params: &Params| param.values.iter().position(|v| Some(v) == params.get(name)).unwrap_or(0);
            at(from).abs_diff(at(to))
        };
        self.family.params.iter().map(steps).sum()
    }
}
