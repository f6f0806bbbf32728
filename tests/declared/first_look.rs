//! The first look at a kernel of one's own: hidden shapes and probes in `check` and in a session, and what a check says that ran.

use super::{call, project};
use crate::common::{Sandbox, is_nightly};

/// Makes a project that takes first looks, with a kernel and its oracle.
fn with_kernel(source: &str, oracle: &str, config: &str) -> Sandbox {
    let sandbox = project();
    sandbox.write("config.toml", &format!("[session]\nproposer = 'local'\nbudget = '1m'\n{config}"));
    sandbox.write("mine/own.cu", source);
    sandbox.write("mine/own.py", oracle);
    sandbox
}

/// Adds the kernel with these options. Returns what a check says, with its exit code.
fn checked(sandbox: &Sandbox, options: &str) -> String {
    let add = format!("add mine/own.cu --oracle mine/own.py {options}");
    let (code, _, said) = call(sandbox, &add.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0, "{said}");
    let (code, found, _) = call(sandbox, &["check", "own", "--device", "virtual", "--trust"]);
    format!("{code} {found}").replace("\n       ", " ")
}

/// Reads and writes four numbers at once, beyond the end unless there is a multiple of four.
const FOURS: &str = r"
#define THREADS 128
__global__ void own(const float* x, float* y, int n) {
    int i = 4 * (blockIdx.x * THREADS + threadIdx.x);
    if (i < n) {
        float4 v = *(const float4*)(x + i);
        *(float4*)(y + i) = make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0));
    }
}
";

const RELU: &str = "import numpy as np\ndef oracle(x):\n    return np.maximum(x, 0)\n";

const ALONG: &str = "--shape x=n --shape y=n --grid ceil_div(n,4*THREADS) --block THREADS --case n=2048";

#[test]
fn a_kernel_of_ones_own_that_fails_on_another_shape_is_told_the_shape_and_a_constraint() {
    let sandbox = with_kernel(FOURS, RELU, "");
    let said = checked(&sandbox, ALONG);
    assert!(said.starts_with("1 "), "{said}");
    for part in ["on n=", ", which is not in the workload: ", "out of bounds", "--constraint 'n % 4 == 0'"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let start = ["start", "--workload", "own", "--device", "virtual:h200", "--seed", "1", "--iterations", "1"];
    let (code, _, said) = call(&sandbox, &start);
    assert!(code == 1 && said.starts_with("error: no variant of session 2 was correct"), "{said}");
    assert!(said.contains("which is not in the workload") && said.contains("'n % 4 == 0'"), "{said}");
    let report = sandbox.report();
    assert_eq!(report["advice"]["next"]["kind"], "mend", "{report}");

    let manifest = "templates/kernels/own/family.toml";
    let text = std::fs::read_to_string(sandbox.path(manifest)).unwrap();
    sandbox
        .write(manifest, &format!("{text}\n[[constraint]]\nexpr = \"n % 4 == 0\"\nwhy = \"it moves four at once\"\n"));
    let (code, found, _) = call(&sandbox, &["check", "own", "--device", "virtual"]);
    assert_eq!((code, found.trim()), (0, "ok     own on own: right on n2048"));
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 0, "{said}");
}

/// Holds a row in shared memory, if it has at most 1,024 columns.
const SHORT_ROWS: &str = r"
__global__ void own(const float* x, float* y, int rows, int cols) {
    __shared__ float row[1024];
    for (int c = threadIdx.x; c < cols; c += 128) row[min(c, 1023)] = x[(size_t)blockIdx.x * cols + c];
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += 128) y[(size_t)blockIdx.x * cols + c] = row[min(cols - 1 - c, 1023)];
}
";

