//! A session whose proposer mixes in deliberately broken kernels: each gets its outcome, and the session continues.

use std::collections::BTreeMap;

use crate::common::{Sandbox, is_nightly};
use serde_json::Value;

/// The virtual GPU's outcome for each fault.
const OUTCOMES: [(i64, &str, &str); 8] = [
    (1, "illegal address", "crashed"),
    (2, "misaligned access", "crashed"),
    (3, "hang", "timed_out"),
    // The virtual GPU models 64 calls of a function by itself; on a real GPU the stack overflows and the kernel crashes.
    (4, "stack overflow", "not_modelled"),
    (5, "huge shared memory", "rejected_by_compiler"),
    (6, "trap", "crashed"),
    (7, "NaN", "wrong"),
    // The virtual GPU detects races; on a real GPU the output is wrong.
    (8, "race", "crashed"),
];

/// Makes a project with the scalar family and the broken one.
fn with_the_broken() -> Sandbox {
    let sandbox = Sandbox::with_attention();
    sandbox.copy_family("tests/planted_bugs/attention-broken", "tests/planted_bugs/attention-broken");
    sandbox
}

#[test]
fn a_session_survives_kernels_that_are_broken_in_every_way() {
    let sandbox = with_the_broken();
    let start = ["start", "--workload", "small", "--device", "virtual", "--proposer", "fault-injection"];
    // In the gate, a few of the faults are met.
    let iterations = if is_nightly() { 60 } else { 16 };
    let more = ["--case", "s64", "--seed", "3", "--iterations", &iterations.to_string()];
    let output = sandbox.optloop(&[&start[..], &more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let history: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
    let rows = history.as_array().unwrap();
    let mut met: BTreeMap<i64, usize> = BTreeMap::new();
    let mut honest = 0;
    for row in rows {
        if row["family"] != "attention-broken" {
            assert_eq!(row["outcome"], "measured", "{row}");
            honest += 1;
            continue;
        }
        let fault = row["params"]["FAULT"].as_i64().unwrap();
        let (_, name, outcome) = OUTCOMES.into_iter().find(|(number, ..)| *number == fault).unwrap();
        assert_eq!(row["outcome"], outcome, "{name}: {row}");
        *met.entry(fault).or_default() += 1;
    }
    let broken: usize = met.values().sum();
    assert!(honest + broken == iterations && broken >= 3, "{broken} broken, {honest} honest");
    if !is_nightly() {
        return;
    }
    assert_eq!(met.len(), OUTCOMES.len(), "every fault was met: {met:?}");
    assert!((12..=27).contains(&broken), "{broken} broken, {honest} honest");
    let report = sandbox.report();
    assert!(report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.0, "and it still found something");
}

/// Without a broken kernel, fault injection has nothing to mix in and proposes the same as its base proposer.
#[test]
fn fault_injection_without_broken_kernels_proposes_what_local_does() {
    let tried = |proposer: &str| {
        let sandbox = Sandbox::new();
        let session = sandbox.session("12", &["--proposer", proposer]);
        assert!(session.status.success(), "{}", String::from_utf8_lossy(&session.stderr));
        let history: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
        history.as_array().unwrap().iter().map(|row| row["params"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(tried("fault-injection"), tried("local"));
}
