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

/// Copies the example of a T1 file, with matrices that a virtual GPU multiplies soon.
fn with_small_matrices() -> Sandbox {
    let sandbox = with_example("t1");
    for (from, to) in [
        ("[384, 256]", "[96, 64]"),
        ("\"X\": \"384\", \"Y\": \"256\"", "\"X\": \"96\", \"Y\": \"64\""),
        ("\"Size\": 98304", "\"Size\": 6144"),
        ("\"Size\": 49152", "\"Size\": 3072"),
        ("\"Size\": 73728", "\"Size\": 4608"),
        ("\"FillValue\": 256", "\"FillValue\": 64"),
        ("\"FillValue\": 384", "\"FillValue\": 96"),
        ("\"FillValue\": 192", "\"FillValue\": 48"),
    ] {
        sandbox.replace("theirs/matmul.json", from, to);
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
    assert!(
        report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.0,
        "{}",
        call(sandbox, &["history", "--json"]).1
    );
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
    insta::assert_snapshot!(said, @"error: convolution.py is a program: read it, then agree with --trust to run it, confined, up to its call of tune_kernel");
    let import = [
        "theirs/convolution.py",
        "--trust",
        "--flop",
        "2 * height * width * filter_width * filter_width",
        "--shape",
        "input=height + filter_width - 1,width + filter_width - 1",
    ];
    let shown = imported(&sandbox, &import, "convolution");
    insta::assert_snapshot!(shown, @"
    added convolution.cu as op, workload and family `convolution`
      block_size_x (a parameter of the imported file): 16 32 48 64 80 96 112 128
      block_size_y (a parameter of the imported file): 1 2 4 8 16
      tile_size_x (a parameter of the imported file): 1 2 4
    next: git add kernels templates && git commit, then optloop start --workload convolution --budget 5m
    ");
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/convolution/oracle.py"), @"
    # Made of the answer in a script of Kernel Tuner.
    import numpy


    def oracle(filter, input):
        image = input
        weights = filter
        def convolve(image, filter):
            rows, columns = (image.shape[0] - filter.shape[0] + 1, image.shape[1] - filter.shape[1] + 1)
            result = numpy.zeros((rows, columns))
            for i in range(filter.shape[0]):
                for j in range(filter.shape[1]):
                    result += image[i:i + rows, j:j + columns] * filter[i, j]
            return result
        return convolve(image, weights).astype(numpy.float64)
    ");
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/convolution/op.toml"), @r#"
    name = "convolution"
    about = "What the kernel `convolution` computes."
    oracle = "oracle.py"
    flop = "2 * height * width * filter_width * filter_width"

    [dims.height]
    about = "the size `height`"

    [dims.width]
    about = "the size `width`"

    [dims.filter_width]
    about = "the size `filter_width`"

    [tensors.output]
    role = "output"
    shape = ["height", "width"]

    [tensors.input]
    role = "input"
    shape = ["height + filter_width - 1", "width + filter_width - 1"]

    [tensors.filter]
    role = "input"
    shape = ["filter_width", "filter_width"]
    "#);
    insta::assert_snapshot!(text(&sandbox, "templates/kernels/convolution/family.toml"), @r#"
    name = "convolution"
    about = "The kernel `convolution`, as it was added."
    op = "convolution"
    dtypes = ["f32"]
    requires_sm = 80
    constants = ["filter_width"]

    [params.block_size_x]
    values = [16, 32, 48, 64, 80, 96, 112, 128]
    default = 32
    about = "a parameter of the imported file"
    expect = [0.8, 1.5]
    mechanism = "threads"

    [params.block_size_y]
    values = [1, 2, 4, 8, 16]
    default = 1
    about = "a parameter of the imported file"
    expect = [0.8, 1.5]
    mechanism = "threads"

    [params.tile_size_x]
    values = [1, 2, 4]
    default = 1
    about = "a parameter of the imported file"
    expect = [0.8, 1.5]

    [[constraint]]
    expr = "(block_size_x) * (block_size_y) <= max_threads"
    why = "The device limits the threads of a block."

    [[constraint]]
    expr = "32 <= block_size_x * block_size_y && block_size_x * block_size_y <= 1024"
    why = "The kernel needs it, as its user said."

    [[constraint]]
    expr = "tile_size_x <= block_size_x"
    why = "The kernel needs it, as its user said."

    [[launch]]
    kernel = "convolution"
    grid = ["ceil_div(width, block_size_x * tile_size_x)", "ceil_div(height, block_size_y)"]
    block = ["block_size_x", "block_size_y"]
    args = ["output", "input", "filter", "height", "width"]
    "#);
}

#[test]
fn a_t1_file_is_imported_and_gets_faster() {
    let sandbox = with_small_matrices();
    imported(&sandbox, &["theirs/matmul.json", "--oracle", "theirs/matmul.py", "--flop", "2 * m * n * k"], "matmul");
    insta::assert_snapshot!(text(&sandbox, "kernels/workloads/matmul.toml"), @r#"
    name = "matmul"
    about = "The kernel `matmul`."
    op = "matmul"
    dtype = "f32"
    initial_kernel = "matmul"

    [tolerance]
    # Rounding the output alone costs 3e-8, and a sum of thousands of terms up to 1e-6.
    relative_l2 = 1e-5
    worst_row = 4e-5

    [[case]]
    name = "m64n96k48"
    m = 64
    n = 96
    k = 48
    "#);
    insta::assert_snapshot!(text(&sandbox, "templates/kernels/matmul/family.toml"), @r#"
    name = "matmul"
    about = "The kernel `matmul`, as it was added."
    op = "matmul"
    dtypes = ["f32"]
    requires_sm = 80
    constants = []

    [params.block_size_x]
    values = [8, 16, 32]
    default = 16
    about = "a parameter of the imported file"
    expect = [0.8, 1.5]
    mechanism = "threads"

    [params.block_size_y]
    values = [1, 2, 4, 8, 16, 32]
    default = 2
    about = "a parameter of the imported file"
    expect = [0.8, 1.5]
    mechanism = "threads"

    [params.tile_size_y]
    values = [1, 2, 4, 8]
    default = 1
    about = "a parameter of the imported file"
    expect = [0.8, 1.5]

    [[constraint]]
    expr = "(block_size_x) * (block_size_y) <= max_threads"
    why = "The device limits the threads of a block."

    [[constraint]]
    expr = "block_size_x % block_size_y == 0"
    why = "The kernel needs it, as its user said."

    [[constraint]]
    expr = "32 <= block_size_x * block_size_y && block_size_x * block_size_y <= 1024"
    why = "The kernel needs it, as its user said."

    [[launch]]
    kernel = "matmul"
    grid = ["ceil_div(n, block_size_x)", "ceil_div(m, block_size_y * tile_size_y)"]
    block = ["block_size_x", "block_size_y"]
    args = ["c", "a", "b", "m", "n", "k"]
    "#);
}

#[test]
fn a_definition_of_flashinfer_bench_is_imported_and_gets_faster() {
    let sandbox = with_example("flashinfer-bench");
    imported(&sandbox, &[&DEFINITION[..], &["--independent", "batch_size"]].concat(), "rmsnorm-h1024");
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/rmsnorm-h1024/op.toml"), @r#"
    name = "rmsnorm-h1024"
    about = "What the kernel `rmsnorm` computes."
    oracle = "oracle.py"
    independent = "batch_size"
    flop = "0"

    [dims.batch_size]
    about = "the size `batch_size`"

    [dims.hidden_size]
    about = "the size `hidden_size`"
    range = [1024, 1024]

    [scalars]
    eps = 1e-6

    [tensors.hidden_states]
    role = "input"
    shape = ["batch_size", "hidden_size"]

    [tensors.weight]
    role = "input"
    shape = ["hidden_size"]

    [tensors.output]
    role = "output"
    shape = ["batch_size", "hidden_size"]
    "#);
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/rmsnorm-h1024/oracle.py"), @r#"
    # Made of the reference of the definition `rmsnorm_h1024` of flashinfer-bench.
    def run(hidden_states, weight, eps):
        squares = (hidden_states * hidden_states).mean(-1)[:, None]
        return hidden_states / (squares + eps) ** 0.5 * weight


    def oracle(hidden_states, weight, eps):
        results = run(hidden_states, weight, eps)
        return tuple(results[name] for name in ["output"]) if isinstance(results, dict) else results
    "#);
}

#[test]
fn an_array_that_a_t1_file_reads_and_writes_is_updated_in_place() {
    let sandbox = with_small_matrices();
    sandbox.replace("theirs/matmul.json", "\"WriteOnly\"", "\"ReadWrite\"");
    sandbox.replace("theirs/matmul.cu", "column] = sums[t]", "column] += sums[t]");
    sandbox.replace(
        "theirs/matmul.py",
        "def oracle(a, b, m, n, k):\n    return",
        "def oracle(c, a, b, m, n, k):\n    return c +",
    );
    imported(&sandbox, &["theirs/matmul.json", "--oracle", "theirs/matmul.py"], "matmul");
    assert!(text(&sandbox, "kernels/ops/matmul/op.toml").contains("[tensors.c]\nrole = \"in-place\""));
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
    insta::assert_snapshot!(refused("t1", &import[..1], ("", "", "")), @"error: matmul.cu does not say everything that a launch needs; add --oracle FILE (a Python function or a CUDA kernel that computes the output: a T1 file has none)");
    insta::assert_snapshot!(with("\"CUDA\"", "\"OpenCL\""), @"error: matmul.json: its language is OpenCL, but only CUDA is supported");
    insta::assert_snapshot!(with("\"[8, 16, 32]\"", "\"[0.5, 1]\""), @"error: matmul.json: the parameter `block_size_x`: `[0.5, 1]`: `0.5` is not a whole number");
    insta::assert_snapshot!(with("block_size_x % block_size_y == 0", "block_size_x @ 2"), @"error: matmul.json: condition `block_size_x @ 2`: `@` is not supported");
    insta::assert_snapshot!(with("block_size_x % block_size_y == 0", "block_size_x > 64"), @"error: matmul.json: its conditions allow no configuration");
    insta::assert_snapshot!(with("\"KernelName\": \"matmul\"", "\"KernelName\": \"gemm\""), @"error: matmul.json: the source has no kernel `gemm`");
    insta::assert_snapshot!(with("\"KernelFile\": \"matmul.cu\"", "\"KernelFile\": \"gemm.cu\""), @"error: matmul.json names the source `gemm.cu`: Failed to read theirs/gemm.cu: No such file or directory (os error 2)");
    insta::assert_snapshot!(with("\"Type\": \"float\", \"MemoryType\": \"Vector\", \"AccessType\": \"ReadOnly\", \"FillType\": \"Random\", \"Size\": 49152", "\"Type\": \"double\", \"MemoryType\": \"Local\", \"Size\": 1"), @"error: matmul.json: argument 2: the memory type Local is not supported");
    insta::assert_snapshot!(with("\"ConfigurationSpace\"", "\"Space\""), @"error: matmul.json: as a T1 file, missing field `ConfigurationSpace` at line 32 column 1");
    insta::assert_snapshot!(with("{", "["), @"error: matmul.json: it is not JSON: expected `,` or `]` at line 2 column 12");
}

#[test]
fn what_a_script_lacks_is_said_at_once_and_nothing_is_written() {
    let import = ["theirs/convolution.py", "--trust"];
    let with = |from: &str, to: &str| refused("kernel-tuner", &import, ("convolution.py", from, to));
    insta::assert_snapshot!(with("tune()\n", "tune(\n"), @"error: convolution.py: SyntaxError: '(' was never closed (line 40)");
    insta::assert_snapshot!(with("\ntune()\n", "\n"), @"error: convolution.py: it ended without a call of tune_kernel");
    insta::assert_snapshot!(with("import numpy\n", "import numpies\n"), @"error: convolution.py: ModuleNotFoundError: No module named 'numpies' (line 3)");
    insta::assert_snapshot!(with("numpy.int32(width)]", "width, 3]"), @"error: convolution.py: the kernel `convolution` has 5 parameters, but 6 arguments are given");
    insta::assert_snapshot!(with("[1, 2, 4]", "[1, 'two']"), @"error: convolution.py: the parameter `tile_size_x` has the value 'two', but only whole numbers are supported");
    insta::assert_snapshot!(with("\"convolution.cu\"", "\"missing.cu\""), @"error: convolution.py: `kernel_source` names no file and has no kernel: 'missing.cu'");
    insta::assert_snapshot!(with("        answer=", "        cmem_args={'a': image}, lang='HIP', answer="), @"error: convolution.py: its language is HIP, but only CUDA is supported");
    insta::assert_snapshot!(with("[convolve(image, weights).astype(numpy.float32), None", "[image + numpy.random.rand(), None"), @"error: convolution.cu does not say everything that a launch needs; add --oracle FILE (a Python function or a CUDA kernel that computes the output: `answer` has 137280 numbers for argument 1, which has 131072)");
    insta::assert_snapshot!(with("        answer=[convolve(image, weights).astype(numpy.float32), None, None, None, None],\n", ""), @"error: convolution.cu does not say everything that a launch needs; add --oracle FILE (a Python function or a CUDA kernel that computes the output: the script has no `answer`)");
    insta::assert_snapshot!(with("def tune():", "def tune():\n    open('/etc/shadow')"), @"error: convolution.py: PermissionError: [Errno 13] Permission denied: '/etc/shadow' (line 17)");
}

#[test]
fn what_a_definition_lacks_is_said_at_once_and_nothing_is_written() {
    let with = |file: &str, from: &str, to: &str| refused("flashinfer-bench", &DEFINITION, (file, from, to));
    insta::assert_snapshot!(refused("flashinfer-bench", &DEFINITION[..3], ("", "", "")), @"error: rmsnorm.json: a definition has no kernel to begin with: name a CUDA source with --kernel-file");
    insta::assert_snapshot!(refused("flashinfer-bench", &[&DEFINITION[..1], &DEFINITION[3..]].concat(), ("", "", "")), @"error: rmsnorm.cu does not say everything that a launch needs; add --scalar eps=1.0 (the value of `eps`), --case N=4096 (sizes to make fast)");
    insta::assert_snapshot!(with("rmsnorm.json", "\"weight\": {", "\"weights\": {"), @"error: rmsnorm.json: the kernel's pointer `weight` is no tensor of the definition, which has hidden_states, weights, output; the kernel has no pointer `weights`, which is a tensor of the definition");
    insta::assert_snapshot!(with("rmsnorm.json", "\"float16\"", "\"complex64\""), @"error: rmsnorm.json: tensor `hidden_states` is of type complex64, which is not supported; tensor `weight` is of type complex64, which is not supported; tensor `output` is of type complex64, which is not supported");
    insta::assert_snapshot!(with("rmsnorm.json", "def run", "def fun"), @"error: rmsnorm.json: its `reference` defines no function `run`");
    insta::assert_snapshot!(with("rmsnorm.json", "\"const\"", "\"fixed\""), @"error: rmsnorm.json: as a definition of flashinfer-bench, unknown variant `fixed`, expected one of `const`, `var`, `expr` at line 11 column 21");
    insta::assert_snapshot!(with("rmsnorm.jsonl", "batch_size", "batch"), @"error: rmsnorm.json: workload 1 does not say the axis `batch_size`; workload 2 does not say the axis `batch_size`");
    insta::assert_snapshot!(with("rmsnorm.jsonl", &format!("{{\"batch_size\": 4}}{EPS}"), &format!("{{\"batch_size\": 4}}{}", EPS.replace("-06", "-05"))), @"error: rmsnorm.json: the scalar `eps` differs among the workloads: a scalar has one value, so give --scalar eps=1e-5");
    insta::assert_snapshot!(with("rmsnorm.cu", "const __half* weight", "const float* weight"), @"error: rmsnorm.json: tensor `weight` is of type float16, but the kernel's `weight` is `const float*`");
}

/// A kernel as Kernel Tuner's examples have it: its sizes are numbers of the source, its pointers are not const, its filter is in
/// constant memory, and its values count for others only.
const BLUR: &str = "#ifndef kernel_tuner
#define block_size_x 16
#define tile_size_x 1
#endif
#define image_width 64
#define image_height 48
__constant__ float d_filter[33];
__global__ void blur_naive(float* output, float* input) { output[0] = input[0] * d_filter[0]; }
__global__ void blur(float* output, float* input, float* filter) {
    for (int t = 0; t < tile_size_x; ++t) {
        int x = (blockIdx.x * tile_size_x + t) * block_size_x + threadIdx.x;
        if (x >= image_width) return;
        float sum = 0.f;
        for (int i = 0; i < filter_width; ++i) sum += input[blockIdx.y * (image_width + filter_width - 1) + x + i] * d_filter[i];
        output[blockIdx.y * image_width + x] = sum;
    }
}
";

const BLUR_ORACLE: &str = "import numpy as np

optloop = {\"case\": \"filter_width=3\"}

def oracle(input: \"image_height, image_width + filter_width - 1\", d_filter: \"filter_width\", image_width, filter_width) -> \"image_height, image_width\":
    return sum(input[:, i:i + image_width] * d_filter[i] for i in range(filter_width))
";

#[test]
fn a_script_as_people_write_it_is_imported() {
    let sandbox = project();
    sandbox.write("theirs/blur.cu", BLUR);
    sandbox.write("theirs/blur.py", BLUR_ORACLE);
    // It takes longer than a program may after the end of its input.
    let script = "import sys, time, numpy, kernel_tuner
from kernel_tuner.strategies import common
time.sleep(2.2)
width = int(sys.argv[1])
weights = numpy.ones(33, dtype=numpy.float32)
arguments = [numpy.zeros(48 * width, dtype=numpy.float32), numpy.ones(48 * (width + 32), dtype=numpy.float32), weights]
parameters = {'block_size_x': [16, 32], 'tile_size_x': [1, 2] + [4], 'filter_width': [3, 5, 33]}
kernel_tuner.tune_kernel('blur', 'blur.cu', (width, 48), arguments, parameters, grid_div_x=['block_size_x', 'tile_size_x'],
                         grid_div_y=[], cmem_args={'d_filter': weights}, strategy=common.anything.minimize)
";
    sandbox.write("theirs/script.py", script);
    let import = ["import", "theirs/script.py", "--trust", "--oracle", "theirs/blur.py", "--", "64"];
    let (code, shown, said) = call(&sandbox, &import);
    assert_eq!(code, 0, "{said}");
    insta::assert_snapshot!(shown, @r"
    added blur.cu as op, workload and family `script`
      left out, unused code: blur_naive
      d_filter is an argument now, in place of constant memory
      block_size_x (a parameter of the imported file): 16 32
      tile_size_x (a parameter of the imported file): 1 2 4
    next: git add kernels templates && git commit, then optloop start --workload script --budget 5m
    ");
    insta::assert_snapshot!(text(&sandbox, "kernels/ops/script/op.toml"), @r#"
    name = "script"
    about = "What the kernel `blur` computes."
    oracle = "oracle.py"
    flop = "0"

    [dims.image_height]
    about = "the size `image_height`"

    [dims.image_width]
    about = "the size `image_width`"

    [dims.filter_width]
    about = "the size `filter_width`"

    [tensors.output]
    role = "output"
    shape = ["image_height", "image_width"]

    [tensors.input]
    role = "input"
    shape = ["image_height", "image_width + filter_width - 1"]

    [tensors.filter]
    role = "input"
    shape = ["filter_width"]

    [tensors.d_filter]
    role = "input"
    shape = ["filter_width"]
    "#);
    let (code, checked, said) = call(&sandbox, &["check", "script", "--device", "virtual:h200", "--trust"]);
    assert_eq!(code, 0, "{checked}{said}");
    let other = ["check", "script:tile_size_x=4,block_size_x=32", "--device", "virtual:h200"];
    let (code, checked, said) = call(&sandbox, &other);
    assert_eq!(code, 0, "{checked}{said}");
    let mut refusals = Vec::new();
    for (from, to) in [
        ("numpy, kernel_tuner", "numpy, kernel_tuner, cupy"),
        ("'blur.cu'", "lambda params: ''"),
        ("cmem_args=", "texmem_args="),
        ("numpy.ones(33", "numpy.ones(0"),
    ] {
        sandbox.write("theirs/other.py", &script.replace(from, to).replace("2.2", "0"));
        let (code, _, said) = call(&sandbox, &["import", "theirs/other.py", "--trust", "--", "64"]);
        assert_eq!(code, 2, "{said}");
        refusals.push(said);
    }
    insta::assert_snapshot!(refusals.join("\n"), @r"
    error: other.py: it uses cupy, which needs a GPU: optloop runs scripts without one, so make its arrays with numpy
    error: other.py: `kernel_source` is a function that writes a source for each configuration: write one source in which the parameters are macros
    error: other.py: `texmem_args` is not supported: read the data from an argument of the kernel, without a texture
    error: other.py: argument 3 is an array without elements; `d_filter` of `cmem_args` is an array without elements
    ");
}

#[test]
fn a_definition_with_more_than_sizes_is_imported() {
    let sandbox = project();
    sandbox.write(
        "theirs/scale.cu",
        "__global__ void scale(const float* x, float* y, int n) {\n    \
                  int i = blockIdx.x * 64 + threadIdx.x;\n    if (i < n * 2) y[i] = 2.f * x[i];\n}\n",
    );
    let name = "scale_".repeat(12);
    let definition = format!(
        r#"{{"name": "{name}", "axes": {{"n": {{"type": "var"}}, "half": {{"type": "const", "value": 64}}, "both": {{"type": "expr", "expression": "n * 2"}}}},
        "inputs": {{"x": {{"shape": ["both"], "dtype": "float32"}}}}, "outputs": {{"y": {{"shape": ["both"], "dtype": "float32"}}}},
        "reference": "def run(x):\n    return 2 * x"}}"#
    );
    sandbox.write("theirs/scale.json", &definition);
    let line = |n: u32| format!("{{\"axes\": {{\"n\": {n}}}}}\n");
    sandbox.write("theirs/scale.jsonl", &[100, 200, 100].map(line).concat());
    let import = "import theirs/scale.json --workloads theirs/scale.jsonl --kernel-file theirs/scale.cu --grid ceil_div(n*2,64) --block 64";
    let output = sandbox.command(&import.split(' ').collect::<Vec<_>>()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let notes: Vec<&str> = said.lines().filter(|line| line.starts_with("note") || line.starts_with("error")).collect();
    insta::assert_snapshot!(notes.join("\n"), @r"
    note: `scale_scale_scale_scale_scale_scale_scale_scale_scale_scale_scale_scale_` is called `scale-scale-scale-scale-scale-scale-scale-scale-scale-s-3732149c` here
    note: 1 of 3 workloads have the sizes of an earlier one, and are no cases of their own: 3
    ");
    let shown = String::from_utf8(output.stdout).unwrap();
    insta::assert_snapshot!(shown.lines().next().unwrap(), @"added scale.cu as op, workload and family `scale-scale-scale-scale-scale-scale-scale-scale-scale-s-3732149c`");
}

const SOFTMAX: &str = r#"
name = "softmax"
about = "A softmax of each row."
oracle = "oracle.py"
independent = "rows"
flop = "0"
dims = { rows = { about = "rows" }, cols = { about = "elements of a row", range = [1, 8192] } }
[tensors.x]
role = "input"
shape = ["rows", "cols"]
[tensors.out]
role = "output"
shape = ["rows", "cols"]
"#;

/// Triton has compiled it. The virtual GPU executes its PTX.
#[test]
fn a_kernel_comes_in_as_machine_code_and_is_judged_like_any_other() {
    let sandbox = project();
    sandbox.write("kernels/ops/softmax/op.toml", SOFTMAX);
    let oracle = "import numpy as np\n\n\ndef oracle(x):\n    powers = np.exp(x - x.max(-1, keepdims=True))\n    \
                  return powers / powers.sum(-1, keepdims=True)\n";
    sandbox.write("kernels/ops/softmax/oracle.py", oracle);
    let workload = "name = 'softmax'\nabout = 'One case.'\nop = 'softmax'\ndtype = 'f32'\n\
                    tolerance = { relative_l2 = 1e-5, worst_row = 4e-5 }\ncase = [{ name = 'small', rows = 4, cols = 96 }]\n";
    sandbox.write("kernels/workloads/softmax.toml", workload);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/triton");
    for name in ["softmax.ptx", "softmax.toml"] {
        sandbox.write(&format!("theirs/{name}"), &std::fs::read_to_string(folder.join(name)).unwrap());
    }
    let import = |more: &[&str]| call(&sandbox, &[&["import"], more].concat());
    let refused = |more: &[&str]| import(more).2;
    insta::assert_snapshot!(refused(&["theirs/softmax.ptx"]), @"error: softmax.ptx does not say how it is launched or what it computes: add --launch PLAN.toml and --workload WORKLOAD");
    insta::assert_snapshot!(refused(&["theirs/softmax.cubin"]), @"error: softmax.cubin: a CUBIN cannot be examined for reads of the clock, and no virtual GPU executes it: import the PTX that it was made of");
    let plan = ["theirs/softmax.ptx", "--launch", "theirs/softmax.toml", "--workload", "softmax", "--name", "triton"];
    let (code, shown, said) = import(&plan);
    assert_eq!(code, 0, "{said}");
    insta::assert_snapshot!(shown, @"
    added softmax.ptx as family `triton` of workload `softmax`, without parameters
    next: optloop check triton, then git add templates && git commit
    ");
    let check = || {
        let (_, shown, said) = call(&sandbox, &["check", "triton", "--device", "virtual:h200", "--trust"]);
        [shown, said].concat()
    };
    assert!(check().contains("ok     triton on softmax: right on small"), "{}", check());
    let kernel = "templates/kernels/triton/kernel.ptx";
    sandbox.replace("templates/kernels/triton/family.toml", ", \"scratch\"]", "]");
    insta::assert_snapshot!(check(), @"
    wrong  triton on softmax: templates/kernels/triton/kernel.ptx, line 12:
           `softmax` has 5 parameters (u64, u64, u32, u64, u64), but its launch
           passes 4 arguments (x, out, cols, scratch)
    error: 1 thing is wrong
    ");
    sandbox.replace(kernel, "%ctaid.x", "%clock");
    let found = check();
    assert!(found.contains("kernel.ptx: error: it reads") && found.contains("the clock %clock, which"), "{found}");
}
