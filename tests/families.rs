//! Every family of the project compiles with the real NVRTC, for every architecture that it claims.

use std::process::Command;

use crate::common::times::{self, Stopwatch};
use crate::common::{self, Sandbox, is_nightly};
use optloop::catalog::Project;
use serde_json::Value;

/// Compiles every family for a workload: each specialization's default configuration, and random configurations.
fn compile(arch: &str, workload: &str, random: &str) -> Vec<Value> {
    let _stopwatch = Stopwatch::start();
    // In the gate, the default configurations and one more of each family.
    let random = if is_nightly() { random } else { "1" };
    let mut command = Command::new(env!("CARGO_BIN_EXE_optloop"));
    command.args(["--project", env!("CARGO_MANIFEST_DIR"), "compile", "--json", "--arch", arch]);
    let output = times::output(command.args(["--workload", workload, "--random", random]));
    let said = String::from_utf8_lossy(&output.stderr);
    let rows = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors: Vec<_> = rows.iter().filter(|row| !row["error"].is_null()).collect();
    assert!(output.status.success(), "{arch} {workload}: {said} {errors:?}");
    for row in &rows {
        let kernels = row["kernels"].as_array().unwrap();
        assert!(!kernels.is_empty() && kernels.iter().all(|k| k["registers"].as_u64() > Some(0)), "{row}");
    }
    rows
}

