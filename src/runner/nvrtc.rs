//! NVRTC, opened by path.
//!
//! cudarc finds NVRTC by library name and panics if there is none. Its safe interface cannot read a CUBIN, and it drops
//! the log of a success. So this module opens the library that the [toolchain](super::toolchain) found and binds the
//! nine functions it needs. See the NVRTC documentation, chapters "Basic Usage" and "Supported Compile Options".
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use anyhow::Context;
use libloading::Library;

use super::headers;

type Program = *mut c_void;
type Status = c_int;

const NVRTC_SUCCESS: Status = 0;
const NVRTC_ERROR_OUT_OF_MEMORY: Status = 1;
const NVRTC_ERROR_COMPILATION: Status = 6;
const NVRTC_ERROR_INTERNAL_ERROR: Status = 11;

/// The name of every source in messages and in PTX.
pub const SOURCE_NAME: &CStr = c"variant.cu";

/// A loaded NVRTC.
pub struct Nvrtc {
    functions: Functions,
    version: String,
    // Dropped last, because the function pointers point into them. NVRTC loads its builtins by name and finds them
    // already loaded.
    _nvrtc: Library,
    _builtins: Library,
}

struct Functions {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    destroy: unsafe extern "C" fn(*mut Program) -> Status,
    log: Text,
    ptx: Text,
    cubin: Text,
    error: unsafe extern "C" fn(Status) -> *const c_char,
}

/// NVRTC's interface for returning a buffer: one function for the size, one to copy.
struct Text {
    size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    copy: unsafe extern "C" fn(Program, *mut c_char) -> Status,
}

/// The output of a compilation.
pub struct NvrtcOutput {
    /// The ELF image.
    pub cubin: Vec<u8>,
    /// The PTX text.
    pub ptx: String,
    /// Warnings and the resource report.
    pub log: String,
}

/// Why there is no result.
pub enum NvrtcError {
    /// The source is wrong; the log says where.
    Rejected(String),
    /// NVRTC failed on the source: it ran out of memory or hit an internal error.
    CompilerFailed(String),
    /// NVRTC itself failed.
    Broken(String),
}

impl Nvrtc {
    /// Opens an NVRTC with its builtins.
    pub fn open(nvrtc_path: &Path, builtins_path: &Path) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            // SAFETY: loading runs the library's initialisers; these are NVIDIA's own libraries, found by the
            // toolchain.
            unsafe { Library::new(path) }.with_context(|| format!("Failed to load {}", path.display()))
        };
        let builtins = open(builtins_path)?;
        let nvrtc = open(nvrtc_path)?;
        // SAFETY: the types are those of nvrtc.h, and the pointers are dropped with the library.
        let functions = unsafe { Functions::bind(&nvrtc) }
            .with_context(|| format!("{} is not a version of NVRTC that optloop supports", nvrtc_path.display()))?;
        // SAFETY: as above.
        let version = unsafe { version(&nvrtc) }?;
        Ok(Self { functions, version, _nvrtc: nvrtc, _builtins: builtins })
    }

    /// Returns the version, such as `13.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Compiles `source` with `options` to CUBIN and PTX.
    pub fn compile(&self, source: &str, options: &[String]) -> Result<NvrtcOutput, NvrtcError> {
        let text = |what: &str| CString::new(what).map_err(|_| NvrtcError::Rejected("a NUL byte".to_owned()));
        let source = text(source)?;
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
        let program = self.program(&source)?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|_| NvrtcError::Broken("too many options".to_owned()))?;
        // SAFETY: the program is alive, and `pointers` holds `count` C strings that outlive the call.
        let status = unsafe { (self.functions.compile)(program.handle, count, pointers.as_ptr()) };
        if matches!(status, NVRTC_ERROR_OUT_OF_MEMORY | NVRTC_ERROR_INTERNAL_ERROR) {
            let log = program.read(&self.functions.log).unwrap_or_default();
            return Err(NvrtcError::CompilerFailed(format!(
                "{}: {}",
                self.explain(status),
                String::from_utf8_lossy(&log)
            )));
        }
        let log = String::from_utf8_lossy(&program.read(&self.functions.log)?).into_owned();
        match status {
            NVRTC_SUCCESS => Ok(NvrtcOutput {
                cubin: program.read(&self.functions.cubin)?,
                ptx: String::from_utf8_lossy(&program.read(&self.functions.ptx)?).into_owned(),
                log,
            }),
            // It usually ran out of memory. Its allocations up to that point are never freed.
            NVRTC_ERROR_COMPILATION if log.contains("catastrophic error") => Err(NvrtcError::CompilerFailed(log)),
            NVRTC_ERROR_COMPILATION => Err(NvrtcError::Rejected(log)),
            status => Err(NvrtcError::Broken(format!("{}: {log}", self.explain(status)))),
        }
    }

    fn program<'a>(&'a self, source: &'a CStr) -> Result<ProgramGuard<'a>, NvrtcError> {
        let mut handle = ptr::null_mut();
        let text =
            |what: &str| CString::new(what).map_err(|_| NvrtcError::Broken("a header has a NUL byte".to_owned()));
        let headers = headers::given().map(|(name, of)| Ok((text(name)?, text(of)?))).collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<_> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let names: Vec<_> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let count = c_int::try_from(names.len()).map_err(|_| NvrtcError::Broken("too many headers".to_owned()))?;
        // SAFETY: `handle` is writable, the source is a C string, and both lists have `count` C strings. NVRTC copies them.
        let status = unsafe {
            let (create, source, name) = (self.functions.create, source.as_ptr(), SOURCE_NAME.as_ptr());
            create(&mut handle, source, name, count, texts.as_ptr(), names.as_ptr())
        };
        if status != NVRTC_SUCCESS {
            return Err(NvrtcError::Broken(self.explain(status)));
        }
        Ok(ProgramGuard { nvrtc: self, handle })
    }

    fn explain(&self, status: Status) -> String {
        // SAFETY: nvrtcGetErrorString returns a static C string for every status.
        let text = unsafe { CStr::from_ptr((self.functions.error)(status)) };
        text.to_string_lossy().into_owned()
    }
}

