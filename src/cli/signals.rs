//! Requests to stop, from the keyboard or the system.
//!
//! They are counted from the first time that anything asks for them, until the program ends. So none is lost between two steps.

use std::sync::OnceLock;

use tokio::sync::watch;

use crate::notices::say;
use crate::session::Interrupt;

/// The number of requests so far.
static REQUESTS: OnceLock<watch::Receiver<u32>> = OnceLock::new();

/// Returns how often the user or the system has asked to stop.
pub fn requests() -> u32 {
    REQUESTS.get().map_or(0, |requests| *requests.borrow())
}

/// The user or the system stopped what was being done.
#[derive(Debug, thiserror::Error)]
#[error("it was interrupted")]
pub struct Stopped;

/// Counts Ctrl-C, SIGTERM and SIGHUP. The first asks the session to finish the iteration in flight, the second to
/// abandon it. `winners` says what becomes of the winners.
pub fn listen(winners: &'static str) -> Interrupt {
    let mut seen = counted();
    let interrupt = Interrupt::new(seen.clone());
    tokio::spawn(async move {
        if seen.wait_for(|count| *count >= 1).await.is_ok() {
            say(&format!(
                "stopping after the iteration in flight: its result is kept, {winners}, and the report is written; \
                 interrupt again to abandon that iteration"
            ));
        }
        if seen.wait_for(|count| *count >= 2).await.is_ok() {
            say(&format!(
                "abandoning the iteration in flight: only its result is lost, {winners}, and the report is written"
            ));
        }
    });
    interrupt
}

/// Runs a future until it is done or the user asks to stop. Then drops it, with its processes and folders.
pub async fn or_stop<T>(what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = what => done,
        () = requested() => Err(Stopped.into()),
    }
}

/// Waits until the user or the system asks to stop, if neither has yet.
pub async fn requested() {
    if counted().wait_for(|count| *count >= 1).await.is_err() {
        std::future::pending().await
    }
}

/// Returns the number of requests, and counts them from now on. From now on none of them ends the program by itself.
fn counted() -> watch::Receiver<u32> {
    let count = || {
        let mut signals = Signals::listen();
        let (count, counted) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                signals.next().await;
                count.send_modify(|count| *count = u32::saturating_add(*count, 1));
            }
        });
        counted
    };
    REQUESTS.get_or_init(count).clone()
}

/// The signals that ask to stop.
#[cfg(unix)]
struct Signals(Vec<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Signals {
    /// Listens from now on. A signal that cannot be listened to keeps its default effect.
    fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Self(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    /// Waits for the next request to stop.
    async fn next(&mut self) {
        let waiting = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures::future::select_all(waiting).await;
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> Self {
        Self
    }

    async fn next(&mut self) {
        drop(tokio::signal::ctrl_c().await);
    }
}
