//! The suggestions that begin every session, with every proposer.
//!
//! Each family is screened before any is searched. Later suggestions wait for the results.

use std::collections::VecDeque;

use super::{SearchContext, claims};
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::family::Family;
use crate::domain::history::{ConfigurationId, History};
use crate::domain::ids::CaseName;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::proposal::{KnownWinner, Rationale, Suggestion};
use crate::error::{Error, error};

/// The next step of an initial design.
pub enum Next {
    /// Propose this suggestion.
    Suggestion(Box<Suggestion>),
    /// Wait: results of the initial design are still under way.
    Wait,
    /// The initial design is over.
    Done,
}

/// The initial kernel, the winners of earlier sessions on the cases that they won, the other families' default
/// configurations, each for every specialization, and those winners on the other cases. They are computed once: finding
/// the start of a space with few valid configurations takes a while.
#[derive(Default)]
pub struct InitialDesign {
    first: Option<VecDeque<Planned>>,
    /// Whether a suggestion to screen was returned.
    screened: bool,
    over: bool,
}

/// A suggestion of the initial design.
struct Planned {
    suggestion: Suggestion,
    configuration: ConfigurationId,
    /// Whether its configuration is suggested for the second time, on other cases.
    is_second: bool,
}

impl Planned {
    fn first(suggestion: Suggestion, configuration: ConfigurationId) -> Self {
        Self { suggestion, configuration, is_second: false }
    }

    /// Tells whether it was tried before: by this process, or before the session was resumed.
    fn is_tried(&self, context: &SearchContext<'_>, history: &History) -> bool {
        let Suggestion { family, params, cases, .. } = &self.suggestion;
        let is_timed = |case: &CaseName| {
            let mut own = history.finished.iter().filter(|one| one.family == *family && one.params == *params);
            own.any(|one| one.time_ns(case).is_some())
        };
        if self.is_second {
            cases.iter().any(|case| is_timed(&case.name))
        } else {
            context.is_proposed(&self.configuration, history)
        }
    }
}

impl InitialDesign {
    /// Returns the next step while `under_way` suggestions have no results yet.
    pub fn next(&mut self, context: &SearchContext<'_>, history: &History, under_way: usize) -> Result<Next, Error> {
        let first = match &mut self.first {
            Some(first) => first,
            None => self.first.insert(initial_suggestions(context)?),
        };
        while let Some(planned) = first.pop_front() {
            if !planned.is_tried(context, history) {
                let mut suggestion = planned.suggestion;
                self.screened |= suggestion.rationale.purpose == Purpose::Screening;
                claim(context, history, &mut suggestion);
                return Ok(Next::Suggestion(Box::new(suggestion)));
            }
        }
        self.over |= !self.screened || under_way == 0;
        Ok(if self.over { Next::Done } else { Next::Wait })
    }
}

/// Gives the default configuration of a family a claim if the family has been timed by now.
fn claim(context: &SearchContext<'_>, history: &History, suggestion: &mut Suggestion) {
    if suggestion.rationale.origin != Origin::FamilyDefault {
        return;
    }
    let case = context.workload.cases.iter().find(|case| case.name == suggestion.rationale.hypothesis.case);
    let claim = context
        .family(&suggestion.family)
        .zip(case)
        .and_then(|of| claims::of_family_default(context, history, of, &suggestion.params));
    suggestion.rationale.hypothesis = claim.unwrap_or_else(|| suggestion.rationale.hypothesis.clone());
}

fn initial_suggestions(context: &SearchContext<'_>) -> Result<VecDeque<Planned>, Error> {
    let is_initial_kernel = |family: &&&Family| context.workload.starts_from(&family.name);
    let mut suggestions = VecDeque::new();
    // Included whether searched or not, so that speed-ups refer to the same start in every session.
    if let Some(family) = context.initial_family() {
        default_configurations(context, family, &mut suggestions)?;
    }
    for known in context.known {
        known_winner(context, known, &mut suggestions)?;
    }
    let elsewhere: Vec<Planned> = suggestions.iter_mut().filter_map(|planned| keep_won(context, planned)).collect();
    for family in context.families.iter().filter(|family| !is_initial_kernel(family)) {
        default_configurations(context, family, &mut suggestions)?;
    }
    for family in &context.families {
        openings(context, family, &mut suggestions)?;
    }
    suggestions.extend(elsewhere);
    Ok(suggestions)
}

