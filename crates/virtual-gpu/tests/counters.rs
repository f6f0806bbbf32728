//! The counters against what an H200's own counters say of the same kernels (conformance/count.py).

#[path = "conformance/compare.rs"]
mod compare;
#[path = "conformance/execute.rs"]
mod execute;
#[path = "conformance/suite.rs"]
mod suite;
#[path = "conformance/tables.rs"]
mod tables;

use std::collections::BTreeMap;

use virtual_gpu::counters::Counters;
use virtual_gpu::ptx;

type Counts = BTreeMap<String, u64>;

fn recorded() -> BTreeMap<String, Counts> {
    let text = std::fs::read_to_string(suite::folder().join("expected/counts.json")).expect("counts.json is there");
    serde_json::from_str(&text).expect("counts.json is numbers by name by case")
}

fn ours(counters: &Counters) -> Counts {
    [
        ("global_load_requests", counters.global_load.requests),
        ("global_load_sectors", counters.global_load.units),
        ("global_store_requests", counters.global_store.requests),
        ("global_store_sectors", counters.global_store.units),
        ("shared_load_requests", counters.shared_load.requests),
        ("shared_load_wavefronts", counters.shared_load.units),
        ("shared_store_requests", counters.shared_store.requests),
        ("shared_store_wavefronts", counters.shared_store.units),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[test]
fn compare_all() {
    let (manifest, _) = suite::load();
    let recorded = recorded();
    for file in &manifest.files {
        let text = std::fs::read_to_string(suite::folder().join("kernels").join(&file.ptx)).expect("the text is there");
        let module = ptx::load(&file.ptx, &text).expect("it loads");
        for case in &file.cases {
            let name = format!("{}/{}", file.ptx, case.name);
            let Some(expected) = recorded.get(&name) else { continue };
            let (_, counters) = execute::run(&module, &manifest, case).expect("it runs");
            for (what, got) in ours(&counters) {
                let expected = expected[&what];
                let mark = if got == expected { "" } else { "  <<<" };
                println!("{name} {what} {got} {expected}{mark}");
            }
        }
    }
}
