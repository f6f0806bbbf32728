//! Whole sessions through the command line, on the fake device.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::{self, FAKE_WINNERS, Sandbox};
use serde_json::Value;

#[test]
fn a_session_improves_the_initial_kernel_commits_the_winners_and_reports() {
    let sandbox = Sandbox::new();
    let output = sandbox.session("30", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let report = sandbox.report();
    assert_eq!(report["schema"], "optloop.report/5");
    assert_eq!(report["session"]["status"], "finished");
    assert_eq!(report["session"]["time_source"], "modelled");
    assert_eq!(report["session"]["cost_usd"], 0.0, "a modelled device costs nothing");
    assert_eq!(report["iterations"]["total"], 30);
    assert_eq!(report["iterations"]["measured"], 30);
    for case in report["cases"].as_array().unwrap() {
        let number = |key: &str| case[key].as_f64().unwrap();
        assert!(number("best_us") <= number("start_us"), "{case}");
        assert!(number("best_us") >= number("floor_us"), "{case}");
        assert_eq!(
            case["baseline"]["name"], "modelled, the default configuration of toy",
            "nothing measured is held against it"
        );
        // Both are times of the default configuration, one in the final and one in its screening.
        assert!((case["baseline"]["us"].as_f64().unwrap() / number("start_us") - 1.0).abs() < 0.01, "{case}");
    }
    // The default configuration has one block of 32 threads per head on s128; the best has 32 of 256.
    let largest = report["cases"].as_array().unwrap().iter().find(|case| case["case"] == "s128").unwrap();
    assert!(largest["speedup_over_start"].as_f64().unwrap() > 1.5, "{largest}");

    // The winner is in git with a sidecar that launches it, and nothing else has changed.
    let commit = largest["commit"].as_str().unwrap();
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    let files = sandbox.git(&["show", "--name-only", "--format=", commit]);
    assert!(files.contains(&format!("{FAKE_WINNERS}/s128.json\n")), "{files}");
    assert!(files.lines().all(|file| file.starts_with(FAKE_WINNERS)), "{files}");
    let committed = |name: &str| sandbox.git(&["show", &format!("{commit}:{FAKE_WINNERS}/{name}")]);
    let sidecar: Value = serde_json::from_str(&committed("s128.json")).unwrap();
    assert!(committed(sidecar["source"].as_str().unwrap()).contains("toy("), "{sidecar}");
    assert_eq!(sidecar["launches"][0]["kernel"], "toy");
    assert_eq!(sidecar["launches"][0]["grid"][1], 4);
    assert!(sidecar["measurement"]["samples"].as_u64() >= Some(40), "whole groups of them: {sidecar}");
    assert_eq!(sidecar["tensors"]["q"]["shape"], serde_json::json!([2, 2, 128, 16]));

    // Every second is in one phase, and each kind of step was timed.
    let phases = report["phases"]["rows"].as_array().unwrap();
    let seconds =
        |phase: &str| phases.iter().find(|row| row["phase"] == phase).map(|row| row["seconds"].as_f64().unwrap());
    let all: f64 = phases.iter().map(|row| row["seconds"].as_f64().unwrap()).sum();
    assert!((all / report["session"]["wall_s"].as_f64().unwrap() - 1.0).abs() < 0.01, "{phases:?}");
    assert_eq!(report["phases"]["complete"], true);
    for phase in ["screening", "acceptance", "comparisons", "finals"] {
        assert!(seconds(phase).is_some_and(|seconds| seconds > 0.0), "{phase}: {phases:?}");
    }

    // The session also writes the report without being asked.
    assert!(sandbox.path(".optloop/reports/session-1.md").is_file());
    assert!(sandbox.path(".optloop/reports/session-1.json").is_file());
}

/// What people read with an interval, programs read with an interval.
#[test]
fn the_json_of_every_verb_has_the_intervals_that_the_text_has() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("30", &["--case", "s128"]).status.success());
    let json = |words: &[&str]| -> Value { serde_json::from_str(&sandbox.succeeds(words)).unwrap() };
    let rows = json(&["history", "--verdict", "improved", "--json"]);
    let won = &rows[0];
    let around = |value: &Value, ends: &Value| {
        let (lo, hi) = (ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap());
        assert!((lo..=hi).contains(&value.as_f64().unwrap()), "{value} in {ends}");
    };
    around(&won["best_ns"], &won["best_ci_ns"]);
    around(&won["speedup"], &won["speedup_ci"]);
    assert!(won["noise"].as_f64() > Some(0.0), "{won}");
    let shown = json(&["show", &won["iteration"].to_string(), "--json"]);
    let time = shown["times"].as_array().unwrap().iter().find(|time| time["case"] == "s128").unwrap();
    around(&time["median_us"], &time["ci_us"]);
    around(&time["speedup"], &time["speedup_ci"]);
    assert!(time["noise"].as_f64() > Some(0.0), "{time}");
    let sessions = json(&["sessions", "--json"]);
    around(&sessions[0]["best_speedup"], &sessions[0]["best_speedup_ci"]);
}

