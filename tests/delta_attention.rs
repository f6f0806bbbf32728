//! Delta attention: chunks that end early, parts of a state, and gates whose sums exceed the range of exp.

use crate::common::Sandbox;

const WORKLOAD: &str = r#"
name = "small"
about = "Chunks that end early."
op = "delta-attention"
dtype = "bf16"
initial_kernel = "toy"
tolerance = { relative_l2 = 8e-3, worst_row = 3e-2 }
[[case]]
name = "wide"
B = 1
T = 70
H = 2
K = 128
V = 64
[[case]]
name = "narrow"
B = 2
T = 66
H = 1
K = 64
V = 64
"#;

#[test]
fn chunks_are_right_on_every_probe_and_hidden_shape() {
    let sandbox = Sandbox::with_families(WORKLOAD, &["delta-scalar", "delta-chunked"]);
    // What optloop does not ship is checked on hidden shapes and probes when it is first run.
    sandbox.replace("templates/kernels/delta-chunked/kernel.cu.tera", "MOST_DECAY = 58", "MOST_DECAY = 57");
    for (case, configuration) in [("wide", "CLUSTER=2,SEGMENTS=2"), ("narrow", "SLICE=64,PARTS=1,STAGES=2,CLUSTER=1")] {
        let what = format!("delta-chunked:{configuration}");
        let said = sandbox.succeeds(&["check", &what, "--case", case, "--device", "virtual"]);
        assert!(said.contains(&format!("right on {case}")), "{configuration}: {said}");
    }
}
