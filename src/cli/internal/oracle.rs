//! `optloop oracle`: holds a device for an oracle in CUDA.

use crate::runner::device::DeviceChoice;
use crate::runner::oracle::serve;

/// Arguments of `optloop oracle`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device to open
    #[arg(long)]
    device: DeviceChoice,
}

/// Serves until standard input ends.
pub fn run(args: &Args) -> anyhow::Result<()> {
    serve(&args.device)
}
