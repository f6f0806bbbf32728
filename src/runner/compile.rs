//! Compiles variants for one architecture, through the cache, in child processes.

mod options;
mod process;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::process::{CompilerProcess, Description, Reply, Request};
use super::cache::ArtifactCache;
use super::confine::Confinement;
use super::toolchain::{Toolchain, cache_dir};
use super::{instructions, ptxas_log, source_rules};
use crate::domain::code::artifact::{Artifact, KernelResources};
use crate::domain::code::ptx;
use crate::domain::device::{DeviceInfo, TimingMode};
use crate::domain::variant::{Params, Variant, VariantHash};
use crate::error::{Error, Result};
use crate::secrets;

pub use self::options::check as check_options;
pub use self::process::serve;

/// The default memory limit of a compilation. config.toml gives the reason.
const MEMORY_BYTES: u64 = 4_000_000_000;

/// The option for the lines of the source in the PTX. It changes no instruction.
pub(super) const LINES: &str = "--generate-line-info";

/// A compiler for one architecture. Clones share the processes and the cache. Each compilation has its own process, so
/// there are as many processes as ever compiled at once.
#[derive(Clone)]
pub struct Compiler {
    kind: Kind,
    /// Whether its PTX names the lines of the source.
    lines: bool,
}

#[derive(Clone)]
enum Kind {
    Nvrtc(Arc<Inner>),
    /// See [`Compiler::of_recordings`].
    OfRecordings(CompileLimits),
}

struct Inner {
    exe: PathBuf,
    toolchain: Toolchain,
    description: Description,
    headers_id: String,
    idle: Mutex<Vec<CompilerProcess>>,
    cache: ArtifactCache,
    arch: String,
    options: Vec<String>,
    limits: CompileLimits,
}

/// The limits of a compilation.
#[derive(Debug, Clone, Copy)]
pub struct CompileLimits {
    /// The longest time it may take.
    pub timeout: Duration,
    /// The most address space of its process, in bytes.
    pub memory_bytes: u64,
}

impl From<Duration> for CompileLimits {
    fn from(timeout: Duration) -> Self {
        Self { timeout, memory_bytes: MEMORY_BYTES }
    }
}

/// Why a variant did not compile.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The source is wrong: data about the variant.
    #[error("{}", first_error(.log))]
    Rejected {
        /// The compiler's log.
        log: String,
    },
    /// NVRTC failed for another reason than the source.
    #[error("NVRTC failed: {0}")]
    Broken(String),
}

impl Compiler {
    /// Starts `optloop compiler` from the executable `exe` with the toolchain's NVRTC, for an architecture such as
    /// `sm_90a`. A compilation that exceeds the limits is aborted.
    pub fn new(
        exe: PathBuf,
        toolchain: Toolchain,
        arch: &str,
        options: &[String],
        limits: impl Into<CompileLimits>,
    ) -> anyhow::Result<Self> {
        options::check(options).map_err(anyhow::Error::msg)?;
        let limits = limits.into();
        let (process, description) = CompilerProcess::start(&exe, &toolchain, limits).map_err(anyhow::Error::msg)?;
        let (arch, options) = (arch.to_owned(), options.to_vec());
        let (idle, cache) = (Mutex::new(vec![process]), ArtifactCache::new(cache_dir()?.join("artifacts")));
        let headers_id = toolchain.headers_id();
        let inner = Inner { exe, toolchain, description, headers_id, idle, cache, arch, options, limits };
        Ok(Self { kind: Kind::Nvrtc(Arc::new(inner)), lines: false })
    }

    /// Compiles for this device. On a virtual GPU, all PTX names the lines of its source, so that a fault can tell
    /// them. No instruction changes, but the CUBIN has debug information.
    pub fn for_device(self, device: &DeviceInfo) -> Self {
        Self { lines: device.timing == TimingMode::Modelled, ..self }
    }

    /// Makes a compiler for the variants of a recording. They have no source, so it returns artifacts without code, and
    /// needs no NVRTC.
    pub fn of_recordings(limits: CompileLimits) -> Self {
        Self { kind: Kind::OfRecordings(limits), lines: false }
    }

