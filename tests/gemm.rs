//! The second op: the loop handles matrix products like attention, using only the op's own files.

use crate::common::Sandbox;

const WORKLOAD: &str = r#"
name = "small"
about = "Products of which no tile divides anything, and one of odd sizes."
op = "gemm"
dtype = "f16"
initial_kernel = "toy"
tolerance = { relative_l2 = 4e-4, worst_row = 8e-4 }
[[case]]
name = "ragged"
M = 130
N = 264
K = 200
[[case]]
name = "odd"
M = 65
N = 33
K = 17
"#;

const FAMILIES: [&str; 4] = ["gemm-scalar", "gemm-rows", "gemm-splitk", "gemm-wgmma"];

/// Runs a session on the virtual H200, which begins with the default configuration of every family.
fn session(sandbox: &Sandbox, iterations: &str, more: &[&str]) -> String {
    let start = ["start", "--workload", "small", "--device", "virtual", "--seed", "1", "--iterations", iterations];
    let output = sandbox.optloop(&[&start, more].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn a_session_of_matrix_products_finds_checks_commits_and_reports_a_winner() {
    let sandbox = Sandbox::with_families(WORKLOAD, &FAMILIES);
    session(&sandbox, "3", &[]);
    let report = sandbox.report();
    assert_eq!(report["session"]["workload"], "small");
    let case =
        |name: &str| report["cases"].as_array().unwrap().iter().find(|case| case["case"] == name).unwrap().clone();
    let ragged = case("ragged");
    assert!(ragged["speedup_over_start"].as_f64().unwrap() > 1.1, "tensor cores win: {ragged}");
    assert_eq!(case("odd")["speedup_over_start"], 1.0, "only the initial kernel allows odd sizes");
    let checked = report["correctness"].as_array().unwrap().iter().find(|row| row["case"] == "ragged").unwrap();
    assert_eq!((&checked["rows"], &checked["rows_checked"]), (&130.into(), &130.into()));
    assert_eq!(ragged["baseline"]["name"], "modelled, the default configuration of gemm-scalar");

    // The sidecar documents the input and output matrices for other users.
    let sidecar = sandbox.json(&format!("{}/ragged.json", crate::common::VIRTUAL_WINNERS));
    let shapes = ["a", "b", "c"].map(|tensor| sidecar["tensors"][tensor]["shape"].to_string());
    assert_eq!(shapes, ["[130,200]", "[200,264]", "[130,264]"]);
}

#[test]
fn a_shape_that_a_family_cannot_compute_is_refused_with_the_reason() {
    let sandbox = Sandbox::with_families(WORKLOAD, &FAMILIES);
    let bench = ["bench", "gemm-wgmma", "--workload", "small", "--case", "odd", "--device", "virtual"];
    let refusal = sandbox.fails(&bench);
    assert!(refusal.contains("A tensor copy moves rows that start at multiples of 16 bytes."), "{refusal}");
}

/// Blocks that stay for several tiles, warpgroups that take turns, clusters that share loads. There are more tiles than
/// multiprocessors, so that every path repeats.
#[test]
fn blocks_that_stay_for_many_tiles_are_right_in_every_way_of_sharing() {
    let many = "[[case]]\nname = \"many\"\nM = 584\nN = 1000\nK = 136\n";
    let sandbox = Sandbox::with_families(&format!("{WORKLOAD}{many}"), &FAMILIES);
    sandbox.write("config.toml", "[virtual]\nlaunch_gflop = 1.0\n");
    for configuration in ["BN=64,TURNS=1,STAGES=2,CM=1,OUT=1", "WGS=1,BN=64,CM=1,CN=2"] {
        let what = format!("gemm-wgmma:{configuration}");
        let bench = ["bench", &what, "--workload", "small", "--case", "many", "--device", "virtual"];
        assert!(sandbox.succeeds(&bench).contains("The floor is"), "{configuration}");
    }
}

/// Partial sums of 16 bits have a scale for each row of a tile. Acceptance checks put NaN and infinity beside finite
/// elements of the same row.
#[test]
fn partial_sums_of_16_bits_keep_nan_and_infinity_to_themselves() {
    let sandbox = Sandbox::with_families(WORKLOAD, &["gemm-scalar", "gemm-splitk"]);
    let manifest = "templates/kernels/gemm-splitk/family.toml";
    let text = std::fs::read_to_string(sandbox.path(manifest)).unwrap();
    let only_16 = text.replace("values = [32, 16]\ndefault = 32", "values = [16]\ndefault = 16");
    assert_ne!(only_16, text);
    sandbox.write(manifest, &only_16);
    let said = session(&sandbox, "2", &["--case", "ragged"]);
    assert!(said.contains("#2 improved"), "{said}");
}
