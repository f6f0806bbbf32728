//! Whether a compiled variant may be the fastest on one of its cases. One that may not is left out: about half of the
//! variants of a long session ([decision 68](../../docs/decisions/0068-variants-without-prospects.md)).

use super::pipeline::Compiled;
use super::state::SessionState;
use crate::agent::claims;
use crate::agent::prediction::Built;
use crate::domain::ids::IterationId;
use crate::domain::origin::Purpose;

/// Variants that are evaluated before one is left out. Ranges of claims are calibrated by earlier outcomes.
const MIN_ATTEMPTS: usize = 50;

/// One of so many iterations runs its variant in any case. So the record shows whether it is right to leave others out.
const CONTROL: i64 = 16;

impl Compiled {
    /// Returns why the variant is not worth the device's time. None if it may be the fastest on one of its cases, or if
    /// nothing is predicted of it there.
    pub fn without_prospects(&self, state: &SessionState, iteration: IterationId) -> Option<String> {
        let least = state.setup().options.least_chance;
        let is_search = self.proposal.origin.is_search() && self.proposal.purpose == Purpose::Screening;
        let is_exempt = !is_search || iteration.0 % CONTROL == 0 || state.history().attempts.len() < MIN_ATTEMPTS;
        if least == 0.0 || is_exempt {
            return None;
        }
        let (code, requests) = (self.code()?, self.cases.as_ref().ok()?);
        let (mut highest, mut on) = (0.0, None);
        for request in requests {
            let (case, built) = (&request.case.name, Built { code, ctas: request.plan.ctas() });
            let prediction =
                claims::over_fastest(state.history(), &state.setup().families, &self.proposal, case, built)?;
            let chance = prediction.chance_above(1.0)?;
            if chance >= least {
                return None;
            }
            if on.is_none() || chance > highest {
                (highest, on) = (chance, Some((case, prediction)));
            }
        }
        let (case, prediction) = on?;
        Some(format!(
            "its chance to be the fastest is below {:.1}% on every case: on {case}, it is predicted to run at {:.2}x to {:.2}x \
             of the speed of the fastest variant",
            least * 100.0,
            prediction.lo,
            prediction.hi
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::origin::Origin;
    use crate::session::synthetic::{Told, compiled, setup};

    /// Screens two variants in turns: one takes 100 on both cases, and the other ten times as long.
    fn told(tries: u32, least_chance: f64) -> Told {
        let mut setup = setup();
        setup.options.least_chance = least_chance;
        let mut told = Told::new(setup);
        told.screened(0, Purpose::Initial, [100, 100]);
        for number in 1..tries {
            let us = if number % 2 == 0 { 100 } else { 1000 } + number % 3;
            told.screened(i64::from(number % 2), Purpose::Screening, [us, us]);
        }
        told
    }

    #[test]
    fn a_variant_that_is_surely_slower_on_every_case_is_left_out() {
        let said = |told: &Told, number: i64, iteration: i64| {
            compiled(told, number).without_prospects(&told.state, IterationId(iteration))
        };
        let known = told(60, 0.001);
        let why = said(&known, 1, 61).unwrap();
        assert!(why.starts_with("its chance to be the fastest is below 0.1% on every case: on "), "{why}");
        assert_eq!(said(&known, 0, 61), None, "it is as fast as the fastest");
        assert_eq!(said(&known, 1, 64), None, "one of 16 is run in any case");
        assert_eq!(said(&told(40, 0.001), 1, 61), None, "too few outcomes are known");
        assert_eq!(said(&told(60, 0.0), 1, 61), None, "every variant is to be run");
        let mut remedy = compiled(&known, 1);
        remedy.proposal.origin = Origin::Remedy { rule: "spills".to_owned(), changes: Vec::new() };
        assert_eq!(remedy.without_prospects(&known.state, IterationId(61)), None, "it tests a cause");
    }
}
