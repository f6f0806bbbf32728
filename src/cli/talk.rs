//! Talk on standard error. A reader that has gone away must not end a session.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;

use crate::secrets;

/// Says a line.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", showable(text));
}

/// Returns a text as a terminal may show it: without the secrets of the environment, and without what would steer the terminal.
pub fn showable(text: &str) -> String {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let show = |c: char| if steers(c) { c.escape_default().to_string() } else { c.to_string() };
    let text = secrets::mask(text);
    if text.contains(steers) { text.chars().map(show).collect() } else { text.into_owned() }
}

/// Says what a panic of ours has to say in the same way.
pub fn say_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        say(&format!("{panic}{trace}"));
    }));
}
