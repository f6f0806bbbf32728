//! File and network access of a process, limited by Landlock (landlock(7)).

use std::path::Path;

use super::Reach;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};

/// The newest rules requested: files and devices, TCP, signals and abstract sockets (Linux 6.12). An older kernel
/// enforces those that it supports.
const NEWEST: ABI = ABI::V6;

/// Denies this process all files but those below `folder`, which it may read, and all TCP ports.
pub fn allow_reading(folder: Option<&Path>) -> Result<(), String> {
    restrict(folder, AccessFs::ReadFile | AccessFs::ReadDir, None::<&Path>)
}

/// Denies this process and everything that it will start all files except those of a [`Reach`], and all TCP ports. It
/// may execute what it may read, and use devices.
pub fn allow(reach: &Reach) -> Result<(), String> {
    restrict(&reach.readable, AccessFs::from_read(NEWEST), &reach.writable)
}

/// Paths that do not exist are left out.
fn restrict<P: AsRef<Path>, Q: AsRef<Path>>(
    readable: impl IntoIterator<Item = P>,
    reading: BitFlags<AccessFs>,
    writable: impl IntoIterator<Item = Q>,
) -> Result<(), String> {
    let enforce = || {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        let rules = rules.add_rules(path_beneath_rules(readable, reading))?;
        rules.add_rules(path_beneath_rules(writable, AccessFs::from_all(NEWEST)))?.restrict_self()
    };
    let status = enforce().map_err(|error: RulesetError| error.to_string())?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel has none, or it is switched off".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}