#[test]
fn a_kernel_that_holds_no_larger_rows_than_its_case_has_is_told_the_shape() {
    let reversed = "import numpy as np\ndef oracle(x):\n    return x[:, ::-1]\n";
    let sandbox = with_kernel(SHORT_ROWS, reversed, "");
    let options = "--shape x=rows,cols --shape y=rows,cols --grid rows --block 128 --case rows=64,cols=1000";
    let said = checked(&sandbox, options);
    assert!(said.starts_with("1 ") && said.contains("cols="), "{said}");
    assert!(said.contains(", which is not in the workload"), "{said}");
}

/// Right only if there is a multiple of seven.
const SEVENS: &str = r"
__global__ void own(const float* x, float* y, int n) {
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32) y[i] = n % 7 == 0 ? fmaxf(x[i], 0) : x[i];
}
";

#[test]
fn a_constraint_that_one_shape_suggests_and_another_refutes_is_not_proposed() {
    // Each is a multiple of all powers of two that are tried, so each of these could be the reason.
    for case in [1792, 3584, 5376] {
        let options = format!("--shape x=n --shape y=n --grid 8 --block 32 --case n={case}");
        let said = checked(&with_kernel(SEVENS, RELU, ""), &options);
        assert!(said.starts_with("1 ") && said.contains("on n=") && said.contains("not in the workload"), "{said}");
        assert!(!said.contains("% "), "{said}");
    }
}

/// A barrier is missing at the end of the loop.
const RACE: &str = r"
__global__ void own(const float* x, float* y, int rows, int cols) {
    __shared__ float part[128];
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        float s = 0;
        for (int c = threadIdx.x; c < cols; c += 128) s += x[(size_t)r * cols + c];
        part[threadIdx.x] = s;
        __syncthreads();
        if (threadIdx.x == 0) {
            float t = 0;
            for (int i = 0; i < 128; ++i) t += part[i];
            y[r] = t;
        }
    }
}
";

#[test]
fn a_session_whose_variants_all_crash_fails_and_says_to_mend_the_kernel() {
    let sandbox = with_kernel(RACE, "def oracle(x):\n    return x.sum(1)\n", "");
    let said = checked(&sandbox, "--shape x=rows,cols --shape y=rows --case rows=30,cols=64 --grid 8 --block 128");
    assert!(said.contains("crashed: race at shared address"), "{said}");
    let start = ["start", "--workload", "own", "--device", "virtual:h200", "--seed", "1", "--iterations", "1"];
    let (code, _, said) = call(&sandbox, &start);
    assert!(code == 1 && said.contains("Iteration 2: crashed: race at shared"), "{code} {said}");
    let (_, report, _) = call(&sandbox, &["report"]);
    assert!(report.contains("mend the kernel: every variant failed") && !report.contains("floors"), "{report}");
}

/// Wrong in its last row only, as with an index that overflows there.
const COPY: &str = r"
__global__ void own(const float* x, float* y, int rows, int cols) {
    for (int i = threadIdx.x; i < cols; i += 64)
        y[(size_t)blockIdx.x * cols + i] = blockIdx.x < LAST ? x[(size_t)blockIdx.x * cols + i] : 0.f;
}
";

#[test]
fn a_check_says_what_ran_and_a_sample_has_the_last_rows() {
    let options =
        "--shape x=rows,cols --shape y=rows,cols --case rows=600,cols=256 --grid rows --block 64 --independent rows";
    let config = "[virtual]\nlaunch_gflop = 0.003\n[validate]\nfirst_look_share = 0\n";
    let found = |last: &str| {
        let source = COPY.replace("LAST", last);
        checked(&with_kernel(&source, "def oracle(x):\n    return x\n", config), options)
    };
    let wrong = found("599");
    assert!(wrong.starts_with("1 wrong") && wrong.contains("in row 599"), "{wrong}");
    let right = found("600");
    assert!(right.starts_with("0 ok     own on own: right on a part of rows600cols256 (own: "), "{right}");
    assert!(right.contains("blocks counted") && right.contains("checked on rows=344 cols=256"), "{right}");
}

