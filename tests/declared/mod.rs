//! Ops that a project declares, without a change under `src/`: from a kernel to a committed winner, and what their
//! mistakes get.

mod adding;
mod checking;
mod cuda_oracle;
mod examples;
mod files;
mod first_look;
mod importing;
mod in_place;
mod integers;
mod problem;
mod tutorial;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common::{Sandbox, VIRTUAL_WINNERS};

const WORKLOAD: &str = r#"
name = "small"
about = "Two small cases."
op = "rms-norm"
dtype = "f32"
initial_kernel = "rms-norm-rows"
tolerance = { relative_l2 = 1e-5, worst_row = 4e-5 }
[[case]]
name = "r4n64"
R = 4
N = 64
[[case]]
name = "r8n500"
R = 8
N = 500
"#;

/// Returns a folder with numpy, which oracles need. pip fetches it once, if the machine's Python has none.
fn numpy() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("numpy");
        let has_numpy = |folder: &Path| {
            let mut python = Command::new("python3");
            python.args(["-c", "import numpy"]).env("PYTHONPATH", folder).output().unwrap().status.success()
        };
        if !has_numpy(&folder) {
            let staging = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy", "--target"];
            let pip = Command::new("python3").args(install).arg(staging.path()).output().unwrap();
            assert!(pip.status.success(), "{}", String::from_utf8_lossy(&pip.stderr));
            // Another process may have done the same.
            let _ = std::fs::rename(staging.path(), &folder);
        }
        folder
    })
}

/// Makes a project whose only op is its own.
fn project() -> Sandbox {
    let sandbox = Sandbox::without_repository();
    std::fs::remove_dir_all(sandbox.path("templates/kernels/toy")).unwrap();
    let here = |file: &str| std::fs::read_to_string(Path::new(file!()).with_file_name(file)).unwrap();
    for (path, file) in [
        ("kernels/ops/rms-norm/op.toml", "op.toml"),
        ("kernels/ops/rms-norm/oracle.py", "oracle.py"),
        ("templates/kernels/rms-norm-rows/family.toml", "family.toml"),
        ("templates/kernels/rms-norm-rows/kernel.cu.tera", "kernel.cu.tera"),
    ] {
        sandbox.write(path, &here(file));
    }
    let fragment = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/kernels/common/element.cu.tera");
    sandbox.write("templates/kernels/common/element.cu.tera", &std::fs::read_to_string(fragment).unwrap());
    sandbox.write("kernels/workloads/small.toml", WORKLOAD);
    sandbox.git(&["init", "--quiet"]);
    sandbox.git(&["add", "--all"]);
    sandbox.git(&["commit", "--quiet", "--message", "a project"]);
    sandbox
}

/// Calls optloop with numpy in reach, and returns its exit code, its output and its last message.
fn call(sandbox: &Sandbox, arguments: &[&str]) -> (i32, String, String) {
    let output = sandbox.command(arguments).env("PYTHONPATH", numpy()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap().replace(&sandbox.path("").display().to_string(), "PROJECT/");
    let last = errors.lines().last().unwrap_or_default().to_owned();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), last)
}

/// Returns the message of a session that is refused before it begins.
fn refused(sandbox: &Sandbox) -> String {
    let (code, _, said) =
        call(sandbox, &["start", "--workload", "small", "--device", "fake", "--trust", "--budget", "5s"]);
    assert_eq!(code, 2, "{said}");
    assert!(!sandbox.path(".optloop/reports").exists(), "nothing was begun");
    said
}

