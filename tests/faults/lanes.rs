//! A session on several devices goes on when one of them fails, and loses no variant.

use serde_json::Value;

use super::{hasty, said};
use crate::durability::record::Record;
use crate::durability::running::Running;

const START: [&str; 8] = ["start", "--device", "fake*3", "--workload", "small", "--seed", "1", "--case"];

/// Returns how many variants a device has screened. None is home.
fn screened(record: &Record, lane: Option<&str>) -> usize {
    let lane = lane.map_or("NULL".to_owned(), |lane| format!("'{lane}'"));
    record
        .ask(&format!(
            "SELECT hash FROM iterations WHERE purpose = 'screening' AND lane IS {lane} AND outcome = 'measured'"
        ))
        .len()
}

#[test]
fn a_device_whose_worker_dies_is_replaced_or_left_out_and_no_variant_is_blamed() {
    let sandbox = hasty();
    sandbox.write(".optloop/faults", "");
    // After a kernel that is planted as wrong and the incumbent, this one dies once.
    sandbox.write(".optloop/faults.1", "check pass\ncheck pass\ncheck pass\ncheck die\n");
    // This one dies, and does not come back.
    let faults = "hello pass\ncheck pass\ncheck pass\ncheck pass\ncheck die\nhello die\nhello die\nhello die\n";
    sandbox.write(".optloop/faults.2", faults);
    let mut command = sandbox.command(&START);
    let command = command.args(["s64", "--budget", "9s", "--no-early-stop"]);
    let command = command.env("OPTLOOP_FAKE_FAULTS", sandbox.path(".optloop/faults"));
    // While home screens, the lanes do.
    let output = command.env("OPTLOOP_FAKE_SCREENING_MS", "100").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    for name in ["faults.1", "faults.2"] {
        assert_eq!(std::fs::read_to_string(sandbox.path(&format!(".optloop/{name}"))).unwrap(), "", "{name}");
    }
    let report = sandbox.report();
    assert_eq!(report["session"]["devices"], 3);
    assert_eq!(report["iterations"]["crashed"], 0, "{}", report["iterations"]);
    let said = said(&output);
    assert!(!said.contains("goes on without fake:1"), "{said}");
    assert!(said.contains("the session goes on without fake:2: the fake device"), "{said}");
    assert!(said.contains(" on 3 devices and $0.00: "), "{said}");
    let record = Record::of(&sandbox);
    record.check();
    assert_eq!(record.ask("SELECT id FROM iterations WHERE ended_at IS NULL"), [""; 0]);
    // The first one went on for long after the last one was left out.
    let [home, first, last] = [None, Some("fake:1"), Some("fake:2")].map(|lane| screened(&record, lane));
    assert!(last > 0 && first > last && home > 0, "{home}, {first}, {last}");
}

#[test]
fn a_killed_session_resumes_on_its_devices() {
    let sandbox = hasty();
    let running = Running::start(&sandbox, &[&START[..], &["s64", "--iterations", "18", "--json"]].concat());
    let is_half = |event: &Value| event["event"] == "iteration" && event["finished"].as_u64() >= Some(9);
    while !is_half(&running.next().expect("the session ends by itself")) {}
    running.kill();
    let before = Record::of(&sandbox);
    sandbox.succeeds(&["resume"]);
    let record = Record::of(&sandbox);
    record.check();
    assert_eq!(record.ask("SELECT status || ' ' || lanes FROM sessions"), [r#"finished ["fake:1","fake:2"]"#]);
    for lane in ["fake:1", "fake:2"] {
        let (before, after) = (screened(&before, Some(lane)), screened(&record, Some(lane)));
        assert!(0 < before && before < after, "{lane}: {before}, {after}");
    }
}

#[test]
fn only_a_session_runs_on_several_devices() {
    let sandbox = hasty();
    let output = sandbox.command(&["bench", "toy", "--workload", "small", "--device", "fake*2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    insta::assert_snapshot!(said(&output), @"error: only a session runs on several devices (`optloop start`): use one, such as fake");
}
