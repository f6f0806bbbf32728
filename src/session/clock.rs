//! The clock of a session: real time, and the time that a recording says its evaluations took.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use super::meter::Time;
use crate::domain::ids::SessionId;
use crate::store::Store;

/// How often the time used is put on record. It is what a killed session may get back.
const NOTED_EVERY: Duration = Duration::from_secs(2);

/// Puts the time used on record as long as it is awaited. A killed session has no other record of what it did since its last
/// iteration. `used` is that before the session was resumed.
pub(super) async fn note_time(store: Store, session: SessionId, used: Duration) -> Infallible {
    let started = Instant::now();
    loop {
        tokio::time::sleep(NOTED_EVERY).await;
        // A full disk is reported by what cannot do without the record.
        if let Err(error) = store.note_used(session, used + started.elapsed()).await {
            tracing::debug!("the time used is not noted: {error}");
        }
    }
}

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
