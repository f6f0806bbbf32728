//! Requests to stop, from the keyboard or the system.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::notices::say;
use crate::session::Interrupt;

/// Requests to stop since the first look out for them.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// Returns how often the user or the system has asked to stop.
pub fn requests() -> usize {
    REQUESTS.load(Ordering::Relaxed)
}

/// The user or the system stopped what was being done.
#[derive(Debug, thiserror::Error)]
#[error("it was interrupted")]
pub struct Stopped;

/// Counts Ctrl-C, SIGTERM and SIGHUP. The first asks the session to finish the iteration in flight, the second to
/// abandon it. `winners` says what becomes of the winners.
pub fn listen(winners: &'static str) -> Interrupt {
    let (requests, seen) = watch::channel(0);
    let mut signals = Signals::listen();
    tokio::spawn(async move {
        loop {
            signals.next().await;
            requests.send_modify(|count| *count = u32::saturating_add(*count, 1));
            match *requests.borrow() {
                1 => say(&format!(
                    "stopping after the iteration in flight: its result is kept, {winners}, and the report is written; \
                     interrupt again to abandon that iteration"
                )),
                2 => say(&format!(
                    "abandoning the iteration in flight: only its result is lost, {winners}, and the report is written"
                )),
                _ => {}
            }
        }
    });
    Interrupt::new(seen)
}

/// Runs a future until it is done or the user asks to stop. Then drops it, with its processes and folders.
pub async fn or_stop<T>(what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut signals = Signals::listen();
    tokio::select! {
        done = what => done,
        () = signals.next() => Err(Stopped.into()),
    }
}

/// Waits until the user or the system asks to stop.
pub async fn requested() {
    Signals::listen().next().await;
}

/// The signals that ask to stop. From now on none of them ends the program by itself.
#[cfg(unix)]
struct Signals(Vec<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Signals {
    /// Listens from now on. A signal that cannot be listened to keeps its default effect.
    fn listen() -> Self {
        static COUNTING: Once = Once::new();
        COUNTING.call_once(|| {
            let mut signals = Self::all();
            tokio::spawn(async move {
                loop {
                    signals.next().await;
                    REQUESTS.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        Self::all()
    }

    fn all() -> Self {
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
