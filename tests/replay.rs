//! Sessions on recorded search spaces, through the command line.

use serde_json::{Value, json};

use crate::common::Sandbox;
use crate::durability::running::Running;

/// Makes a cache of `side` times `side` configurations. One in five fails. The evaluation of each took 10 s.
fn cache(side: i64, time_ms: impl Fn(i64, i64) -> i64) -> String {
    let entry = |number: i64| {
        let (a, b) = (number / side, number % side);
        let time = if number % 5 == 4 { json!("CompilationFailedConfig") } else { json!(time_ms(a, b)) };
        let costs = json!({ "compile_time": 4000.0, "verification_time": 1000.0, "benchmark_time": 5000.0 });
        let mut entry = json!({ "A": a, "B": b, "time": time, "strategy_time": 1e6 });
        entry.as_object_mut().unwrap().extend(costs.as_object().unwrap().clone());
        (format!("{a},{b}"), entry)
    };
    let entries: serde_json::Map<String, Value> = (0..side * side).map(entry).collect();
    let values: Vec<i64> = (0..side).collect();
    let tuned = json!({ "A": values, "B": values });
    json!({ "device_name": "GPU", "tune_params_keys": ["A", "B"], "tune_params": tuned, "cache": entries }).to_string()
}

/// A cache of 36 configurations whose best is `A=4, B=2`.
fn valley() -> String {
    cache(6, |a, b| 1 + (a - 4).pow(2) + (b - 2).pow(2))
}

const START: [&str; 6] = ["start", "--device", "replay:my__Grid.json", "--seed", "1", "--json"];

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

#[test]
fn an_exhausted_recording_gives_its_optimum_and_its_failures_and_claims_no_more() {
    let sandbox = Sandbox::new();
    sandbox.write("my__Grid.json", &valley());
    // The old name of `--no-early-stop`.
    let said = events(&sandbox.succeeds(&[&START[..], &["--budget", "1h", "--no-stop"]].concat()));
    assert_eq!(of_kind(&said, "started")[0]["time_source"], "recorded");
    let ended = of_kind(&said, "ended")[0];
    assert_eq!((&ended["status"], &ended["iterations"]), (&"finished".into(), &36.into()), "{ended}");
    assert_eq!(ended["cases"][0]["now_us"], 1000.0);
    let failed: Vec<&Value> =
        of_kind(&said, "iteration").into_iter().filter(|it| it["outcome"]["kind"] != "measured").collect();
    assert_eq!(failed.len(), 7);
    let outcome = json!({ "kind": "rejected_by_compiler", "message": "the recording says that it does not compile" });
    assert_eq!(failed[0]["outcome"], outcome);
    let wall_s = ended["wall_s"].as_f64().unwrap();
    assert!((360.0..400.0).contains(&wall_s), "36 evaluations of 10 s took {wall_s} s");

    let report = sandbox.report();
    assert_eq!(
        (&report["session"]["workload"], &report["session"]["time_source"]),
        (&"my-grid".into(), &"recorded".into())
    );
    let case = &report["cases"][0];
    assert_eq!((&case["case"], &case["best_us"], &case["floor_us"]), (&"my-grid".into(), &1000.0.into(), &Value::Null));
    assert_eq!(case["variant"]["params"], json!({ "A": 4, "B": 2 }));
    assert_eq!(report["correctness"][0]["relative_l2"], Value::Null);
    for form in ["md", "html"] {
        let text = sandbox.succeeds(&["report", "--format", form]);
        // The style sheet names every source of times.
        let text = text.split_once("<body").map_or(text.as_str(), |(_, body)| body);
        assert!(text.contains("recorded") && !text.contains("modelled") && !text.contains("oracle ("), "{text}");
    }
    assert!(sandbox.succeeds(&["report"]).contains("Nothing was checked: the recording was trusted"));
    assert!(sandbox.succeeds(&["history"]).contains("recorded"));
    let shown = sandbox.succeeds(&["show", &case["iteration"].to_string()]);
    assert!(shown.contains("outcome     recorded") && !shown.contains("measured"), "{shown}");
    let exported: Value =
        serde_json::from_str(&sandbox.succeeds(&["space", "export", "--format", "kernel-tuner"])).unwrap();
    assert_eq!(exported["cache"].as_object().unwrap().len(), 36);
    // Nothing is in the project but the recording.
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "?? my__Grid.json\n");
    assert_eq!(sandbox.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main\n");
    let refused = sandbox.fails(&["bench", "1", "--device", "virtual"]);
    assert!(refused.ends_with("iteration 1 is from a recording, which has no kernel to run"), "{refused}");
}

