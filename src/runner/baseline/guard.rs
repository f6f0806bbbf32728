//! Sees to it that a program and all that it has started end when optloop does, however that ends.
//!
//! A baseline may be any command: it may ignore the end of its input, and it may have children. So `optloop guard -- COMMAND`
//! leaves a watcher behind and becomes the command itself, with the same number, input and output. The watcher lives in the same
//! process group and waits for one of two things: that nobody is left to write to the program's input, or that the program is
//! gone. Then it kills the group. A program that makes a group of its own leaves its guard behind.

use std::process::Command;
#[cfg(target_os = "linux")]
use std::process::Stdio;

#[cfg(target_os = "linux")]
use crate::runner::child;

/// How long a program may take to end by itself once its input has ended.
#[cfg(target_os = "linux")]
const GRACE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 2, tv_nsec: 0 };

/// Becomes a program, with a watcher beside it. Returns only what is wrong.
#[cfg(target_os = "linux")]
pub fn become_program(command: &[String]) -> anyhow::Error {
    use std::os::unix::process::CommandExt;
    let watcher = std::env::current_exe().and_then(|exe| {
        let mut watcher = Command::new(exe);
        watcher.args(["guard", "--watch", &std::process::id().to_string()]);
        // The input is shared for its end only. What the program says must end with the program.
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

/// Elsewhere there is nothing to watch with: the program is on its own.
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

/// Waits until the program is gone, or nobody is left who could write to this process's input, and kills what is left.
#[cfg(target_os = "linux")]
pub fn watch(program: i32) -> anyhow::Result<()> {
    use rustix::event::{PollFd, PollFlags};
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, kill_current_process_group, kill_process, pidfd_open};

    // It has to be there when optloop is gone, whoever was told to stop.
    child::outlast_stops();
    let Some(program) = Pid::from_raw(program) else { anyhow::bail!("{program} is no process") };
    let stdin = std::io::stdin();
    // Of the input only its end is of interest: that is always told.
    let input = PollFd::new(&stdin, PollFlags::empty());
    match pidfd_open(program, PidfdFlags::empty()) {
        Ok(program) => {
            wait(&mut [input, PollFd::new(&program, PollFlags::IN)], None)?;
            // One that has ended by now is not waited for.
            wait(&mut [PollFd::new(&program, PollFlags::IN)], Some(&GRACE))?;
        }
        // It has ended by now.
        Err(Errno::SRCH) => {}
        // Old kernels have no such thing, and sandboxes may not allow it: then there is the input alone.
        Err(_) => {
            wait(&mut [input], None)?;
            wait(&mut [], Some(&GRACE))?;
        }
    }
    if getpgrp() == program {
        // Everybody, the program's children and this process.
        kill_current_process_group(Signal::KILL)?;
    }
    // Called by hand, in somebody else's group. It may be gone.
    let _ = kill_process(program, Signal::KILL);
    Ok(())
}

/// Waits for one of several things, whatever signals come in between.
#[cfg(target_os = "linux")]
fn wait(either: &mut [rustix::event::PollFd<'_>], patience: Option<&rustix::time::Timespec>) -> rustix::io::Result<()> {
    loop {
        match rustix::event::poll(either, patience) {
            Err(rustix::io::Errno::INTR) => {}
            told => return told.map(|_| ()),
        }
    }
}

/// There is no watcher elsewhere.
#[cfg(not(target_os = "linux"))]
pub fn watch(_program: i32) -> anyhow::Result<()> {
    anyhow::bail!("programs are watched on Linux only")
}
