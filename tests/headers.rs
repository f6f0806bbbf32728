//! Headers of the CUDA toolkit that lie outside its main folder: where they are found, and what happens without them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Sandbox, TEMPLATE};
use optloop::runner::headers::HEADERS;
use optloop::runner::toolchain::Toolchain;
use tempfile::TempDir;

/// Uses of these headers in kernels. The headers include others from their own folder and from the one above.
const USES: &str = r#"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/std/array>
#include <cuda/std/limits>
#include <cuda_pipeline.h>
#include <mma.h>
extern "C" __global__ void uses(float* x) {
    auto warp = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
    cuda::std::array<float, 2> pair = {*x, cuda::std::numeric_limits<float>::lowest()};
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sums;
    nvcuda::wmma::fill_fragment(sums, pair[0]);
    if (pair[0] != pair[0]) printf("thread %d: not a number\n", threadIdx.x);
    __pipeline_commit();
    *x = cooperative_groups::reduce(warp, sums.x[0] + pair[1], cooperative_groups::plus<float>());
}
"#;

const COMPILE: [&str; 7] = ["compile", "--workload", "small", "--case", "s64", "--arch", "sm_80"];

fn with_uses() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("templates/kernels/toy/kernel.cu.tera", &format!("{USES}{TEMPLATE}"));
    sandbox
}

