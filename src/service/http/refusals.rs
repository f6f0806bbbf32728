//! Requests that were refused, for the log: one line a minute, however many there are.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// The requests that were refused since the last line.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    count: u64,
    said_at: Option<Instant>,
}

impl Refusals {
    /// Notes a request that was refused. If a line is due, returns how many requests it is about.
    pub fn note(&self, now: Instant) -> Option<u64> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.count += 1;
        if noted.said_at.is_some_and(|then| now.saturating_duration_since(then) < PAUSE) {
            return None;
        }
        noted.said_at = Some(now);
        Some(std::mem::take(&mut noted.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_minute() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let lines: Vec<u64> = (0..3000).filter_map(|_| refusals.note(now)).collect();
        assert_eq!(lines, [1]);
        assert_eq!(refusals.note(now + PAUSE), Some(3000));
        assert_eq!(refusals.note(now + PAUSE), None);
    }
}
