//! When a step in flight is given up: at the second request to stop, or at the hard end of the session's time.

use std::time::{Duration, Instant};

use super::event::Interrupt;
use super::meter::CLOSING_TIME;

/// See the module's documentation.
#[derive(Clone)]
pub(super) struct Deadline {
    interrupt: Interrupt,
    /// The hard end of every step.
    at: Instant,
}

impl Deadline {
    /// Makes the deadline of a session that may still run for `left`, its grace included.
    pub fn new(interrupt: Interrupt, left: Duration) -> Self {
        // A budget of a year is still an instant.
        Self { interrupt, at: Instant::now() + left.saturating_sub(CLOSING_TIME) }
    }

    /// Returns the requests to stop.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Returns the hard end.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Returns the time until the hard end.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Brings the hard end forward by time that passed only in a recording.
    pub fn bring_forward(&mut self, time: Duration) {
        self.at -= time.min(self.left());
    }

    /// Returns whether the session has to be over by now. Then even commits wait for the next resumption.
    pub fn is_over(&self) -> bool {
        // Half of the closing time is for the record of the end and the report.
        Instant::now() >= self.at + CLOSING_TIME / 2
    }

    /// Runs a step. None if it is given up, which drops it with its processes.
    pub async fn within<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        let mut interrupt = self.interrupt.clone();
        tokio::select! {
            // Polled first, so that a step that is over counts.
            biased;
            done = step => Some(done),
            () = interrupt.reached(2) => None,
            () = tokio::time::sleep_until(self.at.into()) => None,
        }
    }
}