fn families(rows: &[Value]) -> Vec<&str> {
    let mut names: Vec<_> = rows.iter().map(|row| row["family"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn every_family_compiles_for_sm_80() {
    compile("sm_80", "attention-fp16-d64", "4");
}

#[test]
fn every_family_compiles_for_sm_89() {
    if !is_nightly() {
        return;
    }
    compile("sm_89", "attention-fp16-d64-full", "4");
}

#[test]
fn every_family_compiles_for_sm_90a() {
    let rows = compile("sm_90a", "attention-fp16-d64", "8");
    assert_eq!(
        families(&rows),
        [
            "attention-decode",
            "attention-mma",
            "attention-registers",
            "attention-resident",
            "attention-scalar",
            "attention-split-kv",
            "attention-wgmma"
        ]
    );
}

#[test]
fn every_other_workload_has_families_that_compile() {
    let workloads = [
        "attention-fp32-large-d",
        "attention-paged-bf16",
        "attention-fp16-long",
        "attention-decode",
        "attention-prefill-bf16",
        "attention-masks-bf16",
        "attention-decode-bf16",
        "attention-varlen-bf16",
    ];
    for workload in &workloads[..if is_nightly() { workloads.len() } else { 2 }] {
        let rows = compile("sm_90a", workload, "2");
        assert!(families(&rows).contains(&"attention-scalar"), "{workload}");
        let is_elsewhere = ["attention-paged-bf16", "attention-varlen-bf16"].contains(workload);
        assert_eq!(families(&rows).contains(&"attention-split-kv"), !is_elsewhere, "{workload}");
        let large_d = families(&rows).contains(&"attention-large-d");
        assert_eq!(large_d, *workload == "attention-fp32-large-d", "{workload}: in fp32 only");
    }
}

/// The families that only tests and fault injection use, as families of a project.
#[test]
fn the_planted_bugs_compile() {
    let sandbox = Sandbox::without_repository();
    std::fs::remove_dir_all(sandbox.path("templates/kernels/toy")).unwrap();
    for name in ["attention-broken", "attention-grid-bug"] {
        sandbox.copy_family(&format!("tests/planted_bugs/{name}"), &format!("templates/kernels/{name}"));
    }
    let compile = |arch: &str| {
        let random = if is_nightly() { "8" } else { "1" };
        let rows = sandbox.succeeds(&["compile", "--json", "--workload", "small", "--random", random, "--arch", arch]);
        let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(families(&rows), ["attention-broken", "attention-grid-bug"], "{arch}");
    };
    compile("sm_80");
    sandbox.replace("kernels/workloads/small.toml", "\"f16\"", "\"f32\"");
    compile("sm_90a");
}

#[test]
fn the_families_of_gemm_compile() {
    assert_eq!(families(&compile("sm_80", "gemm-fp16", "2")), ["gemm-scalar"]);
    assert_eq!(
        families(&compile("sm_90a", "gemm-fp16", "4")),
        ["gemm-rows", "gemm-scalar", "gemm-splitk", "gemm-wgmma"]
    );
    for arch in ["sm_80", "sm_90a"] {
        assert_eq!(families(&compile(arch, "gemm-tf32", "4")), ["gemm-scalar", "gemm-tf32-mma"], "{arch}");
    }
}

/// The extra kernel of the toy family for configurations with small tiles, with scratch memory between the two kernels.
const MORE: &str = r#"
[[workspace]]
name = "parts"
dtype = "f32"
elements = "TILE"
when = "TILE < 64"
[[launch]]
kernel = "combine"
grid = ["1"]
block = ["32"]
programmatic = true
when = "TILE < 64"
args = ["parts", "o"]
"#;
const COMBINE: &str = r#"extern "C" __global__ void combine(const float* parts, short* o) { o[0] = parts[0]; }"#;

#[test]
fn a_kernel_that_only_some_configurations_need_is_compiled_and_launched_for_those() {
    let sandbox = Sandbox::new();
    sandbox.write("templates/kernels/toy/family.toml", &format!("{}{MORE}", common::MANIFEST));
    // The outcome when the template has the second kernel on this condition, for whole tiles and for smaller ones.
    let compiled = |condition: &str| {
        let template = format!("{}<% if {condition} %>{COMBINE}<% endif %>", common::TEMPLATE);
        sandbox.write("templates/kernels/toy/kernel.cu.tera", &template);
        let configurations = ["compile", "--workload", "small", "--case", "s64", "--random", "10"];
        let output = sandbox.optloop(&configurations);
        let text = String::from_utf8(output.stdout).unwrap();
        let says = |row: &str| row.lines().skip(1).map(about_a_kernel).collect::<Vec<_>>().join(", ");
        let (whole, smaller): (Vec<&str>, Vec<&str>) =
            text.split("toy ").skip(1).partition(|row| row.contains("TILE=64"));
        assert!(!whole.is_empty() && !smaller.is_empty(), "{text}");
        assert!(smaller.iter().all(|row| says(row) == says(smaller[0])), "{text}");
        format!("{} | {} | {}", output.status.success(), says(whole[0]), says(smaller[0]))
    };
    insta::assert_snapshot!(compiled("TILE < 64"), @"true | toy | combine, toy");
    insta::assert_snapshot!(compiled("true"), @"true | combine (not launched), toy | combine, toy");
    insta::assert_snapshot!(compiled("false"), @"false | toy | it launches `combine`, which is not an `extern \"C\"` kernel of the source");
}

#[test]
fn a_changed_fragment_changes_the_families_that_include_it_and_no_other() {
    let sandbox = Sandbox::new();
    for name in ["direct", "through", "none"] {
        let manifest = common::MANIFEST.replace("name = \"toy\"", &format!("name = \"{name}\""));
        sandbox.write(&format!("templates/kernels/{name}/family.toml"), &manifest);
    }
    let template = |name: &str, include: &str| {
        sandbox.write(&format!("templates/kernels/{name}/kernel.cu.tera"), &format!("{include}{}", common::TEMPLATE));
    };
    template("direct", "<% include \"common/inner.cu.tera\" %>\n");
    // The source needs the inner fragment twice, and includes it once.
    template("through", "<% include \"common/inner.cu.tera\" %>\n<% include \"common/outer.cu.tera\" %>\n");
    // A mention is not an include.
    template("none", "<# <% include \"common/inner.cu.tera\" %> #>\n");
    let meanings = |inner: &str, outer: &str| {
        sandbox.write("templates/kernels/common/inner.cu.tera", &format!("constexpr int INNER = {inner};\n"));
        let text = format!("<% include \"common/inner.cu.tera\" %>\nconstexpr int OUTER = {outer};\n");
        sandbox.write("templates/kernels/common/outer.cu.tera", &text);
        let families = Project::find(Some(&sandbox.path("."))).unwrap().families().unwrap().sound;
        families.into_iter().map(|family| (family.name, family.content_hash)).collect::<Vec<_>>()
    };
    let changed = |inner: &str, outer: &str| {
        let changes = meanings("1", "1").into_iter().zip(meanings(inner, outer));
        changes.filter(|(before, after)| before != after).map(|(before, _)| before.0).collect::<Vec<_>>().join(", ")
    };
    insta::assert_snapshot!(changed("1", "1"), @"");
    insta::assert_snapshot!(changed("2", "1"), @"direct, through");
    insta::assert_snapshot!(changed("1", "2"), @"through");
    // The rendered source is self-contained and compiles, which it would not with a duplicate fragment.
    let compiled = sandbox.succeeds(&["compile", "--workload", "small", "--case", "s64"]);
    assert_eq!(compiled.matches("registers").count(), 4, "{compiled}");
}

/// Removes a kernel's resource usage, which depends on the compiler.
fn about_a_kernel(line: &str) -> String {
    match line.trim().split_once(": ") {
        Some((kernel, uses)) if uses.contains("registers") => {
            kernel.to_owned() + if uses.ends_with("; not launched") { " (not launched)" } else { "" }
        }
        _ => line.trim().to_owned(),
    }
}