/// Adds up three numbers of a row. Outside of it, numbers of the rows beside it are multiplied by zero, or by nothing.
const CONVOLUTION: &str = r"
__global__ void own(const float* x, float* y, int rows, int cols) {
    const int c = blockIdx.x * 64 + threadIdx.x, r = blockIdx.y;
    if (c >= cols) return;
    const float* at = x + (size_t)r * cols + c;
    const bool first = c == 0, last = c == cols - 1;
    y[(size_t)r * cols + c] = SUM;
}
";

const BY_ZERO: &str = "(first ? 0.f : 1.f) * at[first && r == 0 ? 0 : -1] + at[0] + \
                       (last ? 0.f : 1.f) * at[last && r == rows - 1 ? 0 : 1]";

#[test]
fn what_no_infinite_number_belongs_to_stays_finite() {
    let oracle = "import numpy as np\ndef oracle(x):\n    p = np.pad(x, ((0, 0), (1, 1)))\n    return p[:, :-2] + x + p[:, 2:]\n";
    let options =
        "--shape x=rows,cols --shape y=rows,cols --case rows=40,cols=48 --grid ceil_div(cols,64),rows --block 64";
    let found = |sum: &str| checked(&with_kernel(&CONVOLUTION.replace("SUM", sum), oracle, ""), options);
    let wrong = found(BY_ZERO);
    assert!(wrong.starts_with("1 ") && !wrong.contains("--constraint"), "{wrong}");
    assert!(wrong.contains("elements are NaN or infinite, but the oracle's are finite"), "{wrong}");
    let right = found("(first ? 0.f : at[-1]) + at[0] + (last ? 0.f : at[1])");
    assert!(right.starts_with("0 ok     own on own: right on rows40cols48"), "{right}");
}

/// The fault shows in one of 13 sizes. Without the memory of what another variant has failed, iteration 3 wins with it.
#[test]
fn a_variant_meets_the_shapes_on_which_another_of_its_family_has_failed() {
    let source = r"
#define THREADS 32
__global__ void own(const float* x, float* y, int n) {
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
        y[i] = n % 13 == 5 ? x[i] : 2 * x[i];
}
";
    let oracle = "def oracle(x):\n    return 2 * x\n";
    let sandbox = with_kernel(source, oracle, "[validate]\nfirst_look_share = 0\n");
    let add = "add mine/own.cu --oracle mine/own.py --shape x=n --shape y=n --grid 8 --block THREADS --case n=4096";
    let (code, _, said) = call(&sandbox, &add.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0, "{said}");
    let start =
        ["start", "--workload", "own", "--device", "virtual:h200", "--seed", "1", "--iterations", "3", "--trust"];
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 0, "{said}");
    let rows: serde_json::Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
    let outcomes: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["measured", "wrong", "wrong"], "{rows}");
}

const EACH: &str = r"
__global__ void own(const float* x, float* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = VALUE;
}
";

#[test]
fn large_values_may_not_be_clamped() {
    let found = |value: &str, oracle: &str| {
        let source = EACH.replace("VALUE", value);
        let sandbox = with_kernel(&source, &format!("def oracle(x):\n    return {oracle}\n"), "");
        checked(&sandbox, "--shape x=n --shape y=n --case n=2000 --grid ceil_div(n,128) --block 128")
    };
    let right = found("v * v * v * v * v / (1.f + fabsf(v * v * v * v * v))", "x**5 / (1 + abs(x**5))");
    assert!(right.starts_with("0 ok     own on own: right on n2000"), "{right}");
    let wrong = found("2.f * fminf(fmaxf(v, -1e6f), 1e6f)", "2 * x");
    let probes =
        ["very large numbers", "inputs far above zero", "inputs far below zero", "inputs far from zero on either side"];
    let is_named = probes.iter().any(|probe| wrong.contains(&format!("on {probe}: ")));
    assert!(wrong.starts_with("1 ") && is_named, "{wrong}");
}