impl Functions {
    /// # Safety
    /// `library` must be an NVRTC, and the result must not outlive it.
    unsafe fn bind(library: &Library) -> Result<Self, libloading::Error> {
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the field that takes it has the function's type in nvrtc.h.
                unsafe { *library.get($name)? }
            };
        }
        Ok(Self {
            create: symbol!(b"nvrtcCreateProgram\0"),
            compile: symbol!(b"nvrtcCompileProgram\0"),
            destroy: symbol!(b"nvrtcDestroyProgram\0"),
            log: Text { size: symbol!(b"nvrtcGetProgramLogSize\0"), copy: symbol!(b"nvrtcGetProgramLog\0") },
            ptx: Text { size: symbol!(b"nvrtcGetPTXSize\0"), copy: symbol!(b"nvrtcGetPTX\0") },
            cubin: Text { size: symbol!(b"nvrtcGetCUBINSize\0"), copy: symbol!(b"nvrtcGetCUBIN\0") },
            error: symbol!(b"nvrtcGetErrorString\0"),
        })
    }
}

/// # Safety
/// `library` must be an NVRTC.
unsafe fn version(library: &Library) -> anyhow::Result<String> {
    // SAFETY: the type is that of nvrtc.h.
    let function: libloading::Symbol<'_, unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status> =
        unsafe { library.get(b"nvrtcVersion\0") }.context("Failed to find nvrtcVersion")?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are writable.
    unsafe { function(&mut major, &mut minor) };
    Ok(format!("{major}.{minor}"))
}

struct ProgramGuard<'a> {
    nvrtc: &'a Nvrtc,
    handle: Program,
}

impl ProgramGuard<'_> {
    fn read(&self, text: &Text) -> Result<Vec<u8>, NvrtcError> {
        let mut bytes = 0;
        // SAFETY: the program is alive and `bytes` is writable.
        let mut status = unsafe { (text.size)(self.handle, &mut bytes) };
        let mut buffer = vec![0_u8; bytes];
        if status == NVRTC_SUCCESS && bytes > 0 {
            // SAFETY: the buffer has the size that NVRTC asked for.
            status = unsafe { (text.copy)(self.handle, buffer.as_mut_ptr().cast()) };
        }
        if status != NVRTC_SUCCESS {
            return Err(NvrtcError::Broken(self.nvrtc.explain(status)));
        }
        // A text ends in a NUL that is not part of it. A CUBIN does not, and its ELF header begins with 0x7f.
        if buffer.first() != Some(&0x7f) {
            buffer.truncate(buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len()));
        }
        Ok(buffer)
    }
}

impl Drop for ProgramGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from nvrtcCreateProgram and is destroyed once.
        unsafe { (self.nvrtc.functions.destroy)(&mut self.handle) };
    }
}
