//! Exports of a winner that prepares its weights.

use std::fs;
use std::path::Path;
use std::process::Command;

use optloop::domain::variant::VariantHash;

use super::{H200, compile, compiles, python};
use crate::common::Sandbox;

/// Makes a project whose winner, in PTX, packs the weights of a linear layer, and needs other scratch memory, too.
fn layer() -> Sandbox {
    let sandbox = Sandbox::without_repository();
    let workload = "name = \"layer\"\nabout = \"A layer.\"\nop = \"linear\"\ndtype = \"bf16\"\ninitial_kernel = \"linear-scalar\"\n\
        tolerance = { relative_l2 = 1e-2, worst_row = 1e-2 }\n[[case]]\nname = \"m2\"\nM = 2\nN = 8\nK = 8\n";
    sandbox.write("kernels/workloads/layer.toml", workload);
    let entry = |name: &str| format!(".visible .entry {name}(.param .u64 from, .param .u64 to) {{\n    ret;\n}}\n");
    let source = format!(".version 8.3\n.target sm_90a\n.address_size 64\n{}{}", entry("repack"), entry("multiply"));
    let launch = |kernel: &str, args: serde_json::Value| {
        serde_json::json!({
            "kernel": kernel, "grid": [1, 1, 1], "block": [32, 1, 1], "shared_bytes": 0, "cluster": null, "args": args,
        })
    };
    let tensor = |shape: [usize; 2], role: &str| serde_json::json!({ "dtype": "bf16", "shape": shape, "role": role });
    let sidecar = serde_json::json!({
        "schema": "optloop.sidecar/2", "source": "layer.ptx", "arch": "sm_90a", "compile_options": [], "dtype": "bf16",
        "tensors": { "x": tensor([2, 8], "input"), "w": tensor([8, 8], "input"), "y": tensor([2, 8], "output") },
        "workspaces": {
            "parts": { "bytes": 64, "initial": "undefined" }, "packed": { "bytes": 128, "initial": "undefined" },
        },
        "preparation": [launch("repack", serde_json::json!([{ "tensor": "w" }, { "workspace": "packed" }]))],
        "launches": [launch("multiply", serde_json::json!([
            { "tensor": "x" }, { "workspace": "packed" }, { "workspace": "parts" }, { "tensor": "y" },
        ]))],
        "variant": { "family": "layer", "params": {}, "hash": VariantHash::of(&source) },
        "measurement": {
            "workload": "layer", "case": "m2", "dims": { "M": 2, "N": 8, "K": 8 }, "median_us": 2.5, "ci_us": [2.4, 2.6],
            "samples": 50, "launches_per_sample": 10, "regime": "warm", "time_source": "measured", "relative_l2": 1e-3,
            "worst_row": 1e-3,
        },
        "environment": { "device": "NVIDIA H200", "driver": "13.0", "nvrtc": "13.0", "optloop": "0.2.0" },
    });
    sandbox.write(&format!("{H200}/layer/m2.json"), &sidecar.to_string());
    sandbox.write(&format!("{H200}/layer/layer.ptx"), &source);
    sandbox
}

#[test]
fn weights_are_prepared_once_for_each() {
    let sandbox = layer();
    for to in ["torch", "python", "c"] {
        sandbox.succeeds(&["export", "layer", "--to", to, "--output", to]);
        compiles(&sandbox.path(to));
        let readme = fs::read_to_string(sandbox.path(&format!("{to}/README.md"))).unwrap();
        assert!(readme.contains("prepare"), "{readme}");
    }
    python("python_prepared.py", &[&sandbox.path("python")]);
    python("torch_prepared.py", &[&sandbox.path("torch")]);
    let (include, program) = (format!("-I{}", sandbox.path("c").display()), sandbox.path("program"));
    let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/fake_cuda_prepared.cpp");
    let both = [fakes, sandbox.path("c/layer.cpp")];
    compile("g++", &["-std=c++11", &include, "-o", program.to_str().unwrap()], &both);
    let output = Command::new(program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
}
