//! How long a call of git has been running.
//!
//! libgit2 knows no time limit. It waits forever where a file that a repository names is a pipe, or on a disk that does
//! not answer, and its call cannot be interrupted. So the program watches it, and ends itself (`cli::unanswered`).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When the call began that runs now.
static SINCE: Mutex<Option<Instant>> = Mutex::new(None);

/// A call that runs as long as this value lives.
pub(super) struct Running {
    is_outermost: bool,
}

/// Notes that a call begins.
pub(super) fn begin() -> Running {
    let mut since = SINCE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_outermost = since.is_none();
    since.get_or_insert_with(Instant::now);
    Running { is_outermost }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_outermost {
            *SINCE.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Returns how long a call of git has been running. None if none runs.
pub fn running_for() -> Option<Duration> {
    SINCE.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
}
