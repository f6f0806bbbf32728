//! The first useful proposer: the families' seeds, then moves around the fastest variants of a case, what is fastest on other cases,
//! and random points.

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::diagnosis::{Diagnosis, Headroom};
use super::effects::Effects;
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

/// The share of random points: enough to leave the basin of a bad start and to learn what values are worth, few enough to descend.
const RANDOM_SHARE: f64 = 0.3;

/// The share of ideas that take over what is fastest on another case, as long as there are any: what is good on a shape is rarely bad
/// on the next one.
const TRANSFER_SHARE: f64 = 0.3;

/// How many of the fastest variants of a case moves begin at: the fastest may be one by chance, or in a dead end.
const LEADERS: usize = 4;

/// How much rarer each of them is chosen than the one before.
const NEXT_LEADER: f64 = 0.5;

/// How the chance of a family falls with its best time on a case over the best of all: as the cube, so that one that takes twice as
/// long has an eighth. Where a family that is a hundred times slower costs a hundred times as much, it gets nothing.
const FAMILY_POWER: f64 = 3.0;

/// The weight of a family that was not timed on a case: it was looked at elsewhere.
const UNSEEN: f64 = 0.3;

/// The neighbours from which moves go on to a second axis, for valleys that run diagonally (tile size with threads).
const HALFWAY: usize = 8;

/// The share of moves to any neighbour, whatever is known of its values: it may be known from another corner.
const BLIND_SHARE: f64 = 0.25;

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

    /// Chooses one of the fastest variants of a case, confirmed or not, of a family that is searched.
    fn leader<'a, 'h>(
        &mut self,
        landscape: &Landscape<'a>,
        history: &'h History,
        case: &Case,
    ) -> Option<(&'h Finished, &'a Family)> {
        let family = |leader: &Finished| landscape.families.iter().find(|family| family.name == leader.family).copied();
        let leaders = history.leaders(&case.name, LEADERS).into_iter();
        let leaders: Vec<_> = leaders.filter_map(|(leader, _)| Some((leader, family(leader)?))).enumerate().collect();
        let weight = |(rank, _): &(usize, _)| NEXT_LEADER.powi(*rank as i32);
        leaders.choose_weighted(&mut self.rng, weight).ok().map(|(_, leader)| *leader)
    }

    /// Moves from `from` to a new neighbour one axis away, or two: mostly to the one that has done best by what is known of its
    /// values.
    fn step<'a>(
        &mut self,
        landscape: &Landscape<'a>,
        history: &History,
        family: &'a Family,
        case: &'a Case,
        from: &Params,
    ) -> Result<Option<Move>, String> {
        let space = landscape.space(family, case);
        let is_new = |params: &Params| landscape.is_new(family, params, case, history);
        let mut halfway = space.neighbours(from)?;
        halfway.shuffle(&mut self.rng);
        let mut moves = Vec::new();
        for (first, params) in halfway.iter().take(HALFWAY) {
            let further = space.neighbours(params)?.into_iter().filter(|(second, _)| second != first);
            moves.extend(further.map(|(second, params)| Move { axes: vec![first.clone(), second], params }));
        }
        moves.extend(halfway.into_iter().map(|(axis, params)| Move { axes: vec![axis], params }));
        moves.retain(|step| is_new(&step.params));
        if self.rng.random_bool(BLIND_SHARE) {
            moves.shuffle(&mut self.rng);
            return Ok(moves.into_iter().next());
        }
        let effects = Effects::of(history, family);
        let ln_time = |step: &Move| effects.ln_time(&step.params);
        // Of equals, the shorter move: it teaches more.
        Ok(moves.into_iter().rev().min_by(|a, b| ln_time(a).total_cmp(&ln_time(b))))
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
        under_way: usize,
    ) -> Result<Option<Idea>, String> {
        match self.opening.next(landscape, history, under_way)? {
            Next::Idea(idea) => return Ok(Some(*idea)),
            Next::Wait => return Ok(None),
            Next::Over => {}
        }
        let Some((case, headroom)) = self.focus(landscape, diagnosis) else {
            // Nothing is measured yet: the seeds are still under way, or none of them works.
            let Some(case) = landscape.workload.cases.choose(&mut self.rng) else { return Ok(None) };
            return self.draw.next(landscape, history, &case.name, |_, _| 1.0, &mut self.rng);
        };
        if self.rng.random_bool(TRANSFER_SHARE)
            && let Some(idea) = transfer(landscape, history, case)?
        {
            return Ok(Some(idea));
        }
        if !self.rng.random_bool(RANDOM_SHARE)
            && let Some((leader, family)) = self.leader(landscape, history, case)
            && let Some(step) = self.step(landscape, history, family, case, &leader.params)?
        {
            let hypothesis = claim(history, family, headroom, leader, &step);
            return landscape.idea(family, step.params, case, hypothesis, Some(leader.iteration)).map(Some);
        }
        let weight = |family: &Family, case: &Case| weight(history, family, case);
        self.draw.next(landscape, history, &case.name, weight, &mut self.rng)
    }
}