#[test]
fn the_stop_rule_ends_a_search_that_promises_nothing_within_its_recorded_hour() {
    let sandbox = Sandbox::without_repository();
    sandbox.write("my__Grid.json", &cache(20, |_, _| 1));
    let said = events(&sandbox.succeeds(&[&START[..], &["--budget", "60m"]].concat()));
    let ended = of_kind(&said, "ended")[0];
    assert!(ended["reason"].as_str().unwrap().contains("are expected to gain"), "{ended}");
    assert!(ended["wall_s"].as_f64().unwrap() < 3000.0, "{ended}");
}

#[test]
fn the_recorded_time_of_evaluations_is_charged_to_the_budget() {
    let sandbox = Sandbox::without_repository();
    sandbox.write("my__Grid.json", &cache(20, |a, b| 1000 - a - b));
    let said = events(&sandbox.succeeds(&[&START[..], &["--budget", "205s", "--no-early-stop"]].concat()));
    let ended = of_kind(&said, "ended")[0];
    let (iterations, wall_s) = (ended["iterations"].as_u64().unwrap(), ended["wall_s"].as_f64().unwrap());
    // The last one may end within the grace period of 10 s.
    assert!((18..=21).contains(&iterations) && wall_s < 215.0, "{ended}");
}

#[test]
fn a_killed_session_is_resumed_on_the_same_file_only() {
    let sandbox = Sandbox::without_repository();
    // Long enough that it does not end before it is killed.
    let recorded = cache(12, |a, b| 1 + (a - 4).pow(2) + (b - 2).pow(2));
    sandbox.write("my__Grid.json", &recorded);
    let running = Running::start(&sandbox, &[&START[..], &["--budget", "1h", "--no-early-stop"]].concat());
    (0..3).for_each(|_| drop(running.wait_for("iteration")));
    running.signal("KILL");
    drop(running);
    sandbox.write("my__Grid.json", &cache(6, |_, _| 1));
    insta::assert_snapshot!(sandbox.fails(&["resume"]), @"2 error: PROJECT/my__Grid.json has changed since session 1 began: restore the file, or start another session");
    std::fs::remove_file(sandbox.path("my__Grid.json")).unwrap();
    insta::assert_snapshot!(sandbox.fails(&["resume"]), @"2 error: PROJECT/my__Grid.json: No such file or directory (os error 2)");
    // Its report needs no file.
    assert_eq!(sandbox.report()["session"]["workload"], "my-grid");
    sandbox.write("my__Grid.json", &recorded);
    let said = events(&sandbox.succeeds(&["resume", "--json"]));
    assert!(of_kind(&said, "resumed")[0]["used_s"].as_f64().unwrap() >= 30.0);
    let ended = of_kind(&said, "ended")[0];
    assert_eq!((&ended["status"], &ended["cases"][0]["now_us"]), (&"finished".into(), &1000.0.into()), "{ended}");
    assert!(ended["wall_s"].as_f64().unwrap() >= 1440.0, "{ended}");
}

