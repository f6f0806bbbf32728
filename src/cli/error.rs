//! Errors for the user: one sentence on standard error, and an exit code.

use std::num::{IntErrorKind, ParseIntError};
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue};

use super::Arguments;
use crate::cli::signals::Stopped;
use crate::domain::text::names::did_you_mean;
use crate::domain::text::toml_text::one_line;
use crate::error::{Error, Kind};
use crate::locks::InUse;
use crate::runner::worker::WorkerError;
use crate::store::StoreError;

/// Explains a verb that does not exist. clap would suggest the hidden ones, too, which only sessions start.
fn unknown_verb(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let command = Arguments::command();
    let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    let hint = did_you_mean(verb, visible);
    Some(format!("error: there is no verb `{verb}`{hint}; run it with `--help` for a list"))
}

/// Explains a value that is no whole number, or one with a sign.
fn not_whole(error: &clap::Error) -> Option<String> {
    let problem: &ParseIntError = std::error::Error::source(error)?.downcast_ref()?;
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    let (argument, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let why = match problem.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "it is too large",
        _ => "use a whole number without a sign, such as 7",
    };
    Some(format!("error: invalid value '{value}' for '{argument}': {why}"))
}

/// Reports a command line that clap cannot parse like the other usage errors: in one sentence, with its hint.
pub fn report_clap(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion) {
        error.exit();
    }
    if let Some(explained) = unknown_verb(error).or_else(|| not_whole(error)) {
        crate::notices::say(&explained);
        return ExitCode::from(Kind::Usage.exit_code());
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<&str> =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
    crate::notices::say(&format!("{}; run it with `--help` for a list", said.join(" ").replace(" tip: ", "; ")));
    ExitCode::from(Kind::Usage.exit_code())
}

/// Returns why a verb failed. A number that is not on record is a mistake of the user, whichever verb gets it.
fn kind(error: &anyhow::Error) -> Kind {
    let is_unknown = |problem: &StoreError| {
        matches!(
            problem,
            StoreError::UnknownSession { .. } | StoreError::UnknownIteration { .. } | StoreError::Single { .. }
        )
    };
    match error {
        error if error.is::<InUse>() || matches!(error.downcast_ref(), Some(WorkerError::Taken(_))) => Kind::InUse,
        error if error.is::<Stopped>() => Kind::Interrupted,
        error if error.chain().any(|cause| cause.downcast_ref().is_some_and(is_unknown)) => Kind::Usage,
        error => error.downcast_ref().map_or(Kind::Failed, Error::kind),
    }
}

/// Reports an error and returns the exit code. A closed pipe on standard output is not an error.
pub fn report_error(error: &anyhow::Error) -> ExitCode {
    let closed_pipe = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    if closed_pipe.into_iter().any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // One line, even if a quoted name has several.
    crate::notices::say(&one_line(format!("error: {error:#}").trim_end().to_owned()));
    ExitCode::from(kind(error).exit_code())
}
