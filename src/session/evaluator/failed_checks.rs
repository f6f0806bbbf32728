//! The acceptance checks that variants have failed in this session.
//!
//! Others of the same family meet them, too: a fault that few inputs show would otherwise be found in one variant, and missed
//! in the next.

use std::collections::HashMap;

use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::Outcome;
use crate::runner::messages::AcceptancePart;

/// What a variant has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) struct FailedCheck {
    /// What its shapes and inputs were drawn from.
    pub draw: String,
    /// The part of the checks.
    pub part: AcceptancePart,
}

/// The last failed check of each family on each case.
#[derive(Debug, Default)]
pub(in crate::session) struct FailedChecks(HashMap<(String, String), FailedCheck>);

impl FailedChecks {
    /// Returns the last one of a family on a case.
    pub fn of(&self, family: &str, case: &str) -> Option<&FailedCheck> {
        self.0.get(&(family.to_owned(), case.to_owned()))
    }

    /// Notes that a variant has failed, unless the part of the checks cannot be repeated alone.
    pub fn note(&mut self, (family, case): (&str, &str), draw: String, outcome: &Outcome) {
        let part = match outcome.check() {
            Some(Check::Hidden) => AcceptancePart::Hidden,
            Some(Check::Probe) => AcceptancePart::Probes,
            _ => return,
        };
        self.0.insert((family.to_owned(), case.to_owned()), FailedCheck { draw, part });
    }
}
