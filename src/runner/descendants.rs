//! Ends every process that descends from this one, even if it has tried to detach itself.
//!
//! A process that makes its own group or session, or whose parent ends, still descends from a subreaper: the system
//! gives it to the nearest one above it. So a subreaper can find and end everything that it has started.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process has become a subreaper.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of all its descendants that lose theirs.
pub fn adopt() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    ADOPTS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Kills all descendants, if this process has adopted those that lose their parent. Returns when they have exited, or
/// after some seconds: a process in the middle of a system call may not end at once.
pub fn end() {
    #[cfg(target_os = "linux")]
    if ADOPTS.load(Ordering::Relaxed) {
        linux::end();
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeSet, HashMap};
    use std::fs;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, getpid, kill_process};

    /// The longest time to wait for processes that were killed.
    const TIMEOUT: Duration = Duration::from_secs(5);

    /// The time between two checks.
    const PAUSE: Duration = Duration::from_millis(2);

    pub fn end() {
        let deadline = Instant::now() + TIMEOUT;
        let mut frozen = BTreeSet::new();
        while Instant::now() < deadline {
            let alive = descendants();
            let is_new = |pid: &&i32| !frozen.contains(*pid);
            let new: Vec<i32> = alive.iter().filter(is_new).copied().collect();
            if alive.is_empty() {
                return;
            }
            if new.is_empty() {
                // All of them are stopped, so none can start another.
                alive.iter().for_each(|pid| send(*pid, Signal::KILL));
                frozen.clear();
                std::thread::sleep(PAUSE);
            } else {
                new.iter().for_each(|pid| send(*pid, Signal::STOP));
                frozen.extend(new);
            }
        }
        descendants().iter().for_each(|pid| send(*pid, Signal::KILL));
    }

    fn send(pid: i32, signal: Signal) {
        // It may have exited.
        let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
    }

    /// Returns the living descendants of this process.
    fn descendants() -> Vec<i32> {
        let mut children: HashMap<i32, Vec<(i32, bool)>> = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Some((parent, lives)) = status(pid) else { continue };
            children.entry(parent).or_default().push((pid, lives));
        }
        let (mut found, mut above) = (Vec::new(), vec![getpid().as_raw_nonzero().get()]);
        while let Some(parent) = above.pop() {
            for (pid, lives) in children.remove(&parent).unwrap_or_default() {
                above.push(pid);
                found.extend(lives.then_some(pid));
            }
        }
        found
    }

    /// Returns a process's parent, and whether it is alive.
    fn status(pid: i32) -> Option<(i32, bool)> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain any characters. The state and the parent follow it.
        let mut rest = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = rest.next()?;
        Some((rest.next()?.parse().ok()?, !matches!(state, "Z" | "X")))
    }
}