    /// Returns the executable from which its processes start; none for recordings.
    pub fn exe(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Nvrtc(inner) => Some(&inner.exe),
            Kind::OfRecordings(_) => None,
        }
    }

    /// Returns NVRTC's version, such as `13.0`; `none` for recordings.
    pub fn nvrtc_version(&self) -> &str {
        match &self.kind {
            Kind::Nvrtc(inner) => &inner.description.version,
            Kind::OfRecordings(_) => "none",
        }
    }

    /// Returns the mechanisms that deny a source access to files, programs and the network while it is compiled; none if
    /// nothing is compiled.
    pub fn confinement(&self) -> Option<&Confinement> {
        match &self.kind {
            Kind::Nvrtc(inner) => Some(&inner.description.confinement),
            Kind::OfRecordings(_) => None,
        }
    }

    /// Returns the limits of each compilation.
    pub fn limits(&self) -> CompileLimits {
        match &self.kind {
            Kind::Nvrtc(inner) => inner.limits,
            Kind::OfRecordings(limits) => *limits,
        }
    }

    /// Compiles an empty kernel, so that options unknown to NVRTC are reported before anything begins.
    pub fn probe(&self) -> Result<(), CompileError> {
        let source = "extern \"C\" __global__ void probe() {}".to_owned();
        let hash = VariantHash::of(&source);
        self.compile(&Variant { family: "probe".to_owned(), params: Params::new(), hash, source }).map(|_| ())
    }

    /// Compiles a variant, or takes it from the cache. Blocks for 0.1 to 1 s, so call it off the async threads.
    pub fn compile(&self, variant: &Variant) -> Result<Artifact, CompileError> {
        self.compile_with(variant, self.lines)
    }

    /// Compiles a variant in the same way, with the lines of its source in the PTX.
    pub fn compile_with_lines(&self, variant: &Variant) -> Result<Artifact, CompileError> {
        self.compile_with(variant, true)
    }

    fn compile_with(&self, variant: &Variant, lines: bool) -> Result<Artifact, CompileError> {
        let inner = match &self.kind {
            Kind::Nvrtc(inner) => inner,
            Kind::OfRecordings(_) => return Ok(without_code(variant)),
        };
        let Inner { description, headers_id, cache, arch, options, .. } = &**inner;
        if ptx::is_ptx(&variant.source) {
            return of_ptx(&variant.source, arch, &description.version).map_err(rejected);
        }
        let mut given = options.clone();
        given.extend(lines.then(|| LINES.to_owned()));
        let version = &description.version;
        source_rules::check_source(&variant.source).map_err(rejected)?;
        let key = ArtifactCache::key(&variant.source, &given, arch, version, headers_id);
        if let Some(mut artifact) = cache.get(&key) {
            source_rules::check_ptx(&artifact.ptx).map_err(rejected)?;
            instructions::count(&mut artifact);
            return Ok(artifact);
        }
        let started = Instant::now();
        let (cubin, ptx, log) = inner.run(&variant.source, &given)?;
        source_rules::check_ptx(&ptx).map_err(rejected)?;
        let mut artifact = Artifact {
            key,
            arch: arch.clone(),
            options: options.clone(),
            nvrtc: version.clone(),
            kernels: ptxas_log::parse(&log),
            cubin,
            ptx,
            log: secrets::mask(&log).into_owned(),
            compile_ms: started.elapsed().as_secs_f64() * 1e3,
        };
        instructions::count(&mut artifact);
        cache.put(&artifact);
        Ok(artifact)
    }
}

/// Returns the outcome of a source that is refused. Its log has the form of a compiler's.
fn rejected(refusal: Error) -> CompileError {
    CompileError::Rejected { log: refusal.to_string() }
}

/// Returns the artifact of a variant that came as PTX. The driver of a device compiles it when it is loaded, and a virtual GPU
/// executes it. What its kernels use is not known until then.
fn of_ptx(source: &str, arch: &str, nvrtc: &str) -> Result<Artifact> {
    ptx::check_target(source, arch).map_err(|problem| problem.within("error"))?;
    source_rules::check_ptx(source)?;
    let kernels = ptx::kernels(source).into_iter();
    let mut artifact = Artifact {
        key: ArtifactCache::key(source, &[], arch, "", ""),
        arch: arch.to_owned(),
        options: Vec::new(),
        nvrtc: nvrtc.to_owned(),
        kernels: kernels.map(|name| KernelResources { name: name.to_owned(), ..KernelResources::default() }).collect(),
        // The driver takes a text that ends with a zero.
        cubin: [source.as_bytes(), b"\0"].concat(),
        ptx: source.to_owned(),
        log: String::new(),
        compile_ms: 0.0,
    };
    instructions::count(&mut artifact);
    Ok(artifact)
}

/// Returns the artifact of a variant of a recording. Every configuration has its own.
fn without_code(variant: &Variant) -> Artifact {
    Artifact {
        key: format!("recorded-{}", variant.hash.0),
        arch: "none".to_owned(),
        options: Vec::new(),
        nvrtc: "none".to_owned(),
        cubin: Vec::new(),
        ptx: String::new(),
        kernels: Vec::new(),
        log: String::new(),
        compile_ms: 0.0,
    }
}

