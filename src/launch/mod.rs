//! Builds the parts of what a verb runs: the workload, the devices, the proposer, the store, the compiler and the evaluator's
//! instruments. The verbs of `cli/` parse arguments, call this and print.

pub mod armed;
pub mod compiler;
pub mod consent;
pub mod devices;
pub mod fleet;
pub mod instruments;
pub mod known;
mod lanes;
pub mod models;
pub mod options;
pub mod parts;
pub mod peaks;
pub mod preflight;
mod preparation;
pub mod project_store;
pub mod replayed;
pub mod request;
pub mod target;
#[cfg(feature = "fleet")]
pub mod workers;

use std::path::PathBuf;

use anyhow::Context;

/// Returns the executable that child processes start from.
pub fn own_executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("Failed to find optloop's own executable")
}
