//! Bad input gets one clear sentence and an exit code: 2 for a usage error, 1 for a failure.

use crate::common::{self, Sandbox};

const START: [&str; 3] = ["start", "--workload", "small"];

fn start(sandbox: &Sandbox, more: &[&str]) -> String {
    let device: &[&str] = if more.contains(&"--device") { &[] } else { &["--device", "fake"] };
    sandbox.fails(&[&START, device, more].concat())
}

#[test]
fn unknown_names_get_the_nearest_known_one() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(&["start", "--device", "fake", "--workload", "smal"]), @"2 error: there is no workload `smal` (did you mean `small`?); kernels/workloads/ has: small");
    insta::assert_snapshot!(start(&sandbox, &["--case", "s46"]), @"2 error: workload `small` has no case `s46` (did you mean `s4d4`?); it has: s4d4, s64, s128");
    insta::assert_snapshot!(start(&sandbox, &["--family", "tyo"]), @"2 error: there is no family `tyo`; templates/kernels/ has: toy");
    insta::assert_snapshot!(start(&sandbox, &["--proposer", "drill"]), @"2 error: the proposer `drill` was renamed to `fault-injection` in optloop 0.2");
    insta::assert_snapshot!(start(&sandbox, &["--proposer", "locl"]), @"2 error: there is no proposer `locl` (did you mean `local`?); there are: portfolio, local, bayes, evolution, llm, random, fault-injection");
    insta::assert_snapshot!(start(&sandbox, &["--device", "gpu0"]), @"2 error: `gpu0` is not a device; use auto, cuda:N, virtual, virtual:NAME or replay:FILE");
    insta::assert_snapshot!(start(&sandbox, &["--device", "virtual:h20"]), @"2 error: there is no virtual GPU `h20` (did you mean `h200`?); there are: h200, a100, l4");
    insta::assert_snapshot!(sandbox.fails(&["compile", "--workload", "small", "--arch", "sm_9"]), @"2 error: architecture `sm_9` is not known; use sm_80, sm_86, sm_89, sm_90 or sm_90a");
}

#[test]
fn absurd_budgets_are_refused() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(start(&sandbox, &["--budget", "0s"]), @"2 error: --budget: `0s` is zero: use a duration such as 10m or 4h");
    insta::assert_snapshot!(start(&sandbox, &["--budget", "4 fortnights"]), @r#"2 error: --budget: `4 fortnights` is not a duration (unknown time unit "fortnights", supported units: ns, us/µs, ms, sec, min, hours, days, weeks, months, years (and few variations)): use one such as 10m or 4h"#);
    insta::assert_snapshot!(start(&sandbox, &["--budget", "900y"]), @"2 error: --budget: `900y` is over a year: use a duration such as 10m or 4h");
    insta::assert_snapshot!(start(&sandbox, &["--iterations", "0"]), @"2 error: --iterations must be a number from 1 to 1000000000");
    insta::assert_snapshot!(start(&sandbox, &["--max-cost", "0"]), @"2 error: --max-cost must be a number of US dollars above 0, such as 5.00");
    insta::assert_snapshot!(start(&sandbox, &["--max-cost", "NaN"]), @"2 error: --max-cost must be a number of US dollars above 0, such as 5.00");
    sandbox.write("config.toml", "[cost]\ngpu_usd_per_hour = 0\n");
    insta::assert_snapshot!(start(&sandbox, &["--max-cost", "5"]), @"2 error: --max-cost has no effect because the GPU costs nothing: set cost.gpu_usd_per_hour in config.toml to its price");
}

#[test]
fn malformed_files_are_named_with_the_line() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "[session]\nbudgte = '1h'\n");
    insta::assert_snapshot!(start(&sandbox, &[]), @"2 error: PROJECT/config.toml: line 2: unknown field `budgte`, expected one of `workload`, `budget`, `proposer`, `device`, `least_chance` (did you mean `budget`?)");
    sandbox.write("config.toml", "[session\n");
    insta::assert_snapshot!(start(&sandbox, &[]), @"2 error: PROJECT/config.toml: line 1: unclosed table, expected `]`");
    sandbox.write("config.toml", "");
    sandbox.replace("kernels/workloads/small.toml", "dtype = \"f16\"", "dtype = \"f61\"");
    insta::assert_snapshot!(start(&sandbox, &[]), @"2 error: PROJECT/kernels/workloads/small.toml: line 5: unknown variant `f61`, expected one of `f16`, `bf16`, `f32`, `f64`, `e4m3`, `e5m2`, `i8`, `u8`, `i32`, `u32`, `i64`, `bool` (did you mean `f64`?)");
    sandbox.replace("kernels/workloads/small.toml", "dtype = \"f61\"", "dtype = ");
    insta::assert_snapshot!(start(&sandbox, &[]), @"2 error: PROJECT/kernels/workloads/small.toml: line 5: string values must be quoted, expected literal string");
    sandbox.write("kernels/workloads/small.toml", common::WORKLOAD);
    sandbox.replace("templates/kernels/toy/family.toml", "requires_sm = 80", "requires_sm = \"80\"");
    insta::assert_snapshot!(start(&sandbox, &[]), @r#"2 error: PROJECT/templates/kernels/toy/family.toml: line 6: must be a whole number from 0, but is the text "80""#);
}

