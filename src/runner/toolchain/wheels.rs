//! The pinned wheels: NVRTC and the CUDA headers for a machine without a toolkit, fetched by pip.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use indicatif::ProgressBar;
use tempfile::TempDir;

use super::Toolchain;
use crate::environment;
use crate::runner::activity;

/// The wheels, pinned by hash for x86_64 and aarch64. `pip` refuses anything else.
const NVRTC: &str = "\
nvidia-cuda-nvrtc==13.0.88 \
--hash=sha256:ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575 \
--hash=sha256:d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b
nvidia-cuda-runtime==13.0.96 \
--hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548 \
--hash=sha256:ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55
";

/// The headers that those of the runtime include.
const HEADERS: &str = "\
nvidia-cuda-cccl==13.0.85 \
--hash=sha256:e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649 \
--hash=sha256:6f0203e29fed809ee2b7fe9b1344df66ecab990c37d6a2e0e189b26d6c97ed7c
nvidia-cuda-crt==13.0.88 \
--hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4 \
--hash=sha256:ee2ea2a97073e02ee62bb27841f437332be2c248e3eac013df07997ada39c003
";

/// The cache's folder for the wheels. Another NVRTC has another folder.
const FOLDER: &str = "nvrtc-13.0.88";

/// The cache's file that tells when the headers could not be fetched.
const FAILED: &str = "headers-not-fetched";

/// How long after a failure the headers are not fetched again. Without a network, every command would wait for pip.
const PAUSE: Duration = Duration::from_secs(3600);

/// Finds the wheels in optloop's cache.
pub fn installed(cache: &Path) -> Option<Toolchain> {
    let home = cache.join(FOLDER);
    let found = Toolchain::in_toolkit(&home.join("nvidia/cu13"))?;
    Some(Toolchain { origin: format!("pinned wheels in {}", home.display()), is_fetched: true, ..found })
}

/// Downloads NVRTC and the headers of the runtime.
pub fn fetch(cache: &Path) -> anyhow::Result<Toolchain> {
    let _lock = lock(cache)?;
    if let Some(toolchain) = installed(cache) {
        return Ok(toolchain);
    }
    let started = Instant::now();
    let staging = staging(cache)?;
    let what = "no CUDA toolkit here: fetching NVRTC 13.0.88 and the CUDA headers (92 MB, once)";
    let unpacked =
        reported("fetching NVRTC 13.0.88", what, || download(staging.path(), NVRTC, &[])).map_err(|error| {
            anyhow!(
                "NVRTC could not be fetched with pip ({error:#}): install a CUDA toolkit, or repair pip and try again"
            )
        })?;
    let home = cache.join(FOLDER);
    let _ = fs::remove_dir_all(&home);
    fs::rename(&unpacked, &home).with_context(|| format!("Failed to create {}", home.display()))?;
    say(&format!("fetched NVRTC 13.0.88 in {:.0} s into {}", started.elapsed().as_secs_f64(), home.display()));
    installed(cache).with_context(|| format!("the wheels in {} have an unexpected layout", home.display()))
}

/// Downloads the other headers, which older versions of optloop did not. Most kernels do without them, so a failure is
/// only reported.
pub fn complete(cache: &Path) {
    let failed = cache.join(FAILED);
    let age = fs::metadata(&failed).and_then(|file| file.modified()).ok().and_then(|at| at.elapsed().ok());
    if age.is_some_and(|age| age < PAUSE) {
        return;
    }
    if let Err(error) = add_headers(cache) {
        let _ = File::create(&failed);
        say(&format!(
            "the headers for cooperative_groups.h, cuda/ and mma.h could not be fetched with pip ({error:#}), so kernels \
             that include these do not compile; optloop tries again in an hour, or once {} is removed",
            failed.display()
        ));
    }
}

fn add_headers(cache: &Path) -> anyhow::Result<()> {
    let _lock = lock(cache)?;
    if installed(cache).is_some_and(|toolchain| toolchain.missing().next().is_none()) {
        return Ok(());
    }
    let staging = staging(cache)?;
    let what = "fetching the CUDA headers for cooperative_groups.h, cuda/ and mma.h (3 MB, once)";
    // Without a network, pip waits for a long time. These headers are not worth it.
    let hasty = ["--retries=1", "--timeout=15"];
    let unpacked = reported("fetching the CUDA headers", what, || download(staging.path(), HEADERS, &hasty))?;
    merge(&unpacked, &cache.join(FOLDER)).context("Failed to move the headers into the cache")
}

/// Waits until no other process changes the cache's wheels.
fn lock(cache: &Path) -> anyhow::Result<File> {
    fs::create_dir_all(cache).with_context(|| format!("Failed to create {}", cache.display()))?;
    let lock = File::create(cache.join("fetch.lock")).context("Failed to create the lock of the download")?;
    let _waiting = activity::begin("waiting for the download of another optloop process", None);
    lock.lock().context("Failed to wait for the download of another optloop process")?;
    Ok(lock)
}

/// Makes a folder in the cache that is removed in the end.
fn staging(cache: &Path) -> anyhow::Result<TempDir> {
    let staging = tempfile::Builder::new().prefix("fetch-").tempdir_in(cache);
    staging.with_context(|| format!("Failed to create a folder in {}", cache.display()))
}

/// Reports an activity while it runs.
fn reported<T>(activity: &str, what: &'static str, work: impl FnOnce() -> T) -> T {
    let _running = activity::begin(activity, None);
    let line = ProgressBar::new_spinner();
    line.set_message(what);
    line.enable_steady_tick(Duration::from_millis(120));
    if line.is_hidden() {
        say(what);
    }
    let done = work();
    line.finish_and_clear();
    done
}

/// Prints a line on standard error, and ignores a closed one.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Downloads wheels with pip, which verifies their hashes, and unpacks them. Returns the folder that holds them.
fn download(staging: &Path, requirements: &str, options: &[&str]) -> anyhow::Result<PathBuf> {
    let (wheels, unpacked) = (staging.join("wheels"), staging.join("unpacked"));
    let list = staging.join("requirements.txt");
    fs::write(&list, requirements).context("Failed to write the list of wheels")?;
    python(
        staging,
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"])
            .args(["--disable-pip-version-check", "--dest"])
            .arg(&wheels)
            .arg("--requirement")
            .arg(&list)
            .args(options),
    )?;
    for entry in fs::read_dir(&wheels).context("Failed to list the wheels")?.flatten() {
        python(staging, Command::new("python3").args(["-m", "zipfile", "-e"]).arg(entry.path()).arg(&unpacked))?;
    }
    Ok(unpacked)
}

/// Runs Python in a folder without modules. In the project's folder it would import the project's.
fn python(folder: &Path, command: &mut Command) -> anyhow::Result<()> {
    let output = environment::limit_pip(command).current_dir(folder).output().context("python3 cannot be run")?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    bail!("{}", stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed no error message"))
}

/// Moves what is in one folder into another. A folder that is new there appears at once with all that it holds.
fn merge(from: &Path, into: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = into.join(entry.file_name());
        if target.is_dir() {
            merge(&entry.path(), &target)?;
        } else {
            fs::rename(entry.path(), target)?;
        }
    }
    Ok(())
}
