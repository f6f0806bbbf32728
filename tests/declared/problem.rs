//! `optloop import problem.py`: a module of PyTorch becomes a workload without a kernel, and the first right kernel is its initial one. The
//! PyTorch of these tests is `torch.py` beside this file: a few functions on arrays of numpy, because a machine with the gate
//! need not have the real one.

use std::path::Path;
use std::process::Command;

use super::{numpy, project};
use crate::common::Sandbox;

const LOOKUP: &str = r#"import torch
import torch.nn as nn


class Model(nn.Module):
    """Scales rows of a table."""

    def __init__(self, entries, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(entries, features))

    def forward(self, x, index):
        return x * self.table[index]


rows = 2 * 12
features = 40
entries = 9


def get_inputs():
    return [torch.rand(rows, features), torch.randint(0, entries, (rows,))]


def get_init_inputs():
    return [entries, features]
"#;

/// Makes a project with a problem, and with a PyTorch for it.
fn with_problem(text: &str) -> Sandbox {
    let sandbox = project();
    let torch = Path::new(file!()).with_file_name("torch.py");
    sandbox.write("python/torch.py", &std::fs::read_to_string(torch).unwrap());
    sandbox.write("theirs/lookup.py", text);
    sandbox
}

/// Calls optloop, and returns its exit code, its output and its last message.
fn call(sandbox: &Sandbox, arguments: &[&str]) -> (i32, String, String) {
    let path = format!("{}:{}", numpy().display(), sandbox.path("python").display());
    let output = sandbox.command(arguments).env("PYTHONPATH", path).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let last = errors.lines().last().unwrap_or_default().to_owned();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), last)
}

#[test]
fn a_module_becomes_a_workload_without_a_kernel_until_a_user_writes_one() {
    let sandbox = with_problem(LOOKUP);
    let (code, _, said) = call(&sandbox, &["import", "theirs/lookup.py"]);
    assert_eq!(code, 2);
    insta::assert_snapshot!(said, @"error: lookup.py is a program: read it, then agree with --trust to run it, confined, to call its functions on small tensors");
    let (code, shown, said) = call(&sandbox, &["import", "theirs/lookup.py", "--trust"]);
    assert_eq!(code, 0, "{said}");
    insta::assert_snapshot!(shown);
    let op = std::fs::read_to_string(sandbox.path("kernels/ops/lookup/op.toml")).unwrap();
    let workload = std::fs::read_to_string(sandbox.path("kernels/workloads/lookup.toml")).unwrap();
    insta::assert_snapshot!(format!("{op}\n{workload}"));
    let start =
        ["start", "--workload", "lookup", "--device", "virtual:h200", "--iterations", "4", "--seed", "1", "--trust"];
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 2);
    insta::assert_snapshot!(said, @"error: no family can compute workload `lookup` (lookup, f32) on virtual H200 (sm_90): add one to templates/kernels/, or have one written, with --proposer llm or `optloop mcp`");

    for file in ["family.toml", "kernel.cu.tera"] {
        let text = std::fs::read_to_string(sandbox.path(&format!("kernels/ops/lookup/frame/{file}"))).unwrap();
        sandbox.write(&format!("templates/kernels/lookup/{file}"), &text);
    }
    let (code, checked, _) = call(&sandbox, &["check", "lookup", "--device", "virtual:h200", "--trust"]);
    assert!(code == 1 && checked.contains("were not written"), "{checked}");
    let kernel = "out[at] = x[at] * table[index[at / features] * features + at % features];";
    sandbox.replace("templates/kernels/lookup/kernel.cu.tera", "// Compute out[at] here.", kernel);
    let (code, checked, said) = call(&sandbox, &["check", "lookup", "--device", "virtual:h200", "--trust"]);
    assert_eq!(code, 0, "{checked}{said}");
    sandbox.git(&["add", "kernels", "templates"]);
    sandbox.git(&["commit", "--quiet", "--message", "lookup"]);
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 0, "{said}");
    let report = sandbox.report();
    let baseline = &report["cases"][0]["baseline"];
    assert_eq!(baseline["name"], "modelled, the first correct configuration of lookup", "{report}");
    assert_eq!(baseline["is_initial_kernel"], true);
    let committed = sandbox.git(&["log", "-1", "--format=%B", "--name-only"]);
    insta::assert_snapshot!(committed, @"
    lookup: rows24features40entries9 (modelled)

    case                      before, us  now, us    gain  baseline        its us  ratio
    rows24features40entries9      *2.189    2.189  1.000x  initial kernel   2.189  1.00x

    * the initial kernel: no winner was committed before

    Device:  virtual H200, modelled
    Session: 3
    Winners:
      rows24features40entries9: iteration 3, variant 07c025d9ec3e10954d731c2820549abb, lookup THREADS=256


    kernels/variants/virtual-h200-132sm-132gib/lookup/lookup-07c025d9ec.cu
    kernels/variants/virtual-h200-132sm-132gib/lookup/rows24features40entries9.json
    ");
}