#[test]
fn invalid_includes_are_reported_with_the_family_and_the_file() {
    let sandbox = Sandbox::new();
    let fragment = |name: &str, text: &str| sandbox.write(&format!("templates/kernels/common/{name}.cu.tera"), text);
    fragment("mbarrier", "<% include \"common/wait.cu.tera\" %>\n");
    fragment("wait", "// waits\n");
    let with = |template: &str| {
        sandbox.write("templates/kernels/toy/kernel.cu.tera", &format!("// a family\n{template}\n"));
        start(&sandbox, &[])
    };
    let include = |name: &str| with(&format!("<% include \"{name}\" %>"));
    insta::assert_snapshot!(include("common/mbarier.cu.tera"), @"2 error: family `toy`: PROJECT/templates/kernels/toy/kernel.cu.tera: line 2: there is no fragment `mbarier` in PROJECT/templates/kernels/common (did you mean `mbarrier`?)");
    insta::assert_snapshot!(include("common/nothing.cu.tera"), @"2 error: family `toy`: PROJECT/templates/kernels/toy/kernel.cu.tera: line 2: there is no fragment `nothing` in PROJECT/templates/kernels/common");
    for elsewhere in
        ["../toy/family.toml", "/etc/hostname", "common/../toy/kernel.cu.tera", "toy/kernel.cu.tera", "common/a.txt"]
    {
        let said = include(elsewhere);
        assert_eq!(said.replace(&format!("`{elsewhere}`"), "`ELSEWHERE`"), include("ELSEWHERE"));
    }
    insta::assert_snapshot!(include("../toy/family.toml"), @"2 error: family `toy`: PROJECT/templates/kernels/toy/kernel.cu.tera: line 2: `../toy/family.toml` is not a fragment: only common/NAME.cu.tera next to the families can be included");
    insta::assert_snapshot!(with("<% include common/wait.cu.tera %>"), @r#"2 error: family `toy`: PROJECT/templates/kernels/toy/kernel.cu.tera: line 2: write an include as <% include "common/NAME.cu.tera" %>"#);
    insta::assert_snapshot!(with("<% if TILE > 1 %>\n<% include \"common/wait.cu.tera\" %>\n<% endif %>"), @"2 error: family `toy`: PROJECT/templates/kernels/toy/kernel.cu.tera: line 3: an include is inside a block: move it before the block");

    fragment("wait", "// waits\n<% include \"common/mbarrier.cu.tera\" %>\n");
    insta::assert_snapshot!(include("common/mbarrier.cu.tera"), @"2 error: family `toy`: PROJECT/templates/kernels/common/wait.cu.tera: line 2: fragments include each other in a cycle: mbarrier.cu.tera -> wait.cu.tera -> mbarrier.cu.tera");
    fragment("self", "<% include \"common/self.cu.tera\" %>\n");
    insta::assert_snapshot!(include("common/self.cu.tera"), @"2 error: family `toy`: PROJECT/templates/kernels/common/self.cu.tera: line 1: fragments include each other in a cycle: self.cu.tera -> self.cu.tera");

    fragment("wait", "constexpr int X = <$ NOWHERE $>;\n");
    let said = include("common/mbarrier.cu.tera");
    assert!(said.contains("family `toy`: its template does not render: line "), "{said}");
    assert!(said.contains(": Variable `NOWHERE`"), "{said}");
    sandbox.write("templates/kernels/common/family.toml", common::MANIFEST);
    insta::assert_snapshot!(start(&sandbox, &["--family", "common"]), @"2 error: PROJECT/templates/kernels/common is the folder of shared fragments: give the family another name");
}

#[test]
fn families_that_cannot_work_are_refused_before_anything_is_spent() {
    let broken = |from: &str, to: &str| {
        let sandbox = Sandbox::new();
        sandbox.replace("templates/kernels/toy/family.toml", from, to);
        let said = start(&sandbox, &[]);
        assert!(!sandbox.path(".optloop/optloop.db").exists(), "nothing was begun");
        said
    };
    insta::assert_snapshot!(broken("expr = \"TILE * THREADS <= 8192\"", "expr = \"TILE <= 0\""), @"2 error: case `s4d4` has no valid configuration in any family: toy (`TILE <= 0` does not hold: a made-up limit); select other cases with --case, or add values to a family");
    insta::assert_snapshot!(broken("expr = \"TILE * THREADS <= 8192\"", "expr = \"TILE * THREDS <= 8192\""), @"2 error: PROJECT/templates/kernels/toy/family.toml: expression `TILE * THREDS <= 8192`: there is no `THREDS` (did you mean `THREADS`?)");
    insta::assert_snapshot!(broken("expr = \"TILE * THREADS <= 8192\"", "expr = \"TILE * \""), @"2 error: PROJECT/templates/kernels/toy/family.toml: expression `TILE * `: Script is incomplete (line 1, position 8)");
    insta::assert_snapshot!(broken("ceil_div(Sq, TILE)", "Sq / 0"), @"2 error: family `toy` has no launch plan on case `s4d4`: expression `Sq / 0`: Division by zero: 4 / 0 (line 1, position 4)");
    insta::assert_snapshot!(broken("\"scale\"", "\"scael\""), @"2 error: PROJECT/templates/kernels/toy/family.toml: launch argument `scael` names nothing (did you mean `scale`?)");
    insta::assert_snapshot!(broken("default = 64", "default = 65"), @"2 error: PROJECT/templates/kernels/toy/family.toml: parameter `TILE`: its default 65 is not among its values");
    insta::assert_snapshot!(broken("dtypes = [\"f16\", \"f32\"]", "dtypes = [\"f32\"]"), @"2 error: no family can compute workload `small` (attention, f16) on fake device (no kernel was executed) (sm_90): add one to templates/kernels/");

    insta::assert_snapshot!(broken("[params.FAULT]", "[params.H]"), @"2 error: PROJECT/templates/kernels/toy/family.toml: parameter `H` hides the dimension of that name: rename it; launch argument `FAULT` names nothing (did you mean `CAUSAL`?)");

    let sandbox = Sandbox::new();
    sandbox.replace("templates/kernels/toy/kernel.cu.tera", "<$ TILE $>", "<$ TIEL $>");
    insta::assert_snapshot!(start(&sandbox, &[]), @"2 error: family `toy`: its template does not render: line 2: Variable `TIEL` is not defined. Available variables: D, DTYPE, FAULT, THREADS, TILE, elem_bytes");
}

#[test]
fn a_missing_store_or_project_is_reported_with_the_option_to_set() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(&["sessions"]), @"1 error: there are no sessions yet: run `optloop start` first");
    insta::assert_snapshot!(sandbox.fails(&["show", "1"]), @"1 error: there are no sessions yet: run `optloop start` first");
    insta::assert_snapshot!(sandbox.fails(&["report"]), @"1 error: there are no sessions yet: run `optloop start` first");
    insta::assert_snapshot!(sandbox.fails(&["sessions", "--project", "/nonexistent"]), @"2 error: /nonexistent contains no config.toml: `optloop init` makes a project");
    sandbox.write(".optloop/optloop.db", "this is no database, however long it may be made for the purpose");
    insta::assert_snapshot!(start(&sandbox, &[]), @"1 error: cannot open the store PROJECT/.optloop/optloop.db: it is not an optloop store, or it is damaged: move it away, or name another file as store.path in config.toml");
}

