//! `optloop add`: kernels that optloop has never seen become families, and what their mistakes get.

use std::path::Path;

use super::{call, project};
use crate::common::Sandbox;

const LAYER_NORM: &str = r#"#include "reduce.h"

#define THREADS 32  // threads of a block
#define WARP_SIZE 32
constexpr int UNUSED = 4;

// Each block normalizes a row.
__global__ void layer_norm(const float* __restrict__ x, const float *w, float* y, int N, float eps) {
    const float* row = x + (size_t)blockIdx.x * N;
    float sum = 0.f, squares = 0.f;
#pragma unroll 2
    for (int i = threadIdx.x; i < N; i += THREADS) sum += row[i];
    const float mean = block_sum<THREADS>(sum) / N;
    for (int i = threadIdx.x; i < N; i += THREADS) squares += (row[i] - mean) * (row[i] - mean);
    const float scale = rsqrtf(block_sum<THREADS>(squares) / N + eps);
    for (int i = threadIdx.x; i < N; i += THREADS) y[(size_t)blockIdx.x * N + i] = (row[i] - mean) * scale * w[i];
}
"#;

const REDUCE: &str = "#pragma once
template <int THREADS> __device__ inline float block_sum(float value) {
    __shared__ float part[32];
    for (int step = 16; step; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.f;
    for (int i = 0; i < THREADS / 32; ++i) value += part[i];
    return value;
}
";

const LAYER_NORM_ORACLE: &str = "import numpy as np

def oracle(x, w, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + eps) * w
";

/// Makes a project without anything, and a user's kernel beside it.
fn with_kernel(kernel: &str) -> Sandbox {
    let sandbox = project();
    sandbox.write("mine/layer_norm.cu", kernel);
    sandbox.write("mine/reduce.h", REDUCE);
    sandbox.write("mine/layer_norm.py", LAYER_NORM_ORACLE);
    sandbox
}

/// What the source of the layer norm does not say.
const REST: [&str; 14] = [
    "--shape",
    "x=R,N",
    "--shape",
    "w=N",
    "--shape",
    "y=R,N",
    "--scalar",
    "eps=1e-5",
    "--grid",
    "R",
    "--block",
    "THREADS",
    "--independent",
    "R",
];

fn added(sandbox: &Sandbox, options: &[&str]) -> (i32, String, String) {
    let add = ["add", "mine/layer_norm.cu", "--oracle", "mine/layer_norm.py"];
    call(sandbox, &[&add[..], options].concat())
}

#[test]
fn a_strangers_kernel_is_added_and_gets_faster() {
    let sandbox = with_kernel(LAYER_NORM);
    let torch =
        ["--torch", "F.layer_norm(x, (N,), w, None, eps)", "--baseline", "quack=quack.layernorm(x, w, eps=eps)"];
    let options = [&REST[..], &["--case", "R=4,N=512", "--flop", "5 * R * N"], &torch].concat();
    let (code, shown, said) = added(&sandbox, &options);
    assert_eq!(code, 0, "{said}");
    let workload = std::fs::read_to_string(sandbox.path("kernels/workloads/layer-norm.toml")).unwrap();
    let baseline = workload.lines().find(|line| line.starts_with("baseline"));
    insta::assert_snapshot!(baseline.unwrap(), @r#"baseline = { torch = "F.layer_norm(x, (N,), w, None, eps)", quack = "quack.layernorm(x, w, eps=eps)" }"#);
    insta::assert_snapshot!(shown, @"
    added layer_norm.cu as op, workload and family `layer-norm`
      THREADS (a #define in line 3): 32 64 128 256 512 1024
      UNROLL_11 (an unroll factor in line 11): 1 2 4 8
      UNUSED (a constant in line 5) stays 4: no other value compiles and changes the machine code
    next: git add kernels templates && git commit, then optloop start --workload layer-norm --budget 5m
    ");
    sandbox.git(&["add", "kernels", "templates"]);
    sandbox.git(&["commit", "--quiet", "--message", "a layer norm"]);
    let start = [
        "start",
        "--workload",
        "layer-norm",
        "--device",
        "virtual:h200",
        "--iterations",
        "6",
        "--seed",
        "1",
        "--trust",
    ];
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 0, "{said}");
    let report = sandbox.report();
    assert!(report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.1, "{}", report["cases"][0]);
    assert!(sandbox.git(&["log", "-1", "--format=%s"]).starts_with("layer-norm: "));
}

#[test]
fn what_a_kernel_lacks_is_said_at_once_and_nothing_is_written() {
    let refused = |kernel: &str, options: &[&str]| {
        let sandbox = with_kernel(kernel);
        let (code, _, said) = added(&sandbox, options);
        assert_eq!(code, 2, "{said}");
        assert_eq!(sandbox.git(&["status", "--porcelain"]), "?? mine/\n", "{said}");
        said
    };
    let all = [&REST[..], &["--case", "R=4,N=512"]].concat();
    let with = |from: &str, to: &str| {
        assert!(LAYER_NORM.contains(from));
        refused(&LAYER_NORM.replace(from, to), &all)
    };
    insta::assert_snapshot!(refused(LAYER_NORM, &[]), @"error: layer_norm.cu does not say everything that a launch needs; add --shape x=N (the extents of `x`), --shape w=N (the extents of `w`), --shape y=N (the extents of `y`), --scalar eps=1.0 (the value of `eps`), --grid 'ceil_div(N, 256)' (the number of blocks), --block 256 (the threads of a block), --case N=4096 (sizes to make fast)");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&all[..], &["--values", "TILE=1,2"]].concat()), @"error: layer_norm.cu: --values TILE: the source has no such #define, constant or unroll factor");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&REST[..], &["--case", "R=4"]].concat()), @"error: layer_norm.cu: case 1: it lacks N (from a parameter of the kernel)");
    insta::assert_snapshot!(with("float* y", "const float* y"), @"error: layer_norm.cu: line 8: `layer_norm` has no output: every pointer is const or an input");
    insta::assert_snapshot!(with("const float *w", "const short *w"), @"error: layer_norm.cu: line 8: parameter `w` of `layer_norm`: `const short*` is not supported: use a pointer to float, double, __half, __nv_bfloat16, __nv_fp8_e4m3, int, unsigned, long long, unsigned char or bool");
    insta::assert_snapshot!(with("const float *w", "const int *w"), @"error: layer_norm.cu does not say everything that a launch needs; add --contents w=integers:0:N-1 (the whole numbers in `w`)");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&all[..], &["--zero", "x"]].concat()), @"error: layer_norm.cu: --zero x: the kernel has no output of that name");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&all[..], &["--scratch", "x=N"]].concat()), @"error: layer_norm.cu: --scratch x: the kernel has no pointer of that name that it may write");
    let scratch = |ty: &str| {
        refused(
            &LAYER_NORM.replace("const float *w", ty),
            &[&all[..], &["--scratch", "w=N", "--scratch", "z=1"]].concat(),
        )
    };
    assert!(scratch("short* w").contains("--scratch w: `short*` is not supported: use a pointer to float"));
    assert!(!scratch("unsigned long long* w").contains("--scratch w"), "scratch memory may have any 8 bytes");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&all[..], &["--contents", "z=mask:0.5"]].concat()), @"error: layer_norm.cu: --contents z: the kernel has no pointer of that name");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&all[..], &["--contents", "x=integers:0:9"]].concat()), @r#"error: kernels/workloads/layer-norm.toml: kernels/ops/layer-norm/op.toml: tensor `x`: give it a `dtype` that holds these whole numbers, such as "i32""#);
    insta::assert_snapshot!(refused(LAYER_NORM, &[&all[..], &["--torch", "x", "--baseline", "eager=f.g(x)"]].concat()), @"error: kernels/workloads/layer-norm.toml: baseline `eager`: choose another name, because a backend of PyTorch has this one");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&all[..], &["--torch", "x", "--baseline", "my-f=f.g(x)"]].concat()), @"error: invalid value 'my-f=f.g(x)' for '--baseline <NAME=EXPRESSION>': `my-f=f.g(x)`: write NAME=EXPRESSION, with letters, digits and `_` in the name; run it with `--help` for a list");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&all[..], &["--baseline", "quack=f.g(x)"]].concat()), @"error: the following required arguments were not provided: --torch <EXPRESSION>; run it with `--help` for a list");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&REST[..2], &["--shape", "w=M"], &REST[4..], &["--case", "R=4"]].concat()), @"error: layer_norm.cu: case 1: it lacks N (from a parameter of the kernel), M (from --shape w=M)");
    insta::assert_snapshot!(refused(LAYER_NORM, &[&REST[..8], &["--grid", "rows", "--block", "THREADS", "--case", "R=4,N=512"]].concat()), @"error: --grid `rows`: there is no `rows`");
    insta::assert_snapshot!(with("#include \"reduce.h\"", "int main() { return 0; }"), @r#"error: layer_norm.cu(13): error: identifier "block_sum" is undefined"#);
    insta::assert_snapshot!(with("int N", "short N"), @"error: layer_norm.cu: line 8: parameter `N` of `layer_norm`: `short` is not supported: use an integer for a size, or float or double for a constant");
    insta::assert_snapshot!(with("__global__ void", "template <int N> __global__ void"), @"error: layer_norm.cu: line 8: the template parameter `N` has no value: add --template N=16");
    insta::assert_snapshot!(with("reduce.h", "../reduce.h"), @r#"error: layer_norm.cu(13): error: identifier "block_sum" is undefined (left out of the source: "../reduce.h", which cannot be found beside the source or in a folder `include` of its repository: copy it there)"#);
    insta::assert_snapshot!(with("reduce.h", "/etc/passwd"), @r#"error: layer_norm.cu(13): error: identifier "block_sum" is undefined (left out of the source: "/etc/passwd", which cannot be found beside the source or in a folder `include` of its repository: copy it there)"#);
    insta::assert_snapshot!(with("reduce.h", "other.h"), @r#"error: layer_norm.cu(13): error: identifier "block_sum" is undefined (left out of the source: "other.h", which cannot be found beside the source or in a folder `include` of its repository: copy it there)"#);
    insta::assert_snapshot!(with("#include \"reduce.h\"", REDUCE.replace("value;\n}", "value\n}").trim()), @r#"error: layer_norm.cu(11): error: expected a ";""#);
}

/// A default of 1 may be a flag, so 0 is tried. Here it divides.
#[test]
fn a_value_with_which_no_case_launches_is_left_out() {
    let sandbox = project();
    let kernel = "#define ROWS 1\n__global__ void twice(const float* x, float* y, int n) {\n    \
                  for (int row = blockIdx.x * ROWS; row < blockIdx.x * ROWS + ROWS && row < n; ++row)\n        \
                  y[row * 32 + threadIdx.x] = 2.f * x[row * 32 + threadIdx.x];\n}\n";
    sandbox.write("mine/twice.cu", kernel);
    sandbox.write("mine/twice.py", "def oracle(x):\n    return 2 * x\n");
    let add = "add mine/twice.cu --oracle mine/twice.py --shape x=n,32 --shape y=n,32 --case n=50 --grid ceil_div(n,ROWS) --block 32";
    let (code, shown, said) = call(&sandbox, &add.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0, "{said}");
    insta::assert_snapshot!(shown, @"
    added twice.cu as op, workload and family `twice`
      ROWS (a #define in line 1): 1 2 4
      ROWS = 0 is left out: it launches on no case: expression `ceil_div(n,ROWS)`: Runtime error: division by zero (line 1, position 1)
    next: git add kernels templates && git commit, then optloop start --workload twice --budget 5m
    ");
}

/// Kernels with a number to tune, and what their sources do not say.
const STRANGERS: [(&str, &str); 5] = [
    ("histogram", "--shape data=n --shape bins=256 --case n=50000 --grid ceil_div(n,THREADS*PER_THREAD) --zero bins"),
    ("dot", "--shape a=R,n --shape b=R,n --shape out=R --case R=8,n=4096 --grid R --flop 2*R*n"),
    (
        "fused",
        "--shape x=R,N --shape residual=R,N --shape w=N --shape y=R,N --shape sum=R,N --scalar eps=1e-6 --case R=8,N=4096 \
         --grid R --independent R --flop 5*R*N",
    ),
    (
        "entropy",
        "--shape logits=R,N --shape labels=R --shape loss=R --contents labels=integers:0:N-1 --case R=8,N=8192 --grid R \
         --independent R --flop 3*R*N --constraint N>=THREADS",
    ),
    (
        "sum",
        "--shape x=n --shape y=1 --scratch partial=BLOCKS --scratch done=1 --contents x=uniform:0:1 --case n=50000 \
         --grid BLOCKS --flop n",
    ),
];

/// Counts with atomics, FP8, two outputs, indices, and scratch memory. The first two read bytes or FP8 and write other types, so
/// their first tensors do not have the types of their workloads, and the time of the histogram depends on its inputs.
#[test]
fn kernels_of_all_kinds_go_from_add_to_a_faster_winner_that_is_reproduced() {
    let sandbox = project();
    let succeeds = |arguments: &str| {
        let (code, shown, said) = call(&sandbox, &arguments.split(' ').filter(|it| !it.is_empty()).collect::<Vec<_>>());
        assert_eq!(code, 0, "{arguments}: {said}");
        shown
    };
    let mut reproduced = [("n50000", "u32"), ("r8n4096", "f32")].into_iter();
    for (name, options) in STRANGERS {
        for file in [format!("{name}.cu"), format!("{name}.py")] {
            let text = std::fs::read_to_string(Path::new(file!()).with_file_name(&file)).unwrap();
            sandbox.write(&format!("mine/{file}"), &text);
        }
        succeeds(&format!("add mine/{name}.cu --oracle mine/{name}.py --block THREADS {options}"));
        sandbox.git(&["add", "kernels", "templates"]);
        sandbox.git(&["commit", "--quiet", "--message", name]);
        succeeds(&format!("start --workload {name} --device virtual:h200 --iterations 6 --seed 2 --trust"));
        let report = sandbox.report();
        assert!(report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.0, "{name}: {}", report["cases"][0]);
        assert!(sandbox.git(&["log", "-1", "--format=%s"]).starts_with(&format!("{name}: ")));
        let Some((case, dtype)) = reproduced.next() else { continue };
        assert!(succeeds("reproduce HEAD --device virtual:h200").contains("holds"));
        // As version 0.2.0 wrote it.
        let sidecar = format!("kernels/variants/virtual-h200-132sm-132gib/{name}/{case}.json");
        sandbox.replace(&sidecar, &format!("  \"dtype\": \"{dtype}\",\n  \"workspaces\""), "  \"workspaces\"");
        sandbox.git(&["commit", "--quiet", "--all", "--message", "an older sidecar"]);
        assert!(succeeds("reproduce HEAD --device virtual:h200").contains("holds"));
        succeeds(&format!("compare {name}/{case} {sidecar}"));
    }
    // The workload of the last session is the only one of its op.
    let shown = succeeds("diagnose sum --case n50000 --device virtual:h200");
    assert!(shown.starts_with("sum/n50000 on virtual H200"), "{shown}");
}

/// The oracle answers a few rows of each output: among them the last of one and the first of the next, which are in two
/// buffers.
#[test]
fn of_several_large_outputs_only_some_rows_are_compared() {
    let sandbox = project();
    sandbox.write("config.toml", "[validate]\noracle_gflop = 0.000001\n");
    for file in ["fused.cu", "fused.py"] {
        let text = std::fs::read_to_string(Path::new(file!()).with_file_name(file)).unwrap();
        sandbox.write(&format!("mine/{file}"), &text);
    }
    let (_, options) = STRANGERS.iter().find(|(name, _)| *name == "fused").unwrap();
    let options = options.replace("--case", "--case R=512,N=64 --case");
    let options: Vec<&str> = options.split(' ').filter(|option| !option.is_empty()).collect();
    let add = ["add", "mine/fused.cu", "--oracle", "mine/fused.py", "--block", "THREADS"];
    let (code, _, said) = call(&sandbox, &[&add[..], &options].concat());
    assert_eq!(code, 0, "{said}");
    let start = [
        "start",
        "--workload",
        "fused",
        "--case",
        "r512n64",
        "--device",
        "virtual:h200",
        "--iterations",
        "2",
        "--trust",
    ];
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 0, "{said}");
    let checked = &sandbox.report()["correctness"][0];
    assert!(checked["rows_checked"].as_f64() > Some(0.0), "{checked}");
    assert!(checked["rows_checked"].as_f64() < checked["rows"].as_f64(), "{checked}");
}

/// A file as people write it: with its test, and with names for types.
const WITH_ITS_TEST: &str = r#"#include <iostream>
#include <vector>
#include <cstdint>
#include "helper_cuda.h"
#include "taps.h"
using namespace std;
typedef float real;
#define HD __host__ __device__ __forceinline__
struct Timer { cudaEvent_t a; Timer() { cudaEventCreate(&a); } };
namespace helper { template <typename T> HD T twice(T x) { return T(2) * x; } }
namespace {
template <typename T> __global__ static void smooth(const T* __restrict x, T* const y, size_t n, double scale, bool mirrored) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    real sum = 0;
    for (int k = 0; k < K; ++k) {
        long long at = (long long)i + (mirrored ? K / 2 - k : k - K / 2);
        if (at >= 0 && at < (long long)n) sum += taps[k] * x[at];
    }
    y[i] = helper::twice(sum) * scale;
}
}
__global__ void other(int* x) { x[0] = cub::something; }
static bool is_right(const std::vector<real>& a, const real* b) { return a[0] == b[0]; }
void launch(real* x, real* y, size_t n) { smooth<real><<<n / 256, 256>>>(x, y, n, 1.0, false); }
int main(int argc, char** argv) {
    launch(nullptr, nullptr, 1 << 20);
    cout << "done" << endl;
}
"#;

const SMOOTH_ORACLE: &str = r#"import numpy as np

optloop = {
    "template": {"T": "real"},
    "case": [{"n": 1000, "mirrored": 0}, "n=999, mirrored=1"],
}

def smooth(x: "n", taps, n, mirrored, scale=0.3) -> "n":
    return 2 * scale * np.convolve(x, taps if mirrored else taps[::-1], "same")
"#;

#[test]
fn a_file_with_its_test_comes_in_as_it_is() {
    let sandbox = project();
    let taps = "#pragma once\n__constant__ float taps[K];\nvoid fill() { cudaMemcpyToSymbol(taps, 0, 0); }\n";
    let text = WITH_ITS_TEST
        .replace("#include \"taps.h\"\n", "#define K 5\n__constant__ real taps[K];\n#include \"fill.h\"\n");
    sandbox.write("mine/smooth.cu", &text);
    sandbox.write(
        "mine/fill.h",
        &taps.lines().filter(|line| !line.contains("__constant__")).collect::<Vec<_>>().join("\n"),
    );
    sandbox.write("mine/smooth.py", SMOOTH_ORACLE);
    let add = [
        "add",
        "mine/smooth.cu",
        "--kernel",
        "smooth",
        "--oracle",
        "mine/smooth.py:smooth",
        "--values",
        "THREADS=64,128",
    ];
    let (code, shown, said) = call(&sandbox, &add);
    assert_eq!(code, 0, "{said}");
    insta::assert_snapshot!(shown, @r#"
    added smooth.cu as op, workload and family `smooth`
      left out, includes: <iostream>, <vector>, "helper_cuda.h"
      left out, unused code: Timer, other, is_right, launch, main, fill
      taps is an argument now, in place of constant memory
      launched with --grid 'ceil_div(n, THREADS)' --block 'THREADS', because the kernel compares i < n
      THREADS (a number of the launch): 64 128
    next: git add kernels templates && git commit, then optloop start --workload smooth --budget 5m
    "#);
    let text = |file: &str| std::fs::read_to_string(sandbox.path(file)).unwrap();
    insta::assert_snapshot!(text("templates/kernels/smooth/kernel.cu.tera"), @r#"
    #include <cstdint>

    #define K <$ K $>

    #include "fill.h"
    using namespace std;
    typedef float real;
    #define HD __host__ __device__ __forceinline__

    namespace helper { template <typename T> HD T twice(T x) { return T(2) * x; } }

    using T = real; extern "C" __global__ void smooth(const T* __restrict x, T* const y, size_t n, double scale, bool mirrored, const real taps[K]) {
        size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
        if (i >= n) return;
        real sum = 0;
        for (int k = 0; k < K; ++k) {
            long long at = (long long)i + (mirrored ? K / 2 - k : k - K / 2);
            if (at >= 0 && at < (long long)n) sum += taps[k] * x[at];
        }
        y[i] = helper::twice(sum) * scale;
    }
    "#);
    let family = text("templates/kernels/smooth/family.toml");
    insta::assert_snapshot!(family.lines().find(|line| line.starts_with("args")).unwrap(), @r#"args = ["x", "y", "long long n", "double scale", "mirrored", "taps"]"#);
    let (code, checked, said) = call(&sandbox, &["check", "smooth", "--device", "virtual:h200", "--trust"]);
    assert_eq!(code, 0, "{checked}{said}");
    let (code, _, said) = call(&sandbox, &add);
    assert_eq!(code, 2);
    insta::assert_snapshot!(said, @"error: kernels/workloads/smooth.toml exists already: --force replaces what an earlier addition made, and --name gives the kernel another name");
    let (code, _, said) = call(&sandbox, &[&add[..], &["--force"]].concat());
    assert_eq!(code, 0, "{said}");
}

/// What a number is for decides what else is tried.
#[test]
fn numbers_of_a_launch_are_what_they_are_for() {
    let sandbox = project();
    sandbox.write("mine/mm.py", "def oracle(a, b):\n    return a @ b\n");
    let kernel = "__global__ void mm(const float* a, const float* b, float* c, int M, int N, int K) {\n    \
                  int at = blockIdx.x * TX * TILE + threadIdx.x * TILE;\n    for (int i = at; i < at + TILE && i < M * N; ++i) {\n        \
                  float sum = 0.f;\n        for (int k = 0; k < K; ++k) sum += a[i / N * K + k] * b[k * N + i % N];\n        \
                  c[i] = sum;\n    }\n}\n";
    let options = "--oracle mine/mm.py --shape a=M,K --shape b=K,N --shape c=M,N --case M=4,N=8,K=8 --force";
    let added = |defined: &str, rest: &str| {
        sandbox.write("mine/mm.cu", &format!("{defined}{kernel}"));
        let add = format!("add mine/mm.cu {options} {rest}");
        let (code, shown, said) = call(&sandbox, &add.split(' ').collect::<Vec<_>>());
        if code == 0 {
            shown.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")
        } else {
            said
        }
    };
    let defined = "#define BM 64\n#define TILE 4\n#define TX (BM / TILE)\n";
    insta::assert_snapshot!(added(defined, "--grid ceil_div(M*N,BM) --block BM/TILE"), @r"
      BM (a #define in line 1): 16 32 64 128 256
      TILE (a #define in line 2): 1 2 4 8 16
    ");
    let defined = "#define TX 32\n#define TILE 4\n";
    insta::assert_snapshot!(added(defined, "--grid ceil_div(M*N,TX*TILE) --block TX --values TX=32 --values TILE=4"), @r"
      TX (a #define in line 1): 32
      TILE (a #define in line 2): 4
    ");
    insta::assert_snapshot!(added(defined, "--grid 1 --block THREADS"), @"error: --block `THREADS`: there is no `THREADS`");
    let fixed = "add mine/fixed.cu --oracle mine/mm.py --shape a=64 --shape c=64 --case n=64 --grid 1 --block 64";
    sandbox
        .write("mine/fixed.cu", "__global__ void fixed(const float* a, float* c) { c[threadIdx.x] = a[threadIdx.x]; }");
    let (_, _, said) = call(&sandbox, &fixed.split(' ').collect::<Vec<_>>());
    insta::assert_snapshot!(said, @"error: fixed.cu: --shape a=64: no tensor has a dimension: name an extent, such as --shape a=n with --case n=64, and add --constraint 'n == 64' if the kernel is for that size only");
}

/// A kernel as repositories have them: its header is in another folder, with a prototype, a number of the launch and annotated
/// lambdas; constant memory has several names; strides and tiles are parameters.
#[test]
fn a_kernel_of_a_repository_comes_in_with_what_is_elsewhere() {
    let sandbox = project();
    sandbox.write(
        "mine/include/scale.h",
        "#pragma once\n#ifndef TILE\n#define TILE 16\n#endif\n__global__ void scale(const float*, float*, int, int, int, int);\n\
         template <typename F> __device__ float of(float x, F f) { return f(x); }\n",
    );
    sandbox.write(
        "mine/kernels/scale.cu",
        "#include \"scale.h\"\nconst int ROWS = 4, HALO = 0;\n__constant__ float a, b, unused;\n\
         __global__ void scale(const float* x, float* y, int n, int stride, int offset_of_the_first_element_of_a_row, int per) {\n    \
         int row = blockIdx.y * ROWS + threadIdx.y;\n    for (int i = 0; i < per; ++i) {\n        \
         int at = (blockIdx.x * per + i) * TILE + threadIdx.x;\n        \
         if (at < n) y[row * stride + at] = of(x[row * stride + at], []__device__(float v) { return v * 2; }) * a + b + offset_of_the_first_element_of_a_row;\n    \
         }\n}\n__global__ void other(float* y) { y[0] = unused; }\n",
    );
    sandbox.write(
        "mine/scale.py",
        "optloop = {\n    'kernel': 'scale',\n    'case': {'m': 64, 'n': 96, 'offset_of_the_first_element_of_a_row': 0},\n    'argument': {'stride': 'n'},\n    \
         'values': {'per': [2, 4], 'TILE': [8, 16, 32]},\n    'grid': 'ceil_div(n, TILE * per), m / ROWS',\n    \
         'block': 'TILE, ROWS',\n    'constraint': 'm % ROWS == 0',\n}\n\n\
         def oracle(x: 'm, n', offset_of_the_first_element_of_a_row, a=3.0, b=1.0) -> 'm, n':\n    return x * 2 * a + b + offset_of_the_first_element_of_a_row\n",
    );
    let (code, shown, said) = call(&sandbox, &["add", "mine/kernels/scale.cu", "--oracle", "mine/scale.py"]);
    assert_eq!(code, 0, "{said}");
    insta::assert_snapshot!(shown, @r"
    added scale.cu as op, workload and family `scale`
      left out, unused code: other
      a is an argument now, in place of constant memory
      b is an argument now, in place of constant memory
      TILE (a number of a header): 8 16 32
      ROWS (a constant in line 2): 1 2 4 8 16 32 64 128 256
      per (a number of the launch): 2 4
      HALO (a constant in line 2) stays 0: 0 is no size of a tile or a block; name values with --values
    next: git add kernels templates && git commit, then optloop start --workload scale --budget 5m
    ");
    let read = |path: &str| std::fs::read_to_string(sandbox.path(path)).unwrap();
    let (family, op) = (read("templates/kernels/scale/family.toml"), read("kernels/ops/scale/op.toml"));
    assert!(family.contains("[derived]\nstride = \"n\"\n") && !op.contains("stride"), "{family}\n{op}");
    assert!(op.contains("[dims.offset_of_the_first_element_of_a_row]\nabout = \"the size `offset_of_the_first_element_of_a_row`\"\nrange = [0, 2147483647]\n"), "{op}");
    assert!(read("kernels/workloads/scale.toml").contains("name = \"m64n96\"\n"), "extents make a short name");
    assert!(!op.contains("unused") && op.contains("[scalars]\na = 3.0\nb = 1.0\n"), "{op}");
    let (code, _, said) = call(&sandbox, &["check", "scale", "--device", "virtual", "--trust"]);
    assert_eq!(code, 0, "{said}");

    // What the launch names must be what the source names.
    sandbox.write("mine/include/scale.h", &read("mine/include/scale.h").replace("TILE 16", "TILE (8 * 2)"));
    let (_, _, said) = call(&sandbox, &["add", "mine/kernels/scale.cu", "--oracle", "mine/scale.py", "--force"]);
    insta::assert_snapshot!(said, @"error: scale.cu: `TILE` in the launch: the source defines it, but not as one whole number that could be another: write `#define TILE 16`, or use an expression of what it depends on");
}