#[test]
fn what_is_no_recording_and_what_a_recording_cannot_do_is_refused_in_one_sentence() {
    let sandbox = Sandbox::without_repository();
    sandbox.write("my__Grid.json", &valley());
    sandbox.write("text.json", "text");
    sandbox.write("other.json", "{}");
    sandbox.write("empty.json", r#"{ "tune_params_keys": ["A"], "tune_params": { "A": [1] }, "cache": {} }"#);
    let failed = r#"{ "tune_params_keys": ["A"], "tune_params": { "A": [1] },
        "cache": { "1": { "A": 1, "time": "RuntimeFailedConfig" } } }"#;
    sandbox.write("failed.json", failed);
    let on = |device: &str, more: &[&str]| sandbox.fails(&[&["start", "--device", device], more].concat());
    insta::assert_snapshot!(on("replay:", &[]), @"2 error: `replay:` names no file: use replay:FILE, with a recorded search space (`optloop docs simulate`)");
    insta::assert_snapshot!(on("replay:none.json", &[]), @"2 error: PROJECT/none.json: No such file or directory (os error 2)");
    insta::assert_snapshot!(on("replay:text.json", &[]), @"2 error: PROJECT/text.json: it is not JSON: expected ident at line 1 column 2");
    insta::assert_snapshot!(on("replay:other.json", &[]), @"2 error: PROJECT/other.json: it has neither `cache` (Kernel Tuner) nor `results` (T4)");
    insta::assert_snapshot!(on("replay:empty.json", &[]), @"2 error: PROJECT/empty.json: it has 0 configurations: 1 to 1000000 are supported");
    insta::assert_snapshot!(on("replay:failed.json", &[]), @"2 error: PROJECT/failed.json: no configuration has a time: record at least one that works");
    let grid = "replay:my__Grid.json";
    insta::assert_snapshot!(on(grid, &["--workload", "small"]), @"2 error: a recording has one workload, one case and one family: leave out --workload, --case and --family");
    insta::assert_snapshot!(on(grid, &["--proposer", "fault-injection"]), @"2 error: the proposer `fault-injection` cannot search a recording, which has neither sources nor planted bugs");
    insta::assert_snapshot!(on(grid, &["--commit-to", "main"]), @"2 error: a session on a recording commits no winner: leave out --commit-to");
    insta::assert_snapshot!(sandbox.fails(&["bench", "toy", "--device", grid]), @"2 error: a recording (replay:FILE) executes no kernel, so only `optloop start` and `optloop resume` can use it");
    assert!(std::process::Command::new("mkfifo").arg(sandbox.path("pipe.json")).status().unwrap().success());
    insta::assert_snapshot!(on("replay:pipe.json", &[]), @"2 error: PROJECT/pipe.json: it is not a file");
    assert!(!sandbox.path(".optloop").exists());
}

#[test]
fn a_recording_outside_the_project_that_the_project_chooses_needs_trust() {
    let (sandbox, other) = (Sandbox::without_repository(), Sandbox::without_repository());
    other.write("my__Grid.json", &cache(20, |_, _| 1));
    let device = format!("replay:{}", other.path("my__Grid.json").display());
    sandbox.write("config.toml", &format!("[session]\ndevice = '{device}'\n"));
    let short = |text: String| text.replace(&other.path("").canonicalize().unwrap().display().to_string(), "OTHER");
    let start = ["start", "--iterations", "2"];
    insta::assert_snapshot!(short(sandbox.fails(&start)), @"2 error: this project chooses what you have not trusted: a recording outside the project, OTHER/my__Grid.json (session.device); `optloop trust` shows it and asks, `--trust` trusts it");
    assert!(!sandbox.path(".optloop").exists());
    // The user has named this one. Its store may later come with the project. The recording is too long to end before the kill.
    let named = ["start", "--device", &device, "--json", "--budget", "1h", "--no-early-stop"];
    let running = Running::start(&sandbox, &named);
    running.wait_for("iteration");
    running.signal("KILL");
    drop(running);
    assert!(sandbox.fails(&["resume"]).contains("you have not trusted: a recording outside the project"));
    sandbox.trust();
    sandbox.succeeds(&["resume", "--budget", "1s"]);
    sandbox.succeeds(&start);
}
