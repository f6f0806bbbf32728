//! Reports in every format, through the command line.

use std::path::Path;

use serde_json::Value;

use crate::common::Sandbox;

#[test]
fn a_session_writes_every_format_and_hostile_text_stays_text() {
    let sandbox = Sandbox::new();
    sandbox.replace(
        "templates/kernels/toy/family.toml",
        "about = \"threads per block\"",
        "about = \"<script>alert(1)</script> <img src=x onerror=alert(2)> [x](javascript:alert(3))\"",
    );
    let output = sandbox.session("14", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = |extension: &str| {
        std::fs::read_to_string(sandbox.path(&format!(".optloop/reports/session-1.{extension}"))).unwrap()
    };
    let html = written("html");
    assert_eq!(html, sandbox.succeeds(&["report", "--format", "html"]), "the same report, again");
    assert!(written("md").contains("# small on fake device") && written("json").contains("\"progress\""));

    assert!(html.contains("&lt;script&gt;alert(1)"), "the mechanism is shown");
    assert!(
        written("md").contains("](session-1.html)") && !sandbox.path(".optloop/reports/session-1-details.md").exists()
    );
    for markup in ["<script", "<img", "href=\"javascript", "http://", "https://"] {
        assert!(!html.contains(markup) && !written("md").contains(markup), "{markup}");
    }
    assert!(html.contains("<figure id=\"best-over-time\"") && html.contains("modelled, no GPU ran"));
    insta::assert_snapshot!(sandbox.fails(&["report", "--format", "md-details"]), @"2 error: invalid value 'md-details' for '--format <FORMAT>': the details as Markdown are no more: `--format html` has the evidence in folded sections, and `--format json` all facts; run it with `--help` for a list");
}

#[test]
fn the_csv_has_a_row_for_each_iteration_and_case() {
    let sandbox = Sandbox::new();
    sandbox.session("6", &[]);
    let text = sandbox.succeeds(&["report", "1", "--format", "csv"]);
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(&columns[..3], ["session", "iteration", "ordinal"]);
    let schema = include_str!("../docs/report-schema.md");
    for column in &columns {
        assert!(schema.contains(&format!("`{column}`")), "docs/report-schema.md does not name {column}");
    }
    let history: Value = serde_json::from_str(&sandbox.succeeds(&["history", "1", "--json"])).unwrap();
    assert_eq!(lines.count(), history.as_array().unwrap().len());
}

#[test]
fn all_sessions_and_two_of_them_are_reported_in_every_format() {
    let sandbox = Sandbox::new();
    sandbox.session("5", &["--case", "s64"]);
    sandbox.session("8", &["--case", "s64", "--case", "s128"]);
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&sandbox.succeeds(&[&["report", "--format", "json"], arguments].concat())).unwrap()
    };
    let ledger = json(&["--all"]);
    assert_eq!(ledger["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(ledger["sessions"][1]["cumulative_wins"], ledger["wins"]);
    let two = json(&["--compare", "1", "2"]);
    let verdicts: Vec<_> = two["cases"].as_array().unwrap().iter().map(|case| &case["case"]).collect();
    assert_eq!(verdicts, ["s64", "s128"]);
    assert_eq!((&two["cases"][1]["verdict"], &two["cases"][0]["why_not"]), (&"missing".into(), &Value::Null));
    assert!(two["cases"][0]["ratio"]["estimate"].as_f64().is_some());
    for of in [&["--all"][..], &["--compare", "1", "2"]] {
        let told = |format: &str| sandbox.succeeds(&[&["report", "--format", format], of].concat());
        assert!(told("md").starts_with("# "));
        assert!(told("html").starts_with("<!doctype html>"));
        assert!(told("csv").lines().count() >= 3);
    }
    let file = sandbox.path("ledger.html");
    assert_eq!(sandbox.succeeds(&["report", "--all", "--format", "html", "--output", file.to_str().unwrap()]), "");
    assert!(std::fs::read_to_string(file).unwrap().contains("Cumulative cost"));
}

#[test]
fn a_report_of_one_two_and_all_sessions_exclude_each_other() {
    let sandbox = Sandbox::new();
    for arguments in
        [&["report", "1", "--all"][..], &["report", "--all", "--compare", "1", "2"], &["report", "--compare", "1"]]
    {
        assert!(sandbox.fails(arguments).starts_with("2 "), "{arguments:?}");
    }
}

/// tests/history.db has a session of 157 iterations on a virtual H200, with the families that optloop ships.
#[test]
fn a_report_says_what_a_session_learnt_about_the_same_claims() {
    let sandbox = Sandbox::without_repository();
    sandbox.succeeds(&["init", "shipped"]);
    let store = sandbox.path("shipped/.optloop/optloop.db");
    std::fs::create_dir_all(store.parent().unwrap()).unwrap();
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history.db"), store).unwrap();
    let report = sandbox.succeeds(&["--project", "shipped", "report", "1", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let kept = report["calibration"]["kept"].as_array().unwrap();
    let moves = kept.iter().find(|kept| kept["kind"] == "move" && kept["band"] == Value::Null).unwrap();
    let (early, last) = (moves["early_width"].as_f64().unwrap(), moves["last_width"].as_f64().unwrap());
    assert!(early > last, "{moves}");
    let left: Vec<f64> = moves["learnt"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
    assert!(left[1] <= left[0] && left[0] <= left[2] && left[2] < 1.0, "{moves}");
}