#[test]
fn unknown_sessions_and_iterations_are_named_with_the_known_ones() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("2", &[]).status.success());
    insta::assert_snapshot!(sandbox.fails(&["show", "99"]), @"2 error: there is no iteration 99; the iterations are 1 to 2");
    let no_session = "2 error: there is no session 7; the only one is 1";
    let verbs: [&[&str]; 5] = [
        &["report", "7"],
        &["history", "7"],
        &["resume", "7"],
        &["calls", "--session", "7"],
        &["compare", "baseline:7/s64", "1"],
    ];
    for verb in verbs {
        assert_eq!(sandbox.fails(verb), no_session, "{verb:?}");
    }
    for verb in [["compare", "99", "1"], ["compare", "1", "99"]] {
        assert!(sandbox.fails(&verb).starts_with("2 error: there is no iteration 99"), "{verb:?}");
    }
}

#[test]
fn peaks_are_not_measured_without_a_gpu() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "");
    let output = sandbox.command(&["doctor", "--measure"]).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("Peaks are measured on a GPU only"), "{said}");
    assert!(!sandbox.path(".optloop/optloop.db").exists(), "nothing was measured, nothing is kept");
}

/// If the requested CUDA device is missing, the answer is immediate and names the alternatives.
#[test]
fn a_missing_cuda_device_is_reported_with_alternatives() {
    let sandbox = Sandbox::new();
    let start = ["start", "--workload", "small", "--device", "cuda:0"];
    // Hides the driver if this machine has one.
    let output = sandbox.command(&start).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("`--device virtual`") && said.contains("optloop doctor"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Each entry is a typical mistake, or a number that was hardly intended.
#[test]
fn absurd_numbers_are_refused() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(start(&sandbox, &["--iterations", "18446744073709551615"]), @"2 error: --iterations must be a number from 1 to 1000000000");
    for (key, value) in
        [("confirmation_samples", "4611686018427387904"), ("min_sample_us", "1e6"), ("min_speedup", "nan")]
    {
        sandbox.write("config.toml", &format!("[benchmark]\n{key} = {value}\n"));
        assert!(start(&sandbox, &[]).starts_with("2 error: PROJECT/config.toml: benchmark."), "{key}");
    }
    sandbox.write("config.toml", "[compile]\noptions = [\"--nonsense\"]\n");
    insta::assert_snapshot!(start(&sandbox, &[]), @"2 error: PROJECT/config.toml: compile.options: the compiler option `--nonsense` is not allowed: use options that change the code only, with the value after a `=`, such as --maxrregcount=128 (`optloop docs security` lists them)");
    sandbox.write("config.toml", "[store]\npath = \"\"\n");
    insta::assert_snapshot!(start(&sandbox, &[]), @"2 error: PROJECT/config.toml: store.path must name a file, such as .optloop/optloop.db");
    sandbox.write("config.toml", "");

    let manifest = |from: &str, to: &str| {
        sandbox.write("templates/kernels/toy/family.toml", common::MANIFEST);
        sandbox.replace("templates/kernels/toy/family.toml", from, to);
        start(&sandbox, &[])
    };
    insta::assert_snapshot!(manifest("grid = [\"ceil_div(Sq, TILE)\"", "grid = [\"9000000000\""), @"2 error: family `toy` has no launch plan on case `s4d4`: launch `toy`: grid `9000000000` = 9000000000, not 1 to 2147483647");
    // Without a GPU, `compile` reports the same.
    insta::assert_snapshot!(sandbox.fails(&["compile", "--workload", "small"]), @"2 error: family `toy` has no launch plan on case `s4d4`: launch `toy`: grid `9000000000` = 9000000000, not 1 to 2147483647");
    insta::assert_snapshot!(manifest("\"B * H\"]", "\"65536\"]"), @"2 error: family `toy` has no launch plan on case `s4d4`: launch `toy`: grid `65536` = 65536, not 1 to 65535");
    insta::assert_snapshot!(manifest("[params.FAULT]", "[params.sm]"), @"2 error: PROJECT/templates/kernels/toy/family.toml: `sm` is a reserved name: rename your value; launch argument `FAULT` names nothing (did you mean `CAUSAL`?)");
    insta::assert_snapshot!(manifest("constants = [\"D\"]", "constants = [\"D\", \"Dd\"]"), @"2 error: PROJECT/templates/kernels/toy/family.toml: `constants` names `Dd`, which is not a dimension of attention (did you mean `D`?)");
    insta::assert_snapshot!(manifest("expect = [1.0, 1.0]", "expect = [1.0, inf]"), @"2 error: PROJECT/templates/kernels/toy/family.toml: parameter `FAULT`: `expect` must be [low, high] with 0 < low <= high");
    sandbox.write("templates/kernels/toy/family.toml", common::MANIFEST);
    sandbox.replace("kernels/workloads/small.toml", "initial_kernel = \"toy\"", "initial_kernel = \"tow\"");
    insta::assert_snapshot!(start(&sandbox, &[]), @"2 error: workload `small` names the initial kernel `tow`, which does not exist (did you mean `toy`?)");
}

/// Sessions start the hidden verbs. No user needs them.
#[test]
fn hidden_verbs_are_not_suggested_and_help_explains_the_others() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(&["guadr"]), @"2 error: there is no verb `guadr`; run it with `--help` for a list");
    insta::assert_snapshot!(sandbox.fails(&["hisotry"]), @"2 error: there is no verb `hisotry` (did you mean `history`?); run it with `--help` for a list");
    for verb in ["compiler", "renderer", "guard", "confined", "profiled"] {
        let nearly = format!("{verb}s");
        assert!(!sandbox.fails(&[&nearly]).contains(&format!("`{verb}`")), "{verb}");
    }
    assert!(sandbox.succeeds(&["help", "start"]).contains("--budget"));
    assert!(!sandbox.succeeds(&["help"]).contains("renderer"));
}

#[test]
fn a_backup_counts_in_words_and_says_once_what_is_wrong() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("2", &[]).status.success());
    insta::assert_snapshot!(sandbox.fails(&["backup", "absent/copy.db"]), @"2 error: there is no folder absent: make it, or choose another file");
    assert!(sandbox.succeeds(&["backup", "copy.db"]).starts_with("copy.db: 1 session, "));
    assert!(sandbox.succeeds(&["doctor"]).contains("database: 1 session in "));
    let said = sandbox.fails(&["backup", "config.toml/copy.db"]);
    assert_eq!(said.matches("config.toml").count(), 1, "{said}");
}
