//! The capabilities of this process (capabilities(7)). Only root has any, and the owner of a user namespace.

use rustix::io;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// What root needs to use files of other users and to pin memory, as any program of root's may. Priorities are not among it:
/// that capability is one over all processes.
const FOR_FILES: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH).union(CapabilitySet::IPC_LOCK);

/// Gives up every capability.
pub fn drop_all() -> io::Result<()> {
    keep(CapabilitySet::empty())
}

/// Gives up every capability but those for files. A program that this process becomes cannot gain others, because
/// Landlock and seccomp forbid new privileges.
pub fn keep_those_for_files() -> io::Result<()> {
    keep(FOR_FILES)
}

fn keep(kept: CapabilitySet) -> io::Result<()> {
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets { effective: effective & kept, permitted: permitted & kept, inheritable: none },
    )
}
