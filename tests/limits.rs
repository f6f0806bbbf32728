//! Every limit holds, and the message that it causes names it.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::common::{Sandbox, WORKLOAD};

const START: [&str; 7] = ["start", "--device", "fake", "--workload", "small", "--seed", "1"];

/// A project whose workload has this many cases.
fn with_cases(count: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    let case = |number: usize| {
        let (queries, keys) = (1 + number % 61, 61 + number / 61);
        format!("[[case]]\nname = \"c{number}\"\nSq = {queries}\nSk = {keys}\nD = 16\n")
    };
    let cases: String = (0..count - 3).map(case).collect();
    sandbox.write("kernels/workloads/small.toml", &format!("{WORKLOAD}{cases}"));
    sandbox
}

fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn find<'a>(events: &'a [Value], kind: &str) -> Option<&'a Value> {
    events.iter().find(|event| event["event"] == kind)
}

/// Neither thread count makes sense.
#[test]
fn numbers_of_threads_in_the_environment_have_no_effect() {
    let sandbox = Sandbox::new();
    let mut start = sandbox.command(&[&START[..], &["--iterations", "1", "--case", "s64"]].concat());
    let output = start.env("TOKIO_WORKER_THREADS", "0").env("RAYON_NUM_THREADS", "100000").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// With 403 cases, a session of five seconds took over two minutes, since each case had its final.
#[test]
fn a_session_of_hundreds_of_cases_ends_soon_after_its_budget() {
    let sandbox = with_cases(403);
    sandbox.write("config.toml", "[benchmark]\nconfirmation_samples = 40\n[worker]\nlaunch_timeout = '1s'\n");
    let output = sandbox.optloop(&[&START[..], &["--budget", "2s", "--json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let events = events(&output);
    let ended = events.last().unwrap();
    assert_eq!(ended["reason"], "its time budget (--budget) is spent");
    // The limit is 7 s. The rest is for a busy machine.
    assert!(ended["wall_s"].as_f64().unwrap() < 30.0, "{ended}");
    let skipped = find(&events, "no_final").unwrap();
    assert!(skipped["reason"].as_str().unwrap().contains("(--budget)"), "{skipped}");
    assert!(sandbox.path(".optloop/reports/session-1.md").is_file());
}

/// The first variant hangs in its first check, for far longer than the budget.
#[test]
fn a_step_that_outlives_the_session_is_reported_and_then_given_up() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "[worker]\nstep_timeout = '10m'\nlaunch_timeout = '1s'\n");
    sandbox.write(".optloop/faults", "check hang\n");
    let mut start = sandbox.command(&[&START[..], &["--budget", "1s", "--case", "s64", "--json"]].concat());
    start.env("OPTLOOP_FAKE_FAULTS", sandbox.path(".optloop/faults")).env("OPTLOOP_PROGRESS_MS", "200");
    let output = start.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let events = events(&output);
    let working = find(&events, "working").unwrap();
    assert_eq!(working["steps"], serde_json::json!(["iteration 1", "checking s64"]));
    assert_eq!(working["limit"], "--budget", "it comes before worker.step_timeout: {working}");
    assert!(working["limit_s"].as_f64().unwrap() < 5.0 && working["for_s"].as_f64().unwrap() > 0.1, "{working}");
    let given_up = find(&events, "cut_short").unwrap();
    assert_eq!((&given_up["what"], &given_up["limit"]), (&Value::from("iteration 1"), &Value::from("--budget")));
    let ended = events.last().unwrap();
    assert_eq!((&ended["status"], &ended["iterations"]), (&Value::from("finished"), &Value::from(0)));
    assert_eq!(sandbox.report()["iterations"]["unfinished"], 1);
}

/// A verb other than a session has no events, so it reports progress on standard error.
#[test]
fn bench_reports_long_steps_and_their_limits() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "[worker]\nstep_timeout = '2s'\n[benchmark]\nmax_confirmation = '1s'\n");
    sandbox.write(".optloop/faults", "enter hang\n");
    let mut bench = sandbox.command(&["bench", "toy", "--device", "fake", "--workload", "small", "--case", "s64"]);
    bench.env("OPTLOOP_FAKE_FAULTS", sandbox.path(".optloop/faults")).env("OPTLOOP_PROGRESS_MS", "200");
    let output = bench.output().unwrap();
    let said = said(&output);
    let line = said.lines().find(|line| line.starts_with("the comparison on s64: loading s64 for ")).unwrap_or(&said);
    assert!(line.ends_with("(worker.step_timeout ends it after 2 s)"), "{said}");
    assert!(said.contains("`load` took over 2s (worker.step_timeout)"), "{said}");
}

