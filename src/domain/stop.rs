//! Why a search ends before its budget is spent, in the words of a session's `stop_reason`.

/// The reason of a search that has nothing to try.
pub const NOTHING_LEFT: &str = "there is nothing new left to try";

/// The end of the reason of a search that expects too little of the rest of its budget.
pub const TOO_LITTLE_LEFT: &str = "(stop.min_gain)";

/// Why a search ended before its budget was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyEnd {
    /// Nothing new was left to try.
    NothingLeft,
    /// The rest of the budget promised less than `stop.min_gain`.
    TooLittleLeft,
}

impl EarlyEnd {
    /// Returns the early end that a `stop_reason` tells of. None if it tells of another end.
    pub fn of(reason: &str) -> Option<Self> {
        match reason {
            NOTHING_LEFT => Some(Self::NothingLeft),
            _ if reason.ends_with(TOO_LITTLE_LEFT) => Some(Self::TooLittleLeft),
            _ => None,
        }
    }
}
