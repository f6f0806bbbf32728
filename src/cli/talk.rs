//! Talk on standard error. A reader that has gone away must not end a session.

use std::io::Write;

/// Says a line.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