/// A project of one case whose baseline program reports the fake device's name. With one key, attention is a copy of
/// the values, which a shell can compute.
fn with_baseline(fault: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let program = include_str!("baseline/fake.sh");
    sandbox.write("fake.sh", program);
    let cases = common::WORKLOAD.find("[[case]]").unwrap();
    let workload = common::WORKLOAD[..cases].replace("CAUSAL = 1", "CAUSAL = 0").replace("H = 2", "H = 64");
    let case = "[[case]]\nname = 'one-key'\nSq = 1\nSk = 1\nD = 64\n";
    let workload =
        format!("{}{case}", workload.replace("dtype =", &format!("baseline = ['sh', 'fake.sh', '{fault}']\ndtype =")));
    sandbox.write("kernels/workloads/small.toml", &workload);
    sandbox.trust_to_write();
    sandbox
}

#[test]
fn the_fastest_backend_of_a_baseline_takes_part_in_the_final() {
    let sandbox = with_baseline("");
    let output = sandbox.session("12", &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("one-key: broken is not timed: its scores would take 32 GiB"), "{said}");
    let case = &sandbox.report()["cases"][0];
    assert_eq!(case["baseline"]["name"], "quick");
    assert!((case["baseline"]["us"].as_f64().unwrap() - 5.0).abs() < 0.02, "{case}");
    assert_eq!(case["comparison"]["kind"], "final");
    assert_eq!(case["ratio_to_baseline"]["paired"], true);
    let ratio = case["ratio_to_baseline"]["estimate"].as_f64().unwrap();
    assert!(
        (ratio * case["best_us"].as_f64().unwrap() / 5.0 - 1.0).abs() < 0.01,
        "the baseline's time divided by ours: {case}"
    );
    // The final sampled it in turns, one sample group at a time, after the first screening of all backends.
    let sampled = std::fs::read_to_string(sandbox.path("sampled")).unwrap();
    let comparisons: Vec<&str> =
        sampled.split("released\n").skip(1).filter(|comparison| !comparison.is_empty()).collect();
    assert!(!comparisons.is_empty(), "{sampled}");
    assert!(
        comparisons.iter().all(|comparison| comparison.lines().all(|line| line.starts_with("quick "))),
        "{sampled}"
    );
}

#[test]
fn a_baseline_that_dies_is_replaced_by_the_initial_kernel() {
    let sandbox = with_baseline("dies");
    let output = sandbox.session("12", &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no baseline: one-key: CUDA out of memory"), "{said}");
    let report = sandbox.report();
    assert_eq!(report["session"]["status"], "finished");
    assert_eq!(report["cases"][0]["baseline"]["name"], "modelled, the default configuration of toy");
}

#[test]
fn the_next_session_starts_at_the_initial_kernel_and_measures_the_committed_winners_first() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("30", &[]).status.success());
    let before = sandbox.git(&["rev-parse", "HEAD"]);
    let first = sandbox.report();

    assert!(sandbox.session("6", &[]).status.success());
    let second = sandbox.report();
    for (old, new) in first["cases"].as_array().unwrap().iter().zip(second["cases"].as_array().unwrap()) {
        let us = |case: &Value, key: &str| case[key].as_f64().unwrap();
        assert!((us(old, "start_us") / us(new, "start_us") - 1.0).abs() < 0.01, "the same start");
        assert!(us(new, "best_us") < us(old, "best_us") * 1.01, "no worse than what is committed");
        assert!(
            new["commit"].is_string() || us(new, "speedup_over_start") <= 1.0,
            "what beats the initial kernel is in git: {new}"
        );
    }
    assert_eq!(sandbox.git(&["rev-parse", "HEAD"]), before, "what is committed already is not committed again");
    assert_eq!(second["cost"]["cumulative"]["sessions"].as_u64().unwrap_or(2), 2);
}

