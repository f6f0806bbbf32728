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
      WARP_SIZE (a #define in line 4) stays 32: the hardware determines it
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
    insta::assert_snapshot!(with("#include \"reduce.h\"", "int main() { return 0; }"), @"error: layer_norm.cu: line 1: host code: remove `main` and launches with <<<...>>>, because optloop launches the kernel");
    insta::assert_snapshot!(with("int N", "size_t N"), @"error: layer_norm.cu: line 8: parameter `N` of `layer_norm`: `size_t` is not supported: use int for a size, or float for a constant");
    insta::assert_snapshot!(with("__global__ void", "template <int N> __global__ void"), @"error: layer_norm.cu: line 8: the template parameter `N` has no value: add --template N=16");
    insta::assert_snapshot!(with("reduce.h", "../reduce.h"), @"error: layer_norm.cu: line 1 includes `../reduce.h`: Failed to read mine/../reduce.h: No such file or directory (os error 2)");
    insta::assert_snapshot!(with("reduce.h", "/etc/passwd"), @"error: layer_norm.cu: line 1: `/etc/passwd` is not below the source's folder: include a file that is");
    insta::assert_snapshot!(with("reduce.h", "other.h"), @"error: layer_norm.cu: line 1 includes `other.h`: Failed to read mine/other.h: No such file or directory (os error 2)");
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

/// Counts with atomics, FP8, two outputs, indices, and scratch memory.
#[test]
fn kernels_of_all_kinds_go_from_add_to_a_faster_winner() {
    let sandbox = project();
    for (name, options) in STRANGERS {
        for file in [format!("{name}.cu"), format!("{name}.py")] {
            let text = std::fs::read_to_string(Path::new(file!()).with_file_name(&file)).unwrap();
            sandbox.write(&format!("mine/{file}"), &text);
        }
        let (source, oracle) = (format!("mine/{name}.cu"), format!("mine/{name}.py"));
        let add = ["add", &source, "--oracle", &oracle, "--block", "THREADS"];
        let options: Vec<&str> = options.split(' ').filter(|option| !option.is_empty()).collect();
        let (code, _, said) = call(&sandbox, &[&add[..], &options].concat());
        assert_eq!(code, 0, "{said}");
        sandbox.git(&["add", "kernels", "templates"]);
        sandbox.git(&["commit", "--quiet", "--message", name]);
        let start =
            ["start", "--workload", name, "--device", "virtual:h200", "--iterations", "6", "--seed", "2", "--trust"];
        let (code, _, said) = call(&sandbox, &start);
        assert_eq!(code, 0, "{said}");
        let report = sandbox.report();
        assert!(report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.0, "{name}: {}", report["cases"][0]);
        assert!(sandbox.git(&["log", "-1", "--format=%s"]).starts_with(&format!("{name}: ")));
    }
    // The workload of the last session is the only one of its op.
    let (code, shown, said) = call(&sandbox, &["diagnose", "sum", "--case", "n50000", "--device", "virtual:h200"]);
    assert!(code == 0 && shown.starts_with("sum/n50000 on virtual H200"), "{said}");
}

/// They read bytes or FP8 and write other types, so their first tensors do not have the types of their workloads. The time of
/// the histogram depends on its inputs.
#[test]
fn a_winner_with_tensors_of_several_types_is_reproduced() {
    let sandbox = project();
    for ((name, options), (case, dtype)) in STRANGERS.iter().zip([("n50000", "u32"), ("r8n4096", "f32")]) {
        for file in [format!("{name}.cu"), format!("{name}.py")] {
            let text = std::fs::read_to_string(Path::new(file!()).with_file_name(&file)).unwrap();
            sandbox.write(&format!("mine/{file}"), &text);
        }
        let add = format!("add mine/{name}.cu --oracle mine/{name}.py --block THREADS {options}");
        let start = format!("start --workload {name} --device virtual:h200 --iterations 6 --seed 2 --trust");
        let succeeds = |arguments: &str| {
            let (code, shown, said) = call(&sandbox, &arguments.split(' ').collect::<Vec<_>>());
            assert_eq!(code, 0, "{arguments}: {said}");
            shown
        };
        succeeds(&add);
        sandbox.git(&["add", "kernels", "templates"]);
        sandbox.git(&["commit", "--quiet", "--message", name]);
        succeeds(&start);
        assert!(succeeds("reproduce HEAD --device virtual:h200").contains("holds"));
        // As version 0.2.0 wrote it.
        let sidecar = format!("kernels/variants/virtual-h200-132sm-132gib/{name}/{case}.json");
        sandbox.replace(&sidecar, &format!("  \"dtype\": \"{dtype}\",\n  \"workspaces\""), "  \"workspaces\"");
        sandbox.git(&["commit", "--quiet", "--all", "--message", "an older sidecar"]);
        assert!(succeeds("reproduce HEAD --device virtual:h200").contains("holds"));
        succeeds(&format!("compare {name}/{case} {sidecar}"));
    }
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
