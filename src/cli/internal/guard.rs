//! `optloop guard`: runs a program that must not outlive optloop.

use std::process::ExitCode;

use crate::notices::say;
use crate::runner::baseline::guard;

/// Arguments of `optloop guard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The exit code with which shells report that a program cannot be run.
const NOT_RUN: u8 = 127;

/// Runs the program until it or its time is over. Its exit code is the guard's.
pub fn run(args: &Args) -> ExitCode {
    match guard::run(&args.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Reported as the program's last message.
            say(&format!("{error:#}"));
            ExitCode::from(NOT_RUN)
        }
    }
}
