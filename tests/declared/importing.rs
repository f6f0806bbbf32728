//! `optloop import`: files of other tools become families that are right and get faster, and what their mistakes get.

use std::path::Path;

use super::{call, project};
use crate::common::Sandbox;

/// Copies an example into a folder `theirs` of a project.
fn with_example(name: &str) -> Sandbox {
    let sandbox = project();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/import").join(name);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        sandbox.write(&format!("theirs/{name}"), &std::fs::read_to_string(&path).unwrap());
    }
    sandbox
}

/// Imports an example, checks it, and runs a short session that finds a faster variant. Returns what the import says.
fn imported(sandbox: &Sandbox, import: &[&str], name: &str) -> String {
    let (code, shown, said) = call(sandbox, &[&["import"], import].concat());
    assert_eq!(code, 0, "{said}");
    sandbox.git(&["add", "kernels", "templates"]);
    sandbox.git(&["commit", "--quiet", "--message", name]);
    let (code, checked, said) = call(sandbox, &["check", name, "--device", "virtual:h200", "--trust"]);
    assert_eq!(code, 0, "{checked}{said}");
    let start =
        ["start", "--workload", name, "--device", "virtual:h200", "--iterations", "6", "--seed", "1", "--trust"];
    let (code, _, said) = call(sandbox, &start);
    assert_eq!(code, 0, "{said}");
    let report = sandbox.report();
    assert!(report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.0, "{}", report["cases"][0]);
    assert!(sandbox.git(&["log", "-1", "--format=%s"]).starts_with(&format!("{name}: ")));
    shown
}

fn text(sandbox: &Sandbox, file: &str) -> String {
    std::fs::read_to_string(sandbox.path(file)).unwrap()
}

const DEFINITION: [&str; 9] = [
    "theirs/rmsnorm.json",
    "--workloads",
    "theirs/rmsnorm.jsonl",
    "--kernel-file",
    "theirs/rmsnorm.cu",
    "--grid",
    "batch_size",
    "--block",
    "THREADS",
];

/// What a workload of the definition says after the size.
const EPS: &str = r#", "inputs": {"hidden_states": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-06}"#;

#[test]
fn a_script_of_kernel_tuner_is_imported_and_gets_faster() {
    let sandbox = with_example("kernel-tuner");
    let (code, _, said) = call(&sandbox, &["import", "theirs/convolution.py"]);
    assert_eq!(code, 2);
    insta::assert_snapshot!(said, @"");
    let shown = imported(
        &sandbox,
        &["theirs/convolution.py", "--trust", "--flop", "2 * height * width * filter_width * filter_width"],
        "convolution",
    );
    insta::assert_snapshot!(shown, @"");
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/convolution/oracle.py"), @"");
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/convolution/op.toml"), @"");
    insta::assert_snapshot!(text(&sandbox, "templates/kernels/convolution/family.toml"), @"");
}

#[test]
fn a_t1_file_is_imported_and_gets_faster() {
    let sandbox = with_example("t1");
    imported(&sandbox, &["theirs/matmul.json", "--oracle", "theirs/matmul.py", "--flop", "2 * m * n * k"], "matmul");
    insta::assert_snapshot!(text(&sandbox, "kernels/workloads/matmul.toml"), @"");
    insta::assert_snapshot!(text(&sandbox, "templates/kernels/matmul/family.toml"), @"");
}

#[test]
fn a_definition_of_flashinfer_bench_is_imported_and_gets_faster() {
    let sandbox = with_example("flashinfer-bench");
    imported(&sandbox, &[&DEFINITION[..], &["--independent", "batch_size"]].concat(), "rmsnorm-h1024");
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/rmsnorm-h1024/op.toml"), @"");
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/rmsnorm-h1024/oracle.py"), @"");
}

/// Imports an example with a change, which is refused without a trace.
fn refused(name: &str, import: &[&str], (file, from, to): (&str, &str, &str)) -> String {
    let sandbox = with_example(name);
    if !file.is_empty() {
        sandbox.replace(&format!("theirs/{file}"), from, to);
    }
    let (code, _, said) = call(&sandbox, &[&["import"], import].concat());
    assert_eq!(code, 2, "{said}");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "?? theirs/\n", "{said}");
    said
}

