//! Compiles variants for one architecture, through the cache.

use std::sync::Arc;
use std::time::Instant;

use super::cache::ArtifactCache;
use super::nvrtc::{Nvrtc, NvrtcError};
use super::ptxas_log;
use super::toolchain::{Toolchain, cache_dir};
use crate::domain::artifact::Artifact;
use crate::domain::variant::{Params, Variant, VariantHash};

/// A compiler for one architecture. Clones share the library and the cache.
#[derive(Clone)]
pub struct Compiler {
    inner: Arc<Inner>,
}

struct Inner {
    nvrtc: Nvrtc,
    cache: ArtifactCache,
    arch: String,
    options: Vec<String>,
    include: String,
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
    /// NVRTC failed for a reason that is not the source.
    #[error("NVRTC failed: {0}")]
    Broken(String),
}

impl Compiler {
    /// Opens the toolchain's NVRTC for an architecture such as `sm_90a`.
    pub fn new(toolchain: &Toolchain, arch: &str, options: &[String]) -> anyhow::Result<Self> {
        Ok(Self {
            inner: Arc::new(Inner {
                nvrtc: Nvrtc::open(toolchain)?,
                cache: ArtifactCache::new(cache_dir()?.join("artifacts")),
                arch: arch.to_owned(),
                options: options.to_vec(),
                include: format!("--include-path={}", toolchain.include.display()),
            }),
        })
    }

    /// Returns NVRTC's version, such as `13.0`.
    pub fn nvrtc_version(&self) -> &str {
        self.inner.nvrtc.version()
    }

    /// Compiles an empty kernel, so that options that NVRTC does not know are told before anything is begun.
    pub fn probe(&self) -> Result<(), CompileError> {
        let source = "extern \"C\" __global__ void probe() {}".to_owned();
        let hash = VariantHash::of(&source);
        self.compile(&Variant { family: "probe".to_owned(), params: Params::new(), hash, source }).map(|_| ())
    }

    /// Compiles a variant, or takes it from the cache. Blocks for 0.1 to 1 s: call it off the async threads.
    pub fn compile(&self, variant: &Variant) -> Result<Artifact, CompileError> {
        let Inner { nvrtc, cache, arch, options, include } = &*self.inner;
        let key = ArtifactCache::key(&variant.source, options, arch, nvrtc.version());
        if let Some(artifact) = cache.get(&key) {
            return Ok(artifact);
        }
        let mut all = options.clone();
        all.push(format!("--gpu-architecture={arch}"));
        all.push("--ptxas-options=-v".to_owned());
        all.push(include.clone());
        let started = Instant::now();
        let compiled = nvrtc.compile(&variant.source, &all).map_err(|error| match error {
            NvrtcError::Rejected(log) => CompileError::Rejected { log },
            NvrtcError::Broken(message) => CompileError::Broken(message.trim().to_owned()),
        })?;
        let artifact = Artifact {
            key,
            arch: arch.clone(),
            options: options.clone(),
            nvrtc: nvrtc.version().to_owned(),
            kernels: ptxas_log::parse(&compiled.log),
            cubin: compiled.cubin,
            ptx: compiled.ptx,
            log: compiled.log,
            compile_ms: started.elapsed().as_secs_f64() * 1e3,
        };
        cache.put(&artifact);
        Ok(artifact)
    }
}

/// Returns the first error of a compiler's log, as one line.
fn first_error(log: &str) -> &str {
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.clone().find(|line| line.contains("error")).or_else(|| lines.next()).unwrap_or("the compiler gave no reason")
}
