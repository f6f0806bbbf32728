//! What all parts of a service share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::fleet::Fleet;
use super::folder::StateFolder;
use super::http::places::Places;
use super::metrics::Metrics;
use super::projects::Projects;
use super::schedule::Room;
use crate::store::queue::Queue;

/// A running service.
#[derive(Debug)]
pub struct App {
    /// The submissions.
    pub queue: Queue,
    /// The logs of the submissions.
    pub folder: StateFolder,
    /// The projects.
    pub projects: Projects,
    /// What the machine has room for.
    pub room: Room,
    /// The clock by which submissions wait.
    pub clock: Clock,
    /// The time after which a session that was cancelled is killed.
    pub cancel_timeout: Duration,
    /// The program that sessions are started with.
    pub exe: PathBuf,
    /// Its workers on other machines.
    pub fleet: Option<Fleet>,
    /// Changes with every change of a submission.
    pub changes: watch::Sender<u64>,
    /// True when the service stops.
    pub stopping: watch::Sender<bool>,
    /// Places for event streams.
    pub streams: Arc<Places>,
    /// Places for connections.
    pub connections: Arc<Places>,
    /// Figures for Prometheus.
    pub metrics: Arc<Metrics>,
}

impl App {
    /// Tells everybody who waits that a submission has changed.
    pub fn note_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

/// The clock by which submissions wait. It begins with the system's clock and runs on evenly: setting the system's clock
/// neither lengthens nor shortens a wait.
#[derive(Debug)]
pub struct Clock {
    began: SystemTime,
    running: Instant,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Self { began: SystemTime::now(), running: Instant::now() }
    }

    /// Returns the milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        let since = self.began.duration_since(UNIX_EPOCH).unwrap_or_default() + self.running.elapsed();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}
