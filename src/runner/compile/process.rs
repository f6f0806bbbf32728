//! The process that holds NVRTC, and the one that asks it.
//!
//! NVRTC is a compiler: it can be crashed, hung or filled up by a source, and its front end handles signals in its own
//! way. So it lives in a child process; what happens to it is what happened to a variant.

use std::io;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::runner::frames::{read_frame, requests_from_stdin, write_frame};
use crate::runner::nvrtc::{Nvrtc, NvrtcError};
use crate::runner::toolchain::Toolchain;
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
    /// NVRTC itself failed.
    Broken(String),
}

/// A compiler process, for one compilation at a time.
pub struct CompilerProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

/// Serves compilations until standard input ends.
pub fn serve(nvrtc: &Path, builtins: &Path) -> anyhow::Result<()> {
    let requests = requests_from_stdin::<Request>();
    let mut out = io::stdout().lock();
    let nvrtc = match Nvrtc::open(nvrtc, builtins) {
        Ok(nvrtc) => nvrtc,
        Err(error) => return Ok(write_frame(&mut out, &Reply::Hello(Err(format!("{error:#}"))))?),
    };
    write_frame(&mut out, &Reply::Hello(Ok(nvrtc.version().to_owned())))?;
    for Request { source, options } in requests {
        let reply = match nvrtc.compile(&source, &options) {
            Ok(compiled) => Reply::Compiled { cubin: compiled.cubin, ptx: compiled.ptx, log: compiled.log },
            Err(NvrtcError::Rejected(log)) => Reply::Rejected(log),
            Err(NvrtcError::Broken(message)) => Reply::Broken(message),
        };
        write_frame(&mut out, &reply)?;
    }
    Ok(())
}

impl CompilerProcess {
    /// Starts `optloop compiler` from the executable `exe`, and returns it with NVRTC's version.
    pub fn start(exe: &Path, toolchain: &Toolchain) -> Result<(Self, String), String> {
        let mut command = Command::new(exe);
        secrets::withhold(&mut command);
        command.arg("compiler").arg("--nvrtc").arg(&toolchain.nvrtc).arg("--builtins").arg(&toolchain.builtins);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A Ctrl-C at the terminal is for the session to handle.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| format!("a compiler process cannot be started: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a compiler process has no pipes".to_owned());
        };
        let mut process = Self { child, input, output };
        match read_frame(&mut process.output) {
            Ok(Some(Reply::Hello(Ok(version)))) => Ok((process, version)),
            Ok(Some(Reply::Hello(Err(reason)))) => Err(reason),
            _ => Err(format!("the compiler process {}", process.last_words())),
        }
    }

    /// Compiles, within `patience`. An error is what became of the process, which is then of no more use.
    pub fn compile(&mut self, request: &Request, patience: Duration) -> Result<Reply, String> {
        write_frame(&mut self.input, request).map_err(|_| format!("the compiler {}", self.last_words()))?;
        let (done, watched) = mpsc::channel::<()>();
        let (child, output) = (&mut self.child, &mut self.output);
        let reply = std::thread::scope(|scope| {
            let watchdog = scope.spawn(move || {
                let late = watched.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout);
                if late {
                    // It may have ended this very moment.
                    let _ = child.kill();
                }
                late
            });
            let reply = read_frame::<Reply>(output);
            drop(done);
            match watchdog.join() {
                Ok(true) => Err(format!("the compiler took over {}", humantime::format_duration(patience))),
                _ => Ok(reply),
            }
        })?;
        match reply {
            Ok(Some(reply)) => Ok(reply),
            _ => Err(format!("the compiler {}", self.last_words())),
        }
    }

    fn last_words(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => format!("died ({status})"),
            Err(error) => format!("cannot be asked how it ended ({error})"),
        }
    }
}

impl Drop for CompilerProcess {
    fn drop(&mut self) {
        // Killed rather than asked: it may be hanging in a compilation.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
