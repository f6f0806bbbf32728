//! Winners as code that needs no optloop: the files, what they do with a fake driver, and what bad input gets.

mod prepared;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use optloop::domain::variant::VariantHash;
use optloop::runner::toolchain::Toolchain;
use tempfile::TempDir;

use crate::common::{FAKE_WINNERS, Sandbox};

/// Folder of the H200's winners in a project.
const H200: &str = "kernels/variants/nvidia-h200-132sm-140gib";

/// Runs optloop in the repository, which has winners of an H200.
fn export(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_optloop"));
    command.args(["--project", env!("CARGO_MANIFEST_DIR"), "export"]).args(arguments).output().unwrap()
}

/// Exports winners of the repository to a temporary folder.
fn exported(what: &str, to: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = export(&[what, "--to", to, "--output", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

/// Returns the paths of the files below a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

fn text(folder: &TempDir, file: &str) -> String {
    fs::read_to_string(folder.path().join(file)).unwrap()
}

/// Runs a Python program of this folder.
fn python(program: &str, arguments: &[&Path]) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export").join(program);
    let output = Command::new("python3").arg("-B").arg(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"ok\n", "{said}");
}

/// Checks the syntax of every Python file of an export.
fn compiles(folder: &Path) {
    for file in files(folder).iter().filter(|file| file.ends_with(".py")) {
        let code = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
        let checked = Command::new("python3").args(["-c", code]).arg(folder.join(file)).output().unwrap();
        assert!(checked.status.success(), "{file}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

/// Calls a compiler with the CUDA headers, and warnings as errors.
fn compile(compiler: &str, arguments: &[&str], files: &[PathBuf]) {
    let toolchain = Toolchain::find_or_fetch().unwrap();
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-isystem"]).arg(&toolchain.include).args(arguments).args(files);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles the C++ file of an export without linking it, and its header as C.
fn compiles_as_cpp(folder: &Path, module: &str) {
    let file = |ending: &str| [folder.join(format!("{module}.{ending}"))];
    compile("g++", &["-std=c++11", "-c", "-o", "/dev/null"], &file("cpp"));
    compile("gcc", &["-std=c99", "-fsyntax-only", "-x", "c"], &file("h"));
}

#[test]
fn a_python_package_launches_where_there_is_a_winner_and_nowhere_else() {
    let folder = exported("attention-fp16-long", "python");
    insta::assert_snapshot!(files(folder.path()).join("\n"), @r"
    LICENSE
    README.md
    attention_fp16_long/__init__.py
    attention_fp16_long/driver.py
    attention_fp16_long/kernels/attention-wgmma-2c8b8e0a8a.cu
    attention_fp16_long/kernels/attention-wgmma-38a493464c.cu
    attention_fp16_long/kernels/attention-wgmma-48d6f52dd8.cu
    attention_fp16_long/kernels/attention-wgmma-816716dbb0.cu
    attention_fp16_long/kernels/attention-wgmma-8f659eb3a7.cu
    attention_fp16_long/launcher.py
    attention_fp16_long/plans.py
    attention_fp16_long/table.json
    attention_fp16_long/table.py
    export.json
    ");
    compiles(folder.path());
    python("python_dispatch.py", &[folder.path()]);
}

#[test]
fn an_op_of_pytorch_launches_where_there_is_a_winner_and_falls_back_elsewhere() {
    let folder = exported("attention-fp16-long", "torch");
    compiles(folder.path());
    python("torch_dispatch.py", &[folder.path()]);
    let readme = text(&folder, "README.md");
    assert!(readme.lines().count() < 50 && readme.contains("o = attention_fp16_long(q, k, v, CAUSAL=1)"), "{readme}");
}

#[test]
fn a_cpp_launcher_compiles_without_warnings() {
    // One has clusters of 16 blocks, the other has tensor maps and scratch memory of both kinds.
    for (workload, module) in
        [("attention-fp32-large-d", "attention_fp32_large_d"), ("attention-decode", "attention_decode")]
    {
        let folder = exported(workload, "c");
        compiles_as_cpp(folder.path(), module);
    }
}

#[test]
fn a_cpp_launcher_launches_where_there_is_a_winner_and_nowhere_else() {
    let folder = exported("gemm-fp16", "c");
    let include = format!("-I{}", folder.path().display());
    let program = folder.path().join("program");
    let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/fake_cuda.cpp");
    let both = [fakes, folder.path().join("gemm_fp16.cpp")];
    compile("g++", &["-std=c++11", &include, "-o", program.to_str().unwrap()], &both);
    let committed = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(H200).join("gemm-fp16"));
    let sources = committed.iter().filter(|file| file.ends_with(".cu")).count();
    let output = Command::new(program).arg(sources.to_string()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
}

#[test]
fn a_cpp_launcher_has_the_plan_as_a_table() {
    let folder = exported("m512n512k16384", "c");
    assert_eq!(files(folder.path()), ["LICENSE", "README.md", "export.json", "gemm_fp16.cpp", "gemm_fp16.h"]);
    let code = text(&folder, "gemm_fp16.cpp");
    let (_, table) = code.split_once("const std::vector<Row> ROWS = {\n").unwrap();
    let (first, _) = table.split_once("\n    }},\n").unwrap();
    assert_eq!(first, include_str!("row.txt").trim_end());
    let header = text(&folder, "gemm_fp16.h");
    let (_, tensors) = header.split_once("/* The device addresses").unwrap();
    assert!(tensors.contains("    CUdeviceptr c; /* output: f16[M, N] */\n"), "{tensors}");
}

/// Makes a project with an op of its own and a made-up winner of it.
fn declared(baseline: &str) -> Sandbox {
    let sandbox = Sandbox::without_repository();
    let op = "name = \"add-norm\"\nabout = \"Adds and norms.\"\noracle = \"oracle.py\"\nflop = \"R * N\"\n\
        [dims.R]\nabout = \"rows\"\n[dims.N]\nabout = \"columns\"\n[dims.MODE]\nabout = \"what is done\"\nrange = [0, 3]\n\
        [scalars]\neps = 0.5\n\
        [tensors.x]\nrole = \"input\"\nshape = [\"R\", \"N\"]\n\
        [tensors.index]\nrole = \"input\"\nshape = [\"R + 1\"]\ndtype = \"i32\"\nvalues = { integers = [0, 9] }\n\
        [tensors.y]\nrole = \"output\"\nshape = [\"R\", \"N\"]\n[tensors.new]\nrole = \"output\"\nshape = [\"R\", \"1\"]\n";
    sandbox.write("kernels/ops/add-norm/op.toml", op);
    sandbox.write("kernels/ops/add-norm/oracle.py", "def oracle(x, index, eps):\n    return x, x\n");
    let workload = format!(
        "name = \"small\"\nabout = \"A case.\"\nop = \"add-norm\"\ndtype = \"bf16\"\ninitial_kernel = \"toy\"\n\
         tolerance = {{ relative_l2 = 1e-2, worst_row = 1e-2 }}\n{baseline}\n[[case]]\nname = \"r8\"\nR = 8\nN = 64\nMODE = 2\n"
    );
    sandbox.write("kernels/workloads/small.toml", &workload);
    let source =
        "extern \"C\" __global__ void norm(const short* x, const int* index, short* y, short* made, float eps) {}\n";
    let hash = VariantHash::of(source);
    let sidecar = serde_json::json!({
        "schema": "optloop.sidecar/2", "source": "norm.cu", "arch": "sm_90a", "compile_options": ["--std=c++17"],
        "tensors": {
            "x": { "dtype": "bf16", "shape": [8, 64], "role": "input" },
            "index": { "dtype": "i32", "shape": [9], "role": "input" },
            "y": { "dtype": "bf16", "shape": [8, 64], "role": "output" },
            "new": { "dtype": "bf16", "shape": [8, 1], "role": "output" },
        },
        "workspaces": {},
        "launches": [{
            "kernel": "norm", "grid": [8, 1, 1], "block": [32, 1, 1], "shared_bytes": 0, "cluster": null,
            "args": [{ "tensor": "x" }, { "tensor": "index" }, { "tensor": "y" }, { "tensor": "new" },
                     { "scalar": { "name": "eps", "type": "f32", "value": 0.5 } }],
        }],
        "variant": { "family": "norm", "params": {}, "hash": hash },
        "measurement": {
            "workload": "small", "case": "r8", "dims": { "R": 8, "N": 64, "MODE": 2 }, "median_us": 2.5,
            "ci_us": [2.4, 2.6], "samples": 50, "launches_per_sample": 10, "regime": "warm", "time_source": "measured",
            "relative_l2": 1e-3, "worst_row": 1e-3,
        },
        "environment": { "device": "NVIDIA H200", "driver": "13.0", "nvrtc": "13.0", "optloop": "0.2.0" },
    });
    sandbox.write(&format!("{H200}/small/r8.json"), &sidecar.to_string());
    sandbox.write(&format!("{H200}/small/norm.cu"), source);
    sandbox
}

#[test]
fn an_op_that_a_project_declares_is_exported_with_all_its_tensors() {
    let sandbox = declared("baseline = { torch = \"(x * eps, x[:, 0])\" }");
    let refused = sandbox.fails(&["export", "small", "--to", "torch"]);
    assert!(refused.contains("what you have not trusted: ") && refused.contains("(x * eps, x[:, 0])"), "{refused}");
    assert!(!sandbox.path("small").exists());
    for to in ["torch", "python", "c"] {
        sandbox.succeeds(&["export", "small", "--to", to, "--output", to, "--trust"]);
        compiles(&sandbox.path(to));
    }
    let code = fs::read_to_string(sandbox.path("torch/small/__init__.py")).unwrap();
    let schema = code.lines().find(|line| line.starts_with("SCHEMA")).unwrap();
    insta::assert_snapshot!(schema, @r#"SCHEMA = "(Tensor x, Tensor index, int MODE=2) -> (Tensor, Tensor)""#);
    let (_, reference) = code.split_once("def reference").unwrap();
    assert!(reference.contains("(x, index, *, R, N, MODE):") && reference.contains("    eps = 0.5\n"), "{reference}");
    assert!(reference.contains("    return ((x * eps, x[:, 0]))\n"), "{reference}");
    let (_, shapes) = code.split_once("def _shapes").unwrap();
    assert!(shapes.contains(r#"return {"y": (R, N), "new": (R, 1)}"#), "{shapes}");
    // `new` is a word of C++.
    let header = fs::read_to_string(sandbox.path("c/small.h")).unwrap();
    assert!(header.contains("CUdeviceptr new_; /* output: bf16[R, 1] */"), "{header}");
    compiles_as_cpp(&sandbox.path("c"), "small");
}

/// The op overwrites `x`, and makes `y` and `new`.
#[test]
fn what_an_op_updates_in_place_is_declared_to_pytorch() {
    let sandbox = declared("baseline = { torch = \"(x * eps, x * 2, x[:, 0])\" }");
    let x = "[tensors.x]\nrole = \"input\"";
    sandbox.replace("kernels/ops/add-norm/op.toml", x, &x.replace("input", "in-place"));
    let sidecar = format!("{H200}/small/r8.json");
    sandbox.replace(&sidecar, r#""role":"input","shape":[8,64]"#, r#""role":"in-place","shape":[8,64]"#);
    for to in ["torch", "python", "c"] {
        sandbox.succeeds(&["export", "small", "--to", to, "--output", to, "--trust"]);
        compiles(&sandbox.path(to));
    }
    let code = fs::read_to_string(sandbox.path("torch/small/__init__.py")).unwrap();
    let schema = code.lines().find(|line| line.starts_with("SCHEMA")).unwrap();
    insta::assert_snapshot!(schema, @r#"SCHEMA = "(Tensor index, Tensor(a0!) x, int MODE=2) -> (Tensor, Tensor)""#);
    let readme = fs::read_to_string(sandbox.path("torch/README.md")).unwrap();
    assert!(readme.contains("A launch updates `x` in place"), "{readme}");
    let header = fs::read_to_string(sandbox.path("c/small.h")).unwrap();
    assert!(header.contains("CUdeviceptr x; /* in-place: bf16[R, N] */"), "{header}");
    compiles_as_cpp(&sandbox.path("c"), "small");
    python("torch_in_place.py", &[&sandbox.path("torch")]);
}

/// Makes a project whose winner came as PTX for an architecture. It is proven on a second shape.
fn declared_in_ptx(arch: &str) -> Sandbox {
    let sandbox = declared("");
    let source = format!(
        ".version 8.3\n.target {arch}\n.address_size 64\n.visible .entry norm(.param .u64 x, .param .u64 index, .param .u64 y, \
         .param .u64 made, .param .f32 eps)\n{{\n    ret;\n}}\n"
    );
    let sidecar = format!("{H200}/small/r8.json");
    let mut told = sandbox.json(&sidecar);
    told["source"] = "norm.ptx".into();
    told["compile_options"] = serde_json::json!([]);
    told["variant"]["hash"] = serde_json::to_value(VariantHash::of(&source)).unwrap();
    let launch = &mut told["launches"][0];
    launch["args"].as_array_mut().unwrap().truncate(4);
    told["rules"] = serde_json::json!({
        "constants": [], "derived": {}, "constraints": ["N <= 64 && MODE == 2"],
        "launches": [{ "kernel": "norm", "grid": ["R"], "block": ["32"], "args": ["x", "index", "y", "new"] }],
    });
    told["proven_for"] = serde_json::json!([{ "R": 16, "N": 64, "MODE": 2 }]);
    sandbox.write(&sidecar, &told.to_string());
    sandbox.write(&format!("{H200}/small/norm.ptx"), &source);
    sandbox
}

#[test]
fn a_winner_that_came_as_ptx_is_loaded_without_nvrtc() {
    let sandbox = declared_in_ptx("sm_90a");
    for to in ["torch", "python", "c"] {
        sandbox.succeeds(&["export", "small", "--to", to, "--output", to]);
        compiles(&sandbox.path(to));
        let readme = fs::read_to_string(sandbox.path(&format!("{to}/README.md"))).unwrap();
        assert!(readme.contains("kernels in PTX") && !readme.to_lowercase().contains("nvrtc"), "{readme}");
    }
    python("python_ptx.py", &[&sandbox.path("python")]);
    // It is linked without NVRTC.
    let (include, program) = (format!("-I{}", sandbox.path("c").display()), sandbox.path("program"));
    let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/fake_cuda_ptx.cpp");
    let both = [fakes, sandbox.path("c/small.cpp")];
    compile("g++", &["-std=c++11", &include, "-o", program.to_str().unwrap()], &both);
    let output = Command::new(program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");

    let sandbox = declared_in_ptx("sm_100a");
    insta::assert_snapshot!(sandbox.fails(&["export", "small", "--to", "c"]), @"2 error: kernels/variants/nvidia-h200-132sm-140gib/small/r8.json: its target is sm_100a, which the device (sm_90a) cannot run: compile it for sm_90a");
}

#[test]
fn an_op_without_a_reference_says_where_it_has_no_winner() {
    let sandbox = declared("");
    sandbox.succeeds(&["export", "small", "--to", "torch"]);
    let code = fs::read_to_string(sandbox.path("small/small/__init__.py")).unwrap();
    assert!(!code.contains("def reference") && code.contains("raise RuntimeError"), "{code}");
    compiles(&sandbox.path("small"));
}

#[test]
fn a_folder_is_written_as_a_whole_and_only_over_an_export() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("out");
    let path = folder.to_str().unwrap().to_owned();
    let to = |language: &str, what: &str| export(&[what, "--to", language, "--output", &path]);
    let refused = |language: &str| {
        let before: BTreeSet<PathBuf> = files(&folder).into_iter().map(PathBuf::from).collect();
        let output = to(language, "attention-decode");
        let after = files(&folder).into_iter().map(PathBuf::from).collect();
        assert_eq!((output.status.code(), before), (Some(2), after));
        String::from_utf8(output.stderr).unwrap().replace(&path, "DIR").trim_end().to_owned()
    };
    assert!(to("torch", "attention-decode").status.success());
    // Another export replaces it, with every file of the first.
    assert!(to("c", "gemm-fp16").status.success());
    assert_eq!(files(&folder), ["LICENSE", "README.md", "export.json", "gemm_fp16.cpp", "gemm_fp16.h"]);
    assert!(to("python", "attention-decode").status.success());
    fs::create_dir(folder.join("attention_decode/__pycache__")).unwrap();
    fs::write(folder.join("attention_decode/__pycache__/table.pyc"), "compiled").unwrap();
    assert!(to("python", "attention-decode").status.success(), "the cache of Python does not matter");
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    insta::assert_snapshot!(refused("torch"), @"error: DIR/notes.txt was not written by optloop, and nothing is overwritten: choose another --output");
    fs::remove_file(folder.join("notes.txt")).unwrap();
    fs::write(folder.join("attention_decode/table.py"), "changed = True\n").unwrap();
    insta::assert_snapshot!(refused("c"), @"error: DIR/attention_decode/table.py was changed since optloop wrote it, and nothing is overwritten: choose another --output");
    let left: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["out"], "nothing else is left over");
}

#[test]
fn bad_input_gets_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let said = |arguments: &[&str]| {
        let output = export(&[arguments, &["--output", path.to_str().unwrap()]].concat());
        assert_eq!((output.status.code(), path.exists()), (Some(2), false));
        String::from_utf8(output.stderr).unwrap().trim_end().to_owned()
    };
    insta::assert_snapshot!(said(&["attention-fp16-d46", "--to", "c"]), @"error: there is no workload or case `attention-fp16-d46` (did you mean `attention-fp16-d64`?)");
    insta::assert_snapshot!(said(&["gemm-fp16/m1", "--to", "c"]), @"error: workload `gemm-fp16` has no case `m1` (did you mean `m16n8192k8192`?); it has: m4096n4096k4096, m8192n8192k8192, m16384n1024k1024, m1024n16384k1024, m16n8192k8192, m512n512k16384");
    insta::assert_snapshot!(said(&["b8h8s128", "--to", "c"]), @"error: several workloads have a case `b8h8s128`: name attention-fp16-d64/b8h8s128 or attention-fp16-d64-full/b8h8s128");
    insta::assert_snapshot!(said(&["gemm-fp16", "--to", "rust"]), @"error: invalid value 'rust' for '--to <TO>' [possible values: c, python, torch]; run it with `--help` for a list");
    insta::assert_snapshot!(said(&["gemm-fp16"]), @"error: the following required arguments were not provided: --to <TO>; run it with `--help` for a list");
}

/// The winners of an FP32 workload, as if they had been found where TF32 is allowed.
#[test]
fn a_winner_in_tf32_is_exported_only_from_a_workload_that_allows_tf32() {
    let (name, sandbox) = ("attention-fp32-large-d", Sandbox::without_repository());
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = format!("kernels/workloads/{name}.toml");
    let full = fs::read_to_string(repository.join(&file)).unwrap();
    let tf32 = full.replace("dtype = \"f32\"\n", "dtype = \"f32\"\ncompute = \"tf32\"\n");
    assert_ne!(full, tf32);
    let winners = format!("{H200}/{name}");
    for entry in files(&repository.join(&winners)) {
        let text = fs::read_to_string(repository.join(&winners).join(&entry)).unwrap();
        sandbox.write(&format!("{winners}/{entry}"), &text);
    }
    let export = |folder: &str| sandbox.optloop(&["export", name, "--to", "torch", "--output", folder]);
    let refusal = |folder: &str| String::from_utf8(export(folder).stderr).unwrap();

    sandbox.write(&file, &tf32);
    let refused = refusal("out");
    assert!(refused.contains(r#"it won with compute = "dtype", and the workload has "tf32" now"#), "{refused}");
    for entry in files(&sandbox.path(&winners)).iter().filter(|entry| entry.ends_with(".json")) {
        sandbox.replace(
            &format!("{winners}/{entry}"),
            "  \"workspaces\":",
            "  \"compute\": \"tf32\",\n  \"workspaces\":",
        );
    }
    assert!(export(sandbox.path("out").to_str().unwrap()).status.success());
    compiles(&sandbox.path("out"));
    assert_eq!(sandbox.json("out/attention_fp32_large_d/table.json")["compute"], "tf32");
    let readme = fs::read_to_string(sandbox.path("out/README.md")).unwrap();
    assert!(readme.contains("The kernels multiply in TF32"), "{readme}");

    // Where full FP32 is asked for, they are not used.
    sandbox.write(&file, &full);
    let refused = refusal("other");
    assert!(refused.contains(r#"it won with compute = "tf32", and the workload has "dtype" now"#), "{refused}");
}

#[test]
fn winners_that_cannot_be_used_are_refused() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(&["export", "small", "--to", "c"]), @"2 error: workload `small` has no committed winner that was measured on a GPU: run `optloop start` on one");
    assert!(sandbox.session("8", &[]).status.success());
    assert!(sandbox.path(FAKE_WINNERS).is_dir());
    insta::assert_snapshot!(sandbox.fails(&["export", "small", "--to", "c"]), @"2 error: workload `small` has no committed winner that was measured on a GPU, only winners of virtual devices: run `optloop start` on one");

    let sandbox = declared("");
    sandbox.write(&format!("{H200}/small/norm.cu"), "// another kernel\n");
    insta::assert_snapshot!(sandbox.fails(&["export", "small", "--to", "c"]), @"2 error: kernels/variants/nvidia-h200-132sm-140gib/small/r8.json: its source does not match it: commit both as optloop wrote them");
    let sandbox = declared("");
    sandbox.replace("kernels/workloads/small.toml", "N = 64", "N = 65");
    insta::assert_snapshot!(sandbox.fails(&["export", "small", "--to", "c"]), @"2 error: kernels/variants/nvidia-h200-132sm-140gib/small/r8.json: it has other dimensions or tensors than its case: run `optloop start` again");
    let sandbox = declared("");
    sandbox.replace("kernels/ops/add-norm/op.toml", "dims.MODE", "dims.stream");
    sandbox.replace("kernels/workloads/small.toml", "MODE", "stream");
    sandbox.replace(&format!("{H200}/small/r8.json"), "MODE", "stream");
    insta::assert_snapshot!(sandbox.fails(&["export", "small", "--to", "python"]), @"2 error: op `add-norm` has a tensor or dimension `stream`, and exported modules cannot have this name: rename it");
}
