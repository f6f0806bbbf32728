//! Oracles written in CUDA: right ones judge kernels, and what wrong ones get.

use crate::common::{Sandbox, is_nightly};

const OP: &str = "kernels/ops/rms-norm/op.toml";
const SOURCE: &str = "kernels/ops/rms-norm/oracle.cu";

const ORACLE: &str = include_str!("oracle.cu");

const LAUNCH: &str =
    "[oracle_launch]\ngrid = [\"R\"]\nblock = [\"64\"]\nargs = [\"x\", \"w\", \"y\", \"N\", \"eps\"]\n\n[dims.R]";

/// Makes the project of the other tests with an oracle in CUDA.
fn project() -> Sandbox {
    let sandbox = super::project();
    std::fs::remove_file(sandbox.path("kernels/ops/rms-norm/oracle.py")).unwrap();
    sandbox.write(SOURCE, ORACLE);
    sandbox.replace(OP, "oracle.py", "oracle.cu");
    sandbox.replace(OP, "[dims.R]", LAUNCH);
    sandbox.git(&["add", "--all"]);
    sandbox.git(&["commit", "--quiet", "--message", "an oracle in CUDA"]);
    sandbox
}

/// Returns the message of a session that is refused before it begins.
fn refused(sandbox: &Sandbox) -> String {
    // An oracle ends with the budget. Here, its own limits come first, however busy the machine is.
    let said = sandbox.fails(&["start", "--workload", "small", "--device", "fake", "--budget", "10m"]);
    assert!(!sandbox.path(".optloop/reports").exists(), "nothing was begun");
    let last = said.lines().last().unwrap();
    last.trim_start_matches("2 ").to_owned()
}

/// Consent is not needed: the oracle can do no more than kernels can.
#[test]
fn an_oracle_in_cuda_judges_kernels_without_consent() {
    let sandbox = project();
    let found = sandbox.succeeds(&["check", "small", "--device", "virtual"]);
    insta::assert_snapshot!(found, @"ok     rms-norm-rows on small: right on r4n64, r8n500");
    let start = ["start", "--workload", "small", "--device", "virtual:h200", "--iterations", "4", "--seed", "1"];
    sandbox.succeeds(&start);
    let report = sandbox.report();
    for case in report["cases"].as_array().unwrap() {
        assert!(case["speedup_over_start"].as_f64().unwrap() > 1.0, "{case}");
    }
}

/// The fake device executes no kernel, so the oracle runs on the virtual GPU.
#[test]
fn an_oracle_in_cuda_runs_beside_a_device_that_replays() {
    let sandbox = project();
    // Large hidden shapes would take a virtual GPU a minute.
    sandbox.replace(OP, "range = [1, 8192]", "range = [1, 600]");
    sandbox.replace(OP, "about = \"the number of rows\"", "about = \"the number of rows\"\nrange = [1, 600]");
    sandbox.succeeds(&["start", "--workload", "small", "--device", "fake", "--iterations", "2", "--seed", "1"]);
    let shown = sandbox.succeeds(&["show", "1"]);
    assert!(!shown.contains("wrong") && !shown.contains("cheated"), "{shown}");
}