/// Copies the toolkit's headers but those in the folders `cccl`, `crt` and `nv`, and links its libraries.
fn without_parts(root: &Path) -> PathBuf {
    let toolchain = Toolchain::find_or_fetch().unwrap();
    let include = root.join("include");
    copy(&toolchain.include, &include);
    copy(&toolchain.include.join("cooperative_groups"), &include.join("cooperative_groups"));
    copy(&toolchain.include.join("cooperative_groups/details"), &include.join("cooperative_groups/details"));
    symlink(toolchain.nvrtc.parent().unwrap(), root.join("lib")).unwrap();
    toolchain.include
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// Returns the line of `optloop doctor` about NVRTC.
fn doctor(mut doctor: Command) -> String {
    let told = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    told.lines().find(|line| line.contains(" NVRTC and headers: ")).unwrap().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn kernels_may_use_cooperative_groups_wmma_the_standard_library_and_printf() {
    let output = with_uses().optloop(&COMPILE);
    assert!(output.status.success(), "{}", said(&output));
    let nosy = Sandbox::new();
    nosy.write("mma.h", "#error the project's\n");
    nosy.write("templates/kernels/toy/kernel.cu.tera", &format!("#include \"mma.h\"\n{TEMPLATE}"));
    nosy.succeeds(&COMPILE);
}

/// One list has all headers. Each opens, and has what its name says.
#[test]
fn every_header_on_the_list_opens() {
    let sandbox = Sandbox::new();
    let includes: String = HEADERS.iter().map(|header| format!("#include <{}>\n", header.name)).collect();
    let uses =
        "static_assert(sizeof(int64_t) == 8 && sizeof(std::uint8_t) == 1 && INT32_MAX == 2147483647 && SIZE_MAX > 0);
static_assert(sizeof(uint) == 4 && sizeof(ushort) == 2);
static_assert(std::is_same<float, std::remove_const<const float>::type>::value);
static_assert(std::numeric_limits<float>::max() == FLT_MAX && CHAR_BIT == 8 && sizeof(CUtensorMap) == 128);
extern \"C\" __global__ void uses(float* x) {
    assert(*x == *x);
    __shared__ cub::BlockReduce<float, 64>::TempStorage sums;
    *x = cub::BlockReduce<float, 64>(sums).Reduce(*x, cub::Max());
    *x = std::sqrt(*x) + float(M_PI + DBL_EPSILON) + (*x < INFINITY ? 1 : 2);
}
";
    sandbox.write("templates/kernels/toy/kernel.cu.tera", &format!("{includes}{uses}{TEMPLATE}"));
    sandbox.succeeds(&COMPILE);
}

#[test]
fn an_installed_toolkit_is_searched_for_all_its_headers() {
    let (sandbox, toolkit, cache) = (with_uses(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let include = without_parts(toolkit.path());
    let command = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env("CUDA_HOME", toolkit.path()).env("XDG_CACHE_HOME", cache.path());
        command
    };
    let told = doctor(command(&["doctor"])).replace(&toolkit.path().display().to_string(), "TOOLKIT");
    insta::assert_snapshot!(told, @"missing  NVRTC and headers: CCCL (for cooperative_groups.h and cuda/) and CRT (for mma.h) could not be found in the CUDA toolkit in TOOLKIT, so kernels that include these headers do not compile: install the packages cuda-cccl and cuda-crt");
    let output = command(&COMPILE).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("cannot open source file"), "{}", said(&output));

    fs::remove_dir_all(toolkit.path().join("include")).unwrap();
    symlink(include, toolkit.path().join("include")).unwrap();
    assert!(doctor(command(&["doctor"])).starts_with("ok  "));
    let output = command(&COMPILE).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// A cache of an older optloop, and a pip that this test plays.
struct OldCache {
    sandbox: Sandbox,
    folder: TempDir,
    /// The toolkit's headers.
    include: PathBuf,
}

impl OldCache {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let home = folder.path().join("optloop/nvrtc-13.0.88/nvidia/cu13");
        fs::create_dir_all(&home).unwrap();
        let include = without_parts(&home);
        Self { sandbox: with_uses(), folder, include }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(arguments);
        command.env("PATH", format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap()));
        command.env("XDG_CACHE_HOME", self.folder.path()).env_remove("CUDA_HOME").env_remove("CUDA_PATH");
        command
    }

    /// Sets what `python3` does. It writes its arguments and the wheels that it is asked for into a file.
    fn python(&self, does: &str) {
        let python = self.folder.path().join("python3");
        let asked = self.folder.path().join("asked");
        let text = format!("#!/bin/sh\n(echo \"$*\"; cat requirements.txt) >>{}\n{does}\n", asked.display());
        fs::write(&python, text).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns what `python3` was asked for since the last time.
    fn asked(&self) -> String {
        let asked = self.folder.path().join("asked");
        let text = fs::read_to_string(&asked).unwrap_or_default();
        let _ = fs::remove_file(asked);
        text
    }
}

/// A toolkit in one of the usual places would be preferred to the cache.
fn has_toolkit() -> bool {
    ["/usr/local/cuda", "/opt/cuda"].iter().any(|toolkit| Path::new(toolkit).exists())
}

#[test]
fn missing_headers_are_added_to_an_old_cache() {
    if has_toolkit() {
        return;
    }
    let old = OldCache::new();
    let missing = doctor(old.command(&["doctor"])).replace(&old.folder.path().display().to_string(), "CACHE");
    insta::assert_snapshot!(missing, @"missing  NVRTC and headers: CCCL (for cooperative_groups.h and cuda/) and CRT (for mma.h) could not be found in the pinned wheels in CACHE/optloop/nvrtc-13.0.88, so kernels that include these headers do not compile: the next command that compiles fetches them with pip");
    assert_eq!(old.asked(), "", "doctor fetches nothing");
    let wheel = "mkdir -p wheels && : >wheels/headers.whl";
    let unpack = format!(
        "mkdir -p $5/nvidia/cu13/include && cp -r {0}/cccl {0}/crt $5/nvidia/cu13/include/",
        old.include.display()
    );
    old.python(&format!("case $2 in pip) {wheel};; zipfile) {unpack};; esac"));
    let output = old.command(&COMPILE).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let asked = old.asked();
    assert!(asked.contains("nvidia-cuda-cccl==") && asked.contains("nvidia-cuda-crt=="), "{asked}");
    assert!(!asked.contains("nvidia-cuda-nvrtc=="), "what is there is not fetched again: {asked}");

    assert!(old.command(&COMPILE).status().unwrap().success());
    assert_eq!(old.asked(), "");
    assert!(doctor(old.command(&["doctor"])).starts_with("ok  "));
    let left = fs::read_dir(old.folder.path().join("optloop")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with("fetch-")));
}

#[test]
fn without_network_an_old_cache_still_compiles() {
    if has_toolkit() {
        return;
    }
    let old = OldCache::new();
    old.python("echo 'no network' >&2; exit 1");
    let output = old.command(&COMPILE).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("cannot open source file"), "{}", said(&output));
    let told = String::from_utf8(output.stderr).unwrap().replace(&old.folder.path().display().to_string(), "CACHE");
    let told: Vec<&str> = told.lines().filter(|line| line.contains("headers")).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    fetching the CUDA headers for cooperative_groups.h, cuda/ and mma.h (3 MB, once)
    the headers for cooperative_groups.h, cuda/ and mma.h could not be fetched with pip (no network), so kernels that include these do not compile; optloop tries again in an hour, or once CACHE/optloop/headers-not-fetched is removed
    ");
    assert_eq!(old.asked().lines().filter(|line| line.contains("pip")).count(), 1);

    old.sandbox.write("templates/kernels/toy/kernel.cu.tera", &format!("#include <cuda_fp16.h>\n{TEMPLATE}"));
    let output = old.command(&COMPILE).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(old.asked(), "", "not every command waits for pip");
}
