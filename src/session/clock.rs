//! The clock of a session: real time, and the time that a recording says its evaluations took.

use std::time::{Duration, Instant};

use super::meter::Time;

/// See the module's documentation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    started: Instant,
    /// The replayed time since then.
    replayed: Duration,
    /// When the last iteration was recorded, by this clock.
    last_record: Duration,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Self { started: Instant::now(), replayed: Duration::ZERO, last_record: Duration::ZERO }
    }

    /// Returns the readings.
    pub fn time(&self) -> Time {
        let running = self.running();
        Time { running, since_record: running.saturating_sub(self.last_record) }
    }

    /// Returns the time since the start.
    pub fn running(&self) -> Duration {
        self.started.elapsed() + self.replayed
    }

    /// Advances by time that passes only in a recording.
    pub fn replay(&mut self, time: Duration) {
        self.replayed = self.replayed.saturating_add(time);
    }

    /// Notes that an iteration was recorded at a time since the start.
    pub fn note_record(&mut self, at: Duration) {
        self.last_record = at;
    }

    /// Returns the time between the last record and a time since the start.
    pub fn since_record(&self, at: Duration) -> Duration {
        at.saturating_sub(self.last_record)
    }
}
