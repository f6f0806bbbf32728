//! Waits for other git processes, which hold the lock of a reference for some milliseconds.

use std::thread;
use std::time::Duration;

use git2::{Error, ErrorCode};

/// How often a lock is tried, which takes a second together. `git gc` and `git update-ref` hold one for some milliseconds.
pub(super) const TRIES: u32 = 20;
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Does what needs the lock of a reference, once no other process has that. If one keeps it, returns the error about it.
pub(super) fn patiently<T>(mut take: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..TRIES {
        match take() {
            Err(error) if error.code() == ErrorCode::Locked => thread::sleep(PAUSE),
            taken => return taken,
        }
    }
    take()
}