#[test]
fn a_kernel_that_differs_from_an_oracle_in_cuda_is_wrong() {
    let sandbox = project();
    let family = "templates/kernels/rms-norm-rows/family.toml";
    sandbox.replace(family, "values = [0]\ndefault = 0", "values = [1]\ndefault = 1");
    sandbox.replace(OP, "eps = 1e-5", "eps = 0.1");
    let output = sandbox.optloop(&["start", "--workload", "small", "--device", "virtual:h200", "--iterations", "1"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no variant of session 1 was correct"), "{said}");
    let shown = sandbox.succeeds(&["show", "1"]);
    assert!(shown.contains("wrong") && shown.contains("relative error"), "{shown}");
}

#[test]
fn a_mistake_in_an_oracle_in_cuda_is_named_before_anything_is_spent() {
    let sandbox = project();
    let with = |from: &str, to: &str| {
        assert!(ORACLE.contains(from), "{from}");
        sandbox.write(SOURCE, &ORACLE.replacen(from, to, 1));
        refused(&sandbox)
    };
    insta::assert_snapshot!(with("squares = 0;\n", "squares = zero;\n"), @r#"error: case `r4n64`: the oracle of op `rms-norm` failed: oracle.cu(5): error: identifier "zero" is undefined"#);
    insta::assert_snapshot!(with("// Divides", "#include <fstream>\n// Divides"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: oracle.cu(1): error: source rules: `fstream` is not one of the headers that a kernel may include: assert.h, cassert, cfloat, climits, cmath, cooperative_groups.h, cstddef, cstdint, cuComplex.h, cub/cub.cuh, cuda.h, cuda_awbarrier.h, cuda_awbarrier_primitives.h, cuda_bf16.h, cuda_fp16.h, cuda_fp4.h, cuda_fp6.h, cuda_fp8.h, cuda_pipeline.h, cuda_pipeline_primitives.h, cuda_runtime.h, device_launch_parameters.h, float.h, initializer_list, limits, limits.h, math.h, math_constants.h, mma.h, stddef.h, stdint.h, sys/types.h, type_traits, utility, vector_types.h, and those in cooperative_groups/, cub/block/, cub/thread/, cub/warp/, cuda/");
    insta::assert_snapshot!(with("double *y, long long N, double eps", "float *y, int N, double eps"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: oracle.cu: parameter 3 of `oracle` must be a `double *`, because [oracle_launch] passes the output `y`; parameter 4 of `oracle` must be a `long long`, because [oracle_launch] passes the dimension `N`");
    insta::assert_snapshot!(with("double eps)", "double eps, int more)"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: oracle.cu: `oracle` must have 5 parameters, because [oracle_launch] passes the input `x`, the input `w`, the output `y`, the dimension `N`, the scalar `eps`");
    insta::assert_snapshot!(with("__global__ void oracle(", "template <int T> __global__ void oracle("), @"error: case `r4n64`: the oracle of op `rms-norm` failed: oracle.cu has no `__global__` function: a template alone is none");
    insta::assert_snapshot!(with("i += blockDim.x) y", "i += 2 * blockDim.x) y"), @"error: case `r8n500`: the oracle of op `rms-norm` failed: it does not write element 64 of row 0 of `y`: write every element of every output");
    insta::assert_snapshot!(with("* scale *", "* (scale / 0.0 - scale / 0.0) *"), @"error: case `r4n64`: the oracle of op `rms-norm` returned NaN for ordinary random inputs");
}

/// Where the virtual GPU finds them depends on the compiler, and is left out.
#[test]
fn faults_of_an_oracle_in_cuda_are_found_on_a_virtual_gpu() {
    let sandbox = project();
    let with = |from: &str, to: &str| {
        assert!(ORACLE.contains(from), "{from}");
        sandbox.write(SOURCE, &ORACLE.replacen(from, to, 1));
        refused(&sandbox).split_once(", the oracle's PTX:").unwrap().0.to_owned()
    };
    insta::assert_snapshot!(with("y[row + i] =", "y[row + i + N] ="), @"error: case `r4n64`: the oracle of op `rms-norm` failed: write of 8 bytes out of bounds at global address 0x1200208900 (256 bytes past the end of allocation 2 of 2048 bytes) in kernel oracle");
    insta::assert_snapshot!(with("    __syncthreads();\n", ""), @"error: case `r4n64`: the oracle of op `rms-norm` failed: read of 8 uninitialised bytes at shared address 0x0 in kernel oracle");
    insta::assert_snapshot!(with("= squares;\n", "= squares;\n    part[63 - threadIdx.x] = squares;\n"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: race at shared address 0x0: write by warp 0, write by warp 1 before, no barrier between in kernel oracle");
    insta::assert_snapshot!(with("x[row + i] * scale", "y[row + i] * scale"), @"error: case `r4n64`: the oracle of op `rms-norm` failed: read of 8 uninitialised bytes at global address 0x1200208000 in kernel oracle");
    if !is_nightly() {
        return;
    }
    let endless = "for (volatile bool endless = threadIdx.x == 0; endless;) {}\n    part[threadIdx.x] =";
    insta::assert_snapshot!(with("part[threadIdx.x] =", endless), @"error: case `r4n64`: the oracle of op `rms-norm` failed: runaway: more than 20000000 instructions executed by one warp in kernel oracle");
}

#[test]
fn a_launch_that_does_not_fit_is_refused_before_anything_is_spent() {
    let sandbox = project();
    let with = |from: &str, to: &str| {
        sandbox.replace(OP, from, to);
        let said = refused(&sandbox);
        sandbox.replace(OP, to, from);
        said
    };
    insta::assert_snapshot!(with("[\"R\"]\nblock", "[\"R\", \"1\", \"N * N\"]\nblock"), @"error: PROJECT/kernels/workloads/small.toml: case `r8n500`: [oracle_launch]: grid: `N * N` = 250000 along z, but it must be from 1 to 65535");
    insta::assert_snapshot!(with("[\"64\"]", "[\"N\", \"64\"]"), @"error: PROJECT/kernels/workloads/small.toml: case `r4n64`: [oracle_launch]: a block of 64 x 64 = 4096 threads is larger than the 1024 of every GPU; case `r8n500`: [oracle_launch]: a block of 500 x 64 = 32000 threads is larger than the 1024 of every GPU");
    insta::assert_snapshot!(with("\"w\", \"y\", \"N\"", "\"y\", \"n\""), @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: [oracle_launch]: args names `n`, which is no tensor, dimension or scalar; [oracle_launch]: args lacks the tensor `w`");
    insta::assert_snapshot!(with("\"w\", \"y\", \"N\"", "\"y\", \"w\", \"N\""), @"error: case `r4n64`: the oracle of op `rms-norm` failed: oracle.cu: parameter 2 of `oracle` must be a `double *`, because [oracle_launch] passes the output `y`");
    insta::assert_snapshot!(with("grid = [\"R\"]", "grid = [\"R\"]\nkernel = \"oracel\""), @"error: case `r4n64`: the oracle of op `rms-norm` failed: oracle.cu has no kernel `oracel` (did you mean `oracle`?): it has `oracle`");
    insta::assert_snapshot!(with(&LAUNCH[..LAUNCH.len() - 8], ""), @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: oracle `oracle.cu`: say how to launch its kernel: add [oracle_launch] with grid, block and args (`optloop docs workload`)");
}

/// On a real GPU, only guard regions and the driver find accesses out of bounds.
#[test]
#[ignore = "needs a CUDA device"]
fn an_oracle_in_cuda_runs_on_a_real_gpu() {
    let sandbox = project();
    let start = ["start", "--workload", "small", "--device", "cuda:0", "--iterations", "6", "--seed", "1"];
    sandbox.succeeds(&start);
    let report = sandbox.report();
    assert!(report["cases"].as_array().unwrap().iter().all(|case| case["confirmed"] == true), "{report}");
    for (change, found) in [("+ N] =", "writes outside of the tensor `y`"), ("+ (1LL << 40)] =", "illegal")] {
        sandbox.write(SOURCE, &ORACLE.replace("y[row + i] =", &format!("y[row + i {change}")));
        let said = sandbox.fails(&["start", "--workload", "small", "--device", "cuda:0", "--budget", "5s"]);
        assert!(said.contains("the oracle of op `rms-norm` failed") && said.contains(found), "{said}");
    }
}

/// A tensor in place, indices and a mask: what the oracle gets for each.
const SCATTER: &str = r#"#define THREADS 32

extern "C" __global__ void scatter(const float* x, const int* at, const bool* kept, float* sums, float* y, int N) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= N) return;
    if (kept[i]) sums[i] += 0.5f * x[at[i]];
    y[i] = x[at[i]];
}
"#;

const SCATTER_ORACLE: &str = r#"typedef long Index;

__device__ double half(double value) { return value / 2; }

__global__ void unused(double *y) {}

__global__ void oracle(const double *x, const Index *at, const bool *kept, double *sums, double *y, long long N) {
    for (long long i = 0; i < N; ++i) {
        if (kept[i]) sums[i] += half(x[at[i]]);
        y[i] = x[at[i]];
    }
}
"#;

#[test]
fn a_kernel_is_added_with_an_oracle_in_cuda() {
    let sandbox = super::project();
    sandbox.write("mine/scatter.cu", SCATTER);
    sandbox.write("mine/truth.cu", SCATTER_ORACLE);
    let options = "--shape x=N --shape at=N --shape kept=N --shape sums=N --shape y=N --in-place sums \
                   --contents at=integers:0:N-1 --grid ceil_div(N,THREADS) --block THREADS --case N=100";
    let add = ["add", "mine/scatter.cu", "--oracle", "mine/truth.cu"];
    let add: Vec<&str> = add.into_iter().chain(options.split_whitespace()).collect();
    insta::assert_snapshot!(sandbox.fails(&add), @"2 error: scatter.cu does not say everything that a launch needs; add --oracle-grid N (the number of blocks of the oracle), --oracle-block 256 (the threads of a block of the oracle)");
    sandbox.succeeds(&[&add[..], &["--oracle-grid", "1", "--oracle-block", "1"]].concat());
    let op = std::fs::read_to_string(sandbox.path("kernels/ops/scatter/op.toml")).unwrap();
    let launch = op.split("\n\n").find(|part| part.contains("[oracle_launch]")).unwrap();
    insta::assert_snapshot!(launch, @r#"
    [oracle_launch]
    grid = ["1"]
    block = ["1"]
    args = ["x", "at", "kept", "sums", "y", "N"]
    "#);
    let found = sandbox.succeeds(&["check", "scatter", "--device", "virtual"]);
    insta::assert_snapshot!(found, @"ok     scatter on scatter: right on n100");
}

#[test]
fn options_of_an_oracle_in_cuda_that_do_not_fit_are_refused() {
    let sandbox = super::project();
    sandbox.write("mine/scatter.cu", SCATTER);
    let with = |file: &str, oracle: &str| {
        sandbox.write(&format!("mine/{file}"), oracle);
        sandbox.fails(&["add", "mine/scatter.cu", "--oracle", &format!("mine/{file}"), "--oracle-grid", "1"])
    };
    insta::assert_snapshot!(with("truth.py", "def oracle(x):\n    return x\n"), @"2 error: --oracle-grid and --oracle-block launch an oracle in CUDA, and truth.py is no .cu file: leave them out");
    insta::assert_snapshot!(with("truth.cu", "__device__ double half(double);\n"), @"2 error: truth.cu: it has no `__global__` kernel");
    insta::assert_snapshot!(with("truth.cu", "__global__ void a(double *y) {}\n__global__ void b(double *y) {}\n"), @"2 error: truth.cu: it has the kernels a, b: call the one to launch `oracle`");
}
