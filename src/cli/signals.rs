//! Requests to stop, from the keyboard or the system.

use tokio::sync::watch;

use super::talk::say;
use crate::session::Interrupt;

/// Counts Ctrl-C and SIGTERM: the first asks the session to finish the iteration in flight, the second to abandon it.
pub fn listen() -> Interrupt {
    let (requests, seen) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            interrupted().await;
            requests.send_modify(|count| *count += 1);
            if *requests.borrow() == 1 {
                say("finishing the iteration in flight; once more to abandon it");
            }
        }
    });
    Interrupt::new(seen)
}

/// Waits for the next request to stop: Ctrl-C, SIGTERM, or a terminal that goes away.
#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut hangup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup())) else {
        return drop(tokio::signal::ctrl_c().await);
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    drop(tokio::signal::ctrl_c().await);
}