/// A full disk has the same effect as a file in the way.
#[test]
fn a_report_that_cannot_be_written_is_printed_later() {
    let sandbox = Sandbox::new();
    sandbox.write(".optloop/reports", "a file where a folder should be");
    let output = sandbox.session("1", &["--case", "s64"]);
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    let hint = "error: session 1 is on record, but its report is not written: `optloop report 1` prints it: ";
    assert!(said.lines().last().unwrap().starts_with(hint), "{said}");
    assert!(sandbox.succeeds(&["report", "1"]).contains("its iteration limit (--iterations) is reached"));
}

#[test]
fn a_store_path_that_is_not_a_file_is_refused_in_one_sentence() {
    let sandbox = Sandbox::new();
    let refused = |path: &str| {
        sandbox.write("config.toml", &format!("[store]\npath = '{path}'\n"));
        let start = sandbox.fails(&[&START[..], &["--iterations", "1"]].concat());
        let read = sandbox.fails(&["sessions"]);
        assert_eq!(start[2..], read[2..], "verbs that only read say the same");
        start
    };
    insta::assert_snapshot!(refused("/dev/null"), @"2 error: cannot open the store /dev/null: store.path in config.toml names a device, not a regular file: name a file, such as .optloop/optloop.db");
    insta::assert_snapshot!(refused("kernels"), @"2 error: cannot open the store PROJECT/kernels: store.path in config.toml names a folder, not a regular file: name a file, such as .optloop/optloop.db");
    let pipe = sandbox.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    insta::assert_snapshot!(refused("pipe"), @"2 error: cannot open the store PROJECT/pipe: store.path in config.toml names a pipe, not a regular file: name a file, such as .optloop/optloop.db");
    assert!(
        !fs::exists("/dev/null.lock").unwrap() && !sandbox.path("kernels.lock").exists(),
        "no lock is left beside it"
    );
    sandbox.write("text", "this is no database, however long it may be made for the purpose");
    sandbox.write("config.toml", "[store]\npath = 'text'\n");
    insta::assert_snapshot!(sandbox.fails(&["sessions"]), @"1 error: cannot open the store PROJECT/text: it is not an optloop store, or it is damaged: move it away, or name another file as store.path in config.toml");
}

/// A comparison of the initial kernel would exceed the time limit of comparisons.
#[test]
fn a_case_without_a_final_names_the_limit_that_prevents_it() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "[benchmark]\nconfirmation_samples = 40\nmax_confirmation = '8ms'\n");
    let output = sandbox.session("1", &["--case", "s128", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let events = events(&output);
    let reason = &find(&events, "no_final").unwrap()["reason"];
    assert_eq!(reason, "its best variant is too slow for a comparison (benchmark.max_confirmation)");
}

/// The program writes far more than its last line before it gives up. It held a session for longer than its budget.
#[test]
fn last_line_of_a_flooded_stderr_is_reported() {
    let sandbox = Sandbox::new();
    let flood =
        "['sh', '-c', 'head -c 100000000 /dev/zero | tr \"\\\\0\" x >&2; echo >&2; echo no GPU today >&2; exit 1']";
    let workload = WORKLOAD.replace("dtype =", &format!("baseline = {flood}\ndtype ="));
    sandbox.write("kernels/workloads/small.toml", &workload);
    sandbox.trust();
    let output = sandbox.session("1", &["--case", "s64", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let reason = find(&events(&output), "no_baseline").unwrap()["reason"].clone();
    assert_eq!(reason, "no GPU today; the initial kernel is used instead");
}

/// A program that never answers is stopped by a limit of its own, long before the session's.
#[test]
fn a_silent_baseline_is_stopped_by_its_own_limit() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "[benchmark]\nconfirmation_samples = 40\n[baseline]\ntimeout = '100ms'\n");
    let workload = WORKLOAD.replace("dtype =", "baseline = ['sleep', '600']\ndtype =");
    sandbox.write("kernels/workloads/small.toml", &workload);
    sandbox.trust();
    let output = sandbox.session("1", &["--case", "s64", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let reason = find(&events(&output), "no_baseline").unwrap()["reason"].clone();
    assert_eq!(reason, "it did not answer within 100ms (baseline.timeout); the initial kernel is used instead");
}