#[test]
fn what_a_t1_file_lacks_is_said_at_once_and_nothing_is_written() {
    let import = ["theirs/matmul.json", "--oracle", "theirs/matmul.py"];
    let with = |from: &str, to: &str| refused("t1", &import, ("matmul.json", from, to));
    insta::assert_snapshot!(refused("t1", &import[..1], ("", "", "")), @"");
    insta::assert_snapshot!(with("\"CUDA\"", "\"OpenCL\""), @"");
    insta::assert_snapshot!(with("\"[8, 16, 32]\"", "\"[0.5, 1]\""), @"");
    insta::assert_snapshot!(with("block_size_x % block_size_y == 0", "block_size_x @ 2"), @"");
    insta::assert_snapshot!(with("block_size_x % block_size_y == 0", "block_size_x > 64"), @"");
    insta::assert_snapshot!(with("\"FillValue\": 192", "\"FillValue\": 256"), @"");
    insta::assert_snapshot!(with("\"WriteOnly\"", "\"ReadWrite\""), @"");
    insta::assert_snapshot!(with("\"KernelName\": \"matmul\"", "\"KernelName\": \"gemm\""), @"");
    insta::assert_snapshot!(with("\"KernelFile\": \"matmul.cu\"", "\"KernelFile\": \"gemm.cu\""), @"");
    insta::assert_snapshot!(with("\"Type\": \"float\", \"MemoryType\": \"Vector\", \"AccessType\": \"ReadOnly\", \"FillType\": \"Random\", \"Size\": 49152", "\"Type\": \"double\", \"MemoryType\": \"Local\", \"Size\": 1"), @"");
    insta::assert_snapshot!(with("\"ConfigurationSpace\"", "\"Space\""), @"");
    insta::assert_snapshot!(with("{", "["), @"");
}

#[test]
fn what_a_script_lacks_is_said_at_once_and_nothing_is_written() {
    let import = ["theirs/convolution.py", "--trust"];
    let with = |from: &str, to: &str| refused("kernel-tuner", &import, ("convolution.py", from, to));
    insta::assert_snapshot!(with("tune()\n", "tune(\n"), @"");
    insta::assert_snapshot!(with("\ntune()\n", "\n"), @"");
    insta::assert_snapshot!(with("import numpy\n", "import numpies\n"), @"");
    insta::assert_snapshot!(with("numpy.int32(width)]", "width, 3]"), @"");
    insta::assert_snapshot!(with("[1, 2, 4]", "[1, 'two']"), @"");
    insta::assert_snapshot!(with("\"convolution.cu\"", "\"missing.cu\""), @"");
    insta::assert_snapshot!(with("        answer=", "        cmem_args={'a': image}, lang='HIP', answer="), @"");
    insta::assert_snapshot!(with("[convolve(image, weights).astype(numpy.float32), None", "[image + numpy.random.rand(), None"), @"");
    insta::assert_snapshot!(with("        answer=[convolve(image, weights).astype(numpy.float32), None, None, None, None],\n", ""), @"");
    insta::assert_snapshot!(with("= 256, 512, 9", "= 256, 256, 9"), @"");
    insta::assert_snapshot!(with("def tune():", "def tune():\n    open('/etc/shadow')"), @"");
}

#[test]
fn what_a_definition_lacks_is_said_at_once_and_nothing_is_written() {
    let with = |file: &str, from: &str, to: &str| refused("flashinfer-bench", &DEFINITION, (file, from, to));
    insta::assert_snapshot!(refused("flashinfer-bench", &DEFINITION[..3], ("", "", "")), @"");
    insta::assert_snapshot!(refused("flashinfer-bench", &[&DEFINITION[..1], &DEFINITION[3..]].concat(), ("", "", "")), @"");
    insta::assert_snapshot!(with("rmsnorm.json", "\"weight\": {", "\"weights\": {"), @"");
    insta::assert_snapshot!(with("rmsnorm.json", "\"float16\"", "\"int64\""), @"");
    insta::assert_snapshot!(with("rmsnorm.json", "def run", "def fun"), @"");
    insta::assert_snapshot!(with("rmsnorm.json", "\"const\"", "\"fixed\""), @"");
    insta::assert_snapshot!(with("rmsnorm.jsonl", "batch_size", "batch"), @"");
    insta::assert_snapshot!(with("rmsnorm.jsonl", &format!("{{\"batch_size\": 4}}{EPS}"), &format!("{{\"batch_size\": 4}}{}", EPS.replace("-06", "-05"))), @"");
    insta::assert_snapshot!(with("rmsnorm.cu", "const __half* weight", "const float* weight"), @"");
}