/// Keeps the cases that a committed winner of this device has won. Every case has its incumbent sooner that way. Returns a
/// suggestion for the others, if there are any.
fn keep_won(context: &SearchContext<'_>, planned: &mut Planned) -> Option<Planned> {
    let Planned { suggestion, configuration, .. } = planned;
    if suggestion.rationale.purpose != Purpose::Remeasurement {
        return None;
    }
    let same = context.known.iter().filter(|other| other.here && other.is(&suggestion.family, &suggestion.params));
    let won: Vec<&CaseName> = same.map(|other| &other.case).collect();
    let (own, others) = suggestion.cases.drain(..).partition(|case| won.contains(&&case.name));
    suggestion.cases = own;
    let case = others.first()?;
    let hypothesis = Hypothesis::without_claim(
        format!("a committed winner of {} is tried on other cases", suggestion.rationale.hypothesis.case),
        suggestion.rationale.hypothesis.evidence.clone(),
        case.name.clone(),
        Reference::Incumbent,
    );
    let rationale = Rationale { hypothesis, purpose: Purpose::Screening, ..suggestion.rationale.clone() };
    let suggestion = Suggestion { cases: others, rationale, ..suggestion.clone() };
    Some(Planned { suggestion, configuration: *configuration, is_second: true })
}

fn default_configurations<'a>(
    context: &SearchContext<'a>,
    family: &'a Family,
    suggestions: &mut VecDeque<Planned>,
) -> Result<(), Error> {
    let is_initial = context.workload.starts_from(&family.name);
    for case in &context.workload.cases {
        let Some(params) = context.space(family, case).start()? else { continue };
        let configuration = ConfigurationId::new(&family.name, &family.specialization(case), &params);
        if suggestions.iter().any(|other| other.configuration == configuration) {
            continue;
        }
        let (claim, reference) = match is_initial {
            true => ("the initial kernel of this workload", Reference::InitialKernel),
            false => ("tried because this family has not been measured yet", Reference::Incumbent),
        };
        let claim = format!("the default configuration of {} is {claim}", family.name);
        let hypothesis = Hypothesis::without_claim(claim, family.about.clone(), case.name.clone(), reference);
        let (purpose, origin) = match is_initial {
            true => (Purpose::Initial, Origin::InitialKernel),
            false => (Purpose::Screening, Origin::FamilyDefault),
        };
        let mut suggestion = context.suggestion(family, params, case, hypothesis, origin, None)?;
        suggestion.rationale.purpose = purpose;
        suggestions.push_back(Planned::first(suggestion, configuration));
    }
    Ok(())
}

/// Adds the configurations that a family gives for the dimensions of the cases.
fn openings<'a>(
    context: &SearchContext<'a>,
    family: &'a Family,
    suggestions: &mut VecDeque<Planned>,
) -> Result<(), Error> {
    for case in &context.workload.cases {
        let found = family.openings_for(case, context.workload.dtype, context.device);
        for params in found.map_err(|error| error!("an opening of {}: {error}", family.name))? {
            let configuration = ConfigurationId::new(&family.name, &family.specialization(case), &params);
            let is_planned = suggestions.iter().any(|other| other.configuration == configuration);
            if is_planned || !context.space(family, case).contains(&params)? {
                continue;
            }
            let claim = format!("{} is known to be fast with it for such dimensions", family.name);
            let hypothesis =
                Hypothesis::without_claim(claim, family.about.clone(), case.name.clone(), Reference::Incumbent);
            let suggestion = context.suggestion(family, params, case, hypothesis, Origin::Opening, None)?;
            suggestions.push_back(Planned::first(suggestion, configuration));
        }
    }
    Ok(())
}

/// Adds the winner of an earlier session. On the cases that it has won, its comparison with the initial kernel makes it
/// the incumbent.
fn known_winner(
    context: &SearchContext<'_>,
    known: &KnownWinner,
    suggestions: &mut VecDeque<Planned>,
) -> Result<(), Error> {
    let case = context.workload.cases.iter().find(|case| case.name == known.case);
    let (Some(case), Some(family)) = (case, context.family(&known.family)) else { return Ok(()) };
    // The family may have changed since. The old configuration is tried only if the family still has it.
    let same_parameters = known.params.len() == family.params.len();
    let still_a_configuration = same_parameters
        && family.params.iter().all(|(name, param)| known.params.get(name).is_some_and(|v| param.values.contains(v)));
    if !still_a_configuration || !context.space(family, case).contains(&known.params)? {
        return Ok(());
    }
    let configuration = ConfigurationId::new(&family.name, &family.specialization(case), &known.params);
    let hypothesis = Hypothesis::without_claim(
        format!("the committed winner of {} is measured again", known.case),
        format!("an earlier session confirmed it on {}", known.device),
        known.case.clone(),
        Reference::InitialKernel,
    );
    let purpose = if known.here { Purpose::Remeasurement } else { Purpose::Screening };
    // One source may have won several cases. It is proposed once for all of them.
    let same = context.known.iter().filter(|other| other.is(&known.family, &known.params));
    let cases = same.map(|other| other.case.clone()).collect();
    let origin = Origin::CommittedWinner { device: known.device.clone(), cases };
    let mut suggestion = context.suggestion(family, known.params.clone(), case, hypothesis, origin, None)?;
    suggestion.rationale.purpose = purpose;
    suggestions.push_back(Planned::first(suggestion, configuration));
    Ok(())
}
