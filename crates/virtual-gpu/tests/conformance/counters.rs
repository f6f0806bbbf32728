//! Compares the counters with an H200's own counters for the same kernels (conformance/count.py).

use std::collections::BTreeMap;

use virtual_gpu::counters::Counters;
use virtual_gpu::ptx;

use super::{execute, suite};

type Counts = BTreeMap<String, u64>;

fn recorded() -> BTreeMap<String, Counts> {
    let text = std::fs::read_to_string(suite::folder().join("expected/counts.json")).expect("counts.json is there");
    serde_json::from_str(&text).expect("counts.json is numbers by name by case")
}

fn ours(counters: &Counters) -> [(&'static str, u64); 6] {
    [
        ("global_load_requests", counters.global_load.requests),
        ("global_load_sectors", counters.global_load.units),
        ("global_store_requests", counters.global_store.requests),
        ("global_store_sectors", counters.global_store.units),
        ("shared_load_wavefronts", counters.shared_load.units),
        ("shared_store_wavefronts", counters.shared_store.units),
    ]
}

/// Cases where the two count different things, and why.
fn is_comparable(case: &str, counter: &str) -> bool {
    match case {
        // The machine counts atomics among stores to global memory and among loads from shared memory.
        "memory.ptx/atomics_global" => !counter.starts_with("global_store"),
        "memory.ptx/atomics_shared" => !counter.starts_with("shared"),
        // ptxas reads constant variables with instructions that are not loads from global memory.
        "memory.ptx/variables" => !counter.starts_with("global_load"),
        _ => true,
    }
}

#[test]
fn a_real_gpu_counts_the_same() {
    let (manifest, _) = suite::load();
    let recorded = recorded();
    let (mut compared, mut wrong) = (0, Vec::new());
    for file in &manifest.files {
        let text = std::fs::read_to_string(suite::folder().join("kernels").join(&file.ptx)).expect("the text is there");
        let module = ptx::load(&file.ptx, &text).expect("it loads");
        for case in &file.cases {
            let name = format!("{}/{}", file.ptx, case.name);
            let Some(expected) = recorded.get(&name) else { continue };
            let (_, counters) = execute::run(&module, &manifest, case).expect("it runs");
            for (what, got) in ours(&counters) {
                let expected = expected[what];
                compared += 1;
                if got != expected && is_comparable(&name, what) {
                    wrong.push(format!("{name} {what}: {got}, on the machine {expected}"));
                }
            }
        }
    }
    assert!(compared > 900, "only {compared} counters were compared");
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
}
