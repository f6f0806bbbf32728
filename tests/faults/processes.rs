//! Processes by their numbers, through the kernel's own files.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

/// A process to be watched. It stays that one, even if its number is given to another.
pub struct Watched(OwnedFd);

impl Watched {
    /// Watches a process that is there.
    pub fn new(pid: u32) -> Self {
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        Self(pidfd_open(pid, PidfdFlags::empty()).unwrap())
    }

    /// Waits until it has ended; tells whether it did, within half a minute.
    pub fn ends(&self) -> bool {
        let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&patience)).unwrap() == 1
    }
}

/// Returns the numbers of the children of a process, each with its command line.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let of_parent = processes.filter_map(|name| name.parse::<u32>().ok()).filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in brackets may have spaces; behind it come the state and the parent.
        let parent_of = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent_of == Some(&parent.to_string())
    });
    of_parent
        .map(|pid| (pid, fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")))
        .collect()
}