#[test]
fn a_projects_own_op_goes_from_a_kernel_to_a_committed_winner() {
    let sandbox = project();
    let start = ["start", "--workload", "small", "--device", "virtual:h200", "--iterations", "5", "--seed", "1"];
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 2);
    insta::assert_snapshot!(said, @"error: this project chooses what you have not trusted: the oracle of workload `small`'s op, `python3 kernels/ops/rms-norm/oracle.py`; `optloop trust` shows it and asks, `--trust` trusts it");
    let (code, _, said) = call(&sandbox, &[&start[..], &["--trust"]].concat());
    assert_eq!(code, 0, "{said}");
    let report = sandbox.report();
    for case in report["cases"].as_array().unwrap() {
        assert!(case["speedup_over_start"].as_f64().unwrap() > 1.0, "{case}");
    }
    let sidecar = sandbox.json(&format!("{VIRTUAL_WINNERS}/r8n500.json"));
    assert_eq!(sidecar["variant"]["family"], "rms-norm-rows", "{sidecar}");
    assert!(sandbox.git(&["log", "-1", "--format=%s"]).starts_with("small: 2 winners"));
    // Another session starts from the winners, and nothing has changed.
    let (code, _, said) = call(&sandbox, &["reproduce", "HEAD", "--device", "virtual:h200"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_kernel_that_differs_from_the_projects_oracle_is_wrong() {
    let sandbox = project();
    let family = "templates/kernels/rms-norm-rows/family.toml";
    sandbox.replace(family, "values = [0]\ndefault = 0", "values = [1]\ndefault = 1");
    sandbox.replace("kernels/ops/rms-norm/op.toml", "eps = 1e-5", "eps = 0.1");
    let start = ["start", "--workload", "small", "--device", "virtual:h200", "--iterations", "1", "--trust"];
    let (code, _, said) = call(&sandbox, &start);
    let told = "error: no variant of session 1 was correct, so the kernel or its oracle is wrong";
    assert!(code == 1 && said.starts_with(told), "{said}");
    let (_, shown, _) = call(&sandbox, &["show", "1"]);
    assert!(shown.contains("wrong") && shown.contains("relative error"), "{shown}");
}

#[test]
fn no_verb_runs_an_oracle_without_trust() {
    let sandbox = project();
    sandbox.write("kernels/ops/rms-norm/oracle.py", "import sys\nsys.exit('it ran')\n");
    for verb in [
        &["start", "--workload", "small", "--budget", "5s"][..],
        &["bench", "rms-norm-rows", "--workload", "small", "--case", "r4n64"],
        &["diagnose", "rms-norm-rows", "--workload", "small", "--case", "r4n64"],
    ] {
        let (code, _, said) = call(&sandbox, &[verb, &["--device", "virtual:h200"]].concat());
        assert!(code == 2 && said.contains("have not trusted: the oracle of workload `small`"), "{verb:?}: {said}");
    }
}

#[test]
fn a_mistake_in_an_oracle_is_named_with_its_line_before_anything_is_spent() {
    let sandbox = project();
    let with = |body: &str| {
        sandbox.write("kernels/ops/rms-norm/oracle.py", &format!("import numpy as np\n\n{body}\n"));
        refused(&sandbox)
    };
    insta::assert_snapshot!(with("def oracle(x, w, eps):\n    return x["), @"error: case `r4n64`: the oracle of op `rms-norm` failed: SyntaxError: '[' was never closed (oracle.py, line 4)");
    insta::assert_snapshot!(with("def oracle(x, w, eps):\n    raise ValueError('no')"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: ValueError: no (oracle.py, line 4)");
    insta::assert_snapshot!(with("def oracle(x, weight):\n    return x"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: LookupError: its parameter `weight` is not a dimension, an input or a scalar of the op");
    insta::assert_snapshot!(with("def oracle(x):\n    return x[:, 1:]"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: ValueError: it returned the shape [4, 63], but the output has [4, 64]");
    insta::assert_snapshot!(with("def oracle(x):\n    return x.astype('float32')"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: ValueError: it returned float32, which is not exact enough: compute in float64");
    insta::assert_snapshot!(with("def oracle(x):\n    pass"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: ValueError: it returned nothing");
    insta::assert_snapshot!(with("def oracle(x):\n    return x + np.random.rand()"), @"error: case `r4n64`: the oracle of op `rms-norm` returned two results for the same inputs: it must depend on its arguments alone, so remove random numbers and state");
    insta::assert_snapshot!(with("def oracle(x):\n    return x * np.nan"), @"error: case `r4n64`: the oracle of op `rms-norm` returned NaN for ordinary random inputs");
    insta::assert_snapshot!(with("def orcale(x):\n    return x"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: LookupError: the file defines no function `oracle`");
    insta::assert_snapshot!(with("def oracle(x):\n    import os\n    os._exit(1)"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: it ended with exit code 1, and without an error message");
    insta::assert_snapshot!(with("import torches"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: ModuleNotFoundError: No module named 'torches' (oracle.py, line 3)");
    insta::assert_snapshot!(with("def oracle(x):\n    open('/etc/shadow')"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: PermissionError: [Errno 13] Permission denied: '/etc/shadow' (oracle.py, line 4)");
}

#[test]
fn what_an_oracle_prints_is_not_part_of_its_answer() {
    let sandbox = project();
    let printing = "import numpy as np\nprint('loaded')\n\ndef oracle(x, w, eps, **others):\n    print(sorted(others))\n    \
                    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w\n";
    sandbox.write("kernels/ops/rms-norm/oracle.py", printing);
    let start = ["start", "--workload", "small", "--device", "fake", "--trust", "--iterations", "3"];
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn an_op_that_cannot_be_read_is_one_sentence_with_its_file() {
    let sandbox = project();
    let plain = |said: String| said.replace(&sandbox.path("").display().to_string(), "PROJECT/");
    sandbox.replace("kernels/ops/rms-norm/op.toml", "role = \"output\"", "role = \"input\"");
    insta::assert_snapshot!(plain(refused(&sandbox)), @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: it has no output: give a tensor the role `output` or `in-place`");
    sandbox.replace("kernels/ops/rms-norm/op.toml", "role = \"input\"", "role = \"outputs\"");
    insta::assert_snapshot!(plain(refused(&sandbox)), @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: line 18: unknown variant `outputs`, expected one of `input`, `in-place`, `output` (did you mean `output`?)");
    std::fs::rename(sandbox.path("kernels/ops/rms-norm"), sandbox.path("kernels/ops/rms-norms")).unwrap();
    insta::assert_snapshot!(plain(refused(&sandbox)), @"error: PROJECT/kernels/workloads/small.toml: op `rms-norm` is not known (did you mean `rms-norms`?); there are: attention, gemm, linear, linear-w4, grouped-linear, top-k, delta-attention, rms-norms; kernels/ops/rms-norm/op.toml would declare it");
}
