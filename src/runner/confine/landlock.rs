//! File and network access of a process, limited by Landlock (landlock(7)).

use std::path::Path;

use super::{Network, Reach};
use crate::error::{Error, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

/// The newest rules requested: files and devices, TCP, signals and abstract sockets (Linux 6.12). An older kernel
/// enforces those that it supports.
const NEWEST: ABI = ABI::V6;

/// Denies this process all files but those below `folder`, which it may read, and all TCP ports.
pub fn allow_reading(folder: Option<&Path>) -> Result<()> {
    restrict(folder, AccessFs::ReadFile | AccessFs::ReadDir, None::<&Path>, None)
}

/// Denies this process and everything that it will start all files and TCP ports except those of a [`Reach`]. It may execute
/// what it may read, and use devices. It never listens.
pub fn allow(reach: &Reach) -> Result<()> {
    restrict(&reach.readable, AccessFs::from_read(NEWEST), &reach.writable, reach.network)
}

/// Paths that do not exist are left out.
fn restrict<P: AsRef<Path>, Q: AsRef<Path>>(
    readable: impl IntoIterator<Item = P>,
    reading: BitFlags<AccessFs>,
    writable: impl IntoIterator<Item = Q>,
    network: Option<Network>,
) -> Result<()> {
    let (denied, port) = match network {
        None => (AccessNet::from_all(NEWEST), None),
        Some(Network::Port(port)) => (AccessNet::from_all(NEWEST), Some(port)),
        Some(Network::All) => (AccessNet::BindTcp.into(), None),
    };
    let enforce = || {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(denied)?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        let rules =
            rules.add_rules(port.map(|port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp))))?;
        let rules = rules.add_rules(path_beneath_rules(readable, reading))?;
        rules.add_rules(path_beneath_rules(writable, AccessFs::from_all(NEWEST)))?.restrict_self()
    };
    let status = enforce().map_err(|error: RulesetError| Error::new(error))?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(Error::new("this kernel has none, or it is switched off")),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}
