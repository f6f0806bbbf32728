//! When a session must end.

pub mod cost;
pub mod phase;
pub mod stop;

use std::time::Duration;

/// The limits of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// The longest wall time.
    pub wall: Duration,
    /// The most money, in US dollars; none for no limit.
    pub max_cost_usd: Option<f64>,
    /// The most iterations; none for no limit.
    pub max_iterations: Option<u64>,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The wall time is spent.
    Time,
    /// The money is spent.
    Cost,
    /// The iterations are done.
    Iterations,
}

impl Stop {
    /// Returns the reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Time => "its time budget (--budget) is spent",
            Self::Cost => "its cost limit (--max-cost) is reached",
            Self::Iterations => "its iteration limit (--iterations) is reached",
        }
    }
}

impl Budget {
    /// Tells whether the session must end before its next evaluation.
    pub fn exhausted(&self, elapsed: Duration, spent_usd: f64, iterations: u64) -> Option<Stop> {
        if self.max_iterations.is_some_and(|most| iterations >= most) {
            Some(Stop::Iterations)
        } else if elapsed >= self.wall {
            Some(Stop::Time)
        } else if self.max_cost_usd.is_some_and(|most| spent_usd >= most) {
            Some(Stop::Cost)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_reached_ends_the_session() {
        let hour = Duration::from_secs(3600);
        let budget = Budget { wall: hour, max_cost_usd: Some(5.0), max_iterations: Some(100) };
        assert_eq!(budget.exhausted(hour / 2, 1.0, 99), None);
        assert_eq!(budget.exhausted(hour, 1.0, 99), Some(Stop::Time));
        assert_eq!(budget.exhausted(hour / 2, 5.0, 99), Some(Stop::Cost));
        assert_eq!(budget.exhausted(hour / 2, 1.0, 100), Some(Stop::Iterations));
    }
}