#[test]
fn more_rows_than_a_grid_may_have_along_y_are_tried() {
    let source = r"
__global__ void own(const float* x, float* y, int rows, int cols) {
    int r = blockIdx.y;
    for (int c = threadIdx.x; c < cols; c += 32) y[r * cols + c] = fmaxf(x[r * cols + c], 0.f);
}
";
    let sandbox = with_kernel(source, RELU, "");
    let options = "--independent rows --shape x=rows,cols --shape y=rows,cols --case rows=40,cols=48 --grid 1,min(rows,65535) --block 32";
    let said = checked(&sandbox, options);
    assert!(said.starts_with("1 ") && said.contains("elements were not written"), "{said}");
}

/// A maximum that begins at a number, over rows of 100.
const HIGHEST: &str = r"
__global__ void own(const signed char* x, int* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    int most = FIRST;
    for (int k = 0; k < 100; ++k) most = max(most, (int)x[100 * i + k]);
    y[i] = most;
}
";

#[test]
fn rows_of_the_smallest_whole_number_are_tried() {
    let options = "--shape x=n,100 --shape y=n --case n=1000 --grid ceil_div(n,128) --block 128";
    let with = |first: &str| {
        let source = HIGHEST.replace("FIRST", first);
        checked(&with_kernel(&source, "def oracle(x):\n    return x.max(-1)\n", ""), options)
    };
    assert_eq!(with("-128").trim(), "0 ok     own on own: right on n1000");
    let said = with("0");
    assert!(said.contains("on runs of equal whole numbers: "), "{said}");
}

#[test]
fn a_set_with_nearly_the_same_keys_is_tried() {
    let source = r"
__global__ void own(const long long* a, const long long* b, int* y, int n, int m) {
    int i = blockIdx.x * 128 + threadIdx.x, hit = 0;
    if (i >= n) return;
    for (int j = 0; j < m; ++j) hit |= (KEY)a[i] == (KEY)b[j];
    y[i] = hit;
}
";
    let options = "--shape a=n --shape b=m --shape y=n --case n=200,m=50 --grid ceil_div(n,128) --block 128 \
                   --contents a=integers:0:1099511627775 --contents b=integers:0:1099511627775";
    let with = |key: &str| {
        let oracle = "import numpy as np\ndef oracle(a, b):\n    return np.isin(a, b)\n";
        checked(&with_kernel(&source.replace("KEY", key), oracle, ""), options)
    };
    assert_eq!(with("long long").trim(), "0 ok     own on own: right on n200m50");
    let said = with("int");
    assert!(said.starts_with("1 ") && said.contains("on values of other inputs: "), "{said}");
}

/// Adds a number to each row. The row comes from a multiplication.
const ROW_OF_ELEMENT: &str = r"
__global__ void own(const float* x, const float* bias, float* y, int rows, int cols) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < rows * cols) y[i] = x[i] + bias[ROW];
}
";

#[test]
fn the_oracle_shows_that_rows_are_independent_and_indices_beyond_24_bits_are_tried() {
    let options = "--shape x=rows,cols --shape bias=rows --shape y=rows,cols --case rows=64,cols=48 --block 128 \
                   --grid ceil_div(rows*cols,128)";
    let with = |row: &str, oracle: &str| {
        let oracle = format!("import numpy as np\ndef oracle(x, bias):\n    return {oracle}\n");
        checked(&with_kernel(&ROW_OF_ELEMENT.replace("ROW", row), &oracle, ""), options)
    };
    assert_eq!(with("i / cols", "x + bias[:, None]").trim(), "0 ok     own on own: right on rows64cols48");
    let said = with("(int)((i + 0.5f) * (1.0f / cols))", "x + bias[:, None]");
    assert!(said.starts_with("1 ") && said.contains("or an index the 24 bits of a float?"), "{said}");
    // Here, the windows at both ends do not tell what the kernel must write there.
    let said = with("max(i / cols - 1, 0)", "x + bias[np.maximum(np.arange(len(bias)) - 1, 0), None]");
    assert_eq!(said.trim(), "0 ok     own on own: right on rows64cols48");
}

