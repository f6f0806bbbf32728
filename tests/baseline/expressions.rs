//! Expressions as baselines: those of PyTorch, and those of packages beside it. PyTorch and the packages are fakes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use optloop::domain::compute::Compute;
use optloop::domain::op::Dtype;
use optloop::domain::workload::Workload;
use optloop::error::Error;
use optloop::ops;
use optloop::runner::baseline::{Backend, BaselineProcess, BaselineProgram, PendingInputs, Ready, Settings, fastest};

use super::{attention, one_key, prepare, samples};

/// Compiled kernels are kept where each of these variables says.
const CACHED: &str = "import os\n
def attend(v):
    names = ['QUACK_CACHE_DIR', 'CUTE_DSL_CACHE_DIR', 'TVM_FFI_CACHE_DIR', 'FLASHINFER_WORKSPACE_BASE', 'TRITON_CACHE_DIR']
    for name in names:
        os.makedirs(os.environ[name], exist_ok=True)
        with open(os.path.join(os.environ[name], 'kernel'), 'w') as file:
            file.write('compiled')
    return v.clone()
";

/// The packages that are installed. With one key, attention returns the values.
const PACKAGES: [(&str, &str); 7] = [
    // Its function has the name of one of its modules.
    ("fastpack/__init__.py", "from fastpack.attend import attend\nfrom fastpack.wrong import *\n"),
    ("fastpack/attend.py", "def attend(q, k, v, scale):\n    assert scale > 0\n    return v.clone()\n"),
    (
        "fastpack/wrong.py",
        "import torch\n\n\
         def twice(v):\n    return v * 2\n\n\
         def bytes_of(v):\n    return v.view(torch.uint8)\n\n\
         def in_place(v):\n    return v.copy_(v * 2).clone()\n",
    ),
    // Nothing imports it but the expression.
    ("fastpack/deep/__init__.py", ""),
    ("fastpack/deep/inner.py", "def attend(v):\n    return v.clone()\n"),
    ("cached.py", CACHED),
    ("halfpack.py", "import cutlass.cute\n"),
];

/// Makes the program of a workload of a project.
fn program(project: &Path, baseline: &str) -> BaselineProgram {
    let text = format!(
        "name = 'w'\nabout = 'One case.'\nop = 'attention'\ndtype = 'f16'\ninitial_kernel = 'toy'\n\
         baseline = {baseline}\ntolerance = {{ relative_l2 = 1e-3, worst_row = 4e-3 }}\n\
         case = [{{ name = 'one-key', B = 1, H = 8, Sq = 1, Sk = 1, D = 64, CAUSAL = 0 }}]\n"
    );
    let key = Workload::parse(&text, ops::find).unwrap().baseline.unwrap();
    let timeout = Duration::from_secs(120);
    let settings = Settings { python: "python3".to_owned(), env: vec![], read: vec![], write: vec![], timeout };
    let exe = env!("CARGO_BIN_EXE_optloop").into();
    BaselineProgram::of(exe, project, &key, settings, 0, 200_000.0).unwrap()
}

