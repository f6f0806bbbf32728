//! What a session says before its first iteration, while it runs and at its end.

use serde_json::Value;

use crate::common::Sandbox;

const START: [&str; 9] = ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--iterations", "20"];

/// Returns every file of a project, with its text.
fn files(sandbox: &Sandbox) -> Vec<String> {
    let mut folders = vec![sandbox.path(".")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(format!("{} {:?}", entry.path().display(), std::fs::read(entry.path()).unwrap())),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_dry_run_says_what_a_session_would_do_and_writes_nothing() {
    let sandbox = Sandbox::new();
    let before = files(&sandbox);
    let output = sandbox.optloop(&[&START[..], &["--budget", "4h", "--commit-to", "new", "--dry-run"]].concat());
    assert!(output.status.success());
    let root = sandbox.path("").canonicalize().unwrap().display().to_string();
    // The folder's name has a length of its own, so the lines are joined.
    let said = String::from_utf8(output.stdout).unwrap().replace(&root, "ROOT");
    let said = said.replace(&sandbox.path("").display().to_string(), "ROOT/").replace("\n          ", " ");
    insta::assert_snapshot!(said, @"
    workload  small: 3 cases (s4d4, s64, s128)
    families  toy
    device    fake device (no kernel was executed); times are modelled
    budget    4h, at most 20 iterations
    proposer  local
    winners   one commit at the end, to the new branch new of ROOT, which begins at HEAD
    record    ROOT/.optloop/optloop.db; the report follows at the end
    ");
    assert_eq!(files(&sandbox), before);
    assert!(!sandbox.path(".optloop").exists());

    let output = sandbox.optloop(&[&START[..], &["--dry-run", "--json"]].concat());
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["event"], "plan");
    assert_eq!(plan["cases"], serde_json::json!(["s4d4", "s64", "s128"]));
    assert_eq!(plan["families"][0], serde_json::json!({ "family": "toy", "cases": ["s4d4", "s64", "s128"] }));
    assert_eq!((&plan["max_iterations"], &plan["commit_to"]), (&20.into(), &"refs/heads/main".into()));
    assert_eq!(files(&sandbox), before);

    // It refuses what a session would refuse.
    let said = sandbox.fails(&[&START[..], &["--dry-run", "--case", "s12"]].concat());
    assert!(said.starts_with("2 error: "), "{said}");
}

/// Standard error is a pipe here.
#[test]
fn a_session_that_is_piped_prints_plain_lines_and_ends_with_a_table() {
    let sandbox = Sandbox::new();
    let output = sandbox.optloop(&START);
    assert!(output.status.success());
    let shown = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!shown.contains('\u{1b}') && !said.contains('\u{1b}') && !said.contains('\r'), "{said}");
    assert!(!said.contains("nothing timed yet") && !said.contains("nothing is timed yet"), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let place = |start: &str| {
        lines.iter().position(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {said}"))
    };
    assert!(place("session 1: small on fake device") < place("#1 "), "{said}");
    assert!(
        lines.iter().any(|line| line.starts_with("#2 ") && line.contains(", $0.00, 2 of 20 iterations]")),
        "{said}"
    );
    let ended = place("session 1 ended after 20 iterations, ");
    assert!(place("committed ") < ended && lines[ended + 1].starts_with("report: "), "{said}");
    // What is under way goes to standard error, the plan and the table to standard output.
    let shown: Vec<&str> = shown.lines().collect();
    let table = shown.iter().position(|line| line.starts_with("case ")).unwrap_or_else(|| panic!("{shown:?}"));
    assert!(shown[0].starts_with("workload  small: 3 cases (s4d4, s64, s128)"), "{shown:?}");
    assert_eq!(table + 4, shown.len(), "{shown:?}");
    let report = sandbox.report();
    for (line, case) in shown[table + 1..].iter().zip(["s4d4", "s64", "s128"]) {
        let reported = report["cases"].as_array().unwrap().iter().find(|reported| reported["case"] == case).unwrap();
        let improved = reported["change"]["improved"] == true;
        let told = if improved { line.ends_with("× faster") } else { line.ends_with(" unchanged") };
        assert!(line.starts_with(case) && line.contains("initial kernel") && told, "{line}: {reported}");
    }
}

/// What a resumed session shows at once, it takes from its record.
#[test]
fn a_resumed_session_tells_what_it_knows_before_it_goes_on() {
    use crate::durability::running::Running;
    let sandbox = Sandbox::new();
    let session = Running::start(&sandbox, &[&START[..], &["--json"]].concat());
    session.wait_for("improved");
    session.kill();
    let output = sandbox.optloop(&["resume", "--json"]);
    let events = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = events.iter().position(|event| event["event"] == "iteration").unwrap();
    let told: Vec<&Value> = events[..first].iter().filter(|event| event["event"] == "case").collect();
    assert_eq!(told.len(), 3, "{events:?}");
    assert!(told.iter().any(|case| case["result"] == "improved" && case["gain"].as_f64() > Some(1.0)), "{told:?}");
}

#[test]
fn a_search_that_promises_little_ends_early_and_says_what_that_saves() {
    let sandbox = Sandbox::new();
    let family = "templates/kernels/toy/family.toml";
    // The default configuration is the fastest, so nothing is ever gained.
    sandbox.replace(family, "values = [4, 8, 16, 32, 64]", "values = [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64]");
    sandbox.replace(family, "default = 64", "default = 1");
    sandbox.replace(family, "default = 32", "default = 256");
    // Far more than is expected, however fast this machine is.
    sandbox.replace("config.toml", "[benchmark]", "[stop]\nmin_gain = 0.9\n[benchmark]");
    sandbox.git(&["commit", "--quiet", "--all", "--message", "a fast default"]);
    let start = ["start", "--device", "fake", "--workload", "small", "--case", "s64", "--seed", "1", "--json"];
    let ended = |more: &[&str]| -> Value {
        let output = sandbox.optloop(&[&start[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        let events = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(events.lines().last().unwrap()).unwrap()
    };
    let stopped = ended(&[]);
    let reason = stopped["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the remaining ") && reason.ends_with("which is less than 90.00% (stop.min_gain)"),
        "{reason}"
    );
    assert_eq!(stopped["status"], "finished");
    let iterations = |ended: &Value| ended["iterations"].as_u64().unwrap();
    assert!((30..40).contains(&iterations(&stopped)), "{stopped}");

    let whole = ended(&["--no-early-stop"]);
    assert_eq!(whole["reason"], "there is nothing new left to try");
    assert!(iterations(&whole) >= 40, "{whole}");
}