#[test]
fn rows_in_narrow_bands_are_tried_and_pytorch_gelu_is_right() {
    let found = |value: &str, oracle: &str| {
        let source = EACH
            .replace("128 + threadIdx.x", "32 + threadIdx.x")
            .replace("x, float* y, int n", "x, float* y, int rows, int n");
        let source = source.replace("(i >= n)", "(i >= n * rows)").replace("VALUE", value);
        let oracle = format!("import math\nimport numpy as np\ndef oracle(x):\n    return {oracle}\n");
        checked(
            &with_kernel(&source, &oracle, ""),
            "--shape x=rows,n --shape y=rows,n --case rows=40,n=64 --grid ceil_div(n*rows,32) --block 32",
        )
    };
    let gelu = found("0.5f * v * (1.f + erff(v * 0.70710678f))", "x / 2 * np.vectorize(math.erfc)(-x / 2**0.5)");
    assert!(gelu.starts_with("0 ok     own on own: right on rows40n64"), "{gelu}");
    let said = found("v > 20.f ? v : logf(1.f + expf(v))", "np.logaddexp(0, x)");
    assert!(said.starts_with("1 ") && said.contains("on rows in narrow bands: "), "{said}");
}

#[test]
fn the_largest_number_of_a_long_row_is_often_near_its_end() {
    let source = r"
#include <cuda_fp16.h>
__global__ void own(const __half* x, int* y, int rows, int n) {
    int row = blockIdx.x, lane = threadIdx.x;
    unsigned long long best = 0;
    for (int i = lane; i < n; i += 32) {
        unsigned bits = __half_as_ushort(x[(size_t)row * n + i]);
        if (bits == 0x8000) bits = 0;
        bits = bits & 0x8000 ? bits ^ 0xffff : bits | 0x8000;
        unsigned long long key = (unsigned long long)bits << 32 | (KEY)(0xffffffffu - i);
        if (key > best) best = key;
    }
    for (int d = 16; d; d /= 2) {
        unsigned long long other = __shfl_xor_sync(~0u, best, d);
        if (other > best) best = other;
    }
    if (lane == 0) y[row] = (KEY)(0xffffffffu - (unsigned)best);
}
";
    let with = |key: &str| {
        let sandbox = with_kernel(&source.replace("KEY", key), "def oracle(x):\n    return x.argmax(1)\n", "");
        checked(
            &sandbox,
            "--independent rows --shape x=rows,n --shape y=rows --case rows=8,n=500 --grid rows --block 32",
        )
    };
    assert_eq!(with("unsigned").trim(), "0 ok     own on own: right on rows8n500");
    let said = with("unsigned short");
    assert!(said.starts_with("1 ") && said.contains("on rows with their extremes near the end: "), "{said}");
}

/// Divides by the largest number, and remembers it.
const LARGEST: &str = r"
__global__ void own(const float* x, float* y, float* most, int n) {
    __shared__ float all[128];
    float own = LEAST;
    for (int i = threadIdx.x; i < n; i += 128) own = fmaxf(own, fabsf(x[i]));
    all[threadIdx.x] = own;
    __syncthreads();
    for (int k = 0; k < 128; ++k) own = fmaxf(own, all[k]);
    for (int i = threadIdx.x; i < n; i += 128) y[i] = x[i] / own;
    __syncthreads();
    if (threadIdx.x == 0) *most = own;
}
";

#[test]
fn what_an_execution_left_in_a_workspace_must_not_matter_on_other_inputs() {
    let with = |least: &str| {
        let oracle = "def oracle(x):\n    return x / max(abs(x).max(), 1e-30)\n";
        let sandbox = with_kernel(&LARGEST.replace("LEAST", least), oracle, "");
        checked(&sandbox, "--shape x=n --shape y=n --scratch most=1 --case n=3000 --grid 1 --block 128")
    };
    assert_eq!(with("1e-30f").trim(), "0 ok     own on own: right on n3000");
    let said = with("fmaxf(*most, 1e-30f)");
    assert!(said.starts_with("1 ") && said.contains("it uses what an execution on other inputs left there"), "{said}");
}

