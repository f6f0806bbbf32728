//! The process that runs NVRTC, and the one that sends it requests.
//!
//! A source can crash NVRTC, hang it or fill its memory, and its front end handles signals in its own way. So NVRTC
//! runs in a child process, and the child's failure is an outcome of the variant.

use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use super::CompileLimits;
use crate::environment;
use crate::runner::frames::{FrameError, Message};
use crate::runner::nvrtc::{Nvrtc, NvrtcError};
use crate::runner::toolchain::Toolchain;
use crate::runner::{child, frames};

/// A request to a compiler process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The CUDA source.
    pub source: String,
    /// All compiler options.
    pub options: Vec<String>,
}

/// A reply of a compiler process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The first reply, sent once: NVRTC's version, or why it cannot be opened.
    Hello(Result<String, String>),
    /// The source compiled.
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
    /// The source was too much for NVRTC, which is unusable afterwards.
    Defeated(String),
    /// NVRTC itself failed.
    Broken(String),
}

/// The session sends no secrets.
impl Message for Request {}

impl Message for Reply {
    /// The log of a successful compilation is not masked, because its numbers must still be parsed.
    fn free_texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Hello(Err(text)) | Self::Rejected(text) | Self::Defeated(text) | Self::Broken(text) => vec![text],
            Self::Hello(Ok(_)) | Self::Compiled { .. } => Vec::new(),
        }
    }
}

/// A compiler process that runs one compilation at a time.
pub struct CompilerProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Reads standard error until its end, and returns the last line.
    last_line: Option<JoinHandle<String>>,
    limits: CompileLimits,
}

/// Serves compilations until standard input ends, within `memory_bytes` of address space.
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
        environment::limit(&mut command);
        command.arg("compiler").arg("--nvrtc").arg(&toolchain.nvrtc).arg("--builtins").arg(&toolchain.builtins);
        command.arg("--memory-bytes").arg(limits.memory_bytes.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C at the terminal must reach the session only.
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

    /// Compiles within the limits. An error says what happened to the process, which is unusable afterwards.
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
                // The process may keep writing and then never end by itself.
                let _ = self.child.kill();
                Err(format!("the compiler talks garbage: {error}"))
            }
        }
    }

    /// Runs `what` on the process's pipes, and kills the process if that exceeds the compilation's time limit. Its
    /// pipes then end, whatever it did not read or write.
    fn within_patience<T>(&mut self, what: impl FnOnce(&mut ChildStdin, &mut ChildStdout) -> T) -> Result<T, String> {
        let (done, watched) = mpsc::channel::<()>();
        let patience = self.limits.timeout;
        let child = &mut self.child;
        std::thread::scope(|scope| {
            let watchdog = scope.spawn(move || {
                let late = watched.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout);
                if late {
                    // The process may have ended at this very moment.
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

    /// Returns how a process that has closed its output ended.
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
        // Killed without a request to end, because it may hang in a compilation.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
