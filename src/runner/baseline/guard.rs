//! Ends a program and everything it has started when optloop ends, however that happens.
//!
//! A baseline may be any command: it may ignore the end of its input, and it may have children. So `optloop guard --
//! COMMAND` leaves a watcher behind and becomes the command itself, with the same process ID, input and output. The
//! watcher lives in the same process group. It waits until the program is gone, or until no process can write to the
//! program's input any more. Then it kills the group. A program that makes its own process group escapes the guard.

use std::process::Command;
#[cfg(target_os = "linux")]
use std::process::Stdio;

#[cfg(target_os = "linux")]
use crate::runner::child;

/// How long a program may take to exit after its input has ended.
#[cfg(target_os = "linux")]
const GRACE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 2, tv_nsec: 0 };

/// Replaces this process with a program, and starts a watcher beside it. Returns only on an error.
#[cfg(target_os = "linux")]
pub fn become_program(command: &[String]) -> anyhow::Error {
    use std::os::unix::process::CommandExt;
    let watcher = std::env::current_exe().and_then(|exe| {
        let mut watcher = Command::new(exe);
        watcher.args(["guard", "--watch", &std::process::id().to_string()]);
        // The watcher inherits the input only to see its end. Output must end with the program.
        watcher.stdin(Stdio::inherit()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    });
    match (watcher, command.split_first()) {
        (Err(error), _) => anyhow::anyhow!("the baseline's guard cannot be started: {error}"),
        (Ok(_), None) => anyhow::anyhow!("the baseline's command is empty"),
        (Ok(_), Some((program, arguments))) => {
            let error = Command::new(program).args(arguments).exec();
            anyhow::anyhow!("`{program}` cannot be run: {error}")
        }
    }
}

/// Runs the program unguarded: other systems have no means to watch it.
#[cfg(not(target_os = "linux"))]
pub fn become_program(command: &[String]) -> anyhow::Error {
    let Some((program, arguments)) = command.split_first() else {
        return anyhow::anyhow!("the baseline's command is empty");
    };
    match Command::new(program).args(arguments).status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => anyhow::anyhow!("`{program}` cannot be run: {error}"),
    }
}

/// Waits until the program is gone or no process can write to this one's input, and kills what is left.
#[cfg(target_os = "linux")]
pub fn watch(program: i32) -> anyhow::Result<()> {
    use rustix::event::{PollFd, PollFlags};
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, kill_current_process_group, kill_process, pidfd_open};

    // The watcher must outlive optloop, whichever process was told to stop.
    child::outlast_stops();
    let Some(program) = Pid::from_raw(program) else { anyhow::bail!("{program} is no process") };
    let stdin = std::io::stdin();
    // Only the end of the input matters, and `poll` always reports that.
    let input = PollFd::new(&stdin, PollFlags::empty());
    match pidfd_open(program, PidfdFlags::empty()) {
        Ok(program) => {
            wait(&mut [input, PollFd::new(&program, PollFlags::IN)], None)?;
            // A program that has already ended is not waited for.
            wait(&mut [PollFd::new(&program, PollFlags::IN)], Some(&GRACE))?;
        }
        // The program has already ended.
        Err(Errno::SRCH) => {}
        // Old kernels lack pidfds, and sandboxes may forbid them. Only the input is left to watch then.
        Err(_) => {
            wait(&mut [input], None)?;
            wait(&mut [], Some(&GRACE))?;
        }
    }
    if getpgrp() == program {
        // Kills the program, its children and this process.
        kill_current_process_group(Signal::KILL)?;
    }
    // Started by hand in another process group. The program may be gone.
    let _ = kill_process(program, Signal::KILL);
    Ok(())
}

/// Waits for one of several events, and ignores signals in between.
#[cfg(target_os = "linux")]
fn wait(either: &mut [rustix::event::PollFd<'_>], patience: Option<&rustix::time::Timespec>) -> rustix::io::Result<()> {
    loop {
        match rustix::event::poll(either, patience) {
            Err(rustix::io::Errno::INTR) => {}
            told => return told.map(|_| ()),
        }
    }
}

/// Does nothing: only Linux has a watcher.
#[cfg(not(target_os = "linux"))]
pub fn watch(_program: i32) -> anyhow::Result<()> {
    anyhow::bail!("programs are watched on Linux only")
}
