//! The `optloop` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    optloop::cli::main()
}
