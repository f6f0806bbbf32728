//! `optloop check` and `optloop list`: all that is wrong is explained at once.

use serde_json::Value;

use super::common::{MANIFEST, Sandbox, TEMPLATE, WORKLOAD};

const FAMILY: &str = "templates/kernels/toy/family.toml";
const SOURCE: &str = "templates/kernels/toy/kernel.cu.tera";

/// Checks on the fake device, which executes no kernel, and returns the exit code and what was found.
fn checked(sandbox: &Sandbox, more: &[&str]) -> String {
    let output = sandbox.optloop(&[&["check", "--device", "fake"], more].concat());
    let found = String::from_utf8(output.stdout).unwrap();
    assert!(found.lines().all(|line| line.chars().count() <= 80), "{found}");
    format!("{} {found}", output.status.code().unwrap())
}

/// Checks a project after a change to one of its files.
fn with(file: &str, from: &str, to: &str) -> String {
    let sandbox = Sandbox::new();
    sandbox.replace(file, from, to);
    checked(&sandbox, &["toy"])
}

#[test]
fn a_family_that_is_right_is_reported_with_its_cases() {
    insta::assert_snapshot!(checked(&Sandbox::new(), &["small"]), @"0 ok     toy on small: right on s4d4, s64, s128");
}

#[test]
fn messages_of_the_compiler_name_the_users_file_and_line() {
    insta::assert_snapshot!(with(SOURCE, "+ FAULT;", "+ FAUTL + TIEL;"), @r#"
    1 wrong  toy on small: templates/kernels/toy/kernel.cu.tera, line 5: error:
           identifier "FAUTL" is undefined
    wrong  toy on small: templates/kernels/toy/kernel.cu.tera, line 5: error:
           identifier "TIEL" is undefined
    "#);
    let sandbox = Sandbox::new();
    // Blocks and fragments shift the lines.
    let lines = "<% if TILE > 4 -%>\n\nconstexpr int BIG = 1;\n<% endif %>\n<% include \"common/f.cu.tera\" %>";
    sandbox.replace(SOURCE, "extern", &format!("{lines}\n\nextern"));
    sandbox.replace(SOURCE, "+ FAULT;", "+ f();");
    sandbox.write("templates/kernels/common/f.cu.tera", "// A fragment.\n__device__ int f() { return g(); }\n");
    insta::assert_snapshot!(checked(&sandbox, &["toy"]), @r#"
    1 wrong  toy on small: templates/kernels/common/f.cu.tera, line 2: error:
           identifier "g" is undefined
    "#);
    sandbox.replace("templates/kernels/common/f.cu.tera", "g()", "<$ G $>");
    insta::assert_snapshot!(checked(&sandbox, &["toy"]), @"
    1 wrong  toy on small: templates/kernels/common/f.cu.tera, line 2: Variable `G`
           is not defined. Available variables: D, DTYPE, FAULT, THREADS, TILE,
           elem_bytes
    ");
}

#[test]
fn a_configuration_is_checked_on_chosen_cases_and_is_on_record() {
    let sandbox = Sandbox::new();
    let asked = ["toy:TILE=8,THREADS=128", "--case", "s64"];
    let told = checked(&sandbox, &asked);
    assert!(told.starts_with("0 ok     toy TILE=8 THREADS=128 FAULT=0 on small: right on s64, "), "{told}");
    assert!(told.split_whitespace().collect::<Vec<_>>().ends_with(&["us", "(modelled)"]), "{told}");
    insta::assert_snapshot!(checked(&sandbox, &["toy:TILE=64,THREADS=256", "--case", "s64"]), @"
    1 wrong  toy on small: templates/kernels/toy/family.toml: `TILE * THREADS <=
           8192` does not hold: a made-up limit
    ");
    let refused = |more: &[&str]| sandbox.fails(&[&["check", "--device", "fake"], more].concat());
    insta::assert_snapshot!(refused(&["toy:TIEL=8"]), @"2 error: family `toy` has no parameter `TIEL` (did you mean `TILE`?); it has: TILE, THREADS, FAULT");
    assert!(refused(&["toy", "--case", "s46"]).contains("(did you mean `s4d4`?)"));
    assert!(refused(&["toy", "--workload", "smal"]).contains("(did you mean `small`?)"));
    let json: Value =
        serde_json::from_str(&sandbox.succeeds(&[&["check", "--device", "fake", "--json"], &asked[..]].concat()))
            .unwrap();
    let evaluated = &json["evaluations"][0];
    assert_eq!((&evaluated["params"]["TILE"], &evaluated["cases"][0]["case"]), (&8.into(), &"s64".into()));
    assert!(evaluated["kernels"][0]["registers"].as_u64().unwrap() > 0, "{evaluated}");

    // What does not compile is on record, too, with its place.
    sandbox.replace(SOURCE, "+ FAULT;", "+ FAUTL;");
    checked(&sandbox, &["toy", "--case", "s64"]);
    let all: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--all", "--json"])).unwrap();
    let outcomes: Vec<&str> = all.as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["measured", "measured", "rejected_by_compiler"]);
    assert!(all[2]["message"].as_str().unwrap().starts_with("templates/kernels/toy/kernel.cu.tera, line 5: "), "{all}");
}

#[test]
fn launches_that_do_not_fit_the_kernel_are_explained() {
    insta::assert_snapshot!(with(FAMILY, "\"Sq\", \"scale\", \"FAULT\"", "\"scale\", \"Sq\""), @"
    1 wrong  toy on small: templates/kernels/toy/kernel.cu.tera, line 4: `toy` has 7
           parameters (q, k, v, o, Sq, scale, fault), but its launch passes 6
           arguments (q, k, v, o, scale, Sq)
    ");
    insta::assert_snapshot!(with(FAMILY, "\"Sq\", \"scale\"", "\"scale\", \"Sq\""), @"
    1 wrong  toy on small: templates/kernels/toy/kernel.cu.tera, line 4: argument 5
           of `toy` is the float `scale`, but its parameter is `int Sq`
    wrong  toy on small: templates/kernels/toy/kernel.cu.tera, line 4: argument 6
           of `toy` is the int `Sq`, but its parameter is `float scale`
    ");
    insta::assert_snapshot!(with(SOURCE, "short* o", "float* o"), @"
    1 wrong  toy on small: templates/kernels/toy/kernel.cu.tera, line 4: argument 4
           of `toy` is the tensor `o` of f16, but its parameter is `float* o`
    ");
    insta::assert_snapshot!(with(SOURCE, "const short* v, short* o", "const short* v, const __half* o"), @r#"
    1 wrong  toy on small: templates/kernels/toy/kernel.cu.tera, line 4: argument 4
           of `toy` is the output `o`, but its parameter is `const __half* o`
    wrong  toy on small: templates/kernels/toy/kernel.cu.tera, line 4: error:
           identifier "__half" is undefined
    "#);
    insta::assert_snapshot!(with(FAMILY, "kernel = \"toy\"", "kernel = \"toys\""), @r#"
    1 wrong  toy on small: templates/kernels/toy/family.toml: it launches `toys`,
           which is not an `extern "C"` kernel of the source
    "#);
    insta::assert_snapshot!(with(FAMILY, "ceil_div(Sq, TILE)", "Sq / 128"), @"
    1 ok     toy on small: right on s128
    wrong  toy on small: templates/kernels/toy/family.toml: launch `toy`: grid `Sq
           / 128` = 0, not 1 to 2147483647 (s4d4, s64)
    ");
    insta::assert_snapshot!(with(FAMILY, "ceil_div(Sq, TILE)", "Sq * 100000000"), @"
    1 ok     toy on small: right on s4d4
    wrong  toy on small: templates/kernels/toy/family.toml: launch `toy`: grid `Sq
           * 100000000` = 6400000000, not 1 to 2147483647 (s64)
    wrong  toy on small: templates/kernels/toy/family.toml: launch `toy`: grid `Sq
           * 100000000` = 12800000000, not 1 to 2147483647 (s128)
    ");
}

#[test]
fn a_parameter_that_changes_nothing_is_noted() {
    let sandbox = Sandbox::new();
    sandbox.replace(FAMILY, "values = [0]", "values = [0, 1, 2]");
    sandbox.replace(FAMILY, ", \"FAULT\"]", "]");
    sandbox.replace(SOURCE, ", int fault)", ")");
    sandbox.replace(SOURCE, " + FAULT;", ";");
    insta::assert_snapshot!(checked(&sandbox, &["toy"]), @"
    0 ok     toy on small: right on s4d4, s64, s128
    note   toy on small: templates/kernels/toy/family.toml: parameter `FAULT`
           changes nothing: machine code and launch are the same for all values
    ");
}

#[test]
fn all_mistakes_of_all_files_are_shown_at_once() {
    let sandbox = Sandbox::new();
    let other = MANIFEST.replace("name = \"toy\"", "name = \"other\"");
    let other = other.replace("default = 64", "default = 65").replace("\"scale\"", "\"scael\"");
    sandbox.write("templates/kernels/other/family.toml", &other);
    sandbox.write("templates/kernels/other/kernel.cu.tera", TEMPLATE);
    sandbox.write("kernels/workloads/odd.toml", &WORKLOAD.replace("name = \"small\"", "name = \"odd\"\nabuot = 1"));
    sandbox
        .write("kernels/workloads/lost.toml", &WORKLOAD.replace("\"small\"", "\"lost\"").replace("\"toy\"", "\"tyo\""));
    sandbox.write("kernels/ops/norm/op.toml", "name = \"norm\"\n");
    insta::assert_snapshot!(checked(&sandbox, &[]), @"
    1 ok     toy on lost: right on s4d4, s64; not run: s128
    ok     toy on small: right on s4d4, s64; not run: s128
    wrong  odd: kernels/workloads/odd.toml, line 3: unknown field `abuot`, expected
           one of `name`, `about`, `op`, `dtype`, `compute`, `tolerance`,
           `initial_kernel`, `baseline`, `regime`, `dims`, `case` (did you mean
           `about`?)
    wrong  other: templates/kernels/other/family.toml: parameter `TILE`: its
           default 65 is not among its values
    wrong  other: templates/kernels/other/family.toml: launch argument `scael`
           names nothing (did you mean `scale`?)
    wrong  kernels/ops/norm/op.toml, line 1: missing field `about`
    wrong  lost: kernels/workloads/lost.toml: workload `lost` names the initial
           kernel `tyo`, which does not exist
    ");
    let json = sandbox.optloop(&["check", "--device", "fake", "--json"]);
    assert_eq!(json.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["schema"], "optloop.check/1");
    let line = json["findings"].as_array().unwrap().iter().find(|one| one["workload"] == "odd").unwrap();
    assert_eq!((&line["file"], &line["line"]), (&"kernels/workloads/odd.toml".into(), &3.into()));
    insta::assert_snapshot!(sandbox.fails(&["check", "otehr"]), @"2 error: there is no workload or family `otehr` (did you mean `other`?): `optloop list` shows them");
    let listed = sandbox.succeeds(&["list"]);
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    insta::assert_snapshot!(listed, @"
    workload  op         dtype  cases  about
    lost      attention  f16        3  Three small cases.
    small     attention  f16        3  Three small cases.

    family  op         dtypes   parameters  combinations  about
    toy     attention  f16 f32           3            20  A family for tests: not...

    op               oracle    dtypes
    attention        built in  f16 bf16 f32
    delta-attention  built in  f16 bf16 f32
    gemm             built in  f16 bf16 f32
    grouped-linear   built in  f16 bf16 f32
    linear           built in  f16 bf16 f32 e4m3
    linear-w4        built in  f16 bf16
    top-k            built in  f16 bf16 f32

    broken workload odd: kernels/workloads/odd.toml: line 3: unknown field `abuot`,
    expected one of `name`, `about`, `op`, `dtype`, `compute`, `tolerance`,
    `initial_kernel`, `baseline`, `regime`, `dims`, `case` (did you mean `about`?)

    broken family other: parameter `TILE`: its default 65 is not among its values
    (and 1 more mistake)

    broken op norm: kernels/ops/norm/op.toml: line 1: missing field `about`

    `optloop check` shows all mistakes.
    ");
}

#[test]
fn a_list_says_which_family_takes_which_case_and_why_others_do_not() {
    let sandbox = Sandbox::new();
    let picky =
        MANIFEST.replace("name = \"toy\"", "name = \"picky\"").replace("\"TILE * THREADS <= 8192\"", "\"D >= 16\"");
    sandbox.write("templates/kernels/picky/family.toml", &picky.replace("a made-up limit", "It needs 16 columns."));
    sandbox.write("templates/kernels/picky/kernel.cu.tera", TEMPLATE);
    insta::assert_snapshot!(sandbox.succeeds(&["list", "small"]), @"
    small: attention, f16, sm_90a
      picky: takes 2 of 3: s64, s128
        not s4d4: It needs 16 columns.
      toy: takes all 3
    ");
    insta::assert_snapshot!(sandbox.succeeds(&["list", "picky", "--csv"]), @r#"
    workload,family,case,takes,why_not
    small,picky,s4d4,false,"[""It needs 16 columns.""]"
    small,picky,s64,true,[]
    small,picky,s128,true,[]
    "#);
    let all: Value = serde_json::from_str(&sandbox.succeeds(&["list", "--json"])).unwrap();
    let toy = all.as_array().unwrap().iter().find(|one| one["name"] == "toy").unwrap();
    assert_eq!((&toy["kind"], &toy["combinations"]), (&"family".into(), &20.0.into()), "{toy}");
    insta::assert_snapshot!(sandbox.fails(&["list", "smal"]), @"2 error: there is no workload or family `smal` (did you mean `small`?): `optloop list` shows them");
}

/// A virtual GPU executes this kernel, which then forgets its mask.
#[test]
fn a_wrong_output_is_shown_with_its_place() {
    let sandbox = Sandbox::with_attention();
    insta::assert_snapshot!(checked_on_virtual(&sandbox), @"0 ok     attention-scalar on small: right on s4d4, s64, s128");
    sandbox.replace(
        "templates/kernels/attention-scalar/kernel.cu.tera",
        "((CAUSAL || WINDOW > 0) &&",
        "((!CAUSAL || WINDOW > 0) &&",
    );
    insta::assert_snapshot!(checked_on_virtual(&sandbox), @"
    1 wrong  attention-scalar on small: wrong: relative error 7.02e-1 over the output
           (tolerance 1e-3), 1.04e0 in its worst row 0 (tolerance 4e-3); element 0
           of row 0 is 0.21398926 by the kernel and -1.4873047 by the oracle (s4d4)
    wrong  attention-scalar on small: wrong: relative error 8.90e-1 over the output
           (tolerance 1e-3), 1.89e0 in its worst row 210 (tolerance 4e-3); element
           0 of row 0 is 0.07696533 by the kernel and -0.5776367 by the oracle
           (s64)
    wrong  attention-scalar on small: wrong: relative error 8.97e-1 over the output
           (tolerance 1e-3), 1.53e0 in its worst row 445 (tolerance 4e-3); element
           0 of row 0 is 0.06149292 by the kernel and 0.5083008 by the oracle
           (s128)
    ");
}

/// A virtual GPU knows the line of the rendered source, and so the one of the template.
#[test]
fn a_fault_is_shown_at_the_line_of_the_template() {
    let sandbox = Sandbox::with_attention();
    let template = "templates/kernels/attention-scalar/kernel.cu.tera";
    sandbox.replace(template, "    if (!works) return;\n", "    if (!works) return;\n    o[1] = o[0];\n");
    let text = std::fs::read_to_string(sandbox.path(template)).unwrap();
    let line = text.lines().position(|line| line.contains("o[1] = o[0];")).unwrap() as u64 + 1;
    let output = sandbox.optloop(&["check", "--device", "virtual", "--json", "small"]);
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &checked["findings"][0];
    assert_eq!((&finding["file"], &finding["line"]), (&template.into(), &line.into()), "{checked}");
    let message = finding["message"].as_str().unwrap();
    assert!(message.starts_with("crashed: read of 2 uninitialised bytes at global address"), "{message}");
    assert!(message.contains(" in kernel attention, variant.cu:"), "{message}");
}

/// What a virtual GPU does not model says nothing about the kernel. Here, nothing else was checked, which fails.
#[test]
fn what_is_not_modelled_is_a_note() {
    let sandbox = Sandbox::with_attention();
    let reads =
        "    if (!works) return;\n    { unsigned count; asm volatile(\"mov.u32 %0, %%pm0;\" : \"=r\"(count)); }\n";
    sandbox.replace("templates/kernels/attention-scalar/kernel.cu.tera", "    if (!works) return;\n", reads);
    let shown = checked_on_virtual(&sandbox);
    assert!(shown.starts_with("1 note   attention-scalar on small: not modelled: `mov.u32 %pm0`"), "{shown}");
}

fn checked_on_virtual(sandbox: &Sandbox) -> String {
    let output = sandbox.optloop(&["check", "--device", "virtual", "small"]);
    format!("{} {}", output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}
