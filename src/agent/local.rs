//! The first useful proposer: the families' seeds, then moves around the fastest variants of a case, what is fastest on other cases,
//! and random configurations.

use std::collections::HashSet;

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::diagnosis::{Diagnosis, Headroom};
use super::effects::Effects;
use super::initial_design::{InitialDesign, Next};
use super::random::Draw;
use super::{Proposer, SearchContext, prediction};
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::hypothesis::Hypothesis;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::origin::{Change, Origin};
use crate::domain::proposal::Suggestion;
use crate::domain::statistics::Interval;
use crate::domain::variant::Params;
use crate::domain::workload::Case;

/// The share of random configurations at first, to leave the basin of a bad start and to learn what values are worth.
const RANDOM_SHARE: f64 = 0.4;

/// The iterations after which it has halved: the better the best are, the rarer is a random configuration that is
/// faster.
const RANDOM_HALVED: f64 = 30.0;

/// The share of random configurations below which it does not fall.
const LEAST_RANDOM_SHARE: f64 = 0.1;

/// The share of suggestions that take over what is fastest on another case, as long as there are any: what is good on a
/// shape is rarely bad on the next one.
const WARM_START_SHARE: f64 = 0.3;

/// How many of the fastest variants of a case moves begin at: the fastest may be one by chance, or in a dead end.
const LEADERS: usize = 4;

/// How much rarer each of them is chosen than the one before.
const NEXT_LEADER: f64 = 0.5;

/// How the chance of a family, or of a variant to move from, falls with its time on a case over the best of all: as the cube, so that
/// one that takes twice as long has an eighth. Where a family that is a hundred times slower costs a hundred times as much, it gets nothing.
const FAMILY_POWER: f64 = 3.0;

/// The weight of a family that was not timed on a case: it was looked at elsewhere.
const UNSEEN: f64 = 0.3;

/// The neighbours from which moves go on to a second parameter, for valleys that run diagonally (tile size with
/// threads).
const HALFWAY: usize = 8;

/// The share of suggestions that look at a value which was not looked at beside the fastest variant, as long as there
/// are any: what a value was worth in another corner says little, and where parameters share a resource no single move
/// leads there.
const COVERAGE_SHARE: f64 = 0.1;

/// Values that such a suggestion may fail to find a point for, each of which takes hundreds of checks.
const MOST_COVERED: usize = 3;

/// The parameters beside its own in which a point may differ from the fastest variant for its value to count as looked
/// at.
const BESIDE: usize = 2;

/// The share of moves to any neighbour, whatever is known of its values: it may be known from another corner.
const BLIND_SHARE: f64 = 0.1;

/// What a value that was never met is taken to be better than it seems, as a logarithm; of one that was met n times, the share
/// 1 / sqrt(n + 1) of it.
const EXPLORATION_BONUS: f64 = 0.2;

/// Stochastic local search with restarts.
pub struct Local {
    rng: SmallRng,
    initial_design: InitialDesign,
    draw: Draw,
    /// Values for which no point is left beside a variant on a case, by its iteration: to find that out takes long.
    no_room: HashSet<(CaseName, IterationId, String, i64)>,
}

/// A move around an incumbent.
struct Move {
    parameters: Vec<String>,
    params: Params,
}

