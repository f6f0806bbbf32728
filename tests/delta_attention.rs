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
    let check = |case: &str, configuration: &str| {
        let what = format!("delta-chunked:{configuration}");
        let output = sandbox.optloop(&["check", &what, "--case", case, "--device", "virtual"]);
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for (case, configuration) in [("wide", "SLICE=32"), ("narrow", "SLICE=64,PARTS=1,TILES=1,STAGES=2")] {
        let said = check(case, configuration);
        assert!(said.contains(&format!("right on {case}")), "{configuration}: {said}");
    }
    // Chunks whose gates exceed the range of exp must not take the fast path.
    sandbox.replace("templates/kernels/delta-chunked/kernel.cu.tera", "MOST_DECAY = 58", "MOST_DECAY = 1e30f");
    let said = check("wide", "SLICE=32");
    assert!(said.contains("gates that forget"), "{said}");
}
