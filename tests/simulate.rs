//! Recorded search spaces through the command line: export, conversion and simulation.

use serde_json::{Value, json};

use crate::common::Sandbox;

/// Makes a cache of 8 times 8 configurations; one in five fails.
fn cache() -> String {
    let values: Vec<i64> = (0..8).collect();
    let entry = |number: i64| {
        let (a, b) = (number / 8, number % 8);
        let time =
            if number % 5 == 4 { json!("RuntimeFailedConfig") } else { json!(1 + (a - 5).pow(2) + (b - 2).pow(2)) };
        (format!("{a},{b}"), json!({ "A": a, "B": b, "time": time }))
    };
    let entries: serde_json::Map<String, Value> = (0..64).map(entry).collect();
    let tuned = json!({ "A": values, "B": values });
    json!({ "tune_params_keys": ["A", "B"], "tune_params": tuned, "cache": entries }).to_string()
}

#[test]
fn proposers_are_compared_on_recorded_spaces() {
    let sandbox = Sandbox::without_repository();
    sandbox.write("grid.json", &cache());
    let simulate = ["simulate", "grid.json", "--repeats", "4", "--evaluations", "60"];
    let text = sandbox.succeeds(&simulate);
    assert_eq!(text, sandbox.succeeds(&simulate), "the same seed gives the same figures");
    for name in ["random, exact", "random  ", "local  "] {
        assert!(text.contains(name), "{name:?} is not in\n{text}");
    }
    let json: Value = serde_json::from_str(&sandbox.succeeds(&[&simulate[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["spaces"][0]["configurations"], 64);
    assert_eq!(json["results"][0]["proposer"], "random, exact");
    // All but four configurations are evaluated.
    let local = json["results"].as_array().unwrap().iter().find(|result| result["proposer"] == "local").unwrap();
    assert_eq!(local["medians"][1], 1.0, "{local}");
    assert_eq!(local["mean"].as_array().unwrap().len(), 60);
    let csv = sandbox.succeeds(&[&simulate[..], &["--csv", "--proposer", "local"]].concat());
    assert_eq!(csv.lines().count(), 1 + 2 * 60, "a heading, random search and one proposer");
}

#[test]
fn a_session_is_exported_and_simulated() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("12", &["--case", "s128"]).status.success());
    let cache = sandbox.succeeds(&["space", "export", "1", "--format", "kernel-tuner"]);
    sandbox.write("own.json", &cache);
    let t4 = sandbox.succeeds(&["space", "convert", "own.json", "--format", "t4"]);
    sandbox.write("t4.json", &t4);
    assert_eq!(sandbox.succeeds(&["space", "convert", "t4.json", "--format", "kernel-tuner"]), cache);
    assert_eq!(sandbox.succeeds(&["space", "export", "--format", "t4"]), t4, "the latest session is the default");
    let json: Value = serde_json::from_str(&sandbox.succeeds(&[
        "simulate",
        "own.json",
        "t4.json",
        "--proposer",
        "local",
        "--repeats",
        "2",
        "--json",
    ]))
    .unwrap();
    assert_eq!(json["spaces"][0]["kernel"], "toy");
    assert_eq!(json["spaces"][0]["valid"], json["spaces"][1]["valid"]);
}

#[test]
fn mistakes_get_one_sentence() {
    let sandbox = Sandbox::new();
    sandbox.write("grid.json", &cache());
    sandbox.write("text.json", "hello");
    insta::assert_snapshot!(sandbox.fails(&["simulate", "none.json"]), @"2 error: none.json: No such file or directory (os error 2)");
    insta::assert_snapshot!(sandbox.fails(&["simulate", "text.json"]), @"2 error: text.json: it is not JSON: expected value at line 1 column 1");
    insta::assert_snapshot!(sandbox.fails(&["simulate", "grid.json", "--proposer", "locl"]), @"2 error: there is no proposer `locl` (did you mean `local`?); there are: portfolio, local, bayes, evolution, llm, random, fault-injection");
    insta::assert_snapshot!(sandbox.fails(&["simulate", "grid.json", "--proposer", "llm"]), @"2 error: the proposer `llm` cannot search a recording, which has neither sources nor planted bugs; use one of: portfolio, local, bayes, evolution, random");
    insta::assert_snapshot!(sandbox.fails(&["simulate", "grid.json", "--repeats", "0"]), @"2 error: invalid value '0' for '--repeats <REPEATS>': 0 is not in 1..=10000; run it with `--help` for a list");
    insta::assert_snapshot!(sandbox.fails(&["space", "convert", "grid.json", "--format", "t5"]), @"2 error: invalid value 't5' for '--format <FORMAT>' [possible values: kernel-tuner, t4]; run it with `--help` for a list");
    insta::assert_snapshot!(sandbox.fails(&["space", "export", "1", "--format", "t4"]), @"1 error: there are no sessions yet: run `optloop start` first");
    assert!(sandbox.session("2", &[]).status.success());
    insta::assert_snapshot!(sandbox.fails(&["space", "export", "7", "--format", "t4"]), @"2 error: there is no session 7; the only one is 1");
    insta::assert_snapshot!(sandbox.fails(&["space", "export", "1", "--format", "t4"]), @"2 error: session 1 has several: choose one with --case (s128, s4d4, s64)");
    insta::assert_snapshot!(sandbox.fails(&["space", "export", "1", "--format", "t4", "--case", "s46"]), @"2 error: session 1 has no case `s46` (did you mean `s4d4`?); it has: s128, s4d4, s64");
}
