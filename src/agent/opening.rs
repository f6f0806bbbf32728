//! The ideas with which every session begins, whoever proposes after them.
//!
//! Each family gets a look before any is searched, and what is proposed next waits for what these teach.

use std::collections::VecDeque;

use super::Landscape;
use crate::domain::family::Family;
use crate::domain::history::{History, Point};
use crate::domain::hypothesis::Hypothesis;
use crate::domain::origin::{Origin, Purpose};
use crate::domain::proposal::{Idea, KnownWinner};
use crate::domain::statistics::Interval;

/// What comes next in an opening.
pub enum Next {
    /// This idea.
    Idea(Box<Idea>),
    /// Nothing, and what the opening teaches is still under way.
    Wait,
    /// Nothing.
    Over,
}

/// The seed of the reference family, the winners of earlier sessions, a look at the other families' seeds, each for every
/// specialization. Worked out once: finding the start of a space with few valid points takes a while.
#[derive(Default)]
pub struct Opening {
    first: Option<VecDeque<(Idea, Point)>>,
    /// Something was looked at.
    looked: bool,
    over: bool,
}

impl Opening {
    /// Returns what comes next, while so many ideas are under way: what they teach is still to come.
    pub fn next(&mut self, landscape: &Landscape<'_>, history: &History, under_way: usize) -> Result<Next, String> {
        let first = match &mut self.first {
            Some(first) => first,
            None => self.first.insert(work_out(landscape)?),
        };
        while let Some((idea, point)) = first.pop_front() {
            if !history.proposed.contains(&point) {
                self.looked |= idea.purpose == Purpose::Screening;
                return Ok(Next::Idea(Box::new(idea)));
            }
        }
        self.over |= !self.looked || under_way == 0;
        Ok(if self.over { Next::Over } else { Next::Wait })
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
        let (purpose, origin) = match reference {
            true => (Purpose::Initial, Origin::InitialKernel),
            false => (Purpose::Screening, Origin::FamilyDefault),
        };
        let idea = landscape.idea(family, params, case, hypothesis, origin, None)?;
        ideas.push_back((Idea { purpose, ..idea }, point));
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
    let purpose = if known.here { Purpose::Remeasurement } else { Purpose::Screening };
    let origin = Origin::CommittedWinner { device: known.device.clone() };
    let idea = landscape.idea(family, known.params.clone(), case, hypothesis, origin, None)?;
    ideas.push_back((Idea { purpose, ..idea }, point));
    Ok(())
}
