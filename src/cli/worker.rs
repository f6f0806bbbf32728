//! `optloop worker`: holds a device for a session.

use crate::runner::device::DeviceChoice;
use crate::runner::fake_worker::serve_fake;
use crate::runner::worker::serve;

/// Arguments of `optloop worker`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device to open
    #[arg(long)]
    device: DeviceChoice,
}

/// Serves until standard input ends.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.device {
        DeviceChoice::Fake(number) => serve_fake(*number),
        device => serve(device),
    }
}
