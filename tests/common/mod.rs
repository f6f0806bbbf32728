//! A separate project for every scenario: a temporary folder with a small workload, a small family and a git
//! repository.
#![allow(dead_code, reason = "the bench uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

pub mod times;

/// A workload of three small cases; two of them share a source.
pub const WORKLOAD: &str = r#"
name = "small"
about = "Three small cases."
op = "attention"
dtype = "f16"
initial_kernel = "toy"
tolerance = { relative_l2 = 1e-3, worst_row = 4e-3 }
dims = { B = 2, H = 2, CAUSAL = 1 }
[[case]]
name = "s4d4"
Sq = 4
Sk = 4
D = 4
[[case]]
name = "s64"
Sq = 64
Sk = 64
D = 16
[[case]]
name = "s128"
Sq = 128
Sk = 128
D = 16
"#;

/// A family whose modelled time on the fake device falls with smaller tiles and more threads.
pub const MANIFEST: &str = r#"
name = "toy"
about = "A family for tests: nothing of it is ever executed."
op = "attention"
dtypes = ["f16", "f32"]
requires_sm = 80
constants = ["D"]
[params.TILE]
values = [4, 8, 16, 32, 64]
default = 64
about = "query rows per block"
expect = [1.0, 4.0]
[params.THREADS]
values = [32, 64, 128, 256]
default = 32
about = "threads per block"
expect = [1.0, 4.0]
[params.FAULT]
values = [0]
default = 0
about = "what the fake device does wrong"
expect = [1.0, 1.0]
[[constraint]]
expr = "TILE * THREADS <= 8192"
why = "a made-up limit"
[[launch]]
kernel = "toy"
grid = ["ceil_div(Sq, TILE)", "B * H"]
block = ["THREADS"]
args = ["q", "k", "v", "o", "Sq", "scale", "FAULT"]
"#;

/// The family's source. It compiles and never runs.
pub const TEMPLATE: &str = r#"
constexpr int TILE = <$ TILE $>, THREADS = <$ THREADS $>, FAULT = <$ FAULT $>, D = <$ D $>;
extern "C" __global__ void __launch_bounds__(THREADS)
toy(const short* q, const short* k, const short* v, short* o, int Sq, float scale, int fault) {
    o[blockIdx.x * TILE + threadIdx.x] = q[threadIdx.x * D] + FAULT;
}
"#;

/// Folder of the fake device's winners.
pub const FAKE_WINNERS: &str = "kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small";

/// Folder of the virtual H200's winners.
pub const VIRTUAL_WINNERS: &str = "kernels/variants/virtual-h200-132sm-132gib/small";

/// Tells whether a test should run everything, as in scripts/nightly. In the gate, it runs a sentinel of each kind.
pub fn is_nightly() -> bool {
    std::env::var_os("OPTLOOP_TESTS").is_some_and(|which| which == "all")
}

/// A project in a temporary folder.
pub struct Sandbox {
    folder: TempDir,
    /// The user's trust file, outside the project.
    state: TempDir,
    _stopwatch: times::Stopwatch,
}

impl Sandbox {
    /// Makes a project inside a git repository of its own.
    pub fn new() -> Self {
        let sandbox = Self::without_repository();
        sandbox.git(&["init", "--quiet"]);
        sandbox.git(&["add", "--all"]);
        sandbox.git(&["commit", "--quiet", "--message", "a project"]);
        sandbox
    }

    /// Makes a project outside any repository.
    pub fn without_repository() -> Self {
        let _stopwatch = times::Stopwatch::start();
        let sandbox = Self { folder: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap(), _stopwatch };
        // The simplest proposer, so that scenarios about other things do not change with the default one.
        // Few scenarios are about the first look at a family, which would take as long as the rest.
        // Most scenarios look at the commit on the branch that is checked out; tests/git.rs has the usual way.
        let config = "[git]\nbranch = ''\n[session]\nproposer = 'local'\n[validate]\nfirst_look_share = 0\n\
                      [benchmark]\nscreening_samples = 20\nconfirmation_samples = 40\n";
        sandbox.write("config.toml", config);
        sandbox.write(".gitignore", "/.optloop/\n");
        sandbox.write("kernels/workloads/small.toml", WORKLOAD);
        sandbox.write("templates/kernels/toy/family.toml", MANIFEST);
        sandbox.write("templates/kernels/toy/kernel.cu.tera", TEMPLATE);
        sandbox
    }

    /// Makes a project with a family of the repository. Its kernels are executed, unlike those of the toy family.
    pub fn with_attention() -> Self {
        Self::with_families(WORKLOAD, &["attention-scalar"])
    }