/// A climb from the slowest to the fastest family takes one comparison per case, not one per step. Here the last
/// iteration holds them.
#[test]
fn of_the_default_configurations_the_fastest_on_each_case_gets_the_comparison_with_the_start() {
    let sandbox = Sandbox::new();
    for (name, tile, threads) in [("faster", 64, 128), ("fastest", 16, 256), ("slower", 32, 32)] {
        let manifest = common::MANIFEST.replace("name = \"toy\"", &format!("name = \"{name}\""));
        let manifest = manifest.replace("default = 64", &format!("default = {tile}"));
        let manifest = manifest.replace("default = 32", &format!("default = {threads}"));
        sandbox.write(&format!("templates/kernels/{name}/family.toml"), &manifest);
        sandbox.write(&format!("templates/kernels/{name}/kernel.cu.tera"), common::TEMPLATE);
    }
    assert!(sandbox.session("5", &["--case", "s64", "--case", "s128"]).status.success());
    let rows: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
    let told: Vec<String> = rows
        .as_array()
        .unwrap()
        .iter()
        .take(10)
        .map(|row| ["family", "case", "verdict"].map(|key| row[key].as_str().unwrap()).join(" "))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    toy s64 start
    toy s128 start
    faster s64 tied
    faster s128 tied
    fastest s64 tied
    fastest s128 tied
    slower s64 tied
    slower s128 tied
    fastest s64 improved
    fastest s128 improved
    ");
}

/// On a slow start, there may be time only for the initial design.
#[test]
fn a_session_that_ends_in_its_initial_design_confirms_the_best_candidate() {
    let sandbox = Sandbox::new();
    for name in ["another", "later"] {
        let manifest = common::MANIFEST.replace("name = \"toy\"", &format!("name = \"{name}\""));
        let manifest = manifest.replace("default = 32", "default = 128");
        sandbox.write(&format!("templates/kernels/{name}/family.toml"), &manifest);
        sandbox.write(&format!("templates/kernels/{name}/kernel.cu.tera"), common::TEMPLATE);
    }
    assert!(sandbox.session("3", &["--case", "s128"]).status.success());
    let rows: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
    let rows = rows.as_array().unwrap().iter();
    let told: Vec<String> =
        rows.map(|row| ["family", "verdict"].map(|key| row[key].as_str().unwrap()).join(" ")).collect();
    assert_eq!(told, ["toy start", "another tied", "another improved"]);
}

#[test]
fn the_same_seed_proposes_the_same_and_every_iteration_can_be_read_back() {
    let proposals = || {
        let sandbox = Sandbox::new();
        sandbox.write("config.toml", "[compile]\nparallel = 2\n");
        assert!(sandbox.session("12", &[]).status.success());
        let rows: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
        let hashes: Vec<String> =
            rows.as_array().unwrap().iter().map(|row| row["hash"].as_str().unwrap().to_owned()).collect();
        let shown = sandbox.succeeds(&["show", "12"]);
        assert!(shown.contains("TILE") && shown.contains("__global__"), "{shown}");
        hashes
    };
    assert_eq!(proposals(), proposals());
}

