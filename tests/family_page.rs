//! The family in docs/family.md, which prompts contain, works as it stands there.

use crate::common::Sandbox;

const PAGE: &str = include_str!("../docs/family.md");

/// One element may be off by half a unit in the last place of a half, 4.9e-4 of it.
const WORKLOAD: &str = r#"
name = "small"
about = "Products of which no tile divides anything."
op = "gemm"
dtype = "f16"
initial_kernel = "gemm-columns"
tolerance = { relative_l2 = 6e-4, worst_row = 8e-4 }
[[case]]
name = "ragged"
M = 67
N = 130
K = 33
[[case]]
name = "one"
M = 1
N = 1
K = 1
"#;

/// Returns the text of the page's first block of a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_example_compiles_and_computes_the_right_result() {
    let sandbox = Sandbox::without_repository();
    std::fs::remove_dir_all(sandbox.path("templates/kernels/toy")).unwrap();
    sandbox.write("templates/kernels/gemm-columns/family.toml", block("toml"));
    sandbox.write("templates/kernels/gemm-columns/kernel.cu.tera", block("c++"));
    for dtype in ["f16", "f32"] {
        sandbox.write("kernels/workloads/small.toml", &WORKLOAD.replace("f16", dtype));
        let rows = sandbox.succeeds(&["compile", "--json", "--workload", "small", "--random", "12", "--arch", "sm_80"]);
        assert!(rows.lines().count() > 4 && rows.lines().all(|row| row.contains("\"error\":null")), "{rows}");
        for case in ["ragged", "one"] {
            let what = ["bench", "gemm-columns:ROWS=8", "--workload", "small", "--case", case, "--device", "virtual"];
            assert!(sandbox.succeeds(&what).contains("The floor is"), "{dtype} {case}");
        }
    }
}
