//! `optloop diagnose` names the cause of planted bugs first, and the change that fixes them.

use std::path::Path;

use serde_json::Value;

use super::common::{Sandbox, WORKLOAD, is_nightly};

/// A kernel with a planted bug, and what its diagnosis has to say first.
struct Planted {
    workload: &'static str,
    case: &'static str,
    kernel: &'static str,
    rule: &'static str,
    /// The start of the first change that it proposes.
    next: &'static str,
}

const PLANTED: [Planted; 7] = [
    Planted {
        workload: "attention-fp16-d64",
        case: "b4h4s128",
        kernel: "attention-grid-bug",
        rule: "serialised-grid",
        next: "give every independent output its own block, in a grid",
    },
    // One thread for each row: 64 of 256 work.
    Planted {
        workload: "attention-fp16-d64-full",
        case: "b8h4s128",
        kernel: "attention-scalar:BR=64,TPR=1,THREADS=256,VEC=8,PAD=8,KEYS=4,QREG=1",
        rule: "idle-warps",
        next: "set TPR from 1 to 2",
    },
    Planted {
        workload: "attention-fp16-d64-full",
        case: "b8h8s128",
        kernel: "attention-scalar:BR=64,TPR=2,THREADS=128,VEC=1,PAD=0,KEYS=4",
        rule: "bank-conflicts",
        next: "set PAD from 0 to 8",
    },
    // Eight blocks of 128 threads leave a thread 64 registers, and its rows need more.
    Planted {
        workload: "attention-fp16-d64-full",
        case: "b8h8s128",
        kernel: "attention-scalar:BR=64,TPR=2,THREADS=128,VEC=8,PAD=8,QREG=1,KEYS=4,MIN_BLOCKS=8,BC=8",
        rule: "spills",
        next: "set MIN_BLOCKS from 8 to 4",
    },
    Planted {
        workload: "attention-fp16-d64-full",
        case: "b1h1s128",
        kernel: "attention-scalar:BR=64,TPR=2,THREADS=128,VEC=8,PAD=8,QREG=1,KEYS=4",
        rule: "too-few-blocks",
        next: "set BR from 64 to ",
    },
    // A block for each row loads all keys and values of its head. Fewer threads for each row would bring back `idle-warps`.
    Planted {
        workload: "attention-fp32-large-d",
        case: "b1h4q64k64d512",
        kernel: "attention-scalar:BR=1,TPR=32,THREADS=32,VEC=4,PAD=8,BC=8",
        rule: "redundant-loads",
        next: "set BR from 1 to 4, with THREADS from 32 to 128",
    },
    Planted {
        workload: "attention-fp16-d64-full",
        case: "b8h8s128",
        kernel: "attention-scalar:BR=32,TPR=4,THREADS=128,VEC=8,PAD=8,QREG=1,KEYS=4",
        rule: "tensor-cores-unused",
        next: "use the family attention-mma",
    },
];

/// Makes a project with the workloads and the families, the one with the grid bug included.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_families(WORKLOAD, &["attention-scalar", "attention-mma"]);
    sandbox.copy_family("tests/planted_bugs/attention-grid-bug", "templates/kernels/attention-grid-bug");
    for workload in ["attention-fp16-d64", "attention-fp16-d64-full", "attention-fp32-large-d"] {
        let name = format!("kernels/workloads/{workload}.toml");
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&name)).unwrap();
        sandbox.write(&name, &text);
    }
    sandbox
}

/// Diagnoses a kernel on the virtual H200.
fn diagnosed(sandbox: &Sandbox, planted: &Planted) -> Value {
    let Planted { workload, case, kernel, .. } = planted;
    let arguments = ["diagnose", kernel, "--workload", workload, "--case", case, "--device", "virtual:h200", "--json"];
    let printed: Value = serde_json::from_str(&sandbox.succeeds(&arguments)).unwrap();
    printed["diagnoses"][0].clone()
}

#[test]
fn the_cause_of_each_planted_bug_comes_first_with_its_fix() {
    let sandbox = sandbox();
    // The gate has those that take least.
    let chosen = |planted: &&Planted| is_nightly() || ["bank-conflicts", "too-few-blocks"].contains(&planted.rule);
    for planted in PLANTED.iter().filter(chosen) {
        let diagnosis = diagnosed(&sandbox, planted);
        let first = &diagnosis["findings"][0];
        let told = format!("{}: {}", planted.kernel, serde_json::to_string_pretty(&diagnosis["findings"]).unwrap());
        assert_eq!(first["rule"], planted.rule, "{told}");
        assert!(first["remedies"][0]["text"].as_str().unwrap().starts_with(planted.next), "{told}");
        assert!(first["evidence"].as_array().unwrap().iter().any(|one| one["supports"] == true), "{told}");
    }
}