/// The largest number of a column, which may begin at a number.
const COLUMN: &str = r"
__global__ void own(const float* x, float* y, int rows, int cols) {
    int c = blockIdx.x * 64 + threadIdx.x;
    if (c >= cols) return;
    float most = FIRST;
    for (int r = 0; r < rows; ++r) most = fmaxf(most, x[(size_t)r * cols + c]);
    y[c] = most;
}
";

#[test]
fn whole_inputs_far_below_zero_are_tried_as_far_as_the_oracle_bears_them() {
    let with = |first: &str| {
        let sandbox = with_kernel(&COLUMN.replace("FIRST", first), "def oracle(x):\n    return x.max(0)\n", "");
        checked(
            &sandbox,
            "--shape x=rows,cols --shape y=cols --case rows=30,cols=48 --grid ceil_div(cols,64) --block 64",
        )
    };
    assert_eq!(with("-__int_as_float(0x7f800000)").trim(), "0 ok     own on own: right on rows30cols48");
    let said = with("-1e20f");
    assert!(said.starts_with("1 ") && said.contains("on inputs far below zero: "), "{said}");
}

/// Normalises a column, with a bias. PASSES counts how often it reads the numbers for their variance.
const NORM: &str = r"
__global__ void own(const float* x, const float* bias, float* y, int rows, int cols) {
    int c = blockIdx.x * 32 + threadIdx.x;
    if (c >= cols) return;
    float sum = 0.f, squares = 0.f, of_differences = 0.f;
    for (int r = 0; r < rows; ++r) {
        float v = x[(size_t)r * cols + c];
        sum += v;
        squares += v * v;
    }
    float mean = sum / rows;
    for (int r = 0; r < rows; ++r) {
        float v = x[(size_t)r * cols + c] - mean;
        of_differences += v * v;
    }
    float scale = rsqrtf(fmaxf(PASSES == 1 ? squares / rows - mean * mean : of_differences / rows, 0.f) + 1e-5f);
    for (int r = 0; r < rows; ++r) {
        size_t at = (size_t)r * cols + c;
        y[at] = (x[at] - mean) * scale + bias[c];
    }
}
";

/// Where the squares overflow, the bias is all that is left, and the oracle bears what no FP32 kernel does.
#[test]
fn a_variance_of_two_passes_is_right_beside_a_large_mean_and_a_difference_of_means_is_not() {
    let oracle =
        "import numpy as np\ndef oracle(x, bias):\n    return (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) + bias\n";
    let with = |passes: &str| {
        let sandbox = with_kernel(&NORM.replace("PASSES", passes), oracle, "");
        let shapes = "--shape x=rows,cols --shape bias=cols --shape y=rows,cols --case rows=60,cols=48";
        checked(&sandbox, &format!("{shapes} --grid ceil_div(cols,32) --block 32"))
    };
    assert_eq!(with("2").trim(), "0 ok     own on own: right on rows60cols48");
    let said = with("1");
    assert!(said.starts_with("1 ") && said.contains("mean: "), "{said}");
}

