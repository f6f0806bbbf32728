//! Errors for the user: one sentence on standard error, and an exit code.

use std::process::ExitCode;

use crate::domain::toml_text::one_line;

/// A usage error, on the command line or in the project's files: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Marks an error as a usage error.
pub fn usage(error: impl Into<anyhow::Error>) -> anyhow::Error {
    Usage(format!("{:#}", error.into())).into()
}

/// Marks a sentence as a usage error.
pub fn usage_sentence(sentence: impl std::fmt::Display) -> anyhow::Error {
    Usage(sentence.to_string()).into()
}

/// Reports a command line that clap cannot parse like the other usage errors: in one sentence, with its hint.
pub fn report_clap(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion) {
        error.exit();
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<&str> =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
    super::talk::say(&format!("{}; run it with `--help` for a list", said.join(" ").replace(" tip: ", "; ")));
    ExitCode::from(2)
}

/// Reports an error and returns the exit code. A closed pipe on standard output is not an error.
pub fn report_error(error: &anyhow::Error) -> ExitCode {
    let closed_pipe = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    if closed_pipe.into_iter().any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // One line, even if a quoted name has several.
    super::talk::say(&one_line(format!("error: {error:#}").trim_end().to_owned()));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}
