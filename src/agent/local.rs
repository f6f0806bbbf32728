//! The first useful proposer: the families' seeds, then a mix of random points and moves around the incumbents.

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::diagnosis::{Diagnosis, Headroom};
use super::opening::{Next, Opening};
use super::random::Draw;
use super::{Landscape, Proposer, prediction};
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::hypothesis::Hypothesis;
use crate::domain::proposal::Idea;
use crate::domain::statistics::Interval;
use crate::domain::variant::Params;
use crate::domain::workload::Case;

/// The share of random points: enough to leave the basin of a bad start, few enough to descend.
const RANDOM_SHARE: f64 = 0.3;

/// The share of moves that change two axes at once, for valleys that run diagonally (tile size with threads).
const DOUBLE_SHARE: f64 = 0.35;

/// Stochastic local search with restarts.
pub struct Local {
    rng: SmallRng,
    opening: Opening,
    draw: Draw,
}

/// A move around an incumbent.
struct Move {
    axes: Vec<String>,
    params: Params,
}

impl Local {
    /// Makes a proposer whose choices follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), opening: Opening::default(), draw: Draw::default() }
    }

    /// Chooses a case with a chance that grows with the logarithm of its distance to the floor.
    fn focus<'a, 'd>(
        &mut self,
        landscape: &Landscape<'a>,
        diagnosis: &'d Diagnosis,
    ) -> Option<(&'a Case, &'d Headroom)> {
        let weight = |headroom: &&Headroom| 0.2 + headroom.factor().max(1.0).ln();
        let known: Vec<&Headroom> = diagnosis.headroom.iter().collect();
        let headroom = *known.choose_weighted(&mut self.rng, weight).ok()?;
        let case = landscape.workload.cases.iter().find(|case| case.name == headroom.case)?;
        Some((case, headroom))
    }

    /// Moves from `from` to a new neighbour one axis away, or two.
    fn step<'a>(
        &mut self,
        landscape: &Landscape<'a>,
        history: &History,
        family: &'a Family,
        case: &'a Case,
        from: &Params,
    ) -> Result<Option<Move>, String> {
        let space = landscape.space(family, case);
        let mut neighbours = space.neighbours(from)?;
        neighbours.shuffle(&mut self.rng);
        if self.rng.random_bool(DOUBLE_SHARE) {
            for (first, halfway) in &neighbours {
                let mut further = space.neighbours(halfway)?;
                further.retain(|(second, params)| second != first && landscape.is_new(family, params, case, history));
                if let Some((second, params)) = further.choose(&mut self.rng) {
                    return Ok(Some(Move { axes: vec![first.clone(), second.clone()], params: params.clone() }));
                }
            }
        }
        let new = neighbours.into_iter().find(|(_, params)| landscape.is_new(family, params, case, history));
        Ok(new.map(|(axis, params)| Move { axes: vec![axis], params }))
    }
}

impl Proposer for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn propose(
        &mut self,
        landscape: &Landscape<'_>,
        diagnosis: &Diagnosis,
        history: &History,
    ) -> Result<Option<Idea>, String> {
        match self.opening.next(landscape, history)? {
            Next::Idea(idea) => return Ok(Some(idea)),
            Next::Wait => return Ok(None),
            Next::Over => {}
        }
        let Some((case, headroom)) = self.focus(landscape, diagnosis) else {
            // Nothing is measured yet: the seeds are still under way, or none of them works.
            let Some(case) = landscape.workload.cases.choose(&mut self.rng) else { return Ok(None) };
            return self.draw.next(landscape, history, &case.name, &mut self.rng);
        };
        // Confirmed or not: what is not will be, or is within the noise of what is.
        let fastest = history.fastest(&case.name).map(|(fastest, _)| fastest);
        // It may be an earlier session's, of a family that the user left out of this one.
        let family = fastest.and_then(|fastest| landscape.families.iter().find(|family| family.name == fastest.family));
        if let (Some(fastest), Some(family), false) = (fastest, family, self.rng.random_bool(RANDOM_SHARE))
            && let Some(step) = self.step(landscape, history, family, case, &fastest.params)?
        {
            let hypothesis = claim(history, family, headroom, fastest, &step);
            return landscape.idea(family, step.params, case, hypothesis, Some(fastest.iteration)).map(Some);
        }
        self.draw.next(landscape, history, &case.name, &mut self.rng)
    }
}

/// Words a move as a claim, with a prediction that multiplies over its axes.
fn claim(history: &History, family: &Family, headroom: &Headroom, incumbent: &Finished, step: &Move) -> Hypothesis {
    let mut predicted = Interval { lo: 1.0, hi: 1.0 };
    let (mut changes, mut evidence) = (Vec::new(), Vec::new());
    for axis in &step.axes {
        let Some(param) = family.params.get(axis) else { continue };
        let along = prediction::along_axis(history, &family.name, axis, &headroom.case, param.expect);
        predicted = Interval { lo: predicted.lo * along.range.lo, hi: predicted.hi * along.range.hi };
        let (from, to) = (incumbent.params.get(axis).copied().unwrap_or_default(), step.params[axis]);
        changes.push(format!("{axis} from {from} to {to} ({})", param.about));
        evidence.push(along.evidence);
    }
    Hypothesis {
        claim: format!("{}: {} changes {}", family.name, changes.join(" and "), headroom.case),
        evidence: format!(
            "the incumbent of iteration {} takes {:.2} us, {:.1} times the floor; {}",
            incumbent.iteration,
            headroom.best_ns / 1e3,
            headroom.factor(),
            evidence.join("; ")
        ),
        case: headroom.case.clone(),
        predicted,
        relative_to: Some(incumbent.iteration),
    }
}
