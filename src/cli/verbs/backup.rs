//! `optloop backup`: copies the store, even while a session writes to it.

use std::io::Write;
use std::path::PathBuf;

use crate::cli::terminal::listing::print_json;
use crate::error::usage;
use crate::report::format::counted;
use crate::store::{Copied, Store, StoreError};

/// Arguments of `optloop backup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Path of the copy, which must not exist yet
    file: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Copies the store and prints the copy's size.
pub async fn run(args: &Args, store: &Store, out: &mut impl Write) -> anyhow::Result<()> {
    let Copied { bytes, sessions } = store.backup(&args.file).await.map_err(|error| match error {
        mistake @ (StoreError::Exists(_) | StoreError::NoFolder(_)) => usage(mistake),
        other => other.into(),
    })?;
    if args.json {
        return print_json(&serde_json::json!({ "file": args.file, "bytes": bytes, "sessions": sessions }), out);
    }
    let mib = bytes as f64 / (1 << 20) as f64;
    let sessions = counted(sessions, "session");
    writeln!(out, "{}: {sessions}, {mib:.1} MiB, integrity check ok", args.file.display())?;
    Ok(())
}
