//! A broken family, op or workload affects only what uses it.

use super::common::{MANIFEST, Sandbox, TEMPLATE, WORKLOAD};

/// Starts a short session, and returns its exit code with what it said about broken files.
fn start(sandbox: &Sandbox, more: &[&str]) -> String {
    let output = sandbox.session("2", more);
    let said = in_project(sandbox, &String::from_utf8(output.stderr).unwrap());
    let lines = said
        .lines()
        .filter(|line| line.contains("left out") || line.contains("leaves it out") || line.contains("error"));
    let lines: Vec<&str> = lines.collect();
    format!("{} {}", output.status.code().unwrap(), lines.join("\n"))
}

/// Returns a text without the path of the project.
fn in_project(sandbox: &Sandbox, text: &str) -> String {
    text.replace(&sandbox.path("").display().to_string(), "")
}

/// Adds a family of the op, after a change to its manifest.
fn add_family(sandbox: &Sandbox, from: &str, to: &str) {
    assert!(MANIFEST.contains(from));
    let manifest = MANIFEST.replace("name = \"toy\"", "name = \"other\"").replace(from, to);
    sandbox.write("templates/kernels/other/family.toml", &manifest);
    sandbox.write("templates/kernels/other/kernel.cu.tera", TEMPLATE);
}

#[test]
fn a_session_goes_on_without_a_broken_family_and_says_so() {
    let sandbox = Sandbox::new();
    add_family(&sandbox, "default = 64", "default = 65");
    insta::assert_snapshot!(start(&sandbox, &[]), @"0 family `other` is broken and left out: templates/kernels/other/family.toml: parameter `TILE`: its default 65 is not among its values; `optloop check other` shows all its mistakes");
    let told = |sandbox: &Sandbox| in_project(sandbox, &sandbox.report()["left_out"].to_string());
    insta::assert_snapshot!(told(&sandbox), @r#"[{"family":"other","reason":"templates/kernels/other/family.toml: parameter `TILE`: its default 65 is not among its values"}]"#);
    let shown = sandbox.succeeds(&["report", "1"]);
    assert!(shown.contains("- Broken families were left out: other."), "{shown}");
    insta::assert_snapshot!(start(&sandbox, &["--family", "toy"]), @"0");
    assert_eq!(told(&sandbox), "[]", "it was not asked for");
    let events = in_project(&sandbox, &String::from_utf8(sandbox.session("1", &["--json"]).stdout).unwrap());
    let event = events.lines().find(|line| line.contains("family_left_out"));
    insta::assert_snapshot!(event.unwrap(), @r#"{"event":"family_left_out","family":"other","reason":"templates/kernels/other/family.toml: parameter `TILE`: its default 65 is not among its values"}"#);
    insta::assert_snapshot!(start(&sandbox, &["--family", "other"]), @"2 error: templates/kernels/other/family.toml: parameter `TILE`: its default 65 is not among its values");
    sandbox.write("templates/kernels/other/family.toml", "op = ");
    insta::assert_snapshot!(start(&sandbox, &[]), @"0 family `other` is broken and left out: templates/kernels/other/family.toml: line 1: string values must be quoted, expected literal string; `optloop check other` shows all its mistakes");
    // It is read, but cannot be used.
    add_family(&sandbox, "ceil_div(Sq, TILE)", "0 * Sq");
    insta::assert_snapshot!(start(&sandbox, &[]), @"0 family `other` has no launch plan on case `s4d4`: launch `toy`: grid `0 * Sq` = 0, not 1 to 2147483647: the session leaves it out");
    insta::assert_snapshot!(start(&sandbox, &["--family", "toy", "--family", "other"]), @"2 error: family `other` has no launch plan on case `s4d4`: launch `toy`: grid `0 * Sq` = 0, not 1 to 2147483647");
}

#[test]
fn what_does_not_use_a_broken_file_is_silent() {
    let sandbox = Sandbox::new();
    // A family of another op, a workload, and an op with a family.
    add_family(&sandbox, "op = \"attention\"", "op = \"gemm\"");
    sandbox.write("kernels/workloads/odd.toml", &WORKLOAD.replace("name = \"small\"", "name = \"odd\"\nabuot = 1"));
    sandbox.write("kernels/ops/norm/op.toml", "name = \"norm\"\n");
    let of_norm = MANIFEST.replace("name = \"toy\"", "name = \"norm\"").replace("\"attention\"", "\"norm\"");
    sandbox.write("templates/kernels/norm/family.toml", &of_norm);
    sandbox.write("templates/kernels/norm/kernel.cu.tera", TEMPLATE);
    assert_eq!(start(&sandbox, &[]), "0 ");
    let compiled = sandbox.optloop(&["compile", "--workload", "small"]);
    assert_eq!((compiled.status.code(), String::from_utf8(compiled.stderr).unwrap()), (Some(0), String::new()));
    insta::assert_snapshot!(sandbox.fails(&["start", "--device", "fake", "--workload", "odd"]), @"2 error: PROJECT/kernels/workloads/odd.toml: line 3: unknown field `abuot`, expected one of `name`, `about`, `op`, `dtype`, `compute`, `tolerance`, `initial_kernel`, `baseline`, `regime`, `dims`, `case` (did you mean `about`?)");
    let found = sandbox.succeeds(&["doctor"]).replace(&sandbox.path("").display().to_string(), "");
    let project = found.lines().find(|line| line.contains("project:")).unwrap();
    insta::assert_snapshot!(project, @"broken   project: kernels/workloads/odd.toml: line 3: unknown field `abuot`, expected one of `name`, `about`, `op`, `dtype`, `compute`, `tolerance`, `initial_kernel`, `baseline`, `regime`, `dims`, `case` (did you mean `about`?). templates/kernels/norm/family.toml: kernels/ops/norm/op.toml: line 1: missing field `about`. templates/kernels/other/family.toml: `constants` names `D`, which is not a dimension of gemm. `optloop check` shows all mistakes");
    insta::assert_snapshot!(sandbox.succeeds(&["trust", "--yes"]), @"there is nothing to trust: this project runs only programs shipped with optloop");
}
