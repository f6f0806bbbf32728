//! Why a search ends before its budget is spent.

use serde::Serialize;

/// Why a search ended before its budget was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyEnd {
    /// Nothing new was left to try.
    NothingLeft,
    /// The rest of the budget promised less than `stop.min_gain`.
    TooLittleLeft,
}

impl EarlyEnd {
    /// Returns the name that the store uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingLeft => "nothing_left",
            Self::TooLittleLeft => "too_little_left",
        }
    }

    /// Returns the early end with a name. None for another name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::NothingLeft, Self::TooLittleLeft].into_iter().find(|one| one.name() == name)
    }
}
