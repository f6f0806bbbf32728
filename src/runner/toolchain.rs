//! Finds NVRTC and the CUDA headers: an installed toolkit, or pinned wheels fetched into the user's cache.

mod wheels;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::headers;

/// The location of NVRTC and the headers.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// `libnvrtc.so.N`.
    pub nvrtc: PathBuf,
    /// `libnvrtc-builtins.so.N.M`, which NVRTC loads by name.
    pub builtins: PathBuf,
    /// The folder with `cuda_fp16.h`. All headers lie in it, though some in a [folder of their own](include_folders).
    pub include: PathBuf,
    /// The toolchain's source, for display.
    pub origin: String,
    /// Whether optloop has fetched it.
    is_fetched: bool,
}

/// Headers with a package of their own. A toolkit may lack them, and older versions of optloop did not fetch them.
struct Part {
    name: &'static str,
    package: &'static str,
    /// One of its files, where any toolkit has it.
    files: &'static [&'static str],
}

const PARTS: [Part; 2] = [
    Part {
        name: "CCCL (for cooperative_groups.h and cuda/)",
        package: "cuda-cccl",
        files: &["cccl/cuda/std/type_traits", "cuda/std/type_traits"],
    },
    Part { name: "CRT (for mma.h)", package: "cuda-crt", files: &["crt/mma.hpp"] },
];

/// Files that state the version of the headers.
const VERSIONS: [&str; 3] = ["cuda_runtime_api.h", "cccl/cuda/std/__cccl/version.h", "cuda/std/__cccl/version.h"];

/// Returns optloop's cache folder: `$XDG_CACHE_HOME/optloop`.
pub fn cache_dir() -> anyhow::Result<PathBuf> {
    let base = dirs::cache_dir().context("There is no cache folder: set XDG_CACHE_HOME or HOME")?;
    Ok(base.join("optloop"))
}

/// Returns the folders in which a compiler looks for headers. Since CUDA 13, CCCL lies in one of its own.
pub fn include_folders(include: &Path) -> Vec<PathBuf> {
    let folders = [include.to_owned(), include.join("cccl")];
    folders.into_iter().filter(|folder| folder.is_dir()).collect()
}

impl Toolchain {
    /// Finds a toolchain without fetching anything.
    pub fn installed() -> Option<Self> {
        let toolkit = toolkit_roots().iter().find_map(|root| Self::in_toolkit(root));
        toolkit.or_else(|| wheels::installed(&cache_dir().ok()?))
    }

    /// Finds a toolchain, fetching the pinned wheels if there is none, or if some of them are missing.
    pub fn find_or_fetch() -> anyhow::Result<Self> {
        let toolchain = Self::installed().map_or_else(|| wheels::fetch(&cache_dir()?), Ok)?;
        if toolchain.is_fetched && toolchain.missing().next().is_some() {
            wheels::complete(&cache_dir()?);
        }
        Ok(toolchain)
    }

    /// Describes in one sentence which headers are missing and what provides them. `None` if none is missing.
    pub fn missing_headers(&self) -> Option<String> {
        let (names, packages): (Vec<_>, Vec<_>) = self.missing().map(|part| (part.name, part.package)).unzip();
        if names.is_empty() {
            return None;
        }
        let remedy = match self.is_fetched {
            true => "the next command that compiles fetches them with pip".to_owned(),
            false => format!("install the packages {}", packages.join(" and ")),
        };
        Some(format!(
            "{} could not be found in the {}, so kernels that include these headers do not compile: {remedy}",
            names.join(" and "),
            self.origin
        ))
    }

    /// Returns an identifier of these headers, and of those that optloop ships.
    pub fn headers_id(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (name, text) in headers::given() {
            hasher.update(name.as_bytes()).update(&[0]).update(text.as_bytes()).update(&[0]);
        }
        for text in VERSIONS.map(|file| fs::read(self.include.join(file)).unwrap_or_default()) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(&text);
        }
        hasher.finalize().to_hex().to_string()
    }

    fn missing(&self) -> impl Iterator<Item = &'static Part> {
        PARTS.iter().filter(|part| !part.files.iter().any(|file| self.include.join(file).is_file()))
    }

    fn in_toolkit(root: &Path) -> Option<Self> {
        let include = ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"]
            .map(|folder| root.join(folder))
            .into_iter()
            .find(|folder| folder.join("cuda_fp16.h").is_file())?;
        let library = |name| ["lib64", "lib"].iter().find_map(|folder| newest(&root.join(folder), name));
        Some(Self {
            nvrtc: library("libnvrtc.so.")?,
            builtins: library("libnvrtc-builtins.so.")?,
            include,
            origin: format!("CUDA toolkit in {}", root.display()),
            is_fetched: false,
        })
    }
}

/// Returns the folders in which a CUDA toolkit may be installed.
pub(super) fn toolkit_roots() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    named.chain([PathBuf::from("/usr/local/cuda"), PathBuf::from("/opt/cuda")]).collect()
}

/// Finds a program in the folders of `PATH`, then in CUDA toolkits.
pub(super) fn tool(name: &str) -> Option<PathBuf> {
    tool_in(name, std::env::var_os("PATH").as_deref(), &toolkit_roots())
}

/// Finds a program in the folders of a path, then in toolkits. Relative folders may belong to a project and are left out.
pub(super) fn tool_in(name: &str, path: Option<&OsStr>, toolkits: &[PathBuf]) -> Option<PathBuf> {
    let on_path = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let folders = on_path.into_iter().chain(toolkits.iter().map(|root| root.join("bin")));
    folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(name)).find(|tool| tool.is_file())
}

/// Finds the file `<prefix><version>` with the highest version, of major 12 or later.
fn newest(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version: Vec<u32> = name.strip_prefix(prefix)?.split('.').map_while(|part| part.parse().ok()).collect();
        (*version.first()? >= 12).then_some((version, entry.path()))
    });
    versions.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_of_a_toolkit_is_found() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "lib64/libnvrtc.so.12",
            "lib64/libnvrtc.so.13",
            "lib64/libnvrtc.so",
            "lib64/libnvrtc.so.11.2",
            "lib64/libnvrtc-builtins.so.13.0",
            "include/cuda_fp16.h",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let toolchain = Toolchain::in_toolkit(root.path()).unwrap();
        assert_eq!(toolchain.nvrtc, root.path().join("lib64/libnvrtc.so.13"));
        assert_eq!(toolchain.builtins, root.path().join("lib64/libnvrtc-builtins.so.13.0"));
        fs::remove_file(root.path().join("include/cuda_fp16.h")).unwrap();
        assert!(Toolchain::in_toolkit(root.path()).is_none());
    }
}