impl Local {
    /// Makes a proposer whose choices follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            initial_design: InitialDesign::default(),
            draw: Draw::default(),
            no_room: HashSet::new(),
        }
    }

    /// Chooses a case with a chance that grows with the logarithm of its distance to the floor.
    fn focus<'a, 'd>(
        &mut self,
        context: &SearchContext<'a>,
        diagnosis: &'d Diagnosis,
    ) -> Option<(&'a Case, &'d Headroom)> {
        let weight = |headroom: &&Headroom| 0.2 + headroom.factor().max(1.0).ln();
        let known: Vec<&Headroom> = diagnosis.headroom.iter().collect();
        let headroom = *known.choose_weighted(&mut self.rng, weight).ok()?;
        let case = context.workload.cases.iter().find(|case| case.name == headroom.case)?;
        Some((case, headroom))
    }

    /// Chooses one of the fastest variants of a case, confirmed or not, of a family that is searched.
    fn leader<'a, 'h>(
        &mut self,
        context: &SearchContext<'a>,
        history: &'h History,
        case: &Case,
    ) -> Option<(&'h Finished, &'a Family)> {
        let family = |leader: &Finished| context.families.iter().find(|family| family.name == leader.family).copied();
        let leaders = history.leaders(&case.name, LEADERS).into_iter();
        let leaders = leaders.filter_map(|(leader, ns)| Some((ns, leader, family(leader)?)));
        let leaders: Vec<_> = leaders.enumerate().collect();
        let best_ns = leaders.first()?.1.0;
        let weight = |(rank, (ns, ..)): &(usize, (f64, _, _))| {
            NEXT_LEADER.powi(*rank as i32) * (best_ns / ns).powf(FAMILY_POWER)
        };
        leaders.choose_weighted(&mut self.rng, weight).ok().map(|(_, (_, leader, family))| (*leader, *family))
    }

    /// Moves from `from` to a new neighbour one parameter away, or two: mostly to the one that has done best by what is
    /// known of its values.
    fn step<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        family: &'a Family,
        case: &'a Case,
        from: &Params,
    ) -> Result<Option<Move>, String> {
        let space = context.space(family, case);
        let is_new = |params: &Params| context.is_new(family, params, case, history);
        let mut halfway = space.moves(from);
        halfway.shuffle(&mut self.rng);
        let mut moves = Vec::new();
        // The point halfway need not be valid: where parameters share a resource, one makes room for the other.
        for (first, params) in halfway.iter().take(HALFWAY) {
            let further = space.neighbours(params)?.into_iter().filter(|(second, _)| second != first);
            moves.extend(further.map(|(second, params)| Move { parameters: vec![first.clone(), second], params }));
        }
        for (parameter, params) in halfway {
            if space.contains(&params)? {
                moves.push(Move { parameters: vec![parameter], params });
            }
        }
        moves.retain(|step| is_new(&step.params));
        if self.rng.random_bool(BLIND_SHARE) {
            moves.shuffle(&mut self.rng);
            return Ok(moves.into_iter().next());
        }
        let effects = Effects::of(history, family, &case.name);
        let ln_time = |step: &Move| {
            let bonuses = step
                .parameters
                .iter()
                .map(|parameter| effects.exploration_bonus(family, parameter, step.params[parameter]));
            effects.ln_time(&step.params) - EXPLORATION_BONUS * bonuses.fold(0.0, f64::max)
        };
        // Of equals, the shorter move: it teaches more.
        Ok(moves.into_iter().rev().min_by(|a, b| ln_time(a).total_cmp(&ln_time(b))))
    }

    /// Looks at a value that was not looked at beside the fastest variant of a case: the parameters take turns, that
    /// first from which most is expected, each with its value next to the fastest's. Other parameters give way where a
    /// constraint asks for it.
    fn coverage(
        &mut self,
        context: &SearchContext<'_>,
        history: &History,
        case: &Case,
        headroom: &Headroom,
    ) -> Result<Option<Suggestion>, String> {
        let Some((fastest, _)) = history.fastest(&case.name) else { return Ok(None) };
        let family = context.families.iter().find(|family| family.name == fastest.family);
        let Some(family) = family else { return Ok(None) };
        let mut unseen = unseen(history, family, case, fastest);
        let key = |parameter: &str, value| (case.name.clone(), fastest.iteration, parameter.to_owned(), value);
        unseen.retain(|(parameter, value)| !self.no_room.contains(&key(parameter, *value)));
        for (parameter, value) in unseen.into_iter().take(MOST_COVERED) {
            let near = context.space(family, case).nearest_with(&fastest.params, parameter, value)?;
            if let Some(params) = near.filter(|params| context.is_new(family, params, case, history)) {
                let step = Move { parameters: changed(&fastest.params, &params), params };
                let hypothesis = claim(history, family, headroom, fastest, &step);
                let origin = Origin::Coverage { changes: Change::between(&fastest.params, &step.params) };
                return context
                    .suggestion(family, step.params, case, hypothesis, origin, Some(fastest.iteration))
                    .map(Some);
            }
            self.no_room.insert(key(parameter, value));
        }
        Ok(None)
    }
}

impl Proposer for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, String> {
        match self.initial_design.next(context, history, under_way)? {
            Next::Suggestion(suggestion) => return Ok(Some(*suggestion)),
            Next::Wait => return Ok(None),
            Next::Over => {}
        }
        let Some((case, headroom)) = self.focus(context, diagnosis) else {
            // Nothing is measured yet: the seeds are still under way, or none of them works.
            let Some(case) = context.workload.cases.choose(&mut self.rng) else { return Ok(None) };
            return self.draw.next(context, history, &case.name, |_, _| 1.0, &mut self.rng);
        };
        if self.rng.random_bool(COVERAGE_SHARE)
            && let Some(suggestion) = self.coverage(context, history, case, headroom)?
        {
            return Ok(Some(suggestion));
        }
        if self.rng.random_bool(WARM_START_SHARE)
            && let Some(suggestion) = warm_start(context, history, case)?
        {
            return Ok(Some(suggestion));
        }
        if !self.rng.random_bool(random_share(history.finished.len()))
            && let Some((leader, family)) = self.leader(context, history, case)
            && let Some(step) = self.step(context, history, family, case, &leader.params)?
        {
            let hypothesis = claim(history, family, headroom, leader, &step);
            let origin = Origin::Move { changes: Change::between(&leader.params, &step.params) };
            return context.suggestion(family, step.params, case, hypothesis, origin, Some(leader.iteration)).map(Some);
        }
        let weight = |family: &Family, case: &Case| weight(history, family, case);
        self.draw.next(context, history, &case.name, weight, &mut self.rng)
    }
}

