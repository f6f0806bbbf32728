//! Confines a child process before it handles untrusted text.
//!
//! Compilers and renderers compute: text in, text out. They need no network, no other program, and no file but the CUDA
//! headers. Three mechanisms of Linux deny everything else. Each works where the kernel and the container allow it, and
//! each backs up the others:
//!
//! - **namespaces**: the process sees an empty file system, in which only the headers are mounted, and no network.
//! - **Landlock**: it may read the headers and open, create or execute no other file. It reaches no TCP port and
//!   signals no other process.
//! - **seccomp**: the kernel refuses every system call that a computation does not need.
//!
//! `optloop doctor` reports which of them work on a machine. docs/security.md describes the consequences of a missing
//! one.

#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod seccomp;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The mechanisms that confine a process. An error says in a few words why one does not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The process sees no file system and no network but its own.
    pub namespaces: Result<(), String>,
    /// The kernel checks each path against the list of what it may read.
    pub landlock: Result<(), String>,
    /// The kernel refuses system calls that are not on a list.
    pub seccomp: Result<(), String>,
}

impl Confinement {
    /// Lists the mechanisms that work, and why the others do not.
    pub fn describe(&self) -> String {
        let each = [("namespaces", &self.namespaces), ("Landlock", &self.landlock), ("seccomp", &self.seccomp)];
        let words = each.map(|(name, held)| match held {
            Ok(()) => name.to_owned(),
            Err(reason) => format!("no {name} ({reason})"),
        });
        words.join(", ")
    }

    /// Tells whether files and the network are out of reach: by either of two mechanisms.
    pub fn holds(&self) -> bool {
        self.namespaces.is_ok() || self.landlock.is_ok()
    }
}

/// The files that a confined program may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files and folders that it may read and execute.
    pub readable: Vec<PathBuf>,
    /// Files and folders that it may also write.
    pub writable: Vec<PathBuf>,
    /// What it reaches over the network. None for a program that only computes.
    pub network: Option<Network>,
}

/// What a program that converses reaches over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// A server of TCP at this port, and nothing else.
    Port(u16),
    /// Every address of the internet protocol. No local service that acts for its callers: those listen on local sockets.
    All,
}

/// Permanently confines this process and everything that it will start to the files and the network of a [`Reach`].
///
/// Call this while the process has one thread. A program keeps the file system of the machine, so this takes Landlock
/// and seccomp alone.
#[cfg(target_os = "linux")]
pub fn to_reach(reach: &Reach) -> Confinement {
    let namespaces = Err("a program keeps the machine's file system".to_owned());
    // Without capabilities, root is a user like others. With them it could read the memory and the environment of any
    // process, which Landlock alone does not prevent (CAP_PERFMON, Linux 6.18). A process without any drops none.
    let _ = capabilities::keep_those_for_files();
    let landlock = landlock::allow(reach).map_err(String::from);
    Confinement { namespaces, landlock, seccomp: deny_reaching_out(reach.network).map_err(String::from) }
}

/// Confines nothing: only Linux has the mechanisms.
#[cfg(not(target_os = "linux"))]
pub fn to_reach(_reach: &Reach) -> Confinement {
    let none = || Err("it needs Linux".to_owned());
    Confinement { namespaces: none(), landlock: none(), seccomp: none() }
}

/// Permanently confines this process to computing. It may still read `folder` and use the pipes that it has open.
///
/// Returns the new path of `folder`, and the mechanisms that work. Call this while the process has one thread: a
/// namespace is refused to a process with several, and a thread that runs already would not be confined.
#[cfg(target_os = "linux")]
pub fn compute_only(folder: Option<&Path>) -> (Option<PathBuf>, Confinement) {
    let namespaces = namespaces::enter(folder);
    let folder = match &namespaces {
        Ok(moved) => moved.clone(),
        Err(_) => folder.map(Path::to_owned),
    };
    // Relative paths lead into the folder or, where the folder is not needed, to nothing of interest.
    let _ = std::env::set_current_dir(folder.as_deref().unwrap_or(Path::new("/")));
    let namespaces = namespaces.map(|_| ()).map_err(String::from);
    let landlock = landlock::allow_reading(folder.as_deref()).map_err(String::from);
    (folder, Confinement { namespaces, landlock, seccomp: allow_computing().map_err(String::from) })
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use seccomp::{allow_computing, deny_reaching_out};

#[cfg(all(target_os = "linux", not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn allow_computing() -> crate::error::Result<()> {
    Err(crate::error::Error::new("optloop has no list of system calls for this processor"))
}

#[cfg(all(target_os = "linux", not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn deny_reaching_out(_: Option<Network>) -> crate::error::Result<()> {
    allow_computing()
}

/// Confines nothing: only Linux has the mechanisms.
#[cfg(not(target_os = "linux"))]
pub fn compute_only(folder: Option<&Path>) -> (Option<PathBuf>, Confinement) {
    let none = || Err("it needs Linux".to_owned());
    (folder.map(Path::to_owned), Confinement { namespaces: none(), landlock: none(), seccomp: none() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_mechanism_is_named_with_the_reason() {
        let mut found = Confinement { namespaces: Err("not permitted".to_owned()), landlock: Ok(()), seccomp: Ok(()) };
        assert_eq!(found.describe(), "no namespaces (not permitted), Landlock, seccomp");
        assert!(found.holds());
        found.landlock = Err("not in this kernel".to_owned());
        assert!(!found.holds());
    }
}
