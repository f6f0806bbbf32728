//! Recorded search spaces through the command line: export, conversion and simulation.

use std::path::Path;
use std::process::Command;

use optloop::catalog::Project;
use optloop::domain::device::DeviceInfo;
use optloop::domain::family::Param;
use optloop::domain::variant::Params;
use optloop::domain::workload::Case;
use optloop::spaces;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
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

/// Tells of each configuration in a file whether the conditions of a T1 file hold.
const HOLD: &str = r#"
import json, sys
conditions = [c["Expression"] for c in json.load(open(sys.argv[1]))["ConfigurationSpace"]["Conditions"]]
for line in open(sys.argv[2]):
    names = {"min": min, "max": max, **json.loads(line)}
    print(int(all(eval(condition, {}, names) for condition in conditions)))
"#;

#[test]
fn the_conditions_of_an_exported_space_mean_the_same_in_python() {
    let project = Project::find(Some(Path::new(env!("CARGO_MANIFEST_DIR")))).unwrap();
    let device = DeviceInfo::of_arch("sm_90a").unwrap();
    let families = project.families().unwrap().sound;
    let mut rng = SmallRng::seed_from_u64(1);
    for (workload, name) in [("gemm-fp16", "gemm-wgmma"), ("attention-fp16-d64", "attention-mma")] {
        let (workload, sandbox) = (project.workload(workload).unwrap(), Sandbox::without_repository());
        let family = families.iter().find(|family| family.name == name).unwrap();
        let takes = |case: &&Case| family.check(&family.defaults(), case, workload.dtype, &device).is_ok();
        let case = workload.cases.iter().find(takes).unwrap();
        sandbox.write("t1.json", &spaces::t1(family, case, workload.dtype, &device).unwrap());
        let draw = |rng: &mut SmallRng| -> Params {
            let value = |(name, param): (&String, &Param)| (name.clone(), *param.values.choose(rng).unwrap());
            family.params.iter().map(value).collect()
        };
        let mut drawn: Vec<Params> = (0..2000).map(|_| draw(&mut rng)).collect();
        drawn.push(family.defaults());
        let lines: Vec<String> = drawn.iter().map(|params| serde_json::to_string(params).unwrap()).collect();
        sandbox.write("drawn.jsonl", &lines.join("\n"));
        let files = ["t1.json", "drawn.jsonl"].map(|file| sandbox.path(file));
        let told = Command::new("python3").args(["-c", HOLD]).args(files).output().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        let valid = |params: &Params| family.check(params, case, workload.dtype, &device).is_ok();
        let expected: Vec<&str> = drawn.iter().map(|params| if valid(params) { "1" } else { "0" }).collect();
        assert_eq!(told.lines().collect::<Vec<_>>(), expected, "{name}");
        assert!(expected.contains(&"0") && expected.contains(&"1"), "{name}");
    }
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
    let t1: Value = serde_json::from_str(&sandbox.succeeds(&["space", "export", "--format", "t1"])).unwrap();
    let cache: Value = serde_json::from_str(&cache).unwrap();
    let names = t1["ConfigurationSpace"]["TuningParameters"].as_array().unwrap().iter().map(|one| one["Name"].clone());
    assert_eq!(cache["tune_params_keys"], names.collect::<Value>());
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
