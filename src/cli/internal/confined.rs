//! `optloop confined`: becomes a program that reaches few files, and no network or little of it.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::notices::say;
use crate::runner::confine::{self, Network, Reach};

/// Arguments of `optloop confined`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file or folder that the program may read and execute (repeat for more)
    #[arg(long = "read", value_name = "PATH")]
    readable: Vec<PathBuf>,

    /// A file or folder that the program may also write (repeat for more)
    #[arg(long = "write", value_name = "PATH")]
    writable: Vec<PathBuf>,

    /// A port of TCP that the program may connect to
    #[arg(long, value_name = "PORT", conflicts_with = "network")]
    port: Option<u16>,

    /// The program may connect to any address of the internet protocol
    #[arg(long)]
    network: bool,

    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The exit code with which shells report that a program cannot be run.
const NOT_RUN: u8 = 127;

/// Confines this process and becomes the program. Returns only if that fails.
#[cfg(unix)]
pub fn run(args: &Args) -> ExitCode {
    use std::os::unix::process::CommandExt;
    let Some((program, arguments)) = args.command.split_first() else { return ExitCode::from(NOT_RUN) };
    // A program that reaches the terminal can type into it.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setsid();
    // What does not hold here is no error: `optloop doctor` reports it.
    let network = if args.network { Some(Network::All) } else { args.port.map(Network::Port) };
    confine::to_reach(&Reach { readable: args.readable.clone(), writable: args.writable.clone(), network });
    let error = std::process::Command::new(program).args(arguments).exec();
    say(&format!("`{program}` cannot be run: {error}"));
    ExitCode::from(NOT_RUN)
}

/// Refuses to run anything: only Unix systems can replace a process.
#[cfg(not(unix))]
pub fn run(_args: &Args) -> ExitCode {
    say("programs are confined on Unix systems only");
    ExitCode::from(NOT_RUN)
}