#[test]
fn a_module_is_an_oracle_on_the_gpu_of_the_kernels_or_else_on_the_cpu() {
    let sandbox = with_problem(LOOKUP);
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = format!("{}:{}", numpy().display(), sandbox.path("python").display());
    let mut python = Command::new("python3");
    python.arg("-B").arg(repository.join("tests/declared/oracle_device.py")).env("PYTHONPATH", path);
    let output = python.arg(repository.join("src/runner/problem/support.py")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_no_kernel_can_compute_is_refused_in_one_sentence() {
    let refused = |from: &str, to: &str| {
        let sandbox = with_problem(&LOOKUP.replace(from, to));
        let (code, _, said) = call(&sandbox, &["import", "theirs/lookup.py", "--trust"]);
        assert!(code == 2 && !sandbox.path("kernels/ops/lookup").exists(), "{said}");
        said
    };
    insta::assert_snapshot!(refused("x * self.table[index]", "x * self.table[index] * torch.rand(1)"), @"error: lookup.py: two calls of `forward` on the same inputs differ, as with dropout: take out what is random, or call self.eval() in `__init__`");
    insta::assert_snapshot!(refused("return x * self", "x.add_(1)\n        return x * self"), @"error: lookup.py: `forward` changes its input `x`: compute a new tensor instead");
    insta::assert_snapshot!(refused("x * self.table[index]", "x * 0.0"), @"error: lookup.py: its output is the same for all inputs, so there is nothing to compute");
    insta::assert_snapshot!(refused("x * self.table[index]", "(x * self.table[index]).item"), @"error: lookup.py: `forward` returns method, but the outputs of a kernel are tensors");
    insta::assert_snapshot!(refused("torch.randint(0, entries, (rows,))", "torch.rand(rows).to(torch.int64)"), @"error: lookup.py: the whole numbers in `index` have no bounds that are known: give them, such as --contents index=integers:0:9");
    insta::assert_snapshot!(refused("nn.Parameter(torch.randn(entries, features))", "torch.randn(entries, features)"), @"error: lookup.py: the module keeps the tensor `table` as a plain attribute: make it a parameter or register_buffer");
    insta::assert_snapshot!(refused("def get_init_inputs", "def get_init"), @"error: lookup.py: it has no function `get_init_inputs`: a problem has a class `Model`, and functions `get_inputs` and `get_init_inputs`");
    insta::assert_snapshot!(refused("return [torch.rand(rows, features), torch.randint(0, entries, (rows,))]", "return []"), @"error: lookup.py: `get_inputs` returns 0 arguments, but `forward` takes x, index: return what it takes");
    insta::assert_snapshot!(refused("return [entries, features]", "return [entries]"), @"error: lookup.py: `get_init_inputs` returns 1 argument, but `Model` takes entries, features: return what it takes");
    insta::assert_snapshot!(refused("* self.table", "* self.tables"), @"error: lookup.py: AttributeError: 'Model' object has no attribute 'tables' (line 16)");
}

/// A scale for ten rows, an even number of rows, and a parameter that changes nothing.
const GROUPS: [(&str, &str); 4] = [
    ("features))\n", "features))\n        self.idle = nn.Parameter(torch.randn(3))\n"),
    ("x * self.table[index]", "x * self.table[index] * scales[0]"),
    ("x, index", "x, scales, index"),
    ("torch.rand(rows, features),", "torch.rand(rows, features), torch.rand((rows + 9) // 10 // (rows % 2 == 0)),"),
];

#[test]
fn shapes_beside_a_problem_are_its_cases() {
    let text = GROUPS.iter().fold(LOOKUP.to_owned(), |text, (from, to)| text.replace(from, to));
    let sandbox = with_problem(LOOKUP);
    sandbox.write("theirs/02_groups/reference.py", &text);
    sandbox.write("theirs/02_groups/problem.yaml", "name: lookup\ntolerance:\n  float32: 2.0e-5  # loose\nother: 9\n");
    sandbox.write("theirs/02_groups/shapes.py", "SHAPES = [{'rows': 64, 'entries': 5}, {'rows': 8, 'entries': 3}]\n");
    let arguments = ["import", "theirs/02_groups/reference.py", "--trust", "--contents", "x=uniform:0:1"];
    let (code, shown, said) = call(&sandbox, &arguments);
    assert_eq!(code, 0, "{said}");
    assert!(shown.contains("x: [rows, 40]\n  scales: [(rows + 9) / 10]") && !shown.contains("idle"), "{shown}");
    let workload = std::fs::read_to_string(sandbox.path("kernels/workloads/02-groups.toml")).unwrap();
    insta::assert_snapshot!(workload.split_once("[tolerance]").unwrap().1, @r#"

    # Rounding the output alone costs 3e-8, and a sum of thousands of terms up to 1e-6.
    relative_l2 = 1e-5
    worst_row = 2e-5

    [[case]]
    name = "rows64entries5"
    rows = 64
    entries = 5

    [[case]]
    name = "rows8entries3"
    rows = 8
    entries = 3
    "#);
}
