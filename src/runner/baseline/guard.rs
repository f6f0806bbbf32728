//! Ends a program and everything it has started when optloop ends, however that happens.
//!
//! A baseline may be any command: it may ignore the end of its input, and it may have children, in groups and sessions
//! of their own. So `optloop guard -- COMMAND` starts the command with its own input and output, and stays its parent.
//! It waits until the program has exited, no process can write to the program's input any more, optloop has exited, or
//! a signal asks it to stop. Then it kills all of its descendants.

use std::process::Command;
#[cfg(target_os = "linux")]
use std::sync::mpsc;
#[cfg(target_os = "linux")]
use std::time::Duration;

use anyhow::{Context, bail};

#[cfg(target_os = "linux")]
use crate::runner::descendants;

/// How long a program may take to exit after its input has ended.
#[cfg(target_os = "linux")]
const GRACE: Duration = Duration::from_secs(2);

/// Why the guard stops.
#[cfg(target_os = "linux")]
#[derive(PartialEq, Eq)]
enum StopReason {
    /// The program has ended, with this exit code, as a shell reports it.
    Program(u8),
    /// No process can write to its input any more.
    Input,
    /// A signal asked it to stop. The system sends one when optloop exits.
    Signal,
}

/// What shells add to the number of the signal that has ended a program.
pub const SIGNAL_CODE: u8 = 128;

/// Runs a program until it ends or has to stop, and then kills all that is left of it. Returns its exit code, as a shell
/// reports it, or 0 if it had to stop.
#[cfg(target_os = "linux")]
pub fn run(command: &[String]) -> anyhow::Result<u8> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let (stop, stops) = mpsc::channel();
    listen(&stop)?;
    // The program could hold its own input open. So a second mechanism has to notice the end of optloop.
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::TERM)).context("the baseline's guard cannot watch optloop")?;
    if getppid() != parent {
        return Ok(0);
    }
    descendants::adopt().context("the baseline's guard cannot be set up")?;
    let program = start(command)?;
    // Output must end with the program.
    let nowhere = std::fs::File::options().write(true).open("/dev/null").context("/dev/null cannot be opened")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    reap(program, stop.clone());
    watch_input(stop);
    let reason = stops.recv();
    if reason == Ok(StopReason::Input) {
        // Meanwhile the program may end, or a signal may arrive.
        let _ = stops.recv_timeout(GRACE);
    }
    descendants::end();
    Ok(if let Ok(StopReason::Program(code)) = reason { code } else { 0 })
}

/// Starts the program, and returns its process ID.
#[cfg(target_os = "linux")]
fn start(command: &[String]) -> anyhow::Result<i32> {
    let Some((program, arguments)) = command.split_first() else { bail!("the baseline's command is empty") };
    match Command::new(program).args(arguments).spawn() {
        Ok(child) => Ok(child.id().cast_signed()),
        Err(error) => bail!("`{program}` cannot be run: {error}"),
    }
}

/// Listens for the signals that ask to stop. From then on, none of them ends this process by itself.
#[cfg(target_os = "linux")]
fn listen(stop: &mpsc::Sender<StopReason>) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let mut signals = {
        let _entered = runtime.enter();
        kinds.into_iter().map(signal).collect::<Result<Vec<_>, _>>()?
    };
    let stop = stop.clone();
    std::thread::spawn(move || {
        let waiting = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        runtime.block_on(futures::future::select_all(waiting));
        let _ = stop.send(StopReason::Signal);
    });
    Ok(())
}

/// Collects every child that ends: the program, and those of its descendants that have lost their parent.
#[cfg(target_os = "linux")]
fn reap(program: i32, stop: mpsc::Sender<StopReason>) {
    use rustix::io::Errno;
    use rustix::process::{WaitOptions, wait};
    std::thread::spawn(move || {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == program => {
                    let signal = status.terminating_signal().map(|signal| signal + i32::from(SIGNAL_CODE));
                    let code = status.exit_status().or(signal).and_then(|code| u8::try_from(code).ok());
                    let _ = stop.send(StopReason::Program(code.unwrap_or_default()));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    });
}

/// Waits for the end of the input, without reading any of it.
#[cfg(target_os = "linux")]
fn watch_input(stop: mpsc::Sender<StopReason>) {
    use rustix::event::{PollFd, PollFlags, poll};
    std::thread::spawn(move || {
        let stdin = std::io::stdin();
        // `poll` always reports the end of an input, whatever events are requested.
        while poll(&mut [PollFd::new(&stdin, PollFlags::empty())], None) == Err(rustix::io::Errno::INTR) {}
        let _ = stop.send(StopReason::Input);
    });
}

/// Runs the program unguarded: other systems have no means to watch it.
#[cfg(not(target_os = "linux"))]
pub fn run(command: &[String]) -> anyhow::Result<u8> {
    let Some((program, arguments)) = command.split_first() else { bail!("the baseline's command is empty") };
    let status =
        Command::new(program).args(arguments).status().with_context(|| format!("`{program}` cannot be run"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or_default())
}
