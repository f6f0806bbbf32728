//! Committed winners belong to a device. Covers several devices, shared sources, and projects of version 0.1.0.

use std::collections::BTreeSet;
use std::process::Output;

use crate::common::{self, FAKE_WINNERS, Sandbox};
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
fn each_device_has_its_own_winners_and_measures_those_of_others_first() {
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
    let said = sandbox.fails(&["compare", "small/s128", "small/s128"]);
    assert!(said.contains("`small/s128` has several winners: write one of kernels/variants/fake-device-"), "{said}");
    // Otherwise the other time decides.
    let best = report["cases"].as_array().unwrap().iter().find(|case| case["case"] == "s128").unwrap()["iteration"]
        .to_string();
    assert!(sandbox.succeeds(&["compare", "small/s128", &best]).contains("on Other (fake) device"));
    let benched = sandbox.succeeds(&["bench", "small/s128", "--device", "fake", "--samples", "24"]);
    assert!(benched.contains("small/s128 on fake device"), "{benched}");
}

#[test]
fn no_source_is_without_a_winner_and_no_winner_without_its_source() {
    let sandbox = Sandbox::new();
    // The first session is too short for the best configuration, so the second one replaces its winner.
    for iterations in ["4", "60"] {
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
        let (iteration, shown) = first_try(&sandbox, "3", &winner);
        assert_eq!(iteration, 23, "after what bench has measured and the initial kernel: {shown}");
        assert_eq!(sandbox.json(&format!("{FAKE_WINNERS}/s128.json"))["variant"], winner["variant"]);
        assert_eq!(committed(&sandbox, old), before);

        // With both present, the device's own winner is the incumbent, and it is already committed.
        let head = sandbox.git(&["rev-parse", "HEAD"]);
        succeeded(&sandbox.session("4", &["--case", "s128"]));
        assert_eq!(sandbox.git(&["rev-parse", "HEAD"]), head);
        assert!(sandbox.report()["cases"][0]["commit"].is_string());
    }
}

/// Runs a session and returns its events.
fn events(sandbox: &Sandbox, name: &str, iterations: &str, more: &[&str]) -> Vec<Value> {
    let start =
        ["start", "--device", "fake", "--workload", "small", "--seed", "2", "--iterations", iterations, "--json"];
    let mut command = sandbox.command(&[&start, more].concat());
    if !name.is_empty() {
        command.env("OPTLOOP_FAKE_NAME", name);
    }
    let output = command.output().unwrap();
    succeeded(&output);
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn list<'a>(report: &'a Value, field: &str) -> &'a [Value] {
    report[field].as_array().unwrap_or_else(|| panic!("{field} of {report}"))
}

/// A session that begins with winners has found none of them, even if they are much faster than the start.
#[test]
fn remeasured_winners_are_not_wins_of_the_session() {
    let sandbox = Sandbox::new();
    succeeded(&sandbox.session("40", &[]));
    let first = sandbox.report();
    assert!(list(&first, "wins").iter().any(|win| win["verdict"] == "improved"));
    // HEAD has no winner of its own.
    sandbox.git(&["commit", "--quiet", "--allow-empty", "--message", "something else"]);
    let head = sandbox.git(&["rev-parse", "HEAD"]);

    // The two default configurations, and the winners.
    let events = events(&sandbox, "", "5", &[]);
    let told = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    let report = sandbox.report();
    let again = list(&report, "remeasured");
    assert!(again.len() >= 2, "{report}");
    assert_eq!(told("remeasured"), again.len());
    let wins = list(&report, "wins").iter().filter(|win| win["verdict"] == "improved").count();
    assert_eq!((wins, told("improved")), (0, 0), "{report}");
    assert!(events.iter().filter(|event| event["event"] == "iteration").all(|event| event["wins"] == 0));
    let sessions: Value = serde_json::from_str(&sandbox.succeeds(&["sessions", "--json"])).unwrap();
    assert_eq!((&sessions[1]["wins"], &sessions[1]["best_speedup"]), (&0.into(), &Value::Null));
    assert!(sessions[0]["wins"].as_u64() > Some(0) && sessions[0]["best_speedup"].as_f64() > Some(1.5), "{sessions}");
    assert_eq!(list(&report["cost"], "ledger")[1]["wins"], 0);
    assert_eq!(list(&report, "committed").len(), 0, "{report}");
    let text = sandbox.succeeds(&["report", "--format", "html"]);
    assert!(text.contains("Committed winners that were measured again") && text.contains("<td>0 wins</td>"), "{text}");

    for found in again {
        assert_eq!((&found["session"], &found["device"]), (&1.into(), &"fake device (no kernel was executed)".into()));
        // The commit is the one that introduced the winner, and reproduces it.
        let commit = found["commit"].as_str().unwrap();
        assert_ne!(commit, head.trim());
        let case = found["case"].as_str().unwrap();
        let output = sandbox.optloop(&["reproduce", commit, "--device", "fake", "--json"]);
        let reproduced: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(list(&reproduced, "cases").iter().any(|measured| measured["case"] == case), "{case}: {reproduced}");
        let sidecar = sandbox.git(&["show", &format!("{commit}:{FAKE_WINNERS}/{case}.json")]);
        assert!(sidecar.contains(found["variant"]["hash"].as_str().unwrap()), "{sidecar}");
    }
}

