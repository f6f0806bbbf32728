//! The proposer `local`. It suggests the default configurations of families first. Then it suggests moves around the
//! fastest variants of a case, the fastest variants of other cases, and random configurations.

use std::collections::HashSet;

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::diagnosis::Diagnosis;
use super::effects::Effects;
use super::opening::{Opening, Step};
use super::place::FAMILY_POWER;
use super::{Proposer, SearchContext, claims};
use crate::domain::claims::hypothesis::Hypothesis;
use crate::domain::family::Family;
use crate::domain::history::refuted::{self, SingleChange};
use crate::domain::history::{Finished, History};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::finding::{Finding, Remedy};
use crate::domain::proposal::origin::{Change, Origin};
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::Error;

/// The initial share of random configurations. They leave the basin of a bad start and show the effects of values.
const RANDOM_SHARE: f64 = 0.4;

/// Iterations after which the share has halved. As the best variants improve, a faster random configuration becomes
/// rarer.
const RANDOM_HALVED: f64 = 30.0;

/// The lower limit of the share of random configurations.
const MIN_RANDOM_SHARE: f64 = 0.1;

/// The share of warm starts while there are any: suggestions that reuse the fastest variant of another case. A
/// configuration that is fast on one shape is rarely slow on the next.
const WARM_START_SHARE: f64 = 0.3;

/// How many of the fastest variants of a case moves start from. The fastest alone may be lucky or a dead end.
const LEADERS: usize = 4;

/// The weight of each of these variants relative to the one before.
const NEXT_LEADER: f64 = 0.5;

/// The number of neighbours from which moves go on to a second parameter. They find valleys that run diagonally (tile
/// size with threads).
const SECOND_STEPS: usize = 8;

/// The share of coverage sampling while there is anything to sample: suggestions of values not yet tried near the
/// fastest variant. A value's effect elsewhere in the space says little. If parameters share a resource, no single move
/// leads to such a value.
const COVERAGE_SHARE: f64 = 0.1;

/// Values that coverage sampling may try without finding a configuration. Each takes hundreds of checks.
const MAX_COVERAGE_TRIES: usize = 3;

/// How many other parameters may differ from the fastest variant's for a value to count as tried near it.
const MAX_DISTANCE: usize = 2;

/// The share of moves to a random neighbour, regardless of the estimated effects of its values. These estimates may
/// come from elsewhere in the space.
const BLIND_SHARE: f64 = 0.1;

/// Log-space exploration bonus for an untried value. It decays as 1 / sqrt(n + 1) for a value tried n times.
const EXPLORATION_BONUS: f64 = 0.2;

/// The share of suggestions that follow the diagnosis while it proposes anything new.
const REMEDY_SHARE: f64 = 0.5;

/// The share of moves that may repeat a refuted change: one that was slower on every base so far. The next base may be
/// different, and only a success rehabilitates the change.
const REFUTED_SHARE: f64 = 0.05;

/// Stochastic local search with restarts.
pub struct Local {
    name: &'static str,
    rng: SmallRng,
    opening: Opening,
    /// Values without a new configuration near a variant on a case, by the variant's iteration. They are cached because
    /// the search is slow.
    no_room: HashSet<(CaseName, IterationId, String, i64)>,
}

/// A move around an incumbent.
struct Move {
    parameters: Vec<String>,
    params: Params,
}

impl Local {
    /// Makes a proposer of a name. Its random choices are determined by `seed`.
    pub fn new(name: &'static str, seed: u64) -> Self {
        Self { name, rng: SmallRng::seed_from_u64(seed), opening: Opening::default(), no_room: HashSet::new() }
    }

