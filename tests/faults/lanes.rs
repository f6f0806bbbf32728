//! A session on several devices goes on when one of them fails, and loses no variant.

use serde_json::Value;

use super::{hasty, said};
use crate::common::Sandbox;
use crate::durability::record::Record;
use crate::durability::running::Running;

const START: [&str; 8] = ["start", "--device", "fake*3", "--workload", "small", "--seed", "1", "--case"];

/// Returns how many iterations each device has screened: those of home have no name.
fn screened(sandbox: &Sandbox) -> Vec<String> {
    Record::of(sandbox).ask(
        "SELECT COALESCE(lane, 'home') || ': ' || COUNT(*) FROM iterations
         WHERE purpose = 'screening' AND outcome = 'measured' GROUP BY lane ORDER BY lane",
    )
}

#[test]
fn a_device_whose_worker_dies_is_replaced_or_left_out_and_no_variant_is_blamed() {
    let sandbox = hasty();
    sandbox.write(".optloop/faults", "");
    // This one dies once.
    sandbox.write(".optloop/faults.1", "check pass\ncheck pass\ncheck die\n");
    // This one dies, and does not come back.
    sandbox.write(".optloop/faults.2", "hello pass\ncheck pass\ncheck pass\ncheck die\nhello die\nhello die\nhello die\n");
    let mut command = sandbox.command(&START);
    let command = command.args(["s64", "--iterations", "16"]);
    let output = command.env("OPTLOOP_FAKE_FAULTS", sandbox.path(".optloop/faults")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let report = sandbox.report();
    assert_eq!(report["session"]["devices"], 3);
    assert_eq!(report["iterations"]["total"], 16);
    assert_eq!(report["iterations"]["crashed"], 0, "{}", report["iterations"]);
    let said = said(&output);
    assert!(!said.contains("goes on without fake:1"), "{said}");
    assert!(said.contains("the session goes on without fake:2: the fake device"), "{said}");
    for name in ["faults.1", "faults.2"] {
        assert_eq!(std::fs::read_to_string(sandbox.path(&format!(".optloop/{name}"))).unwrap(), "", "{name}");
    }
    let screened = screened(&sandbox);
    assert!(screened.iter().any(|row| row.starts_with("fake:1: ")), "{screened:?}");
}

#[test]
fn a_killed_session_resumes_on_its_devices() {
    let sandbox = hasty();
    let running = Running::start(&sandbox, &[&START[..], &["s64", "--budget", "30s"]].concat());
    let is_on_lane = |event: &Value| event["event"] == "iteration" && event["finished"].as_u64() >= Some(8);
    while !is_on_lane(&running.next().expect("the session ends by itself")) {}
    running.kill();
    let before = screened(&sandbox).len();
    assert!(before > 1, "lanes have screened nothing");
    sandbox.succeeds(&["resume", "--budget", "1s"]);
    let record = Record::of(&sandbox);
    record.check();
    assert_eq!(record.ask("SELECT status || ' ' || lanes FROM sessions"), [r#"finished ["fake:1","fake:2"]"#]);
}

#[test]
fn what_cannot_be_a_session_on_several_devices_is_refused_in_one_sentence() {
    let sandbox = hasty();
    let refused = |arguments: &[&str]| {
        let output = sandbox.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        said(&output)
    };
    insta::assert_snapshot!(refused(&["bench", "toy", "--workload", "small", "--device", "fake*2"]), @"");
    insta::assert_snapshot!(refused(&["start", "--device", "cuda:0,virtual"]), @"");
}
