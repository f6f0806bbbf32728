//! A session waits for a device that is briefly unhealthy. A device that stays unhealthy ends the session with a
//! report.

use super::{hasty, said, session_with, unmet};

#[test]
fn a_device_that_recovers_at_the_third_check_costs_nothing_more() {
    let sandbox = hasty();
    let output = session_with(&sandbox, "self_check pass\ncheck die\nself_check wrong\nself_check die\n");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("its self-check computed 0x"), "{}", said(&output));
    assert_eq!(unmet(&sandbox), "");
    let report = sandbox.report();
    assert_eq!((&report["iterations"]["total"], &report["iterations"]["crashed"]), (&8.into(), &1.into()));
}

#[test]
fn a_device_that_does_not_recover_ends_the_session_with_its_report() {
    let sandbox = hasty();
    let wrong = "self_check wrong\n".repeat(3);
    let output = session_with(&sandbox, &format!("self_check pass\ncheck pass\ncheck die\n{wrong}"));
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("report: "), "{said}");
    let error = said.lines().last().unwrap();
    assert!(error.starts_with("error: Failed to evaluate a variant: the fake device (no kernel was executed) does not recover: 3 workers in a row"), "{said}");
    assert!(error.contains("nvidia-smi") && error.contains("`optloop resume`"), "{said}");
    assert_eq!(unmet(&sandbox), "");
    let report = sandbox.report();
    assert_eq!(report["session"]["status"], "failed");
    // The current variant is not at fault.
    assert_eq!(report["iterations"]["crashed"].as_u64().unwrap_or(0), 0, "{}", report["iterations"]);
    assert!(sandbox.path(".optloop/reports/session-1.md").is_file());
}

#[test]
fn a_device_that_is_unhealthy_from_the_start_begins_no_session() {
    let sandbox = hasty();
    let output = session_with(&sandbox, &"self_check wrong\n".repeat(3));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("does not recover"), "{}", said(&output));
    assert!(sandbox.succeeds(&["sessions", "--json"]).trim() == "[]");
}
