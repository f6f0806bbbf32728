//! `optloop compiler`: holds NVRTC for a session.

use std::path::PathBuf;

use crate::runner::compile::serve;

/// Arguments of `optloop compiler`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Path of libnvrtc.so
    #[arg(long)]
    nvrtc: PathBuf,

    /// Path of libnvrtc-builtins.so
    #[arg(long)]
    builtins: PathBuf,

    /// Folder of the CUDA headers
    #[arg(long)]
    include: PathBuf,

    /// Maximum address space
    #[arg(long)]
    memory_bytes: u64,
}

/// Serves until standard input ends.
pub fn run(args: &Args) -> anyhow::Result<()> {
    serve(&args.nvrtc, &args.builtins, &args.include, args.memory_bytes)
}
