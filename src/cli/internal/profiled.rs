//! `optloop profiled`: launches a plan for a profiler.

use std::path::PathBuf;

use crate::runner::device::DeviceChoice;
use crate::runner::profiled;

/// Arguments of `optloop profiled`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device to open
    #[arg(long)]
    device: DeviceChoice,

    /// File with the request
    #[arg(long)]
    request: PathBuf,
}

/// Launches the plan of the request.
pub fn run(args: &Args) -> anyhow::Result<()> {
    profiled::run(&args.device, &args.request)
}
