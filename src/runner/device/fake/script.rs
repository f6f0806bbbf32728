//! Faults around the fake device that a test requests.
//!
//! `OPTLOOP_FAKE_FAULTS` names a file. Each line has a stage and a fault that happens there once. The line is removed
//! when it takes effect, because the next worker is another process and must not repeat it.
//!
//! ```text
//! check pass
//! check hang /tmp/told
//! ```
//!
//! The device `fake:2` has the file of that name with `.2` at the end. The stages are `hello`, `self_check`, `accept`, `enter`, `replay` and the steps that a worker reports. In the
//! example, the worker hangs at its second check. Before that, it writes its process id to the file, which may be a
//! pipe. The device itself handles the self-check only. The [worker](crate::runner::fake_worker) around it handles the
//! other stages.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use crate::runner::child;

/// A fault at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// Nothing, this time.
    Pass,
    /// The process is killed.
    Die,
    /// The process hangs.
    Hang,
    /// Unrelated output gets into the pipe.
    Chatter,
    /// The process is killed in the middle of a frame.
    Cut,
    /// The device computes a wrong result.
    Wrong,
}

/// A list of faults to come.
#[derive(Debug, Clone)]
pub struct Script {
    path: PathBuf,
}

impl Script {
    /// Returns the list that the environment names for the device with a number, or `None` if it names none.
    pub fn from_env(number: u32) -> Option<Self> {
        let mut path = std::env::var_os("OPTLOOP_FAKE_FAULTS")?;
        if number > 0 {
            path.push(format!(".{number}"));
        }
        Some(Self { path: path.into() })
    }

    /// Removes the first line for a stage from the list and returns its fault. Returns `None` if there is no such line.
    pub fn at(&self, stage: &str) -> Option<InjectedFault> {
        let text = fs::read_to_string(&self.path).ok()?;
        let mut lines: Vec<&str> = text.lines().collect();
        let place = lines.iter().position(|line| line.split_whitespace().next() == Some(stage))?;
        let mut words = lines.remove(place).split_whitespace().skip(1);
        let fault = match words.next()? {
            "die" => InjectedFault::Die,
            "hang" => InjectedFault::Hang,
            "chatter" => InjectedFault::Chatter,
            "cut" => InjectedFault::Cut,
            "wrong" => InjectedFault::Wrong,
            _ => InjectedFault::Pass,
        };
        fs::write(&self.path, lines.join("\n")).ok()?;
        if let Some(told) = words.next() {
            fs::write(told, std::process::id().to_string()).ok()?;
        }
        Some(fault)
    }
}

impl InjectedFault {
    /// Makes the fault happen to this process, which writes to `out`. Returns the fault, for the device to act on.
    pub fn happen(self, out: &mut dyn Write) -> Self {
        match self {
            Self::Die => child::end(),
            Self::Hang => loop {
                std::thread::park();
            },
            Self::Chatter => {
                // The supervisor has everything it needs even if this write fails.
                let _ = out.write_all(b"Loading the model, please wait a moment ...\n").and_then(|()| out.flush());
            }
            Self::Cut => {
                let _ = out.write_all(b"OPTL\x04").and_then(|()| out.flush());
                child::end();
            }
            Self::Pass | Self::Wrong => {}
        }
        self
    }
}
