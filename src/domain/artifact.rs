//! Compiled variants.

use serde::{Deserialize, Serialize};

/// A variant compiled for one architecture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// Hash over source, options, architecture and NVRTC version: the name in the cache.
    pub key: String,
    /// The architecture, such as `sm_90a`.
    pub arch: String,
    /// The options given to NVRTC beside the architecture and the include paths.
    pub options: Vec<String>,
    /// The NVRTC that made it, such as `13.0`.
    pub nvrtc: String,
    /// The ELF image that the driver loads.
    #[serde(with = "serde_bytes")]
    pub cubin: Vec<u8>,
    /// The same as PTX text, which the virtual GPU executes.
    pub ptx: String,
    /// What each kernel of the source uses, in the order of the compiler's report.
    pub kernels: Vec<KernelResources>,
    /// The compiler's log, with its warnings and resource report.
    pub log: String,
    /// How long the compiler took; 0 when the artifact came out of the cache.
    pub compile_ms: f64,
}

/// What `ptxas` says one kernel uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelResources {
    /// The kernel's `extern "C"` name.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Static shared memory per block.
    pub shared_bytes: u32,
    /// Local memory per thread (arrays that did not fit registers, and spills).
    pub stack_bytes: u32,
    /// Bytes written to local memory by register spills.
    pub spill_store_bytes: u32,
    /// Bytes read from local memory by register spills.
    pub spill_load_bytes: u32,
}

impl Artifact {
    /// Returns the lines of the compiler's log that are warnings.
    pub fn warnings(&self) -> Vec<&str> {
        self.log.lines().filter(|line| line.contains("warning")).collect()
    }

    /// Returns the resources of the kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<&KernelResources> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}
