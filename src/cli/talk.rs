//! Messages on standard error. A closed standard error must not end a session.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;

use crate::secrets;

/// Prints a line.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", showable(text));
}

/// Returns a text as a terminal may show it: without the secrets of the environment and without control sequences.
pub fn showable(text: &str) -> String {
    secrets::escape(&secrets::mask(text)).into_owned()
}

/// Prints the messages of our own panics in the same way.
pub fn say_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        say(&format!("{panic}{trace}"));
    }));
}
