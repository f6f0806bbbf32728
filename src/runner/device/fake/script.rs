//! What goes wrong around the fake device because a test asks for it.
//!
//! `OPTLOOP_FAKE_FAULTS` names a file. Each of its lines is a stage and what happens there, once: the line is removed when it
//! does, for the next worker is another process and must not meet it again.
//!
//! ```text
//! check pass
//! check hang /tmp/told
//! ```
//!
//! The stages are `hello`, `self_check`, `accept`, `enter`, `replay` and the steps that a worker tells of. This worker
//! hangs at its second check; before, it writes its number to the file, which may be a pipe. The device itself knows of
//! its self-check only: the others are met by the [worker](crate::runner::fake_worker) around it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use crate::runner::child;

/// What may happen at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// Nothing, this time.
    Pass,
    /// The process is killed.
    Die,
    /// It hangs.
    Hang,
    /// Somebody's talk gets into the pipe.
    Chatter,
    /// The process is killed in the middle of a frame.
    Cut,
    /// The device computes something wrong.
    Wrong,
}

/// A list of what is to happen.
#[derive(Debug, Clone)]
pub struct Script {
    path: PathBuf,
}

impl Script {
    /// Returns the list that the environment names, if it does.
    pub fn asked() -> Option<Self> {
        std::env::var_os("OPTLOOP_FAKE_FAULTS").map(|path| Self { path: path.into() })
    }

    /// Takes the first line for a stage off the list.
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
    /// Lets it happen to this process, which speaks through `out`. Returns what is left to the device.
    pub fn happen(self, out: &mut dyn Write) -> Self {
        match self {
            Self::Die => child::end(),
            Self::Hang => loop {
                std::thread::park();
            },
            Self::Chatter => {
                // The supervisor has what it needs either way.
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
