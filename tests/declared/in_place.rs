//! Tensors that a kernel updates in place: from a kernel to a winner, and what wrong ones and wrong ops get.

use super::{call, project};
use crate::common::Sandbox;

/// Adds to the residual and normalizes its rows. The second output makes the order of several outputs matter.
const ADD_NORM: &str = r#"#define THREADS 32

extern "C" __global__ void add_norm(const float* x, float* residual, float* y, int N, float eps) {
    __shared__ float part[THREADS / 32];
    const size_t row = (size_t)blockIdx.x * N;
    float squares = 0.f;
    for (int i = threadIdx.x; i < N; i += THREADS) {
        const float value = residual[row + i] + x[row + i];
        residual[row + i] = value;
        squares = fmaf(value, value, squares);
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = squares;
    __syncthreads();
    squares = 0.f;
    for (int warp = 0; warp < THREADS / 32; ++warp) squares += part[warp];
    const float scale = rsqrtf(squares / N + eps);
    for (int i = threadIdx.x; i < N; i += THREADS) y[row + i] = residual[row + i] * scale;
}
"#;

const ADD_NORM_ORACLE: &str = "import numpy as np

def oracle(x, residual, eps):
    new = residual + x
    return new, new / np.sqrt((new ** 2).mean(-1, keepdims=True) + eps)
";

const REST: [&str; 20] = [
    "--shape",
    "x=R,N",
    "--shape",
    "residual=R,N",
    "--shape",
    "y=R,N",
    "--in-place",
    "residual",
    "--scalar",
    "eps=1e-5",
    "--grid",
    "R",
    "--block",
    "THREADS",
    "--independent",
    "R",
    "--case",
    "R=4,N=512",
    "--flop",
    "4 * R * N",
];

/// Adds a kernel to a project, with all of its files committed.
fn added(kernel: &str) -> Sandbox {
    let sandbox = project();
    sandbox.write("mine/add_norm.cu", kernel);
    sandbox.write("mine/add_norm.py", ADD_NORM_ORACLE);
    let add = ["add", "mine/add_norm.cu", "--oracle", "mine/add_norm.py"];
    let (code, _, said) = call(&sandbox, &[&add[..], &REST].concat());
    assert_eq!(code, 0, "{said}");
    sandbox.git(&["add", "kernels", "templates"]);
    sandbox.git(&["commit", "--quiet", "--message", "a fused sum and norm"]);
    sandbox
}

fn start(sandbox: &Sandbox, device: &str, iterations: &str) -> (i32, String, String) {
    let start = ["start", "--workload", "add-norm", "--seed", "1", "--trust"];
    call(sandbox, &[&start[..], &["--device", device, "--iterations", iterations]].concat())
}

#[test]
fn a_kernel_that_updates_a_tensor_is_added_and_gets_faster() {
    let sandbox = added(ADD_NORM);
    let op = std::fs::read_to_string(sandbox.path("kernels/ops/add-norm/op.toml")).unwrap();
    assert!(op.contains("[tensors.residual]\nrole = \"in-place\"\nshape = [\"R\", \"N\"]\n"), "{op}");
    let (code, shown, said) = call(&sandbox, &["check", "add-norm", "--device", "virtual", "--trust"]);
    assert_eq!(code, 0, "{shown}{said}");
    let (code, _, said) = start(&sandbox, "virtual:h200", "6");
    assert_eq!(code, 0, "{said}");
    let report = sandbox.report();
    assert!(report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.1, "{}", report["cases"][0]);
    assert!(sandbox.git(&["log", "-1", "--format=%s"]).starts_with("add-norm: "));
    let (code, _, said) = call(&sandbox, &["reproduce", "HEAD", "--device", "virtual:h200"]);
    assert_eq!(code, 0, "{said}");
}

/// The last is right in its first execution only.
#[test]
fn wrong_updates_are_found() {
    let outcome = |changes: &[(&str, &str)]| {
        let kernel = changes.iter().fold(ADD_NORM.to_owned(), |kernel, (from, to)| {
            assert!(kernel.contains(from), "{from}");
            kernel.replacen(from, to, 1)
        });
        let sandbox = added(&kernel);
        start(&sandbox, "virtual:h200", "1");
        let (_, shown, _) = call(&sandbox, &["show", "1"]);
        shown.lines().find(|line| line.contains("wrong") || line.contains("cheat")).unwrap_or(&shown).to_owned()
    };
    let update = "residual[row + i] = value;";
    let reads_it = "y[row + i] = residual[row + i] * scale;";
    let unwritten = outcome(&[(update, ""), (reads_it, "y[row + i] = (residual[row + i] + x[row + i]) * scale;")]);
    insta::assert_snapshot!(unwritten, @"outcome     wrong on r4n512: relative error 7.18e-1 over the output (tolerance");
    insta::assert_snapshot!(outcome(&[(update, "residual[row + i] += 2.f * x[row + i];")]), @"outcome     wrong on r4n512: relative error 7.18e-1 over the output (tolerance");
    let counted = "if (threadIdx.x == 0) before = runs[blockIdx.x]++;\n    __syncthreads();\n    ";
    let later = outcome(&[
        ("extern \"C\"", "__device__ int runs[4096];\nextern \"C\""),
        ("const size_t row", &format!("__shared__ int before;\n    {counted}const size_t row")),
        (update, "residual[row + i] = value + before;"),
    ]);
    insta::assert_snapshot!(later, @"outcome     cheated on r4n512: correct when timed, but wrong on other inputs in");
}

#[test]
fn an_op_that_hardly_changes_its_tensor_is_refused() {
    let sandbox = added(ADD_NORM);
    let with = |body: &str| {
        sandbox.write("kernels/ops/add-norm/oracle.py", &format!("def oracle(x, residual, eps):\n    {body}\n"));
        let (code, _, said) = start(&sandbox, "fake", "1");
        assert_eq!(code, 2, "{said}");
        said
    };
    insta::assert_snapshot!(with("return residual, x"), @"error: case `r4n512`: the oracle of op `add-norm` returns the in-place tensor `residual` as it got it: return the new values, or give it the role `input` if kernels only read it");
    insta::assert_snapshot!(with("return residual + 1e-6 * x, x"), @"error: case `r4n512`: a kernel that does not write `residual` would pass: the oracle of op `add-norm` changes it by 9.8e-7 of its size, and the tolerance is 4e-5; reduce the tolerance, or give inputs `values` that change it more");
}

#[test]
fn a_pointer_that_cannot_be_in_place_is_refused() {
    let sandbox = project();
    sandbox.write("mine/add_norm.cu", ADD_NORM);
    sandbox.write("mine/add_norm.py", ADD_NORM_ORACLE);
    let refused = |option: [&str; 2]| {
        let add = ["add", "mine/add_norm.cu", "--oracle", "mine/add_norm.py"];
        let (code, _, said) = call(&sandbox, &[&add[..], &REST, &option].concat());
        assert_eq!(code, 2, "{said}");
        said
    };
    insta::assert_snapshot!(refused(["--in-place", "x"]), @"error: add_norm.cu: --in-place x: the kernel has no pointer of that name that it may write");
    insta::assert_snapshot!(refused(["--zero", "residual"]), @"error: add_norm.cu: --in-place residual: it is zeroed first, so the kernel reads no values: leave out --zero");
    insta::assert_snapshot!(refused(["--input", "residual"]), @"error: add_norm.cu: --in-place residual: the kernel has no pointer of that name that it may write");
}

const AXPY: &str = r#"#define THREADS 32
extern "C" __global__ void axpy(const float* x, float* y, int N) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[(size_t)blockIdx.y * N + i] += 0.5f * x[(size_t)blockIdx.y * N + i];
}
"#;

