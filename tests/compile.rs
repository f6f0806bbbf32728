//! What `optloop compile` shows, and what it says of the configurations that it leaves out.

use crate::common::{Sandbox, WORKLOAD};
use serde_json::Value;

const MANIFEST: &str = "templates/kernels/toy/family.toml";

#[test]
fn dynamic_shared_memory_is_shown_beside_the_static_one() {
    let sandbox = Sandbox::new();
    sandbox.replace(MANIFEST, "block = [\"THREADS\"]", "block = [\"THREADS\"]\nshared = \"TILE * 256\"");
    let compile = ["compile", "--workload", "small", "--case", "s64"];
    let shown = sandbox.succeeds(&compile);
    assert!(shown.contains("0 + 16384 bytes shared memory (static + dynamic)"), "{shown}");
    let json: Value = serde_json::from_str(&sandbox.succeeds(&[&compile[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["dynamic_shared_bytes"]["toy"], 16384);
}

#[test]
fn what_has_no_valid_configuration_is_told_with_the_reason() {
    let sandbox = Sandbox::new();
    sandbox.replace(MANIFEST, "expr = \"TILE * THREADS <= 8192\"", "expr = \"D >= 16\"");
    let named = ["compile", "--workload", "small", "--family", "toy"];
    let output = sandbox.optloop(&named);
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"`toy` has no valid configuration on s4d4: a made-up limit");
    let all = sandbox.optloop(&named[..3]);
    assert!(all.status.success() && all.stderr.is_empty(), "families that nobody named may be for other cases");
    insta::assert_snapshot!(sandbox.fails(&[&named[..], &["--case", "s4d4"]].concat()), @"2 error: no family has a valid configuration for `small` on sm_90a: `toy` has no valid configuration on any case: a made-up limit");
    sandbox.replace(MANIFEST, "requires_sm = 80", "requires_sm = 90");
    insta::assert_snapshot!(sandbox.fails(&[&named[..], &["--arch", "sm_80"]].concat()), @"2 error: no family has a valid configuration for `small` on sm_80: `toy` has no valid configuration on any case: It needs compute capability 9.0, and the device has 8.0");
}

#[test]
fn a_family_is_compiled_for_the_only_workload_of_its_op() {
    let sandbox = Sandbox::new();
    assert!(sandbox.succeeds(&["compile", "--family", "toy", "--case", "s64"]).starts_with("toy "));
    sandbox.write("kernels/workloads/other.toml", &WORKLOAD.replace("\"small\"", "\"other\""));
    insta::assert_snapshot!(sandbox.fails(&["compile", "--family", "toy"]), @"2 error: family `toy` computes op `attention`: choose one of its workloads with --workload: other, small");
    insta::assert_snapshot!(sandbox.fails(&["bench", "toy", "--case", "s64", "--device", "fake"]), @"2 error: family `toy` computes op `attention`: choose one of its workloads with --workload: other, small");
    sandbox.write("config.toml", "[session]\nworkload = 'other'\n");
    assert!(sandbox.succeeds(&["compile", "--family", "toy", "--case", "s64"]).starts_with("toy "));
    insta::assert_snapshot!(sandbox.fails(&["bench", "toy", "--case", "s65", "--device", "fake"]), @"2 error: workload `other` has no case `s65` (did you mean `s64`?); it has: s4d4, s64, s128; --workload chooses another workload");
}