/// Starts the program of a workload that has these expressions, with the fakes where Python finds them.
async fn start(baseline: &str) -> BaselineProcess {
    let project = tempfile::tempdir().unwrap();
    let program = BaselineProgram { cache: "tests".to_owned(), ..program(project.path(), baseline) };
    let torch = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/baseline/torch.py");
    fs::copy(torch, program.folder.join("torch.py")).unwrap();
    for (file, text) in PACKAGES {
        let path = program.folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    program.start().await.unwrap()
}

/// Shows each backend with its error. The path of the interpreter differs from machine to machine.
fn shown(backends: &[Backend]) -> String {
    let line = |backend: &Backend| match &backend.ready {
        Ok(Ready { relative_l2, .. }) => format!("{}: its error is {}", backend.name, relative_l2.unwrap()),
        Err(reason) => format!("{}: {}", backend.name, without_path(reason)),
    };
    backends.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn without_path(reason: &Error) -> String {
    let reason = reason.to_string();
    match reason.split_once(" is not installed for /") {
        Some((what, path)) if path.contains("python") && !path.contains(' ') => {
            format!("{what} is not installed for PYTHON")
        }
        _ => reason,
    }
}

/// The expression is right only where products and convolutions have the same precision, and it is the one that was asked
/// for.
#[tokio::test]
async fn products_and_convolutions_have_the_compute_mode_of_the_workload() {
    for (mode, expected) in [(Compute::Dtype, "False, False"), (Compute::Tf32, "True, True")] {
        let set = "(torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)";
        let process = start(&format!("{{ torch = 'v.clone() if {set} == ({expected}) else v * 2' }}")).await;
        let mut process = process.computing(mode);
        let backends = prepare(&mut process).await.unwrap();
        assert_eq!(shown(&backends), "eager: its error is 0\ncompile: its error is 0", "{}", mode.name());
    }
}

#[tokio::test]
async fn an_expression_of_pytorch_is_timed_eager_and_compiled() {
    let mut process = start("{ torch = 'v.clone()' }").await;
    insta::assert_snapshot!(shown(&prepare(&mut process).await.unwrap()), @"
    eager: its error is 0
    compile: its error is 0
    ");
    let mut process = start("{ torch = 'fastpack.attend(q, k, v, scale)' }").await;
    let backends = prepare(&mut process).await.unwrap();
    let reason = fastest(&mut process, &one_key(), &backends, &samples(10)).await.unwrap_err();
    insta::assert_snapshot!(reason, @"eager: `fastpack.attend(q, k, v, scale)`: NameError: name 'fastpack' is not defined");
}

#[tokio::test]
async fn packages_are_timed_beside_pytorch_and_each_that_cannot_be_has_a_reason() {
    let mut process = start(
        "{ torch = 'v.clone()', absent = 'quack.attention(q, k, v)', bytes = 'fastpack.bytes_of(v)', \
         compiled = 'cached.attend(v)', \
         deep = 'fastpack.deep.inner.attend(v)', half = 'halfpack.attend(v)', in_place = 'fastpack.in_place(v)', \
         misspelt = 'fastpack.atend(v)', own = '[(lambda t: t.clone())(t) for t in [v]][0]', \
         right = 'fastpack.attend(q, k, v, scale)', twice = 'fastpack.twice(v)', unfinished = 'v +' }",
    )
    .await;
    let backends = prepare(&mut process).await.unwrap();
    insta::assert_snapshot!(shown(&backends), @"
    eager: its error is 0
    compile: its error is 0
    absent: the package `quack` is not installed for PYTHON
    bytes: `fastpack.bytes_of(v)` gives [1, 8, 1, 128] of torch.uint8, but the output is [1, 8, 1, 64] of torch.float16
    compiled: its error is 0
    deep: its error is 0
    half: `halfpack` needs the package `cutlass`, which is not installed for PYTHON
    in_place: `fastpack.in_place(v)` changes `v`: return the new values, with an operation that does not work in place
    misspelt: `fastpack.atend(v)`: AttributeError: module 'fastpack' has no attribute 'atend'
    own: its error is 0
    right: its error is 0
    twice: it computes a different result: its relative error is 1.00e0
    unfinished: `v +`: SyntaxError: invalid syntax (<unknown>, line 1)
    ");
    let found = fastest(&mut process, &one_key(), &backends, &samples(10)).await.unwrap();
    let mut timed: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
    timed.sort_unstable();
    assert_eq!(timed, ["compile", "compiled", "deep", "eager", "own", "right"]);

    let drawing = |process: &BaselineProcess| PendingInputs::begin(process, attention(), Dtype::F16, &one_key(), 1);
    let drawn = drawing(&process);
    let one = process.prepare_one("right", attention(), Dtype::F16, &one_key(), 50 << 20, drawn).await;
    assert_eq!(one.unwrap().relative_l2, Some(0.0));
    let drawn = drawing(&process);
    let none = process.prepare_one("absent", attention(), Dtype::F16, &one_key(), 50 << 20, drawn).await;
    insta::assert_snapshot!(without_path(&none.unwrap_err()), @"the package `quack` is not installed for PYTHON");
}

#[tokio::test]
async fn a_package_is_timed_where_the_expression_of_pytorch_fails() {
    let mut process = start("{ torch = 'v * 2', right = 'fastpack.attend(q, k, v, scale)' }").await;
    let backends = prepare(&mut process).await.unwrap();
    let found = fastest(&mut process, &one_key(), &backends, &samples(10)).await.unwrap();
    assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["right"]);
}

/// A baseline runs what it finds in its cache.
#[test]
fn the_expressions_of_a_project_have_a_cache_of_their_own() {
    let cache = |project: &str, baseline: &str| program(Path::new(project), baseline).cache;
    let (torch, quack) = ("{ torch = 'v' }", "{ torch = 'v', quack = 'quack.attend(v)' }");
    assert_eq!(cache("/one", torch), cache("/one", quack));
    assert_ne!(cache("/one", torch), cache("/other", torch));
    assert_ne!(cache("/one", torch), "shipped");
}