/// The sidecar is there, but no commit has it.
#[test]
fn a_winner_that_no_commit_has_is_linked_to_none() {
    let sandbox = Sandbox::new();
    succeeded(&sandbox.session("30", &["--case", "s128"]));
    sandbox.git(&["reset", "--quiet", "--soft", "HEAD~1"]);
    while sandbox.git(&["log", "--format=%s"]).lines().count() > 1 {
        sandbox.git(&["reset", "--quiet", "--soft", "HEAD~1"]);
    }
    sandbox.git(&["reset", "--quiet"]);
    succeeded(&sandbox.session("2", &["--case", "s128"]));
    let report = sandbox.report();
    assert_eq!((list(&report, "remeasured").len(), &report["remeasured"][0]["commit"]), (1, &Value::Null), "{report}");
    assert_eq!(report["cases"][0]["commit"], Value::Null);
}

#[test]
fn the_commit_of_a_winner_that_an_earlier_session_found_says_so() {
    let sandbox = Sandbox::new();
    succeeded(&sandbox.session("30", &["--case", "s128"]));
    let found_in = sandbox.git(&["log", "-1", "--format=%H", "--", &format!("{FAKE_WINNERS}/s128.json")]);
    // The default configuration, the winner of the first device, and its confirmation.
    let events = events(&sandbox, "Other (fake) device", "3", &["--case", "s128"]);
    assert!(events.iter().any(|event| event["event"] == "committed"), "{events:?}");
    assert!(!events.iter().any(|event| event["event"] == "improved"), "{events:?}");
    let message = sandbox.git(&["log", "-1", "--format=%B", "--", &format!("{OTHER_WINNERS}/s128.json")]);
    let found =
        format!(", found by an earlier session on fake device (no kernel was executed), commit {}", found_in.trim());
    assert!(message.contains("\nSession: 2\n") && message.contains(&found), "{message}");
    let report = sandbox.report();
    assert_eq!(list(&report, "remeasured").len(), 1);
    assert!(list(&report, "wins").iter().all(|win| win["verdict"] == "start"), "{report}");
    assert_eq!(list(&report, "committed").len(), 1, "this session has made the commit");
}

/// A committed winner that is measured again is compared with the default configuration, whatever is the incumbent by
/// then. Nothing is predicted about it.
#[test]
fn a_committed_winner_claims_nothing_and_is_compared_with_the_default() {
    let sandbox = Sandbox::new();
    succeeded(&sandbox.session("60", &["--case", "s128"]));
    let winner = std::fs::read_to_string(sandbox.path(&format!("{FAKE_WINNERS}/s128.json"))).unwrap();
    let mut slower: Value = serde_json::from_str(&winner).unwrap();
    // Faster than the default, 64 rows for 32 threads, and slower than the winner.
    slower["variant"]["params"]["TILE"] = 64.into();
    slower["variant"]["params"]["THREADS"] = 64.into();
    sandbox.write(&format!("{OTHER_WINNERS}/s128.json"), &slower.to_string());
    succeeded(&sandbox.session("3", &["--case", "s128"]));
    let report = sandbox.report();
    let claims = list(&report, "hypotheses");
    assert_eq!(claims.len(), 3);
    for claim in &claims[1..] {
        assert!(claim["claim"].as_str().unwrap().ends_with("is measured again"), "{claim}");
        assert_eq!(
            (&claim["reference"], &claim["score"], &claim["predicted"]),
            (&"initial_kernel".into(), &"no_claim".into(), &Value::Null),
            "{claim}"
        );
        assert!(claim["actual"].as_f64().unwrap() > 1.1, "{claim}");
    }
}

#[test]
fn only_winners_of_the_families_that_are_searched_are_committed() {
    let sandbox = Sandbox::new();
    sandbox.write("templates/kernels/other/family.toml", &common::MANIFEST.replace("\"toy\"", "\"other\""));
    sandbox.replace("templates/kernels/other/family.toml", "kernel = \"other\"", "kernel = \"toy\"");
    sandbox.write("templates/kernels/other/kernel.cu.tera", common::TEMPLATE);
    succeeded(&sandbox.session("30", &["--case", "s128", "--family", "toy"]));
    let winner = sandbox.json(&format!("{FAKE_WINNERS}/s128.json"));
    assert_eq!(winner["variant"]["family"], "toy");

    // On the second device, the winner of the first is the one to beat. This session must not commit it.
    let family = ["--case", "s128", "--family", "other"];
    let events = events(&sandbox, "Other (fake) device", "4", &family);
    assert!(events.iter().any(|event| event["event"] == "remeasured"), "{events:?}");
    assert!(!events.iter().any(|event| event["event"] == "committed"), "{events:?}");
    assert!(!sandbox.path(&format!("{OTHER_WINNERS}/s128.json")).exists());
    let best = &sandbox.report()["cases"][0];
    assert_eq!((&best["variant"]["family"], &best["commit"]), (&"toy".into(), &Value::Null), "{best}");
}
