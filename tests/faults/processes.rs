//! Processes by their IDs, through the kernel's own files.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

/// A watched process. The handle keeps its identity, even if its ID is reused.
pub struct Watched(OwnedFd);

impl Watched {
    /// Watches a process, if it still exists.
    pub fn new(pid: u32) -> Option<Self> {
        match pidfd_open(Pid::from_raw(pid.cast_signed()).unwrap(), PidfdFlags::empty()) {
            Ok(process) => Some(Self(process)),
            Err(Errno::SRCH) => None,
            Err(error) => panic!("{pid} cannot be watched: {error}"),
        }
    }

    /// Waits for up to half a minute until it has ended. Returns whether it has.
    pub fn ends(&self) -> bool {
        let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&patience)).unwrap() == 1
    }
}

/// Watches the children of a process, each with its command line. Children that end meanwhile are omitted.
pub fn watch_children(parent: u32) -> Vec<(Watched, String)> {
    children(parent).into_iter().filter_map(|(pid, command)| Some((Watched::new(pid)?, command))).collect()
}

/// Returns the IDs of the children of a process, each with its command line.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let of_parent = processes.filter_map(|name| name.parse::<u32>().ok()).filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in brackets may contain spaces; the state and the parent follow it.
        let parent_of = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent_of == Some(&parent.to_string())
    });
    of_parent
        .map(|pid| (pid, fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")))
        .collect()
}
