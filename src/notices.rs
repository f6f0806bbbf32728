//! Messages on standard error. A closed standard error must not end a session.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;

use crate::secrets;

/// The live view, while a terminal shows one.
static VIEW: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Prints a line, above the live view if there is one.
pub fn say(text: &str) {
    match &*VIEW.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(view) => view.println(showable(text)),
        None => drop(writeln!(std::io::stderr(), "{}", showable(text))),
    }
}

/// Prints lines above this live view from now on, or where they were printed before if there is none any more. What is
/// written past the view would be erased by its next frame.
pub fn print_above(view: Option<ProgressBar>) {
    *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = view.filter(|view| !view.is_hidden());
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
