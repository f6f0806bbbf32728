//! Ends a program and everything it has started when optloop ends, however that happens.
//!
//! A baseline may be any command: it may ignore the end of its input, and it may have children, in groups and sessions
//! of their own. So `optloop guard -- COMMAND` starts the command with its own input and output, and stays its parent.
//! It waits until the program is gone, until no process can write to the program's input any more, until optloop is
//! gone, or until it is told to stop. Then it kills all that descends from it.

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

/// Why the guard's work may be over.
#[cfg(target_os = "linux")]
#[derive(PartialEq, Eq)]
enum Over {
    /// The program has ended.
    Program,
    /// No process can write to its input any more.
    Input,
    /// A signal says to stop. The system sends one when optloop is gone.
    Told,
}

/// Runs a program until it or its time is over, and then kills all that is left of it.
#[cfg(target_os = "linux")]
pub fn run(command: &[String]) -> anyhow::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let (over, overs) = mpsc::channel();
    listen(&over)?;
    // The program could hold its own input open. So the end of optloop has to be noticed in another way, too.
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::TERM)).context("the baseline's guard cannot watch optloop")?;
    if getppid() != parent {
        return Ok(());
    }
    descendants::adopt().context("the baseline's guard cannot be set up")?;
    let program = start(command)?;
    // Output must end with the program.
    let nowhere = std::fs::File::options().write(true).open("/dev/null").context("/dev/null cannot be opened")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    reap(program, over.clone());
    watch_input(over);
    if overs.recv() == Ok(Over::Input) {
        // It may have ended, or may be told to stop, meanwhile.
        let _ = overs.recv_timeout(GRACE);
    }
    descendants::end();
    Ok(())
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

/// Listens to the signals that ask to stop. None of them ends this process by itself any more.
#[cfg(target_os = "linux")]
fn listen(over: &mpsc::Sender<Over>) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let mut signals = {
        let _entered = runtime.enter();
        kinds.into_iter().map(signal).collect::<Result<Vec<_>, _>>()?
    };
    let over = over.clone();
    std::thread::spawn(move || {
        let waiting = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        runtime.block_on(futures::future::select_all(waiting));
        let _ = over.send(Over::Told);
    });
    Ok(())
}

/// Collects every child that ends: the program, and those of its descendants that have lost their parent.
#[cfg(target_os = "linux")]
fn reap(program: i32, over: mpsc::Sender<Over>) {
    use rustix::io::Errno;
    use rustix::process::{WaitOptions, wait};
    std::thread::spawn(move || {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, _))) if pid.as_raw_nonzero().get() == program => {
                    let _ = over.send(Over::Program);
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    });
}

/// Waits for the end of the input, without reading any of it.
#[cfg(target_os = "linux")]
fn watch_input(over: mpsc::Sender<Over>) {
    use rustix::event::{PollFd, PollFlags, poll};
    std::thread::spawn(move || {
        let stdin = std::io::stdin();
        // `poll` always reports the end of an input, whatever it is asked for.
        while poll(&mut [PollFd::new(&stdin, PollFlags::empty())], None) == Err(rustix::io::Errno::INTR) {}
        let _ = over.send(Over::Input);
    });
}

/// Runs the program unguarded: other systems have no means to watch it.
#[cfg(not(target_os = "linux"))]
pub fn run(command: &[String]) -> anyhow::Result<()> {
    let Some((program, arguments)) = command.split_first() else { bail!("the baseline's command is empty") };
    let status = Command::new(program).args(arguments).status();
    status.map(|_| ()).with_context(|| format!("`{program}` cannot be run"))
}
