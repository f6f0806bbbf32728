//! The largest elements of rows, by blocks that share a row in every way.

use crate::common::Sandbox;

const WORKLOAD: &str = r#"
name = "small"
about = "Rows that nothing divides."
op = "top-k"
dtype = "f32"
initial_kernel = "toy"
tolerance = { relative_l2 = 1e-6, worst_row = 1e-6 }
[[case]]
name = "rows"
B = 2
N = 1004
K = 20
[[case]]
name = "few"
B = 3
N = 1004
K = 5
"#;

#[test]
fn blocks_that_share_a_row_are_right_on_every_probe_and_hidden_shape() {
    let sandbox = Sandbox::with_families(WORKLOAD, &["top-k-scalar", "top-k-select"]);
    let right = |case: &str, configuration: &str| {
        let what = format!("top-k-select:THREADS=128,{configuration}");
        let said = sandbox.succeeds(&["check", &what, "--case", case, "--device", "virtual"]);
        assert!(said.contains(&format!("right on {case}")), "{configuration}: {said}");
    };
    right("few", "SPLITS=1,ITEMS=8");
    right("rows", "SPLITS=4,VEC=1");
    right("rows", "SPLITS=8,CLUSTER=1");
    let bench = ["bench", "top-k-select:SPLITS=1,THREADS=128,ITEMS=4", "--case", "few", "--device", "virtual"];
    let refusal = sandbox.fails(&bench);
    assert!(refusal.contains("The threads of a block must hold its part of a row."), "{refusal}");
}
