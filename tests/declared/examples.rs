//! The example that is a folder of a project.

use std::path::Path;

use super::{call, project};
use crate::common::Sandbox;

/// Sizes at which some tiles are whole and some are not, and every multiprocessor is free.
const CASE: &str = "\n[[case]]\nname = \"odd\"\nM = 201\nN = 328\nK = 464\n";

/// Copies the files below a folder of the repository.
fn copy(sandbox: &Sandbox, from: &str, to: &str) {
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(from)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
        if entry.path().is_dir() {
            copy(sandbox, &from, &to);
        } else {
            sandbox.write(&to, &std::fs::read_to_string(entry.path()).unwrap());
        }
    }
}

#[test]
fn every_way_of_the_fp8_example_gives_the_oracles_numbers_rounded_to_bf16() {
    let sandbox = project();
    copy(&sandbox, "templates/kernels/common", "templates/kernels/common");
    copy(&sandbox, "examples/fp8-gemm/kernels", "kernels");
    copy(&sandbox, "examples/fp8-gemm/templates", "templates");
    sandbox.replace("kernels/workloads/fp8-gemm.toml", "\n[[case]]", &format!("{CASE}\n[[case]]"));
    let (code, output, said) = call(
        &sandbox,
        &[
            "bench",
            "fp8-gemm",
            "--against",
            "fp8-gemm:BM=64,TURNS=1,BN=128",
            "--against",
            "fp8-gemm:OUT=0,PROMOTE=1,BN=192",
            "--against",
            "fp8-gemm:STAGGER=2,STAGES=3,CM=1,CN=2",
            "--workload",
            "fp8-gemm",
            "--case",
            "odd",
            "--device",
            "virtual:h200",
            "--trust",
            "--json",
        ],
    );
    assert_eq!(code, 0, "{said}");
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    let participants = report["comparisons"][0]["participants"].as_array().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(participants.len(), 4);
    for participant in participants {
        let error = participant["relative_l2"].as_f64().unwrap();
        assert!((1.5e-3..1.8e-3).contains(&error), "{participant}");
    }
}