/// Returns the chance of a family to be drawn from on a case, over that of the fastest one's.
fn weight(history: &History, family: &Family, case: &Case) -> f64 {
    let times = history.finished.iter().filter(|finished| finished.family == family.name);
    let own_ns = times.filter_map(|finished| finished.time_ns(&case.name)).reduce(f64::min);
    let of_all = history.fastest(&case.name);
    own_ns.zip(of_all).map_or(UNSEEN, |(own_ns, (_, best_ns))| (best_ns / own_ns).powf(FAMILY_POWER))
}

/// Returns the share of random configurations after so many iterations.
fn random_share(finished: usize) -> f64 {
    f64::max(RANDOM_SHARE * RANDOM_HALVED / (RANDOM_HALVED + finished as f64), LEAST_RANDOM_SHARE)
}

/// Returns the values that no point near the fastest variant of a case has had, in the order in which to look at them.
fn unseen<'f>(history: &History, family: &'f Family, case: &Case, fastest: &Finished) -> Vec<(&'f String, i64)> {
    let of_family = history.finished.iter().filter(|other| other.family == family.name);
    let beside: Vec<&Finished> = of_family
        .filter(|other| other.time_ns(&case.name).is_some())
        .filter(|other| changed(&fastest.params, &other.params).len() <= 1 + BESIDE)
        .collect();
    let mut unseen: Vec<(usize, f64, &String, i64)> = Vec::new();
    for (parameter, param) in &family.params {
        let place = |value: i64| param.values.iter().position(|other| *other == value).unwrap_or(0);
        let here = place(fastest.params.get(parameter).copied().unwrap_or(param.default));
        let is_seen = |value: &i64| beside.iter().any(|other| other.params.get(parameter) == Some(value));
        let mut values: Vec<i64> = param.values.iter().copied().filter(|value| !is_seen(value)).collect();
        values.sort_by_key(|value| place(*value).abs_diff(here));
        let seen = param.values.len() - values.len();
        let turns = values.into_iter().enumerate();
        unseen.extend(turns.map(|(later, value)| (seen + later, param.expect[1], parameter, value)));
    }
    unseen.sort_by(|(a, of_a, ..), (b, of_b, ..)| a.cmp(b).then(of_b.total_cmp(of_a)));
    unseen.into_iter().map(|(_, _, parameter, value)| (parameter, value)).collect()
}

/// Returns the parameters along which two points of a family differ.
fn changed(from: &Params, to: &Params) -> Vec<String> {
    to.iter()
        .filter(|(parameter, value)| from.get(*parameter) != Some(value))
        .map(|(parameter, _)| parameter.clone())
        .collect()
}

/// Takes over what is fastest on another case, if that was not tried on this one.
fn warm_start(context: &SearchContext<'_>, history: &History, case: &Case) -> Result<Option<Suggestion>, String> {
    for other in context.workload.cases.iter().filter(|other| other.name != case.name) {
        let Some((leader, ns)) = history.fastest(&other.name) else { continue };
        let Some(family) = context.families.iter().find(|family| family.name == leader.family) else { continue };
        let is_new = context.is_new(family, &leader.params, case, history);
        if !is_new || !context.space(family, case).contains(&leader.params)? {
            continue;
        }
        let hypothesis = Hypothesis {
            claim: format!("what is fastest on {} is fast on {}, too", other.name, case.name),
            evidence: format!("iteration {} takes {:.2} us there, less than all others", leader.iteration, ns / 1e3),
            case: case.name.clone(),
            predicted: Interval { lo: 0.5, hi: 2.0 },
            relative_to: history.fastest(&case.name).map(|(fastest, _)| fastest.iteration),
        };
        let origin = Origin::WarmStart { case: other.name.clone() };
        return context.suggestion(family, leader.params.clone(), case, hypothesis, origin, None).map(Some);
    }
    Ok(None)
}

/// Words a move as a claim, with a prediction that multiplies over its parameters.
fn claim(history: &History, family: &Family, headroom: &Headroom, from: &Finished, step: &Move) -> Hypothesis {
    let ns = from.time_ns(&headroom.case).unwrap_or(headroom.best_ns);
    let mut predicted = Interval { lo: 1.0, hi: 1.0 };
    let (mut changes, mut evidence) = (Vec::new(), Vec::new());
    for parameter in &step.parameters {
        let Some(param) = family.params.get(parameter) else { continue };
        let along = prediction::along_parameter(history, &family.name, parameter, &headroom.case, param.expect);
        predicted = Interval { lo: predicted.lo * along.range.lo, hi: predicted.hi * along.range.hi };
        let (old, new) = (from.params.get(parameter).copied().unwrap_or_default(), step.params[parameter]);
        changes.push(format!("{parameter} from {old} to {new} ({})", param.about));
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
