//! Ends the program when git does not answer.
//!
//! A call of git that waits for a pipe, or for a disk that does not answer, cannot be interrupted. Nothing is lost when the
//! program ends in the middle of it: that is what a kill would do, and a session is resumed.

use std::process::exit;
use std::thread;
use std::time::Duration;

use crate::cli::signals;
use crate::notices::say;
use crate::runner::descendants;
use crate::vcs;

/// The longest call of git before a request to stop, after one, and after more. A walk through a long history takes
/// minutes.
const LIMITS: [Duration; 3] = [Duration::from_secs(600), Duration::from_secs(10), Duration::from_secs(2)];

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Watches the calls of git from now on.
pub fn watch() {
    thread::spawn(|| {
        loop {
            thread::sleep(PAUSE);
            let limit = LIMITS[(signals::requests() as usize).min(LIMITS.len() - 1)];
            if vcs::running_for().is_some_and(|time| time > limit) {
                say(&format!(
                    "error: git has not answered for {}: a file that its repository names is a pipe, or on a disk that does \
                     not answer; `optloop resume` continues a session that this ended",
                    humantime::format_duration(limit)
                ));
                descendants::end();
                exit(1);
            }
        }
    });
}
