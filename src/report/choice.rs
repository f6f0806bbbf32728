//! An option after a session: its kind, and one without figures.

use super::contract::Choice;

/// The kinds of options, from the one that is recommended first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Mend,
    Experiment,
    GoOn,
    WiderValues,
    AnotherFamily,
    NewKernel,
    Stop,
}

impl Kind {
    /// Returns the name in the contract.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mend => "mend",
            Self::Experiment => "experiment",
            Self::GoOn => "go_on",
            Self::WiderValues => "wider_values",
            Self::AnotherFamily => "another_family",
            Self::NewKernel => "new_kernel",
            Self::Stop => "stop",
        }
    }
}

/// Returns an option whose gain and cost are not known.
pub(super) fn choice(kind: Kind, what: String, gain: String, risk: &str) -> Choice {
    let risk = risk.to_owned();
    Choice {
        kind: kind.name(),
        what,
        families: Vec::new(),
        gain,
        expected: None,
        most: None,
        minutes: None,
        usd: None,
        risk,
        recommended: false,
        then: false,
    }
}