    /// Chooses one of the fastest variants of a case, confirmed or not, from the families that are searched.
    fn choose_leader<'a, 'h>(
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

    /// Suggests a move around one of the fastest variants of a case.
    pub(super) fn walk(
        &mut self,
        context: &SearchContext<'_>,
        history: &History,
        case: &Case,
    ) -> Result<Option<Suggestion>, Error> {
        // By name, because the case of the context lives as long as the families.
        let case = context.workload.cases.iter().find(|other| other.name == case.name);
        let Some(case) = case else { return Ok(None) };
        let Some((leader, family)) = self.choose_leader(context, history, case) else { return Ok(None) };
        let Some(step) = self.step(context, history, family, case, &leader.params)? else { return Ok(None) };
        let origin = Origin::Move { changes: Change::between(&leader.params, &step.params) };
        let hypothesis = claims::of_change(context, history, (family, case), (leader, &step.params), &origin);
        context.suggestion(family, step.params, case, hypothesis, origin, Some(leader.iteration)).map(Some)
    }

    /// Moves from `from` to a new neighbour that differs in one or two parameters. Mostly chooses the neighbour with
    /// the shortest predicted time, less an exploration bonus.
    fn step<'a>(
        &mut self,
        context: &SearchContext<'a>,
        history: &History,
        family: &'a Family,
        case: &'a Case,
        from: &Params,
    ) -> Result<Option<Move>, Error> {
        let space = context.space(family, case);
        let is_open = |params: &Params| context.is_open(family, params, case, history);
        let mut halfway = space.moves(from);
        halfway.shuffle(&mut self.rng);
        let mut moves = Vec::new();
        // The intermediate configuration need not be valid: if parameters share a resource, one makes room for the
        // other.
        for (first, params) in halfway.iter().take(SECOND_STEPS) {
            let further = space.neighbours(params)?.into_iter().filter(|(second, _)| second != first);
            moves.extend(further.map(|(second, params)| Move { parameters: vec![first.clone(), second], params }));
        }
        for (parameter, params) in halfway {
            if space.contains(&params)? {
                moves.push(Move { parameters: vec![parameter], params });
            }
        }
        moves.retain(|step| is_open(&step.params));
        let others = not_refuted(&moves, history, family, &case.name, from);
        if (1..moves.len()).contains(&others.len()) && !self.rng.random_bool(REFUTED_SHARE) {
            moves.retain(|step| others.contains(&step.params));
        }
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
        // Among equals, take the shorter move: it teaches more.
        Ok(moves.into_iter().rev().min_by(|a, b| ln_time(a).total_cmp(&ln_time(b))))
    }

    /// Suggests a value not yet tried near the fastest variant of a case. Parameters take turns, those with the largest
    /// expected gain first. Each starts with the untried value next to the fastest variant's. Other parameters change
    /// if a constraint requires it.
    pub(super) fn coverage(
        &mut self,
        context: &SearchContext<'_>,
        history: &History,
        case: &Case,
    ) -> Result<Option<Suggestion>, Error> {
        let Some((fastest, _)) = history.fastest(&case.name) else { return Ok(None) };
        let family = context.families.iter().find(|family| family.name == fastest.family);
        let Some(family) = family else { return Ok(None) };
        let mut untried_values = untried_values(history, family, case, fastest);
        let key = |parameter: &str, value| (case.name.clone(), fastest.iteration, parameter.to_owned(), value);
        untried_values.retain(|(parameter, value)| !self.no_room.contains(&key(parameter, *value)));
        for (parameter, value) in untried_values.into_iter().take(MAX_COVERAGE_TRIES) {
            let near = context.space(family, case).nearest_with(&fastest.params, parameter, value)?;
            if let Some(params) = near.filter(|params| context.is_open(family, params, case, history)) {
                let origin = Origin::Coverage { changes: Change::between(&fastest.params, &params) };
                let hypothesis = claims::of_change(context, history, (family, case), (fastest, &params), &origin);
                return context.suggestion(family, params, case, hypothesis, origin, Some(fastest.iteration)).map(Some);
            }
            self.no_room.insert(key(parameter, value));
        }
        Ok(None)
    }
}

impl Proposer for Local {
    fn name(&self) -> &'static str {
        self.name
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, Error> {
        let case = match self.opening.next(context, diagnosis, history, (under_way, |_| 1.0), &mut self.rng)? {
            Step::Propose(suggestion) => return Ok(suggestion.map(|suggestion| *suggestion)),
            Step::Search(case) => case,
        };
        if self.rng.random_bool(REMEDY_SHARE)
            && let Some(suggestion) = remedy(context, diagnosis, history, case)?
        {
            return Ok(Some(suggestion));
        }
        if self.rng.random_bool(COVERAGE_SHARE)
            && let Some(suggestion) = self.coverage(context, history, case)?
        {
            return Ok(Some(suggestion));
        }
        if self.rng.random_bool(WARM_START_SHARE)
            && let Some(suggestion) = warm_start(context, history, case)?
        {
            return Ok(Some(suggestion));
        }
        if !self.rng.random_bool(random_share(history.finished.len()))
            && let Some(suggestion) = self.walk(context, history, case)?
        {
            return Ok(Some(suggestion));
        }
        self.opening.random(context, history, case, &mut self.rng)
    }
}

