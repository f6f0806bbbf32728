//! Random points only: the control that a better proposer must beat.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::diagnosis::Diagnosis;
use super::opening::Opening;
use super::{Landscape, Proposer, prediction};
use crate::domain::history::History;
use crate::domain::hypothesis::Hypothesis;
use crate::domain::proposal::Idea;
use crate::domain::workload::Case;

/// Starts at the families' seeds, then draws points uniformly from the valid ones.
pub struct Random {
    rng: SmallRng,
    opening: Opening,
}

/// With so many draws of points that were all proposed before, a space counts as exhausted.
const MAX_REPEATS: usize = 200;

/// How the claims of random points begin; their record is found by it.
pub(super) const CLAIM: &str = "a random point of ";

impl Random {
    /// Makes a proposer whose draws follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), opening: Opening::default() }
    }
}

impl Proposer for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn propose(
        &mut self,
        landscape: &Landscape<'_>,
        _diagnosis: &Diagnosis,
        history: &History,
    ) -> Result<Option<Idea>, String> {
        if let Some(start) = self.opening.next(landscape, history)? {
            return Ok(Some(start));
        }
        let Some(case) = landscape.workload.cases.choose(&mut self.rng) else { return Ok(None) };
        draw(landscape, history, case, &mut self.rng)
    }
}

/// Draws a point of a random family that is valid on `case` and new.
pub(super) fn draw(
    landscape: &Landscape<'_>,
    history: &History,
    case: &Case,
    rng: &mut SmallRng,
) -> Result<Option<Idea>, String> {
    for _ in 0..MAX_REPEATS {
        let Some(family) = landscape.families.choose(rng) else { return Ok(None) };
        let Some(case) = landscape.workload.cases.iter().find(|other| other.name == case.name) else { return Ok(None) };
        let Some(params) = landscape.space(family, case).random(rng)? else { continue };
        if !landscape.is_new(family, &params, case, history) {
            continue;
        }
        let prediction = prediction::at_random(history, &case.name, CLAIM);
        let incumbent = history.incumbents.get(&case.name).map(|incumbent| incumbent.iteration);
        let hypothesis = Hypothesis {
            claim: format!("{CLAIM}{} may do well on {}", family.name, case.name),
            evidence: prediction.evidence,
            case: case.name.clone(),
            predicted: prediction.range,
            relative_to: incumbent,
        };
        return landscape.idea(family, params, case, hypothesis, None).map(Some);
    }
    Ok(None)
}