    /// Makes a project with families of the repository. The first one is its workload's initial kernel.
    pub fn with_families(workload: &str, families: &[&str]) -> Self {
        let sandbox = Self::without_repository();
        for family in families {
            let folder = format!("templates/kernels/{family}");
            sandbox.copy_family(&folder, &folder);
        }
        let initial_kernel = format!("initial_kernel = \"{}\"", families[0]);
        sandbox.write("kernels/workloads/small.toml", &workload.replace("initial_kernel = \"toy\"", &initial_kernel));
        let fragments = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/kernels/common");
        for fragment in fs::read_dir(fragments).unwrap().map(|entry| entry.unwrap().path()) {
            let name = fragment.file_name().unwrap().to_str().unwrap();
            sandbox.write(&format!("templates/kernels/common/{name}"), &fs::read_to_string(&fragment).unwrap());
        }
        fs::remove_dir_all(sandbox.path("templates/kernels/toy")).unwrap();
        sandbox.git(&["init", "--quiet"]);
        sandbox.git(&["add", "--all"]);
        sandbox.git(&["commit", "--quiet", "--message", "a project"]);
        sandbox
    }

    /// Returns a path in the project.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the project.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Copies a folder with a family of the repository into a folder of the project.
    pub fn copy_family(&self, from: &str, to: &str) {
        for file in ["family.toml", "kernel.cu.tera"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(from).join(file);
            self.write(&format!("{to}/{file}"), &fs::read_to_string(path).unwrap());
        }
    }

    /// Replaces a part of a file of the project; fails if the part is absent.
    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{name} has no {from:?}");
        self.write(name, &text.replace(from, to));
    }

    /// Reads a JSON file of the project, such as a sidecar.
    pub fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    /// Returns the path of the source that a case's sidecar in a folder names.
    pub fn source(&self, folder: &str, case: &str) -> String {
        let sidecar = self.json(&format!("{folder}/{case}.json"));
        format!("{folder}/{}", sidecar["source"].as_str().unwrap())
    }

    /// Moves a case's winner to another folder in the format of version 0.1.0: the source is named after the case.
    pub fn age_winner(&self, from: &str, to: &str, case: &str) {
        let text = |path: &str| fs::read_to_string(self.path(path)).unwrap();
        let (sidecar, source) = (text(&format!("{from}/{case}.json")), text(&self.source(from, case)));
        // Line by line, because the order of the parameters is part of the variant.
        let lines = sidecar.lines().filter(|line| !line.starts_with("  \"source\": "));
        let aged = lines.collect::<Vec<_>>().join("\n").replace("optloop.sidecar/2", "optloop.sidecar/1");
        self.write(&format!("{to}/{case}.json"), &aged);
        self.write(&format!("{to}/{case}.cu"), &source);
        fs::remove_dir_all(self.path(from)).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "as version 0.1.0 had it"]);
    }

    /// Prepares a call of optloop in the project.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_optloop"));
        command.args(arguments).current_dir(self.folder.path()).env("OPTLOOP_FAKE_DEVICE", "1");
        command.env("XDG_STATE_HOME", self.state.path());
        command
    }

    /// Trusts what the project chooses to run.
    pub fn trust(&self) {
        self.succeeds(&["trust", "--yes"]);
    }

    /// Trusts the project, and lets its baselines write into it.
    pub fn trust_to_write(&self) {
        self.write("config.toml", "[baseline]\nwrite = ['.']\n");
        self.trust();
    }

    /// Calls optloop in the project.
    pub fn optloop(&self, arguments: &[&str]) -> Output {
        times::output(&mut self.command(arguments))
    }

    /// Calls optloop, which must succeed, and returns its output.
    pub fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.optloop(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a session of `iterations` on the fake device.
    pub fn session(&self, iterations: &str, more: &[&str]) -> Output {
        let start = ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--iterations", iterations];
        self.optloop(&[&start, more].concat())
    }

    /// Calls optloop, which must fail. Returns its exit code and its message, without the project's path.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let output = self.optloop(arguments);
        let said = String::from_utf8(output.stderr).unwrap().replace(&self.root(), "PROJECT");
        let code = output.status.code().unwrap_or(-1);
        assert_ne!(code, 0, "{arguments:?} succeeded");
        assert!(output.stdout.is_empty(), "{arguments:?} printed data");
        format!("{code} {}", said.trim_end())
    }

    /// Returns the latest session's report as JSON.
    pub fn report(&self) -> serde_json::Value {
        serde_json::from_str(&self.succeeds(&["report", "--format", "json"])).unwrap()
    }

    /// Runs git in the project, with a separate identity, and returns its output.
    pub fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=A User", "-c", "user.email=user@example.com", "-c", "init.defaultBranch=main"];
        let output =
            Command::new("git").args(identity).args(arguments).current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn root(&self) -> String {
        Path::new(self.folder.path()).display().to_string()
    }
}
