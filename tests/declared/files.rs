//! Inputs that come from files of the project.

use super::{call, project};
use crate::common::Sandbox;

/// Writes a weight of 64 numbers for the RMS norm as a .npy file, and declares it.
fn with_file(descr: &str, shape: &str, dtype: &str) -> Sandbox {
    let sandbox = project();
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let numbers = (0..64).flat_map(|at| (at as f32 / 8.0 - 4.0).to_le_bytes());
    let length = (header.len() as u16).to_le_bytes();
    let file: Vec<u8> =
        [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes()].concat().into_iter().chain(numbers).collect();
    std::fs::write(sandbox.path("kernels/ops/rms-norm/weight.npy"), file).unwrap();
    let op = "kernels/ops/rms-norm/op.toml";
    sandbox.replace(op, "[tensors.w]", &format!("[tensors.w]\n{dtype}values = {{ file = \"weight.npy\" }}"));
    let workload = sandbox.path("kernels/workloads/small.toml");
    let text = std::fs::read_to_string(&workload).unwrap();
    std::fs::write(&workload, text.split("[[case]]\nname = \"r8n500\"").next().unwrap()).unwrap();
    sandbox.git(&["add", "--all"]);
    sandbox.git(&["commit", "--quiet", "--message", "a file"]);
    sandbox
}

#[test]
fn a_session_reads_an_input_from_a_file() {
    let sandbox = with_file("<f4", "(64,)", "dtype = \"f32\"\n");
    let start =
        ["start", "--workload", "small", "--device", "virtual:h200", "--iterations", "4", "--seed", "1", "--trust"];
    let (code, _, said) = call(&sandbox, &start);
    assert_eq!(code, 0, "{said}");
    let report = sandbox.report();
    assert!(report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.0, "{}", report["cases"][0]);
    // The file is part of the op: with a change in it, the oracle sees other numbers, and so does the kernel.
    let path = sandbox.path("kernels/ops/rms-norm/weight.npy");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 0x80;
    std::fs::write(&path, bytes).unwrap();
    let (code, checked, said) = call(&sandbox, &["check", "small", "--device", "virtual:h200", "--trust"]);
    assert_eq!(code, 0, "{checked}{said}");
}

#[test]
fn a_file_that_does_not_fit_is_one_sentence() {
    let refused = |descr: &str, shape: &str, dtype: &str| {
        let sandbox = with_file(descr, shape, dtype);
        let (code, _, said) = call(&sandbox, &["start", "--workload", "small", "--device", "fake", "--budget", "5s"]);
        assert_eq!(code, 2, "{said}");
        said
    };
    let f32 = "dtype = \"f32\"\n";
    insta::assert_snapshot!(refused("<f4", "(64,)", ""), @r#"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: tensor `w`: give it the type of weight.npy: dtype = "f32""#);
    insta::assert_snapshot!(refused("<f4", "(64,)", "dtype = \"f16\"\n"), @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: tensor `w`: it is declared as f16, but weight.npy has f32");
    insta::assert_snapshot!(refused("<f4", "(8, 8)", f32), @"error: PROJECT/kernels/workloads/small.toml: case `r4n64`: tensor `w` has the shape [64], but its file has [8, 8]");
    insta::assert_snapshot!(refused("<f4", "(65,)", f32), @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: tensor `w`: weight.npy is shorter or longer than its header says");
    insta::assert_snapshot!(refused("<u8", "(64,)", f32), @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: tensor `w`: weight.npy has elements of type <u8, which is not supported");
    let sandbox = with_file("<f4", "(64,)", f32);
    sandbox.replace("kernels/ops/rms-norm/op.toml", "weight.npy", "../weight.npy");
    let (_, _, said) = call(&sandbox, &["start", "--workload", "small", "--device", "fake", "--budget", "5s"]);
    insta::assert_snapshot!(said, @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: tensor `w`: file `../weight.npy`: name a .npy or .safetensors file in the op's folder, without a path");
    sandbox.replace("kernels/ops/rms-norm/op.toml", "../weight.npy", "other.npy");
    let (_, _, said) = call(&sandbox, &["start", "--workload", "small", "--device", "fake", "--budget", "5s"]);
    insta::assert_snapshot!(said, @"error: PROJECT/kernels/workloads/small.toml: PROJECT/kernels/ops/rms-norm/op.toml: other.npy cannot be read: No such file or directory (os error 2)");
}