/// Returns the share of random configurations after `finished` iterations.
fn random_share(finished: usize) -> f64 {
    f64::max(RANDOM_SHARE * RANDOM_HALVED / (RANDOM_HALVED + finished as f64), MIN_RANDOM_SHARE)
}

/// Returns the values that no configuration near the fastest variant of a case has had, in the order to try them.
fn untried_values<'f>(
    history: &History,
    family: &'f Family,
    case: &Case,
    fastest: &Finished,
) -> Vec<(&'f String, i64)> {
    let of_family = history.finished.iter().filter(|other| other.family == family.name);
    let beside: Vec<&Finished> = of_family
        .filter(|other| other.time_ns(&case.name).is_some())
        .filter(|other| changed(&fastest.params, &other.params).len() <= 1 + MAX_DISTANCE)
        .collect();
    let mut untried_values: Vec<(usize, f64, &String, i64)> = Vec::new();
    for (parameter, param) in &family.params {
        let place = |value: i64| param.values.iter().position(|other| *other == value).unwrap_or(0);
        let here = place(fastest.params.get(parameter).copied().unwrap_or(param.default));
        let is_seen = |value: &i64| beside.iter().any(|other| other.params.get(parameter) == Some(value));
        let mut values: Vec<i64> = param.values.iter().copied().filter(|value| !is_seen(value)).collect();
        values.sort_by_key(|value| place(*value).abs_diff(here));
        let seen = param.values.len() - values.len();
        let turns = values.into_iter().enumerate();
        untried_values.extend(turns.map(|(later, value)| (seen + later, param.expect[1], parameter, value)));
    }
    untried_values.sort_by(|(a, of_a, ..), (b, of_b, ..)| a.cmp(b).then(of_b.total_cmp(of_a)));
    untried_values.into_iter().map(|(_, _, parameter, value)| (parameter, value)).collect()
}

/// Returns the parameters in which two configurations of a family differ.
fn changed(from: &Params, to: &Params) -> Vec<String> {
    to.iter()
        .filter(|(parameter, value)| from.get(*parameter) != Some(value))
        .map(|(parameter, _)| parameter.clone())
        .collect()
}

/// Suggests an untried remedy of the diagnosis for a case, the most important cause first.
pub(super) fn remedy(
    context: &SearchContext<'_>,
    diagnosis: &Diagnosis,
    history: &History,
    case: &Case,
) -> Result<Option<Suggestion>, Error> {
    for finding in diagnosis.findings.iter().filter(|finding| finding.case == case.name) {
        let explained = finding.iteration.and_then(|iteration| history.iteration(iteration));
        let Some(from) = explained.filter(|from| from.time_ns(&case.name).is_some()) else { continue };
        if history.is_far_behind(from, &case.name) {
            continue;
        }
        for remedy in &finding.remedies {
            let family = context.families.iter().find(|other| other.name == remedy.family);
            let (Some(family), Some(params)) = (family, &remedy.params) else { continue };
            if context.is_open(family, params, case, history) && context.space(family, case).contains(params)? {
                return of_remedy(context, history, (family, case), from, (finding, remedy)).map(Some);
            }
        }
    }
    Ok(None)
}

/// Suggests a remedy of a finding about `from`.
pub(super) fn of_remedy<'a>(
    context: &SearchContext<'a>,
    history: &History,
    (family, case): (&'a Family, &Case),
    from: &Finished,
    (finding, remedy): (&Finding, &Remedy),
) -> Result<Suggestion, Error> {
    let params = remedy.params.clone().unwrap_or_else(|| family.defaults());
    let is_change = family.name == from.family;
    let changes = if is_change { Change::between(&from.params, &params) } else { Vec::new() };
    let origin = Origin::Remedy { rule: finding.rule.to_owned(), changes };
    let hypothesis = match is_change {
        true => claims::of_change(context, history, (family, case), (from, &params), &origin),
        false => claims::of_family(context, history, (family, case), (from, &params), &origin),
    };
    let claim = format!("against {}: {}; {}", finding.rule, remedy.text, hypothesis.claim);
    let hypothesis = Hypothesis { claim, ..hypothesis };
    context.suggestion(family, params, case, hypothesis, origin, Some(from.iteration))
}

