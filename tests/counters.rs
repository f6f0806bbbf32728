//! Hardware counters and experiments of whole sessions, on the fake device and with a fake `ncu`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::common::Sandbox;
use serde_json::Value;

/// Runs what is to be profiled, as ncu does, and prints the counters of its only launch.
const WORKS: &str = r#"[ "$1" = --version ] && { echo "Version 2025.3.1.0 (build 1)"; exit; }
until [ -f "$1" ] && [ -x "$1" ]; do shift; done
"$@" || exit 1
echo '"ID","Kernel Name","gpu__time_duration.sum","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"'
echo '"","","ns","%"'
echo '"1","toy(const short *, const short *)","12,345","81.25"'
"#;

/// Runs a session with an `ncu` that does what `script` says.
fn session(sandbox: &Sandbox, script: &str, iterations: &str) -> Output {
    let ncu = sandbox.path(".optloop/bin/ncu");
    sandbox.write(".optloop/bin/ncu", &format!("#!/bin/sh\n{script}"));
    fs::set_permissions(&ncu, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--json", "--iterations"];
    let mut command: Command = sandbox.command(&[&arguments[..], &[iterations]].concat());
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", ncu.parent().unwrap().display()));
    command.output().unwrap()
}

fn events(output: &Output, name: &str) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == name).collect()
}

#[test]
fn the_initial_kernel_and_the_winners_are_profiled() {
    let sandbox = Sandbox::new();
    let output = session(&sandbox, WORKS, "8");
    let profiled = events(&output, "counters");
    assert!((2..=4).contains(&profiled.len()), "{profiled:?}");
    assert!(events(&output, "no_counters").is_empty());
    for event in profiled {
        let shown: Value =
            serde_json::from_str(&sandbox.succeeds(&["show", &event["iteration"].to_string(), "--json"])).unwrap();
        let measurements = shown["iteration"]["measurements"].as_array().unwrap();
        let found = measurements.iter().find(|found| found["case"] == event["case"]).unwrap();
        assert_eq!(found["counters"]["tool"], "ncu 2025.3.1.0");
        let launch = &found["counters"]["launches"][0];
        assert_eq!((&launch["kernel"], &launch["time_ns"]), (&"toy".into(), &12345.0.into()));
        assert_eq!(launch["tensor_pct"], 81.25);
    }
}

#[test]
fn a_failing_ncu_is_reported_once_and_the_session_goes_on() {
    let sandbox = Sandbox::new();
    let denied = "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1\n";
    let output = session(&sandbox, denied, "8");
    assert!(events(&output, "counters").is_empty());
    let [told] = &events(&output, "no_counters")[..] else { panic!("once") };
    assert!(told["reason"].as_str().unwrap().contains("ERR_NVGPUCTRPERM"), "{told}");
    assert_eq!(events(&output, "ended")[0]["iterations"], 8);
}

#[test]
fn experiments_are_few_and_neither_wins_nor_cases() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("40", &[]).status.success());
    let rows: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--limit", "1000", "--json"])).unwrap();
    let rows = rows.as_array().unwrap();
    let experiments: Vec<_> =
        rows.iter().filter(|row| row["claim"].as_str().unwrap().starts_with("an experiment")).collect();
    assert!((1..=4).contains(&experiments.len()), "{experiments:?}");
    for row in &experiments {
        assert!(row["verdict"].is_null() && row["best_ns"].as_f64() > Some(0.0), "{row}");
    }
    let report = sandbox.report();
    let cases: Vec<_> = report["cases"].as_array().unwrap().iter().map(|case| case["case"].clone()).collect();
    assert_eq!(cases, ["s4d4", "s64", "s128"]);
    let claims = report["hypotheses"].as_array().unwrap();
    let is_experiment = |claim: &&Value| claim["claim"].as_str().unwrap().starts_with("an experiment");
    assert!(claims.iter().find(is_experiment).is_none(), "its claim predicts nothing");
}

/// Profiles the self-check's kernel: `cargo nextest run --run-ignored all -E 'test(a_real_ncu)'`.
#[test]
#[ignore = "needs a GPU whose counters ncu may read"]
fn a_real_ncu_reads_the_counters_of_a_real_gpu() {
    let told = Sandbox::new().succeeds(&["doctor"]);
    assert!(told.contains("ok       hardware counters: ncu "), "{told}");
    assert!(!told.contains("but not at which instructions warps wait"), "{told}");
}
