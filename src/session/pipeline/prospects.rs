//! Whether a variant may be the fastest on one of its cases. One that may not is left out
//! ([decision 68](../../../docs/decisions/0068-variants-without-prospects.md)).
//!
//! This is asked twice: before compilation, and again with what the compiler reports.

use crate::agent::claims;
use crate::agent::prediction::Built;
use crate::domain::claims::prediction::Prediction;
use crate::domain::code::CodeFigures;
use crate::domain::device::TimeSource;
use crate::domain::history::ConfigurationId;
use crate::domain::ids::CaseName;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::proposal::{Proposal, Rationale, Suggestion};
use crate::domain::variant::Params;
use crate::runner::messages::CaseRequest;
use crate::session::setup::SessionSetup;
use crate::session::state::SessionState;

/// Variants that are evaluated before one is left out. Ranges of claims are calibrated by earlier outcomes.
const MIN_ATTEMPTS: usize = 50;

/// One of so many variants runs in any case. So the record shows whether it is right to leave others out.
const CONTROL: u8 = 16;

/// Tells whether a variant runs even without prospects: one of [`CONTROL`].
pub(in crate::session) fn is_control(configuration: &ConfigurationId) -> bool {
    configuration.byte().is_multiple_of(CONTROL)
}

/// Returns whether a suggestion is not worth compiling. It is if it may be the fastest on one of its cases, or if nothing is
/// predicted of it there.
pub(super) fn are_missing(state: &SessionState, suggestion: &Suggestion) -> bool {
    let Suggestion { family, params, cases, rationale: Rationale { origin, purpose, .. } } = suggestion;
    let cases = cases.iter().map(|case| (&case.name, None));
    may_leave_out(state, origin, *purpose) && none_on_all(state, (family, params, origin), cases).is_some()
}

/// Returns why a compiled proposal is not worth the device's time. None if it may be the fastest on one of its cases, or if
/// nothing is predicted of it there.
pub(super) fn missing_of_built(
    state: &SessionState,
    proposal: &Proposal,
    code: CodeFigures,
    requests: &[CaseRequest],
) -> Option<String> {
    let Proposal { variant, rationale: Rationale { origin, purpose, .. }, .. } = proposal;
    if !may_leave_out(state, origin, *purpose) {
        return None;
    }
    let cases = requests.iter().map(|request| (&request.case.name, Some(Built::of(code, &request.plan))));
    none_on_all(state, (&variant.family, &variant.params, origin), cases)
}

/// Tells whether a variant may be left out at all. A search may do without it, unlike a test of a cause. A recording is
/// there to be looked up.
fn may_leave_out(state: &SessionState, origin: &Origin, purpose: Purpose) -> bool {
    let is_search = origin.is_search() && purpose == Purpose::Screening;
    let knows_enough = state.history().attempts.len() >= MIN_ATTEMPTS;
    let SessionSetup { device, options, .. } = state.setup();
    is_search && knows_enough && options.least_chance > 0.0 && device.time_source() != TimeSource::Recorded
}

/// Returns a sentence about a variant whose chance to be the fastest is too small on every case. The case with the highest
/// chance is named.
fn none_on_all<'a>(
    state: &SessionState,
    variant: (&str, &Params, &Origin),
    cases: impl Iterator<Item = (&'a CaseName, Option<Built>)>,
) -> Option<String> {
    let least = state.setup().options.least_chance;
    let mut best: Option<(f64, &CaseName, Prediction)> = None;
    for (case, built) in cases {
        let prediction = claims::over_fastest(state.history(), &state.setup().families, variant, case, built)?;
        let chance = prediction.chance_above(1.0)?;
        if chance >= least {
            return None;
        }
        if best.as_ref().is_none_or(|(highest, ..)| chance > *highest) {
            best = Some((chance, case, prediction));
        }
    }
    let (_, case, prediction) = best?;
    Some(format!(
        "its chance to be the fastest is below {:.1}% on every case: on {case}, it is predicted to run at {:.2}x to {:.2}x \
         of the speed of the fastest variant",
        least * 100.0,
        prediction.lo,
        prediction.hi
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::synthetic::{Scenario, compiled, setup, suggestion};

    /// Screens two variants in turns: one takes 100 on both cases, and the other ten times as long.
    fn told(tries: u32, least_chance: f64) -> Scenario {
        let mut setup = setup();
        setup.options.least_chance = least_chance;
        let mut told = Scenario::new(setup);
        told.screened(0, Purpose::Initial, [100, 100]);
        for number in 1..tries {
            let us = if number % 2 == 0 { 100 } else { 1000 } + number % 3;
            told.screened(i64::from(number % 2), Purpose::Screening, [us, us]);
        }
        told
    }

    #[test]
    fn a_suggestion_that_is_surely_slower_is_not_compiled() {
        let known = told(60, 0.001);
        let of = |number| suggestion(&known, number);
        assert!(are_missing(&known.state, &of(1)));
        assert!(!are_missing(&known.state, &of(0)), "it is as fast as the fastest");
        let mut winner = of(1);
        winner.rationale.purpose = Purpose::Remeasurement;
        assert!(!are_missing(&known.state, &winner), "it is asked for");
    }

    #[test]
    fn a_variant_that_is_surely_slower_on_every_case_is_left_out() {
        let said = |told: &Scenario, number: i64| compiled(told, number).without_prospects(&told.state);
        let known = told(60, 0.001);
        let why = said(&known, 1).unwrap();
        assert!(why.starts_with("its chance to be the fastest is below 0.1% on every case: on "), "{why}");
        assert_eq!(said(&known, 0), None, "it is as fast as the fastest");
        assert_eq!(said(&told(40, 0.001), 1), None, "too few outcomes are known");
        assert_eq!(said(&told(60, 0.0), 1), None, "every variant is to be run");
        let mut control = compiled(&known, 1);
        control.is_control = true;
        assert_eq!(control.without_prospects(&known.state), None, "one of 16 is run in any case");
        let mut remedy = compiled(&known, 1);
        remedy.proposal.rationale.origin = Origin::Remedy { rule: "spills".to_owned(), changes: Vec::new() };
        assert_eq!(remedy.without_prospects(&known.state), None, "it tests a cause");
    }
}
