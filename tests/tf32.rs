//! TF32 as the compute mode of a workload: which kernels it lets pass, and where its name appears. NVRTC compiles the
//! kernels, and the virtual H200 executes them.

use crate::common::{Sandbox, VIRTUAL_WINNERS};

const WORKLOAD: &str = r#"
name = "small"
about = "Products of which no tile divides anything."
op = "gemm"
dtype = "f32"
compute = "tf32"
initial_kernel = "toy"
tolerance = { relative_l2 = 1.5e-3, worst_row = 1.2e-2 }
[[case]]
name = "ragged"
M = 130
N = 264
K = 200
"#;

/// Full FP32 does not allow what TF32 gives.
const FULL: &str = "relative_l2 = 1e-5, worst_row = 3e-5";

const FAMILIES: [&str; 2] = ["gemm-scalar", "gemm-tf32-mma"];
const MANIFEST: &str = "templates/kernels/gemm-tf32-mma/family.toml";
const FILE: &str = "kernels/workloads/small.toml";

fn bench(sandbox: &Sandbox, what: &str) -> Result<String, String> {
    let args = ["bench", what, "--workload", "small", "--case", "ragged", "--device", "virtual"];
    let output = sandbox.optloop(&args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn a_session_in_tf32_finds_a_winner_and_says_so_everywhere() {
    let sandbox = Sandbox::with_families(WORKLOAD, &FAMILIES);
    let listed = sandbox.succeeds(&["list"]);
    assert!(listed.lines().any(|line| line.starts_with("small") && line.contains("f32 (tf32)")), "{listed}");
    let start = ["start", "--workload", "small", "--device", "virtual:h200", "--seed", "1", "--iterations", "3"];
    sandbox.succeeds(&start);
    let report = sandbox.report();
    assert_eq!(report["session"]["compute"], "tf32");
    let case = &report["cases"][0];
    assert_eq!(case["variant"]["family"], "gemm-tf32-mma", "{case}");
    // A tensor core multiplies 1024 pairs of TF32 a clock: 132 of them have 2048 FLOP at 1.83 GHz.
    let told = sandbox.succeeds(&["report", "--format", "md"]);
    assert!(told.contains("Kernels and baselines compute in TF32."), "{told}");
    let winner = format!("{VIRTUAL_WINNERS}/ragged.json");
    assert_eq!(sandbox.json(&winner)["compute"], "tf32");

    // The winner is of no use where the workload asks for full FP32 now.
    sandbox.replace(FILE, "compute = \"tf32\"\n", "");
    let refusal = sandbox.fails(&["bench", "small/ragged", "--device", "virtual"]);
    assert!(refusal.contains(r#"won with compute = "tf32", and the workload has "dtype""#), "{refusal}");
}

#[test]
fn the_same_kernel_passes_in_tf32_and_fails_in_full_fp32() {
    let sandbox = Sandbox::with_families(WORKLOAD, &FAMILIES);
    assert!(bench(&sandbox, "gemm-tf32-mma").unwrap().contains("The floor is"));
    sandbox.replace(FILE, "compute = \"tf32\"\n", "");
    sandbox.replace(FILE, "relative_l2 = 1.5e-3, worst_row = 1.2e-2", FULL);
    // The family says that it multiplies in TF32, so no session tries it.
    let listed = sandbox.succeeds(&["list", "small"]);
    assert!(listed.contains("It multiplies in tf32, which the workload does not allow."), "{listed}");
    // Where it keeps that to itself, the check of its output finds it out.
    sandbox.replace(MANIFEST, "compute = \"tf32\"\n", "");
    let refusal = bench(&sandbox, "gemm-tf32-mma").unwrap_err();
    assert!(refusal.contains("wrong") && refusal.contains("(tolerance 1e-5)"), "{refusal}");
    assert!(bench(&sandbox, "gemm-scalar").unwrap().contains("The floor is"));
}

/// Other tiles, warps and rings, with and without padding, also where some stages stay empty.
#[test]
fn every_way_to_share_the_work_is_right() {
    let short = "[[case]]\nname = \"short\"\nM = 5\nN = 12\nK = 4\n";
    let sandbox = Sandbox::with_families(&format!("{WORKLOAD}{short}"), &FAMILIES);
    for configuration in ["BM=128,WM=4,WN=1,PAD=0", "BM=32,BN=128,BK=16,WM=1,WN=4,STAGES=4", "BN=32,WN=1,STAGES=2"] {
        for case in ["ragged", "short"] {
            let what = format!("gemm-tf32-mma:{configuration}");
            let args = ["bench", &what, "--workload", "small", "--case", case, "--device", "virtual"];
            assert!(sandbox.succeeds(&args).contains("The floor is"), "{configuration} {case}");
        }
    }
}

/// A tensor core cuts off the bits that TF32 does not have.
const STRANGER: &str = r#"
#define COLUMNS 32
extern "C" __global__ void multiply(const float* a, const float* b, float* c, int M, int N, int K) {
    const int row = blockIdx.y, column = blockIdx.x * COLUMNS + threadIdx.x;
    if (column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) {
        const float of_a = __uint_as_float(__float_as_uint(a[row * K + k]) & 0xffffe000u);
        const float of_b = __uint_as_float(__float_as_uint(b[k * N + column]) & 0xffffe000u);
        sum += of_a * of_b;
    }
    c[row * N + column] = sum;
}
"#;

#[test]
fn a_strangers_kernel_is_added_with_its_mode() {
    let sandbox = Sandbox::with_families(WORKLOAD, &FAMILIES);
    sandbox.write("mine/product.cu", STRANGER);
    sandbox.write(
        "mine/half.cu",
        &STRANGER.replace("float* c", "__half* c").replace("#define", "#include <cuda_fp16.h>\n#define"),
    );
    let added = |file: &str, name: &str, mode: &[&str]| {
        let grid = ["--op", "gemm", "--grid", "ceil_div(N, COLUMNS), M", "--block", "COLUMNS"];
        let case = ["--case", "M=40,N=72,K=160", "--name", name];
        sandbox.optloop(&[&["add", file], &grid[..], &case, mode].concat())
    };
    for (name, mode) in [("in-tf32", &["--compute", "tf32"][..]), ("in-full", &[])] {
        let output = added("mine/product.cu", name, mode);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let keys = |file: &str| std::fs::read_to_string(sandbox.path(file)).unwrap().matches("compute = \"tf32\"").count();
    assert_eq!(keys("kernels/workloads/in-tf32.toml") + keys("templates/kernels/in-tf32/family.toml"), 2);
    assert_eq!(keys("kernels/workloads/in-full.toml") + keys("templates/kernels/in-full/family.toml"), 0);
    let bench = |name: &'static str| ["bench", name, "--workload", name, "--case", "m40n72k160", "--device", "virtual"];
    assert!(sandbox.succeeds(&bench("in-tf32")).contains("The floor is"));
    let refused = sandbox.fails(&bench("in-full"));
    assert!(refused.contains("(tolerance 1e-5)"), "{refused}");

    let refused = |file, mode| {
        let output = added(file, "other", &["--compute", mode]);
        String::from_utf8(output.stderr).unwrap()
    };
    insta::assert_snapshot!(refused("mine/half.cu", "tf32"), @"error: half.cu: --compute tf32: it is a way to multiply f32, and the kernel's output is f16: leave it out");
    insta::assert_snapshot!(refused("mine/product.cu", "tf16"), @"error: invalid value 'tf16' for '--compute <MODE>': `tf16`: write dtype or tf32; run it with `--help` for a list");
}
