//! Finds NVRTC and the CUDA headers: an installed toolkit, or pinned wheels fetched into the user's cache.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::ProgressBar;

use super::activity;
use crate::environment;

/// The location of NVRTC and the headers.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// `libnvrtc.so.N`.
    pub nvrtc: PathBuf,
    /// `libnvrtc-builtins.so.N.M`, which NVRTC loads by name.
    pub builtins: PathBuf,
    /// The folder with `cuda_fp16.h`.
    pub include: PathBuf,
    /// The toolchain's source, for people.
    pub origin: String,
}

/// The wheels, pinned by hash for x86_64 and aarch64. `pip` refuses anything else.
const REQUIREMENTS: &str = "\
nvidia-cuda-nvrtc==13.0.88 \
--hash=sha256:ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575 \
--hash=sha256:d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b
nvidia-cuda-runtime==13.0.96 \
--hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548 \
--hash=sha256:ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55
";

/// The cache's folder for the wheels. Other pins have another folder.
const WHEELS: &str = "nvrtc-13.0.88";

/// Returns optloop's folder for data that can be made again: `$XDG_CACHE_HOME/optloop`.
pub fn cache_dir() -> anyhow::Result<PathBuf> {
    let base = dirs::cache_dir().context("There is no cache folder: set XDG_CACHE_HOME or HOME")?;
    Ok(base.join("optloop"))
}

impl Toolchain {
    /// Finds a toolchain without fetching anything.
    pub fn installed() -> Option<Self> {
        toolkit_roots().iter().find_map(|root| Self::in_toolkit(root)).or_else(|| {
            let wheels = cache_dir().ok()?.join(WHEELS);
            Self::in_wheels(&wheels)
        })
    }

    /// Finds a toolchain, fetching the pinned wheels if there is none.
    pub fn find_or_fetch() -> anyhow::Result<Self> {
        match Self::installed() {
            Some(toolchain) => Ok(toolchain),
            None => fetch_wheels(&cache_dir()?),
        }
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
        })
    }

    fn in_wheels(root: &Path) -> Option<Self> {
        let home = root.join("nvidia/cu13");
        let found = Self::in_toolkit(&home)?;
        Some(Self { origin: format!("pinned wheels in {}", root.display()), ..found })
    }
}

fn toolkit_roots() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    named.chain([PathBuf::from("/usr/local/cuda"), PathBuf::from("/opt/cuda")]).collect()
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

/// Downloads the wheels with pip, which verifies their hashes, and unpacks them. Only one process at a time does this.
fn fetch_wheels(cache: &Path) -> anyhow::Result<Toolchain> {
    fs::create_dir_all(cache).with_context(|| format!("Failed to create {}", cache.display()))?;
    let lock = File::create(cache.join("fetch.lock")).context("Failed to create the lock of the download")?;
    let waiting = activity::begin("waiting for the download of another optloop process", None);
    lock.lock().context("Failed to wait for the download of another optloop process")?;
    drop(waiting);
    let home = cache.join(WHEELS);
    if let Some(toolchain) = Toolchain::in_wheels(&home) {
        return Ok(toolchain);
    }
    let started = Instant::now();
    let _running = activity::begin("fetching NVRTC 13.0.88", None);
    let line = ProgressBar::new_spinner();
    line.set_message("no CUDA toolkit here: fetching NVRTC 13.0.88 and the CUDA headers (92 MB, once)");
    line.enable_steady_tick(Duration::from_millis(120));
    if line.is_hidden() {
        say("no CUDA toolkit here: fetching NVRTC 13.0.88 and the CUDA headers (92 MB, once)");
    }
    let staging = tempdir_in(cache)?;
    let unpacked = download_and_unpack(&staging);
    line.finish_and_clear();
    unpacked.and_then(|folder| {
        let _ = fs::remove_dir_all(&home);
        fs::rename(&folder, &home).with_context(|| format!("Failed to create {}", home.display()))
    })?;
    let _ = fs::remove_dir_all(&staging);
    say(&format!("fetched NVRTC 13.0.88 in {:.0} s into {}", started.elapsed().as_secs_f64(), home.display()));
    Toolchain::in_wheels(&home).with_context(|| format!("the wheels in {} have an unexpected layout", home.display()))
}

/// Prints a line on standard error, and ignores a closed one.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn tempdir_in(cache: &Path) -> anyhow::Result<PathBuf> {
    let folder = cache.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("Failed to create {}", folder.display()))?;
    Ok(folder)
}

fn download_and_unpack(staging: &Path) -> anyhow::Result<PathBuf> {
    let (wheels, unpacked) = (staging.join("wheels"), staging.join("unpacked"));
    let requirements = staging.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).context("Failed to write the list of wheels")?;
    python(
        staging,
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"])
            .args(["--disable-pip-version-check", "--dest"])
            .arg(&wheels)
            .arg("--requirement")
            .arg(&requirements),
    )?;
    for entry in fs::read_dir(&wheels).context("Failed to list the wheels")?.flatten() {
        python(staging, Command::new("python3").args(["-m", "zipfile", "-e"]).arg(entry.path()).arg(&unpacked))?;
    }
    Ok(unpacked)
}

/// Runs Python in a folder without modules. In the project's folder it would import the project's.
fn python(folder: &Path, command: &mut Command) -> anyhow::Result<()> {
    let output = environment::limit_pip(command).current_dir(folder).output().context(
        "NVRTC is missing and python3 cannot be run to fetch it: install a CUDA toolkit, or python3 with pip",
    )?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed no error message");
    bail!("NVRTC could not be fetched with pip ({last}): install a CUDA toolkit, or fix pip and try again")
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
