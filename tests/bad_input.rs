//! Bad input gets one clear sentence and an exit code: 2 for a mistake in what was asked, 1 for a failure.

mod common;

use common::Sandbox;

const START: [&str; 5] = ["start", "--device", "fake", "--workload", "small"];

fn start(sandbox: &Sandbox, more: &[&str]) -> String {
    sandbox.fails(&[&START, more].concat())
}

#[test]
fn names_that_are_not_known_are_answered_with_the_nearest() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(&["start", "--device", "fake", "--workload", "smal"]), @"");
    insta::assert_snapshot!(start(&sandbox, &["--case", "s46"]), @"");
    insta::assert_snapshot!(start(&sandbox, &["--family", "tyo"]), @"");
    insta::assert_snapshot!(start(&sandbox, &["--proposer", "locl"]), @"");
    insta::assert_snapshot!(sandbox.fails(&["start", "--device", "gpu0"]), @"");
    insta::assert_snapshot!(sandbox.fails(&["start", "--device", "virtual"]), @"");
    insta::assert_snapshot!(sandbox.fails(&["compile", "--workload", "small", "--arch", "sm_9"]), @"");
}

#[test]
fn absurd_budgets_are_refused() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(start(&sandbox, &["--budget", "0s"]), @"");
    insta::assert_snapshot!(start(&sandbox, &["--budget", "4 fortnights"]), @"");
    insta::assert_snapshot!(start(&sandbox, &["--budget", "900y"]), @"");
    insta::assert_snapshot!(start(&sandbox, &["--iterations", "0"]), @"");
    insta::assert_snapshot!(start(&sandbox, &["--max-cost", "0"]), @"");
    insta::assert_snapshot!(start(&sandbox, &["--max-cost", "NaN"]), @"");
    sandbox.write("config.toml", "[cost]\ngpu_usd_per_hour = 0\n");
    insta::assert_snapshot!(start(&sandbox, &["--max-cost", "5"]), @"");
}

#[test]
fn malformed_files_are_named_with_the_line() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "[session]\nbudgte = '1h'\n");
    insta::assert_snapshot!(start(&sandbox, &[]), @"");
    sandbox.write("config.toml", "[session\n");
    insta::assert_snapshot!(start(&sandbox, &[]), @"");
    sandbox.write("config.toml", "");
    sandbox.replace("kernels/workloads/small.toml", "dtype = \"f16\"", "dtype = \"f61\"");
    insta::assert_snapshot!(start(&sandbox, &[]), @"");
    sandbox.replace("kernels/workloads/small.toml", "dtype = \"f61\"", "dtype = ");
    insta::assert_snapshot!(start(&sandbox, &[]), @"");
    sandbox.write("kernels/workloads/small.toml", common::WORKLOAD);
    sandbox.replace("templates/kernels/toy/family.toml", "requires_sm = 80", "requires_sm = \"80\"");
    insta::assert_snapshot!(start(&sandbox, &[]), @"");
}

#[test]
fn families_that_cannot_work_are_refused_before_anything_is_spent() {
    let broken = |from: &str, to: &str| {
        let sandbox = Sandbox::new();
        sandbox.replace("templates/kernels/toy/family.toml", from, to);
        let said = start(&sandbox, &[]);
        assert!(!sandbox.path(".optloop").exists(), "nothing was begun");
        said
    };
    insta::assert_snapshot!(broken("expr = \"TILE * THREADS <= 8192\"", "expr = \"TILE <= 0\""), @"");
    insta::assert_snapshot!(broken("expr = \"TILE * THREADS <= 8192\"", "expr = \"TILE * THREDS <= 8192\""), @"");
    insta::assert_snapshot!(broken("expr = \"TILE * THREADS <= 8192\"", "expr = \"TILE * \""), @"");
    insta::assert_snapshot!(broken("ceil_div(Sq, TILE)", "Sq / 0"), @"");
    insta::assert_snapshot!(broken("\"scale\"", "\"scael\""), @"");
    insta::assert_snapshot!(broken("default = 64", "default = 65"), @"");
    insta::assert_snapshot!(broken("dtypes = [\"f16\", \"f32\"]", "dtypes = [\"f32\"]"), @"");

    let sandbox = Sandbox::new();
    sandbox.replace("templates/kernels/toy/kernel.cu.tera", "<$ TILE $>", "<$ TIEL $>");
    insta::assert_snapshot!(start(&sandbox, &[]), @"");
}

#[test]
fn the_store_and_the_project_are_asked_for_where_they_are_missing() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(&["sessions"]), @"");
    insta::assert_snapshot!(sandbox.fails(&["show", "1"]), @"");
    insta::assert_snapshot!(sandbox.fails(&["report"]), @"");
    insta::assert_snapshot!(sandbox.fails(&["sessions", "--project", "/nonexistent"]), @"");
    sandbox.write(".optloop/optloop.db", "this is no database, however long it may be made for the purpose");
    insta::assert_snapshot!(start(&sandbox, &[]), @"");
}

#[test]
fn sessions_and_iterations_that_are_not_there_are_told_from_those_that_are() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("2", &[]).status.success());
    insta::assert_snapshot!(sandbox.fails(&["show", "99"]), @"");
    insta::assert_snapshot!(sandbox.fails(&["report", "7"]), @"");
    insta::assert_snapshot!(sandbox.fails(&["history", "7"]), @"");
}

/// Where there is no CUDA device the answer is immediate, and names what can be done here.
#[test]
fn without_a_gpu_start_says_what_can_be_done_here() {
    let sandbox = Sandbox::new();
    // Hides the driver, should this machine have one.
    let output = sandbox.command(&["start", "--workload", "small"]).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("optloop compile --workload small") && said.contains("optloop doctor"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
