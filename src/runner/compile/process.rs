//! The process that runs NVRTC, and the one that sends it requests.
//!
//! A source can crash NVRTC, hang it or fill its memory, and its front end handles signals in its own way. So NVRTC
//! runs in a child process, and the child's failure is an outcome of the variant.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::CompileLimits;
use crate::error::{Error, Result, error};
use crate::runner::confine::{self, Confinement};
use crate::runner::frames::Message;
use crate::runner::nvrtc::{Nvrtc, NvrtcError};
use crate::runner::subprocess::{Limits, Subprocess};
use crate::runner::toolchain::{Toolchain, include_folders};
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
    /// The first reply, sent once: a description, or why NVRTC cannot be opened.
    Hello(Result<Description, String>),
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
    /// NVRTC failed on the source and is unusable afterwards.
    CompilerFailed(String),
    /// NVRTC itself failed.
    Broken(String),
}

/// A compiler process's description of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Description {
    /// NVRTC's version, such as `13.0`.
    pub version: String,
    /// The mechanisms that deny a source access to files, programs and the network.
    pub confinement: Confinement,
}

/// The session sends no secrets.
impl Message for Request {}

impl Message for Reply {
    /// The log of a successful compilation is not masked, because its numbers must still be parsed.
    fn free_texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Hello(Err(text)) | Self::Rejected(text) | Self::CompilerFailed(text) | Self::Broken(text) => {
                vec![text]
            }
            Self::Hello(Ok(_)) | Self::Compiled { .. } => Vec::new(),
        }
    }
}

/// A compiler process that runs one compilation at a time.
pub struct CompilerProcess(Subprocess);

/// Serves compilations until standard input ends, within `memory_bytes` of address space.
///
/// Before it gets the first source, the process loses access to all files except the CUDA headers in `include`.
pub fn serve(nvrtc: &Path, builtins: &Path, include: &Path, memory_bytes: u64) -> anyhow::Result<()> {
    // Libraries are loaded before the process is confined, and it is confined before it has a second thread.
    let nvrtc = Nvrtc::open(nvrtc, builtins);
    child::ignore_stop_signals();
    child::yield_to_others();
    let mut out = child::replies()?;
    child::limit_memory(memory_bytes)?;
    let (include, confinement) = confine::compute_only(Some(include));
    let requests = child::requests_only::<Request>();
    let nvrtc = match nvrtc {
        Ok(nvrtc) => nvrtc,
        Err(error) => return Ok(frames::write(&mut out, &Reply::Hello(Err(format!("{error:#}"))))?),
    };
    let version = nvrtc.version().to_owned();
    frames::write(&mut out, &Reply::Hello(Ok(Description { version, confinement })))?;
    let folders = include.as_deref().map_or_else(Vec::new, include_folders);
    let folders = folders.iter().map(|folder| format!("--include-path={}", folder.display()));
    for Request { source, mut options } in requests {
        options.extend(folders.clone());
        let reply = match nvrtc.compile(&source, &options) {
            Ok(compiled) => Reply::Compiled { cubin: compiled.cubin, ptx: compiled.ptx, log: compiled.log },
            Err(NvrtcError::Rejected(log)) => Reply::Rejected(log),
            Err(NvrtcError::CompilerFailed(message)) => Reply::CompilerFailed(message),
            Err(NvrtcError::Broken(message)) => Reply::Broken(message),
        };
        frames::write(&mut out, &reply)?;
    }
    Ok(())
}

impl CompilerProcess {
    /// Starts `optloop compiler` from the executable `exe`.
    pub fn start(exe: &Path, toolchain: &Toolchain, limits: CompileLimits) -> Result<(Self, Description)> {
        let subprocess_limits = Limits {
            timeout: limits.timeout,
            timeout_source: "compile.timeout",
            memory: Some((limits.memory_bytes, "compile.memory_gb")),
        };
        let arguments = |command: &mut Command| {
            command.arg("compiler").arg("--nvrtc").arg(&toolchain.nvrtc).arg("--builtins").arg(&toolchain.builtins);
            command.arg("--include").arg(&toolchain.include);
            command.arg("--memory-bytes").arg(limits.memory_bytes.to_string());
        };
        let mut process = Subprocess::start("the compiler", exe, arguments, subprocess_limits)
            .map_err(|error| error!("a compiler process cannot be started: {error}"))?;
        match process.wait_until_ready()? {
            Reply::Hello(Ok(description)) => Ok((Self(process), description)),
            Reply::Hello(Err(reason)) => Err(Error::new(reason)),
            _ => Err(Error::new("the compiler sent an unexpected reply")),
        }
    }

    /// Compiles within the limits. An error says what happened to the process, which is unusable afterwards.
    pub fn compile(&mut self, request: &Request) -> Result<Reply> {
        self.0.ask(request)
    }
}