#[test]
fn every_kind_of_failure_is_an_outcome_and_the_session_goes_on() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "config.toml",
        "[worker]\nstep_timeout = '3s'\n[benchmark]\nconfirmation_samples = 20\nmax_confirmation = '2s'\n",
    );
    // Wrong, crash, unwritten, hang, death, NaN, wrong when replayed: see the fake device.
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0]", "values = [0, 1, 2, 3, 4, 5, 6, 7]");
    sandbox.replace("templates/kernels/toy/family.toml", "values = [4, 8, 16, 32, 64]", "values = [64]");
    sandbox.replace("templates/kernels/toy/family.toml", "values = [32, 64, 128, 256]", "values = [32]");
    let output = sandbox.session("100", &["--case", "s64"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let report = sandbox.report();
    let count = |outcome: &str| report["iterations"][outcome].as_u64().unwrap();
    assert_eq!(report["session"]["status"], "finished", "the space of 8 configurations is exhausted");
    assert_eq!(count("total"), 8);
    assert_eq!(count("measured"), 1);
    assert_eq!(count("wrong"), 3, "wrong, unwritten and NaN");
    assert_eq!(count("crashed"), 2, "a crash and a death");
    assert_eq!(count("timed_out"), 1);
    assert_eq!(count("cheated"), 1, "right when checked, wrong when timed");
    assert_eq!(sandbox.git(&["log", "--oneline"]).lines().count(), 1, "nothing wrong is committed");
}

#[test]
fn a_source_that_does_not_compile_is_on_record_with_its_log() {
    let sandbox = Sandbox::new();
    sandbox.replace(
        "templates/kernels/toy/kernel.cu.tera",
        "FAULT;",
        "FAULT + <% if TILE == 8 %>nonsense<% else %>0<% endif %>;",
    );
    assert!(sandbox.session("20", &[]).status.success());
    let rows: Value =
        serde_json::from_str(&sandbox.succeeds(&["history", "--outcome", "rejected_by_compiler", "--json"])).unwrap();
    let row = rows.as_array().unwrap().first().expect("TILE = 8 was tried");
    let shown = sandbox.succeeds(&["show", &row["iteration"].to_string()]);
    assert!(shown.contains("identifier \"nonsense\" is undefined"), "{shown}");
}

#[test]
fn a_template_that_fails_at_some_configurations_costs_those_configurations_only() {
    let sandbox = Sandbox::new();
    sandbox.replace(
        "templates/kernels/toy/kernel.cu.tera",
        "FAULT;",
        "FAULT + <% if TILE == 8 %><$ NOWHERE $><% else %>0<% endif %>;",
    );
    let output = sandbox.session("20", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = sandbox.succeeds(&["history", "--outcome", "rejected_by_compiler", "--json"]);
    assert!(rows.contains("does not render") && rows.contains("NOWHERE"), "{rows}");
}

/// Template recursion that doubles at every level would keep the front end busy for hours.
#[test]
fn a_source_that_hangs_the_compiler_times_out() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "[compile]\ntimeout = '4s'\n[benchmark]\nconfirmation_samples = 40\n");
    let endless = "<% if TILE == 16 %>
        template <int N, int M> struct Fork { static constexpr int n = Fork<N - 1, 2 * M>::n + Fork<N - 1, 2 * M + 1>::n; };
        template <int M> struct Fork<0, M> { static constexpr int n = 1; };
        constexpr int forked = Fork<24, 1>::n;
        <% endif %>";
    let template = format!("{endless}{}", common::TEMPLATE);
    sandbox.write("templates/kernels/toy/kernel.cu.tera", &template);
    let output = sandbox.session("20", &["--case", "s64"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = sandbox.succeeds(&["history", "--outcome", "rejected_by_compiler", "--json"]);
    assert!(rows.contains("the compiler took over 4s (compile.timeout)"), "{rows}");
    assert!(sandbox.report()["iterations"]["measured"].as_u64().unwrap() > 5);
}

/// PyTorch takes seconds to start. This program starts once the session has screened variants. If the session waited for it
/// first, both would wait for each other, until the time limit of an answer.
#[cfg(unix)]
#[test]
fn a_session_searches_while_its_baseline_starts() {
    let sandbox = with_baseline("late");
    sandbox.write(
        "config.toml",
        "[session]\nproposer = 'random'\n[benchmark]\nconfirmation_samples = 40\n[baseline]\ntimeout = '30s'\n",
    );
    sandbox.trust_to_write();
    let pipe = std::process::Command::new("mkfifo").arg(sandbox.path("go")).status().unwrap();
    assert!(pipe.success());
    let start = ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--budget", "60s", "--json"];
    let mut session = sandbox.command(&start).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = Vec::new();
    for line in BufReader::new(session.stdout.take().unwrap()).lines().map(Result::unwrap) {
        let event: Value = serde_json::from_str(&line).unwrap();
        let kind = event["event"].as_str().unwrap().to_owned();
        let iterations = told.iter().filter(|kind| *kind == "iteration").count();
        if kind == "iteration" && iterations == 1 {
            std::fs::write(sandbox.path("go"), "go\n").unwrap();
        }
        told.push(kind);
    }
    assert!(session.wait().unwrap().success());
    let place = |kind: &str| told.iter().position(|other| other == kind).unwrap_or(usize::MAX);
    assert!(place("iteration") < place("baseline"), "{told:?}");
    assert!(place("baseline") < place("improved"), "nothing is compared before: {told:?}");
    let case = &sandbox.report()["cases"][0];
    assert_eq!(case["baseline"]["name"], "quick", "{case}");
    assert_eq!(case["ratio_to_baseline"]["paired"], true, "{case}");
}

/// On Ctrl-C, the current iteration is finished, the report written, and the session marked.
#[cfg(unix)]
#[test]
fn an_interrupted_session_is_marked_and_reported() {
    let sandbox = Sandbox::new();
    let mut session = sandbox
        .command(&["start", "--device", "fake", "--workload", "small", "--budget", "10m", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = BufReader::new(session.stdout.take().unwrap()).lines();
    let first_iteration = events.by_ref().map(Result::unwrap).find(|line| line.contains("\"event\":\"iteration\""));
    assert!(first_iteration.is_some());
    let interrupt = std::process::Command::new("kill").args(["-INT", &session.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let last = events.map(Result::unwrap).last().unwrap();
    assert!(last.contains("\"status\":\"interrupted\""), "{last}");
    assert!(session.wait().unwrap().success());
    assert_eq!(sandbox.report()["session"]["status"], "interrupted");
    assert!(sandbox.path(".optloop/reports/session-1.md").is_file());
}

#[test]
fn a_time_budget_holds() {
    let sandbox = Sandbox::new();
    // More configurations than three seconds can try.
    let many = format!("values = [0, {}]", (100..2000).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0]", &many);
    let start = ["start", "--device", "fake", "--workload", "small", "--budget", "3s", "--no-early-stop"];
    let output = sandbox.optloop(&start);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report = sandbox.report();
    assert_eq!(report["session"]["status"], "finished");
    assert_eq!(report["session"]["budget_s"], 3.0);
    assert_eq!(report["session"]["stop_reason"], "its time budget (--budget) is spent");
    // Time is kept for the finals, and no comparison is begun that would not end in time.
    assert!(report["session"]["wall_s"].as_f64().unwrap() >= 1.5, "most of it was used: {said}");
}

#[test]
fn without_a_repository_the_session_says_so_and_keeps_its_winners_in_the_store() {
    let sandbox = Sandbox::without_repository();
    let output = sandbox.session("20", &["--case", "s128"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("s128: not committed:") && said.contains("git init"), "{said}");
    let report = sandbox.report();
    assert_eq!(report["cases"][0]["commit"], Value::Null);
    assert!(report["cases"][0]["speedup_over_start"].as_f64().unwrap() > 1.0);
}

#[test]
fn a_winner_that_a_user_has_edited_is_left_alone() {
    let sandbox = Sandbox::new();
    let sidecar = format!("{FAKE_WINNERS}/s128.json");
    sandbox.write(&sidecar, "mine");
    let output = sandbox.session("20", &["--case", "s128"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("s128: not committed:"), "{said}");
    assert_eq!(std::fs::read_to_string(sandbox.path(&sidecar)).unwrap(), "mine");
}

/// `optloop start --json | head -1` ends the reader, not the session.
#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_does_not_cost_the_report() {
    let sandbox = Sandbox::new();
    let start = ["start", "--device", "fake", "--workload", "small", "--iterations", "6", "--json"];
    let mut session = sandbox.command(&start).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Both pipes are closed at once.
    drop((session.stdout.take(), session.stderr.take()));
    session.wait().unwrap();
    let report = sandbox.report();
    assert_eq!(report["session"]["status"], "finished");
    assert_eq!(report["iterations"]["total"], 6);
    assert!(sandbox.path(".optloop/reports/session-1.md").is_file());
}

#[cfg(unix)]
#[test]
fn one_session_at_a_time_has_the_project() {
    let sandbox = Sandbox::new();
    let start = ["start", "--device", "fake", "--workload", "small", "--budget", "10m", "--json"];
    let mut first = sandbox.command(&start).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut events = BufReader::new(first.stdout.take().unwrap()).lines();
    assert!(events.next().unwrap().unwrap().contains("\"event\":\"plan\""));
    assert!(events.next().unwrap().unwrap().contains("\"event\":\"started\""));

    let said = sandbox.fails(&["start", "--device", "fake", "--workload", "small"]);
    let holder = format!("75 error: this project is in use by `optloop start` (process {}, session 1) in ", first.id());
    assert!(said.starts_with(&holder), "{said}");
    // Readers are still allowed.
    assert!(sandbox.succeeds(&["sessions"]).contains("running"));

    let interrupt = std::process::Command::new("kill").args(["-TERM", &first.id().to_string()]).status().unwrap();
    assert!(interrupt.success() && events.last().unwrap().unwrap().contains("interrupted"));
    assert!(first.wait().unwrap().success());
}

/// On the way from the default configuration to the committed winner, a session often beats only the default's time.
#[test]
fn a_slower_variant_never_replaces_a_committed_winner() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("60", &[]).status.success());
    let winners = || sandbox.git(&["ls-tree", "-r", "HEAD", "kernels/variants"]);
    let best = winners();
    // The old configuration is gone from the family, so the winner cannot be measured again.
    let tile = sandbox.json(&format!("{FAKE_WINNERS}/s128.json"))["variant"]["params"]["TILE"].to_string();
    let others = ["4", "8", "16", "32", "64"].into_iter().filter(|value| **value != tile).collect::<Vec<_>>();
    sandbox.replace("templates/kernels/toy/family.toml", "[4, 8, 16, 32, 64]", &format!("[{}]", others.join(", ")));
    let output = sandbox.session("30", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(winners(), best);
}

/// A variant without acceptance checks gets them in its final. A variant that fails there is neither committed nor
/// reported as the best.
#[test]
fn a_start_that_fails_in_its_final_is_disqualified() {
    let sandbox = Sandbox::new();
    sandbox.write("faults", "accept die\naccept die\naccept die\n");
    let start = ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--iterations", "2", "--json"];
    let output = sandbox.command(&start).env("OPTLOOP_FAKE_FAULTS", sandbox.path("faults")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let out = |event: &&Value| event["event"] == "disqualified";
    let cases: Vec<&str> = events.iter().filter(out).map(|event| event["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["s4d4", "s64", "s128"]);
    assert_eq!(sandbox.git(&["log", "--format=%s"]), "a project\n");
    let report = sandbox.report();
    for case in report["cases"].as_array().unwrap() {
        assert_eq!(case["best_us"], Value::Null, "{case}");
    }
    assert_eq!(report["iterations"]["measured"], 2, "what was measured stays on record");
}

/// It fails only together with the challenger that writes into its memory, not alone.
#[test]
fn an_incumbent_whose_memory_a_challenger_overwrites_is_not_disqualified() {
    let sandbox = Sandbox::new();
    let manifest = "templates/kernels/toy/family.toml";
    sandbox.replace(manifest, "values = [0]\ndefault = 0", "values = [0, 20]\ndefault = 0");
    let output = sandbox.session("30", &["--case", "s128", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cheated = sandbox.succeeds(&["history", "--outcome", "cheated", "--json"]);
    let cheated: Value = serde_json::from_str(&cheated).unwrap();
    let cheated = cheated.as_array().unwrap();
    assert!(!cheated.is_empty() && cheated.iter().all(|row| row["params"]["FAULT"] == 20), "{cheated:?}");
    let history: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
    let fault = |iteration: &Value| {
        let row = history.as_array().unwrap().iter().find(|row| row["iteration"] == *iteration).unwrap();
        row["params"]["FAULT"].as_i64().unwrap()
    };
    let out = events.iter().filter(|event| event["event"] == "disqualified");
    assert!(out.clone().all(|event| fault(&event["iteration"]) == 20), "{:?}", out.collect::<Vec<_>>());
    let shown = sandbox.succeeds(&["show", &cheated[0]["iteration"].to_string()]);
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("is correct alone, but fails in a comparison: correct when timed, but wrong on other"),
        "{shown}"
    );
    assert_eq!(sandbox.json(&format!("{FAKE_WINNERS}/s128.json"))["variant"]["params"]["FAULT"], 0);
}