/// Runs a session on a device that replays. Each replay must begin with the initial values, or else the timed output is not
/// that of one execution.
fn replays_on(device: &str) {
    let sandbox = project();
    sandbox.write("mine/axpy.cu", AXPY);
    sandbox.write("mine/axpy.py", "def oracle(x, y):\n    return y + 0.5 * x\n");
    let add = ["add", "mine/axpy.cu", "--oracle", "mine/axpy.py", "--shape", "x=R,N", "--shape", "y=R,N", "--in-place"];
    let rest = ["y", "--grid", "ceil_div(N, THREADS), R", "--block", "THREADS", "--case", "R=2,N=300"];
    let (code, _, said) = call(&sandbox, &[&add[..], &rest].concat());
    assert_eq!(code, 0, "{said}");
    sandbox.git(&["add", "kernels", "templates"]);
    sandbox.git(&["commit", "--quiet", "--message", "a sum"]);
    let start = ["start", "--workload", "axpy", "--device", device, "--iterations", "6", "--seed", "1", "--trust"];
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 0, "{said}");
    let report = sandbox.report();
    let (case, final_) = (&report["cases"][0], &report["cases"][0]["comparison"]);
    assert!(case["confirmed"] == true && final_["kind"] == "final", "{case}");
    assert!(!final_["near_ties"].as_array().unwrap().is_empty() && final_["energy_j"].is_null(), "{case}");
    for iteration in ["1", "2", "3", "4"] {
        let (_, shown, _) = call(&sandbox, &["show", iteration]);
        assert!(!shown.contains("wrong") && !shown.contains("cheated"), "{shown}");
    }
}

#[test]
fn replays_and_comparisons_begin_with_the_initial_values() {
    replays_on("fake");
}

#[test]
#[ignore = "needs a CUDA device"]
fn replays_and_comparisons_begin_with_the_initial_values_on_cuda() {
    replays_on("cuda:0");
}