impl Inner {
    /// Compiles in an idle process or a new one. If the process dies or hangs, this counts as a fault of the source.
    fn run(&self, source: &str, options: &[String]) -> Result<(Vec<u8>, String, String), CompileError> {
        let mut options = options.to_vec();
        options.push(format!("--gpu-architecture={}", self.arch));
        // Not --no-source-include: with it, NVRTC does not find files that headers include from their own folder,
        // either. The folder of the source is the compiler's working folder, which is that of the CUDA headers.
        options.push("--ptxas-options=-v".to_owned());
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut process = match idle {
            Some(process) => process,
            None => {
                CompilerProcess::start(&self.exe, &self.toolchain, self.limits)
                    .map_err(|problem| CompileError::Broken(problem.into()))?
                    .0
            }
        };
        let request = Request { source: source.to_owned(), options };
        let reply = process.compile(&request).map_err(rejected)?;
        if !matches!(reply, Reply::CompilerFailed(_)) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        }
        match reply {
            Reply::Compiled { cubin, ptx, log } => Ok((cubin, ptx, log)),
            Reply::Rejected(log) | Reply::CompilerFailed(log) => Err(CompileError::Rejected { log }),
            Reply::Broken(message) => Err(CompileError::Broken(message.trim().to_owned())),
            Reply::Hello(_) => Err(CompileError::Broken("the compiler sent an unexpected reply".to_owned())),
        }
    }
}

/// The errors that a model is told at once.
const TOLD_ERRORS: usize = 4;

impl CompileError {
    /// Returns the first errors, each with the line of the source that NVRTC shows below it, for a model that is to correct
    /// them: the line is numbered in the rendered variant, which the model has not seen.
    pub fn with_lines(&self) -> String {
        let Self::Rejected { log } = self else { return self.to_string() };
        let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let is_error = |line: &&str| line.contains(": error:");
        let told =
            lines.iter().enumerate().filter(|(_, line)| is_error(line)).take(TOLD_ERRORS).map(|(place, line)| {
                let source = lines.get(place + 1).filter(|line| !is_error(line) && !line.ends_with(" detected"));
                source.map_or_else(|| (*line).to_owned(), |source| format!("{line}: `{source}`"))
            });
        let told: Vec<String> = told.collect();
        if told.is_empty() { self.to_string() } else { told.join("; ") }
    }
}

/// Returns the first error in a compiler's log, as one line.
fn first_error(log: &str) -> Cow<'_, str> {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let named = |words: &[&str]| lines().find(|line| words.iter().any(|word| line.contains(word)));
    if let Some(line) = named(&["error", "fatal"]) {
        return line.into();
    }
    // ptxas refuses too much shared memory without an error. The line with its count shows the reason.
    if let Some(line) = named(&[" smem"]) {
        let counted = line.split_once(": ").map_or(line, |(_, counted)| counted);
        return format!("ptxas refuses it without an error message; its resource usage: {counted}").into();
    }
    lines().next().unwrap_or("the compiler gave no reason").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_told_several_errors_with_their_lines() {
        let log = "v.cu(3): error: expected a \";\"\n  int a\n     ^\n\nv.cu(9): error: no b\n\n2 errors detected\n"
            .to_owned();
        let told = CompileError::Rejected { log }.with_lines();
        insta::assert_snapshot!(told, @r#"v.cu(3): error: expected a ";": `int a`; v.cu(9): error: no b"#);
        assert_eq!(CompileError::Broken("x".to_owned()).with_lines(), "NVRTC failed: x");
    }

    #[test]
    fn the_line_with_the_error_is_reported() {
        let told = |log: &str| first_error(log).into_owned();
        let info = "ptxas info    : 9 bytes gmem\n";
        insta::assert_snapshot!(told(&format!("{info}variant.cu(3): error: expected a \";\"\n")), @r#"variant.cu(3): error: expected a ";""#);
        insta::assert_snapshot!(told(&format!("{info}ptxas fatal   : Internal compiler error\n")), @"ptxas fatal   : Internal compiler error");
        let used = "ptxas info    : Used 32 registers, used 0 barriers, 237568 bytes smem\n";
        insta::assert_snapshot!(told(&format!("{info}{used}")), @"ptxas refuses it without an error message; its resource usage: Used 32 registers, used 0 barriers, 237568 bytes smem");
        insta::assert_snapshot!(told(" \n"), @"the compiler gave no reason");
    }
}