/// Adds up a row in tiles of 128 numbers, and loses a last one of LOST.
const TILES: &str = r"
__global__ void own(const float* x, float* y, int rows, int n) {
    float sum = 0;
    for (int first = 0; first < n; first += 128)
        for (int i = first + threadIdx.x; i < min(n, first + 128) && n - first != LOST; i += 32) sum += x[(size_t)blockIdx.x * n + i];
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
";

#[test]
fn every_power_of_two_is_left_in_a_last_tile() {
    let with = |lost: &str| {
        let sandbox = with_kernel(&TILES.replace("LOST", lost), "def oracle(x):\n    return x.sum(1)\n", "");
        let shapes = "--independent rows --shape x=rows,n --shape y=rows --case rows=8,n=1024";
        checked(&sandbox, &format!("{shapes} --grid rows --block 32"))
    };
    assert_eq!(with("0").trim(), "0 ok     own on own: right on rows8n1024");
    let said = with("64");
    assert!(said.starts_with("1 ") && said.contains("which is not in the workload"), "{said}");
}

#[test]
fn a_number_that_equals_what_it_is_compared_with_is_tried() {
    let oracle = "import numpy as np\ndef oracle(x):\n    return np.where(x >= 3, 6, x)\n";
    let with = |value: &str| {
        let sandbox = with_kernel(&EACH.replace("VALUE", value), oracle, "");
        checked(&sandbox, "--shape x=n --shape y=n --case n=2000 --grid ceil_div(n,128) --block 128")
    };
    let said = with("v > 3.f ? 6.f : v");
    assert!(said.starts_with("1 ") && said.contains("on special numbers"), "{said}");
}

#[test]
fn a_grid_with_a_largest_size_needs_blocks_that_go_on() {
    let with = |body: &str| {
        let source = format!(
            "__global__ void own(const float* x, float* y, int n) {{\n    int i = blockIdx.x * 256 + threadIdx.x;\n    {body}\n}}\n"
        );
        let sandbox = with_kernel(&source, RELU, "");
        checked(&sandbox, "--shape x=n --shape y=n --case n=2000 --grid min(ceil_div(n,256),16384) --block 256")
    };
    let right = with("for (; i < n; i += gridDim.x * 256) y[i] = fmaxf(x[i], 0.f);");
    assert_eq!(right.trim(), "0 ok     own on own: right on n2000");
    let said = with("if (i < n) y[i] = fmaxf(x[i], 0.f);");
    assert!(said.starts_with("1 ") && said.contains("where the grid has its largest size?"), "{said}");
}

/// Compares each number with all others, in one thread.
const SLOW: &str = r"
__global__ void own(const float* x, int* y, int n) {
    for (int i = 0; i < n; ++i) {
        int rank = 0;
        for (int j = 0; j < n; ++j) rank += x[j] < x[i];
        y[i] = rank;
    }
}
";

/// A minute of a CPU core.
#[test]
fn a_hidden_shape_on_which_a_kernel_takes_too_long_is_said_and_not_wrong() {
    if !is_nightly() {
        return;
    }
    let oracle = "import numpy as np\ndef oracle(x):\n    return np.searchsorted(np.sort(x), x)\n";
    let sandbox = with_kernel(SLOW, oracle, "");
    let said = checked(&sandbox, "--shape x=n --shape y=n --case n=100 --grid 1 --block 1");
    assert!(said.starts_with("0 ") && said.contains("not checked on n="), "{said}");
}

/// Adds up a row in one thread, one number after the other.
const MEAN: &str = r"
__global__ void own(const float* x, float* y, int rows, int n) {
    int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += expf(x[(size_t)row * n + i]);
    for (int i = 0; i < n; ++i) y[(size_t)row * n + i] = expf(x[(size_t)row * n + i]) / sum;
}
";

#[test]
fn a_sum_in_one_thread_may_round_as_fp32_does_on_long_rows() {
    if !is_nightly() {
        return;
    }
    let oracle = "import numpy as np\ndef oracle(x):\n    e = np.exp(x)\n    return e / e.sum(1, keepdims=True)\n";
    let sandbox = with_kernel(MEAN, oracle, "");
    let options = "--independent rows --shape x=rows,n --shape y=rows,n --case rows=4,n=500 --grid ceil_div(rows,32) \
                   --block 32 --contents x=uniform:-4:4";
    let said = checked(&sandbox, options);
    assert!(said.starts_with("0 ok     own on own: right on rows4n500"), "{said}");
}
