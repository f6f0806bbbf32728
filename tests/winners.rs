//! Committed winners belong to a device. Covers several devices, shared sources, and projects of version 0.1.0.

use std::collections::BTreeSet;
use std::process::Output;

use crate::common::{FAKE_WINNERS, Sandbox};
use serde_json::Value;

/// Folder of the second device's winners.
const OTHER_WINNERS: &str = "kernels/variants/other-fake-device-132sm-16gib/small";

/// Runs a session on a second kind of device.
fn session_elsewhere(sandbox: &Sandbox, iterations: &str) -> Output {
    let start = ["start", "--device", "fake", "--workload", "small", "--seed", "2", "--iterations", iterations];
    sandbox.command(&start).env("OPTLOOP_FAKE_NAME", "Other (fake) device").output().unwrap()
}

fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// Returns the files of a folder in HEAD, with their object names.
fn committed(sandbox: &Sandbox, folder: &str) -> String {
    sandbox.git(&["ls-tree", "-r", "HEAD", &format!("{folder}/")])
}

/// Returns the first iterations of a session that tried a winner, as printed by `optloop show`.
fn first_try(sandbox: &Sandbox, session: &str, winner: &Value) -> (i64, String) {
    let rows: Value = serde_json::from_str(&sandbox.succeeds(&["history", session, "--json"])).unwrap();
    let tried = rows.as_array().unwrap().iter().filter(|row| row["hash"] == winner["variant"]["hash"]);
    let first = tried.map(|row| row["iteration"].as_i64().unwrap()).min();
    let first = first.unwrap_or_else(|| panic!("{} is not among {rows}", winner["variant"]));
    (first, sandbox.succeeds(&["show", &first.to_string()]))
}

#[test]
fn each_device_has_winners_of_its_own_and_measures_those_of_others_first() {
    let sandbox = Sandbox::new();
    succeeded(&sandbox.session("30", &[]));
    let first = committed(&sandbox, FAKE_WINNERS);
    let winner = sandbox.json(&format!("{FAKE_WINNERS}/s128.json"));

    let said = succeeded(&session_elsewhere(&sandbox, "20"));
    assert!(!said.contains("not committed"), "{said}");
    assert_eq!(committed(&sandbox, FAKE_WINNERS), first, "those of the first device stay as they are");
    let (iteration, shown) = first_try(&sandbox, "2", &winner);
    // The default configurations of the two specializations come before, and the winners of the other cases.
    assert!((33..=35).contains(&iteration), "{iteration}: {shown}");
    assert!(shown.contains("an earlier session confirmed it on fake device"), "{shown}");
    let report = sandbox.report();
    for case in report["cases"].as_array().unwrap() {
        let sidecar = format!("{OTHER_WINNERS}/{}.json", case["case"].as_str().unwrap());
        if case["commit"].is_string() {
            assert_eq!(sandbox.json(&sidecar)["environment"]["device"], "Other (fake) device");
        }
    }
    assert!(sandbox.path(&format!("{OTHER_WINNERS}/s128.json")).is_file());
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");

    // A case's name means the winner of the device in use. Where several are possible, the user must choose one.
    let said = sandbox.fails(&["compare", "small/s128", "1"]);
    assert!(said.contains("`small/s128` has several winners: write one of kernels/variants/fake-device-"), "{said}");
    let benched = sandbox.succeeds(&["bench", "small/s128", "--device", "fake", "--samples", "24"]);
    assert!(benched.contains("small/s128 on fake device"), "{benched}");
}

#[test]
fn no_source_is_without_a_winner_and_no_winner_without_its_source() {
    let sandbox = Sandbox::new();
    for iterations in ["20", "60"] {
        succeeded(&sandbox.session(iterations, &[]));
        let (mut named, mut sources) = (BTreeSet::new(), BTreeSet::new());
        for entry in std::fs::read_dir(sandbox.path(FAKE_WINNERS)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            match name.strip_suffix(".json") {
                Some(case) => named.insert(sandbox.source(FAKE_WINNERS, case)),
                None => sources.insert(format!("{FAKE_WINNERS}/{name}")),
            };
        }
        assert_eq!(named, sources);
        assert!(!sources.is_empty());
        assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    }
    let removed = sandbox.git(&["log", "--no-renames", "--diff-filter=D", "--name-only", "--format="]);
    assert!(removed.lines().any(|file| file.starts_with(FAKE_WINNERS) && file.ends_with(".cu")), "{removed}");
}

/// The device of such winners is unknown. They are tried first and stay, and what wins is committed to the right
/// folder.
#[test]
fn winners_of_version_0_1_0_are_measured_first_and_stay() {
    for old in ["kernels/modelled/fake/small", "kernels/variants/small"] {
        let sandbox = Sandbox::new();
        succeeded(&sandbox.session("20", &["--case", "s128"]));
        let winner = sandbox.json(&format!("{FAKE_WINNERS}/s128.json"));
        sandbox.age_winner(FAKE_WINNERS, old, "s128");
        let before = committed(&sandbox, old);
        assert!(before.contains("s128.cu") && before.contains("s128.json"), "{before}");

        // Its path, case and commit still identify the same winner.
        let file = format!("{old}/s128.cu");
        let fake = ["--device", "fake"];
        sandbox.succeeds(&[&["bench", &file, "--samples", "24"], &fake[..]].concat());
        sandbox.succeeds(&["compare", "small/s128", &file]);
        assert!(sandbox.succeeds(&[&["reproduce", "HEAD"], &fake[..]].concat()).contains("holds"));

        succeeded(&sandbox.session("4", &["--case", "s128"]));
        let (iteration, shown) = first_try(&sandbox, "2", &winner);
        assert_eq!(iteration, 22, "after the initial kernel: {shown}");
        assert_eq!(sandbox.json(&format!("{FAKE_WINNERS}/s128.json"))["variant"], winner["variant"]);
        assert_eq!(committed(&sandbox, old), before);

        // With both present, the device's own winner is the incumbent, and it is already committed.
        let head = sandbox.git(&["rev-parse", "HEAD"]);
        succeeded(&sandbox.session("4", &["--case", "s128"]));
        assert_eq!(sandbox.git(&["rev-parse", "HEAD"]), head);
        assert!(sandbox.report()["cases"][0]["commit"].is_string());
    }
}
