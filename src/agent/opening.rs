//! The ideas with which every session begins, whoever proposes after them.
//!
//! Where a session starts from nothing but the reference's seed, each family gets a look first: one point, checked and screened. The
//! fastest look of each case is then confirmed. So a climb from the slowest to the fastest family takes one contest, not one a
//! step.

use std::collections::VecDeque;

use super::Landscape;
use crate::domain::family::Family;
use crate::domain::history::{Finished, History, Point};
use crate::domain::hypothesis::Hypothesis;
use crate::domain::proposal::{Idea, KnownWinner};
use crate::domain::statistics::Interval;
use crate::domain::workload::Case;

/// By how much a look must be faster than the incumbent to be confirmed: with less, it had its contest, or is for the final to settle.
const FASTER: f64 = 1.05;

/// How far the time of a look may be from what it is when it is confirmed.
const SCREENING_NOISE: f64 = 0.03;

/// What comes next in an opening.
pub enum Next {
    /// This idea.
    Idea(Idea),
    /// It depends on ideas that are under way.
    Wait,
    /// Nothing.
    Over,
}

/// The seed of the reference family, the winners of earlier sessions, a look at the other families' seeds, each for every
/// specialization, and the fastest looks once more. Worked out once: finding the start of a space with few valid points takes a while.
#[derive(Default)]
pub struct Opening {
    first: Option<VecDeque<(Idea, Point)>>,
    /// Something was looked at.
    looked: bool,
    fastest: Option<VecDeque<Idea>>,
}

impl Opening {
    /// Returns what comes next.
    pub fn next(&mut self, landscape: &Landscape<'_>, history: &History) -> Result<Next, String> {
        let first = match &mut self.first {
            Some(first) => first,
            None => self.first.insert(work_out(landscape)?),
        };
        while let Some((idea, point)) = first.pop_front() {
            if !history.proposed.contains(&point) {
                self.looked |= idea.look;
                return Ok(Next::Idea(idea));
            }
        }
        if self.fastest.is_none() && self.looked && history.under_way > 0 {
            return Ok(Next::Wait);
        }
        let looked = self.looked;
        let fastest = self
            .fastest
            .get_or_insert_with(|| if looked { confirmations(landscape, history) } else { VecDeque::new() });
        Ok(fastest.pop_front().map_or(Next::Over, Next::Idea))
    }
}

fn work_out(landscape: &Landscape<'_>) -> Result<VecDeque<(Idea, Point)>, String> {
    let is_reference = |family: &&&Family| family.name == landscape.workload.reference;
    let mut ideas = VecDeque::new();
    // Searched or not: the start that speed-ups refer to is the same in every session.
    if let Some(family) = landscape.family(&landscape.workload.reference) {
        seeds(landscape, family, &mut ideas)?;
    }
    for known in landscape.known {
        known_winner(landscape, known, &mut ideas)?;
    }
    for family in landscape.families.iter().filter(|family| !is_reference(family)) {
        seeds(landscape, family, &mut ideas)?;
    }
    Ok(ideas)
}

fn seeds<'a>(landscape: &Landscape<'a>, family: &'a Family, ideas: &mut VecDeque<(Idea, Point)>) -> Result<(), String> {
    let reference = family.name == landscape.workload.reference;
    for case in &landscape.workload.cases {
        let Some(params) = landscape.space(family, case).start()? else { continue };
        let point = Point::new(&family.name, &family.specialization(case), &params);
        if ideas.iter().any(|(_, other)| *other == point) {
            continue;
        }
        let hypothesis = Hypothesis {
            claim: match reference {
                true => format!("the seed of {} is where this workload starts", family.name),
                false => format!("the seed of {} is worth starting from", family.name),
            },
            evidence: family.about.clone(),
            case: case.name.clone(),
            // Of another family's seed nothing is known: a tenth to tenfold of what stands is within the claim.
            predicted: if reference { Interval { lo: 1.0, hi: 1.0 } } else { Interval { lo: 0.1, hi: 10.0 } },
            relative_to: None,
        };
        let idea = landscape.idea(family, params, case, hypothesis, None)?;
        ideas.push_back((Idea { look: !reference, ..idea }, point));
    }
    Ok(())
}

/// The winner of an earlier session needs no look: its contest with the start makes it what all others are held against.
fn known_winner(
    landscape: &Landscape<'_>,
    known: &KnownWinner,
    ideas: &mut VecDeque<(Idea, Point)>,
) -> Result<(), String> {
    let case = landscape.workload.cases.iter().find(|case| case.name == known.case);
    let (Some(case), Some(family)) = (case, landscape.family(&known.family)) else { return Ok(()) };
    // The family may have changed since: the old point is tried only where it still is one.
    let same_axes = known.params.len() == family.params.len();
    let still_a_point = same_axes
        && family.params.iter().all(|(name, param)| known.params.get(name).is_some_and(|v| param.values.contains(v)));
    if !still_a_point || !landscape.space(family, case).contains(&known.params)? {
        return Ok(());
    }
    let point = Point::new(&family.name, &family.specialization(case), &known.params);
    let hypothesis = Hypothesis {
        claim: format!("the committed winner of {} is faster than the seed", known.case),
        evidence: format!("an earlier session confirmed it on {}", known.device),
        case: known.case.clone(),
        predicted: Interval { lo: 1.0, hi: 1000.0 },
        relative_to: None,
    };
    let idea = landscape.idea(family, known.params.clone(), case, hypothesis, None)?;
    ideas.push_back((Idea { look: !known.here, ..idea }, point));
    Ok(())
}

/// Returns the fastest look of each case, where it is faster than the incumbent: one idea for all cases of a variant.
fn confirmations(landscape: &Landscape<'_>, history: &History) -> VecDeque<Idea> {
    let mut fastest: Vec<(&Finished, Vec<&Case>)> = Vec::new();
    for case in &landscape.workload.cases {
        let Some((look, ns)) = history.fastest(&case.name) else { continue };
        let incumbent = history.incumbents.get(&case.name);
        if !incumbent.is_some_and(|incumbent| ns * FASTER <= incumbent.timing.median_ns) {
            continue;
        }
        match fastest.iter_mut().find(|(other, _)| other.iteration == look.iteration) {
            Some((_, cases)) => cases.push(case),
            None => fastest.push((look, vec![case])),
        }
    }
    fastest.into_iter().filter_map(|(look, cases)| confirmation(history, look, &cases)).collect()
}

fn confirmation(history: &History, look: &Finished, cases: &[&Case]) -> Option<Idea> {
    let case = &cases.first()?.name;
    let (incumbent, ns) = (history.incumbents.get(case)?, look.time_ns(case)?);
    let speedup = incumbent.timing.median_ns / ns;
    let hypothesis = Hypothesis {
        claim: format!("{} is the fastest that this session opens with on {case}", look.family),
        evidence: format!("in iteration {} it took {:.2} us there", look.iteration, ns / 1e3),
        case: case.clone(),
        predicted: Interval { lo: speedup * (1.0 - SCREENING_NOISE), hi: speedup * (1.0 + SCREENING_NOISE) },
        relative_to: Some(incumbent.iteration),
    };
    Some(Idea {
        family: look.family.clone(),
        params: look.params.clone(),
        cases: cases.iter().map(|case| (*case).clone()).collect(),
        hypothesis,
        parent: None,
        look: false,
    })
}
