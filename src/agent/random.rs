//! Random points only: the control that a better proposer must beat.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::diagnosis::Diagnosis;
use super::{Landscape, Proposer, prediction};
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::hypothesis::Hypothesis;
use crate::domain::proposal::Idea;
use crate::domain::statistics::Interval;
use crate::domain::workload::Case;

/// Starts at the families' seeds, then draws points uniformly from the valid ones.
pub struct Random {
    rng: SmallRng,
}

/// With so many draws of points that were all proposed before, a space counts as exhausted.
const MAX_REPEATS: usize = 200;

/// How the claims of random points begin; their record is found by it.
pub(super) const CLAIM: &str = "a random point of ";

impl Random {
    /// Makes a proposer whose draws follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed) }
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
        if let Some(start) = next_start(landscape, history)? {
            return Ok(Some(start));
        }
        let Some(case) = landscape.workload.cases.choose(&mut self.rng) else { return Ok(None) };
        draw(landscape, history, case, &mut self.rng)
    }
}

/// Returns the next point that every session begins with: the seed of the reference family, the winners of earlier
/// sessions, then the other families' seeds, each for every specialization.
pub(super) fn next_start(landscape: &Landscape<'_>, history: &History) -> Result<Option<Idea>, String> {
    let (reference, others): (Vec<_>, Vec<_>) =
        landscape.families.iter().partition(|family| family.name == landscape.workload.reference);
    for family in reference {
        if let Some(idea) = seed_of(landscape, history, family)? {
            return Ok(Some(idea));
        }
    }
    if let Some(idea) = known_winner(landscape, history)? {
        return Ok(Some(idea));
    }
    for family in others {
        if let Some(idea) = seed_of(landscape, history, family)? {
            return Ok(Some(idea));
        }
    }
    Ok(None)
}

fn seed_of<'a>(landscape: &Landscape<'a>, history: &History, family: &'a Family) -> Result<Option<Idea>, String> {
    for case in &landscape.workload.cases {
        let Some(params) = landscape.space(family, case).start()? else { continue };
        if !landscape.is_new(family, &params, case, history) {
            continue;
        }
        let first = family.name == landscape.workload.reference;
        let hypothesis = Hypothesis {
            claim: if first {
                format!("the seed of {} is where this workload starts", family.name)
            } else {
                format!("the seed of {} is worth starting from", family.name)
            },
            evidence: family.about.clone(),
            case: case.name.clone(),
            // Of another family's seed nothing is known: a tenth to tenfold of what stands is within the claim.
            predicted: if first { Interval { lo: 1.0, hi: 1.0 } } else { Interval { lo: 0.1, hi: 10.0 } },
            relative_to: None,
        };
        return landscape.idea(family, params, case, hypothesis, None).map(Some);
    }
    Ok(None)
}

fn known_winner(landscape: &Landscape<'_>, history: &History) -> Result<Option<Idea>, String> {
    for known in landscape.known {
        let case = landscape.workload.cases.iter().find(|case| case.name == known.case);
        let (Some(case), Some(family)) = (case, landscape.family(&known.family)) else { continue };
        // A family may have changed since: its new seed is tried anyway, the old point only where it still is one.
        let still_a_point = known.params.keys().eq(family.params.keys())
            && family.params.iter().all(|(name, param)| param.values.contains(&known.params[name]));
        if !still_a_point
            || !landscape.is_new(family, &known.params, case, history)
            || !landscape.space(family, case).contains(&known.params)?
        {
            continue;
        }
        let hypothesis = Hypothesis {
            claim: format!("the committed winner of {} is faster than the seed", known.case),
            evidence: "an earlier session confirmed it".to_owned(),
            case: known.case.clone(),
            predicted: Interval { lo: 1.0, hi: 1000.0 },
            relative_to: None,
        };
        return landscape.idea(family, known.params.clone(), case, hypothesis, None).map(Some);
    }
    Ok(None)
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
