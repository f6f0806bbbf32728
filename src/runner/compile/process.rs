//! The process that holds NVRTC, and the one that asks it.
//!
//! NVRTC is a compiler: it can be crashed, hung or filled up by a source, and its front end handles signals in its own
//! way. So it lives in a child process; what happens to it is what happened to a variant.

use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use super::CompileLimits;
use crate::runner::frames::{FrameError, Message};
use crate::runner::nvrtc::{Nvrtc, NvrtcError};
use crate::runner::toolchain::Toolchain;
use crate::runner::{child, frames};
use crate::secrets;

/// What a compiler process is asked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The CUDA source.
    pub source: String,
    /// Every option.
    pub options: Vec<String>,
}

/// What a compiler process says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Said once, first: NVRTC's version, or why it cannot be opened.
    Hello(Result<String, String>),
    /// It compiled.
    Compiled {
        /// ELF image.
        #[serde(with = "serde_bytes")]
        cubin: Vec<u8>,
        /// PTX text.
        ptx: String,
        /// Warnings and the resource report.
        log: String,
    },
    /// The source is wrong; the log says where.
    Rejected(String),
    /// The source was too much for NVRTC, which is of no more use after it.
    Defeated(String),
    /// NVRTC itself failed.
    Broken(String),
}

/// A session says nothing that it should not.
impl Message for Request {}

impl Message for Reply {
    /// The log of what compiled is not among them: its numbers are yet to be read.
    fn free_texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Hello(Err(text)) | Self::Rejected(text) | Self::Defeated(text) | Self::Broken(text) => vec![text],
            Self::Hello(Ok(_)) | Self::Compiled { .. } => Vec::new(),
        }
    }
}

/// A compiler process, for one compilation at a time.
pub struct CompilerProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Reads standard error all the while, and ends with its last line.
    last_line: Option<JoinHandle<String>>,
    limits: CompileLimits,
}

/// Serves compilations until standard input ends, in at most so many bytes of memory.
pub fn serve(nvrtc: &Path, builtins: &Path, memory_bytes: u64) -> anyhow::Result<()> {
    let requests = child::requests::<Request>();
    let mut out = child::replies()?;
    child::limit_memory(memory_bytes)?;
    let nvrtc = match Nvrtc::open(nvrtc, builtins) {
        Ok(nvrtc) => nvrtc,
        Err(error) => return Ok(frames::write(&mut out, &Reply::Hello(Err(format!("{error:#}"))))?),
    };
    frames::write(&mut out, &Reply::Hello(Ok(nvrtc.version().to_owned())))?;
    for Request { source, options } in requests {
        let reply = match nvrtc.compile(&source, &options) {
            Ok(compiled) => Reply::Compiled { cubin: compiled.cubin, ptx: compiled.ptx, log: compiled.log },
            Err(NvrtcError::Rejected(log)) => Reply::Rejected(log),
            Err(NvrtcError::Defeated(message)) => Reply::Defeated(message),
            Err(NvrtcError::Broken(message)) => Reply::Broken(message),
        };
        frames::write(&mut out, &reply)?;
    }
    Ok(())
}

impl CompilerProcess {
    /// Starts `optloop compiler` from the executable `exe`, and returns it with NVRTC's version.
    pub fn start(exe: &Path, toolchain: &Toolchain, limits: CompileLimits) -> Result<(Self, String), String> {
        let mut command = Command::new(exe);
        secrets::withhold(&mut command);
        command.arg("compiler").arg("--nvrtc").arg(&toolchain.nvrtc).arg("--builtins").arg(&toolchain.builtins);
        command.arg("--memory-bytes").arg(limits.memory_bytes.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C at the terminal is for the session to handle.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| format!("a compiler process cannot be started: {error}"))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("a compiler process has no pipes".to_owned());
        };
        let last_line = Some(std::thread::spawn(move || child::last_line_blocking(errors)));
        let mut process = Self { child, input, output, last_line, limits };
        match process.within_patience(|_, output| frames::read(output))? {
            Ok(Some(Reply::Hello(Ok(version)))) => Ok((process, version)),
            Ok(Some(Reply::Hello(Err(reason)))) => Err(reason),
            Ok(Some(_)) => Err("a compiler process spoke out of turn".to_owned()),
            Ok(None) => Err(format!("the compiler {}", process.last_words())),
            Err(error) => Err(format!("a compiler process: {error}")),
        }
    }

    /// Compiles, within its limits. An error is what became of the process, which is then of no more use.
    pub fn compile(&mut self, request: &Request) -> Result<Reply, String> {
        let reply = self.within_patience(|input, output| {
            frames::write(input, request)?;
            frames::read::<Reply>(output)
        })?;
        match reply {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) | Err(FrameError::Truncated { .. } | FrameError::Io(_)) => {
                Err(format!("the compiler {}", self.last_words()))
            }
            Err(error) => {
                // It may go on talking: then it would never end by itself.
                let _ = self.child.kill();
                Err(format!("the compiler talks garbage: {error}"))
            }
        }
    }

    /// Does something with the process's pipes, and kills it if that takes longer than a compilation may: then its pipes end, whatever it
    /// was that it did not read or write.
    fn within_patience<T>(&mut self, what: impl FnOnce(&mut ChildStdin, &mut ChildStdout) -> T) -> Result<T, String> {
        let (done, watched) = mpsc::channel::<()>();
        let patience = self.limits.timeout;
        let child = &mut self.child;
        std::thread::scope(|scope| {
            let watchdog = scope.spawn(move || {
                let late = watched.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout);
                if late {
                    // It may have ended this very moment.
                    let _ = child.kill();
                }
                late
            });
            let result = what(&mut self.input, &mut self.output);
            drop(done);
            match watchdog.join() {
                Ok(true) => Err(format!("the compiler took over {}", humantime::format_duration(patience))),
                _ => Ok(result),
            }
        })
    }

    /// Says how a process that has closed its output ended.
    fn last_words(&mut self) -> String {
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return format!("cannot be asked how it ended ({error})"),
        };
        let line = self.last_line.take().and_then(|line| line.join().ok()).unwrap_or_default();
        let said = if line.is_empty() { String::new() } else { format!("; its last words: {line}") };
        let gb = self.limits.memory_bytes as f64 / 1e9;
        format!("died ({status}) in the {gb} GB of memory that it may have (compile.memory_gb){said}")
    }
}

impl Drop for CompilerProcess {
    fn drop(&mut self) {
        // Killed rather than asked: it may be hanging in a compilation.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