/// Suggests the fastest variant of another case, if it was not tried on this one.
pub(super) fn warm_start(
    context: &SearchContext<'_>,
    history: &History,
    case: &Case,
) -> Result<Option<Suggestion>, Error> {
    for other in context.workload.cases.iter().filter(|other| other.name != case.name) {
        let Some((leader, _)) = history.fastest(&other.name) else { continue };
        let Some(family) = context.families.iter().find(|family| family.name == leader.family) else { continue };
        let is_open = context.is_open(family, &leader.params, case, history);
        if !is_open || !context.space(family, case).contains(&leader.params)? {
            continue;
        }
        let origin = Origin::WarmStart { case: other.name.clone() };
        let hypothesis = claims::of_warm_start(context, history, (family, case), (&other.name, leader), &origin);
        return context.suggestion(family, leader.params.clone(), case, hypothesis, origin, None).map(Some);
    }
    Ok(None)
}

/// Returns the configurations of the moves on a case that have a change that is not refuted there.
fn not_refuted(moves: &[Move], history: &History, family: &Family, case: &str, from: &Params) -> Vec<Params> {
    let tries = refuted::tries(history);
    let is_refuted = |change: &Change| {
        tries.get(&SingleChange { family: &family.name, change }).is_some_and(|tries| tries.refuted_on(case))
    };
    let others = moves.iter().filter(|step| !Change::between(from, &step.params).iter().all(is_refuted));
    others.map(|step| step.params.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::claims::hypothesis::Reference;
    use crate::domain::history::CaseTime;
    use crate::domain::proposal::Rationale;
    use crate::domain::proposal::origin::Purpose;
    use crate::domain::variant::VariantHash;

    const MANIFEST: &str = "name = \"f\"\nabout = \"a\"\nop = \"attention\"\ndtypes = [\"f16\"]\nrequires_sm = 80\n\
         constants = []\n[params.P]\nvalues = [1, 2, 4]\ndefault = 1\nabout = \"a\"\nexpect = [1, 2]\n\
         [[launch]]\nkernel = \"k\"\ngrid = [\"1\"]\nblock = [\"32\"]\nargs = []\n";

    fn with(value: i64) -> Params {
        Params::from([("P".to_owned(), value)])
    }

    /// Makes a history of a variant with P = 1, and of changes of P from 1 to 2 with the given speed-ups.
    fn history(speedups: &[f64]) -> History {
        let finished = |(place, speedup): (usize, &f64)| {
            let changes = Change::between(&with(1), &with(if place == 0 { 1 } else { 2 }));
            let time = CaseTime {
                case: "c".into(),
                median_ns: 1e3 / speedup,
                ctas: 1,
                shape: None,
                profile: None,
                screened_only: true,
            };
            let reference = Reference::Iteration(IterationId(1));
            Finished {
                iteration: IterationId(place as i64 + 1),
                family: "f".to_owned(),
                params: with(2),
                hash: VariantHash::of(""),
                rationale: Rationale {
                    hypothesis: Hypothesis::without_claim("c".to_owned(), "e".to_owned(), "c".into(), reference),
                    parent: None,
                    purpose: Purpose::Screening,
                    origin: Origin::Move { changes },
                },
                code: None,
                times: vec![time],
            }
        };
        let finished = [1.0].iter().chain(speedups).enumerate().map(finished).collect();
        History { finished, ..History::default() }
    }

    /// Returns the values to which a change of P from 1 is not refuted on a case.
    fn left(history: &History, case: &str) -> Vec<i64> {
        let family = Family::parse(MANIFEST, String::new()).unwrap();
        let moves = [2, 4].map(|value| Move { parameters: vec!["P".to_owned()], params: with(value) });
        not_refuted(&moves, history, &family, case, &with(1)).iter().map(|params| params["P"]).collect()
    }

    #[test]
    fn a_change_that_was_always_slower_is_left_out_until_it_is_not() {
        let refuted = history(&[0.8, 0.9, 0.7]);
        assert_eq!(left(&refuted, "c"), [4]);
        assert_eq!(left(&refuted, "other"), [2, 4], "it was not tried there");
        assert_eq!(left(&history(&[0.8, 0.9]), "c"), [2, 4], "two may be chance");
        assert_eq!(left(&history(&[0.8, 0.9, 0.7, 1.1]), "c"), [2, 4], "a success is new evidence");
    }
}
