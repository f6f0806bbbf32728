//! `optloop guard`: runs a program that must not outlive optloop.

use std::process::ExitCode;

use super::talk::say;
use crate::runner::baseline::guard;

/// Arguments of `optloop guard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Watch the process with this id instead (started by a guard)
    #[arg(long, value_name = "PROCESS")]
    watch: Option<i32>,

    /// Program and its arguments
    #[arg(last = true, required_unless_present = "watch")]
    command: Vec<String>,
}

/// The exit code with which shells report that a program cannot be run.
const NOT_RUN: u8 = 127;

/// Becomes the program. Returns only if that fails.
pub fn run(args: &Args) -> ExitCode {
    let ended = match args.watch {
        Some(program) => guard::watch(program),
        None => Err(guard::become_program(&args.command)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Reported as the program's last message.
            say(&error.to_string());
            ExitCode::from(NOT_RUN)
        }
    }
}