/// Returns the chance of a family to be drawn from on a case, over that of the fastest one's.
fn weight(history: &History, family: &Family, case: &Case) -> f64 {
    let times = history.finished.iter().filter(|finished| finished.family == family.name);
    let own_ns = times.filter_map(|finished| finished.time_ns(&case.name)).reduce(f64::min);
    let of_all = history.fastest(&case.name);
    own_ns.zip(of_all).map_or(UNSEEN, |(own_ns, (_, best_ns))| (best_ns / own_ns).powf(FAMILY_POWER))
}

/// Takes over what is fastest on another case, if that was not tried on this one.
fn transfer(landscape: &Landscape<'_>, history: &History, case: &Case) -> Result<Option<Idea>, String> {
    for other in landscape.workload.cases.iter().filter(|other| other.name != case.name) {
        let Some((leader, ns)) = history.fastest(&other.name) else { continue };
        let Some(family) = landscape.families.iter().find(|family| family.name == leader.family) else { continue };
        let is_new = landscape.is_new(family, &leader.params, case, history);
        if !is_new || !landscape.space(family, case).contains(&leader.params)? {
            continue;
        }
        let hypothesis = Hypothesis {
            claim: format!("what is fastest on {} is fast on {}, too", other.name, case.name),
            evidence: format!("iteration {} takes {:.2} us there, less than all others", leader.iteration, ns / 1e3),
            case: case.name.clone(),
            predicted: Interval { lo: 0.5, hi: 2.0 },
            relative_to: history.fastest(&case.name).map(|(fastest, _)| fastest.iteration),
        };
        return landscape.idea(family, leader.params.clone(), case, hypothesis, None).map(Some);
    }
    Ok(None)
}

/// Words a move as a claim, with a prediction that multiplies over its axes.
fn claim(history: &History, family: &Family, headroom: &Headroom, from: &Finished, step: &Move) -> Hypothesis {
    let ns = from.time_ns(&headroom.case).unwrap_or(headroom.best_ns);
    let mut predicted = Interval { lo: 1.0, hi: 1.0 };
    let (mut changes, mut evidence) = (Vec::new(), Vec::new());
    for axis in &step.axes {
        let Some(param) = family.params.get(axis) else { continue };
        let along = prediction::along_axis(history, &family.name, axis, &headroom.case, param.expect);
        predicted = Interval { lo: predicted.lo * along.range.lo, hi: predicted.hi * along.range.hi };
        let (old, new) = (from.params.get(axis).copied().unwrap_or_default(), step.params[axis]);
        changes.push(format!("{axis} from {old} to {new} ({})", param.about));
        evidence.push(along.evidence);
    }
    Hypothesis {
        claim: format!("{}: {} changes {}", family.name, changes.join(" and "), headroom.case),
        evidence: format!(
            "iteration {} takes {:.2} us, {:.1} times the floor; {}",
            from.iteration,
            ns / 1e3,
            ns / headroom.floor_ns,
            evidence.join("; ")
        ),
        case: headroom.case.clone(),
        predicted,
        relative_to: Some(from.iteration),
    }
}
