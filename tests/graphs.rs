//! The state of the graphs in which times are taken, sustained load, and figures that are measured again.

use std::process::Output;

use serde_json::Value;

use crate::common::{FAKE_WINNERS, Sandbox, WORKLOAD};

/// A baseline that answers every request. NODE stands for its report about its graphs.
const BASELINE: &str = r#"
while read -r line; do
    case $line in
    *'"request":"hello"'*)
        echo '{"protocol": 2, "device": "fake device (no kernel was executed)", "time_source": "modelled"}' ;;
    *'"request":"prepare"'*) echo '{"backends": [{"name": "rival", "launches_per_sample": 40}]}' ;;
    *'"request":"sample"'*)
        rest=${line#*'"samples":'}
        samples=${rest%%[,\}]*}
        times=9000.5
        while [ "$samples" -gt 1 ]; do
            times="$times, $((9000 + samples % 7)).5"
            samples=$((samples - 1))
        done
        echo "{\"samples_ns\": [$times]NODE}" ;;
    *) echo '{}' ;;
    esac
done
"#;

const BENCH: [&str; 13] = [
    "bench",
    "toy:TILE=8,THREADS=128",
    "--workload",
    "small",
    "--case",
    "s64",
    "--samples",
    "24",
    "--device",
    "fake",
    "--against",
    "baseline",
    "--trust",
];

/// A project whose baseline reports the state of its graphs.
fn with_baseline(node: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let workload = WORKLOAD.replace("dtype =", "baseline = ['sh', 'rival.sh']\ndtype =");
    sandbox.write("kernels/workloads/small.toml", &workload);
    sandbox.write("rival.sh", &BASELINE.replace("NODE", node));
    sandbox
}

/// Calls optloop where an empty kernel of the fake device takes 0.7 us as a node of a graph.
fn called(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.command(arguments).env("OPTLOOP_FAKE_GRAPH_NODE_NS", "700").output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn with(arguments: &[&'static str], more: &[&'static str]) -> Vec<&'static str> {
    [arguments, more].concat()
}

/// The participants of a bench: role and control, in microseconds.
fn participants(printed: &Value) -> Vec<(String, Value)> {
    let all = printed["comparisons"][0]["participants"].as_array().unwrap();
    all.iter().map(|one| (one["role"].as_str().unwrap().to_owned(), one["graph_node_us"].clone())).collect()
}

#[test]
fn a_baseline_in_another_state_of_its_graphs_is_left_out() {
    let sandbox = with_baseline(r#", \"graph_node_ns\": 530"#);
    let output = called(&sandbox, &with(&BENCH, &["--json"]));
    let roles: Vec<String> = participants(&json(&output)).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["challenger", "control"]);
    let said = said(&output);
    let sentence = "a comparison on s64 continues without the baseline: its graphs are in another state, in which an \
                    empty kernel takes 0.53 us as a node of a graph, and 0.70 us beside the variants";
    assert!(said.contains(sentence), "{said}");
}

#[test]
fn a_baseline_in_the_same_state_takes_part_and_one_that_does_not_report_it_is_named() {
    let sandbox = with_baseline(r#", \"graph_node_ns\": 720"#);
    let printed = json(&called(&sandbox, &with(&BENCH, &["--json"])));
    let expected = [("challenger", 0.7), ("control", 0.7), ("baseline", 0.72)];
    let expected = expected.map(|(role, us)| (role.to_owned(), Value::from(us)));
    assert_eq!(participants(&printed), expected);
    assert_eq!(printed["comparisons"][0]["discarded_rounds"], 0);

    let sandbox = with_baseline("");
    let output = called(&sandbox, &BENCH);
    let table = String::from_utf8_lossy(&output.stdout);
    let sentence = "An empty kernel takes 0.70 µs as a node of a graph in the challenger's process; the baseline does \
                    not report the state of its graphs";
    assert!(output.status.success() && table.contains("rival") && table.contains(sentence), "{table}");
}

#[test]
fn a_time_of_the_baseline_that_cannot_be_is_refused() {
    let sandbox = with_baseline(r#", \"graph_node_ns\": -1"#);
    let output = called(&sandbox, &BENCH);
    assert!(
        said(&output).contains("no baseline on s64: `rival` reported an invalid time of -1 ns"),
        "{}",
        said(&output)
    );
}

#[test]
fn sustained_load_is_a_condition_of_its_times_and_a_model_has_none() {
    let sandbox = with_baseline("");
    let printed = json(&called(&sandbox, &with(&BENCH, &["--sustained", "--json"])));
    let comparison = &printed["comparisons"][0];
    assert_eq!([&comparison["load"], &comparison["graphs"]], ["sustained", "alone"]);
    for participant in comparison["participants"].as_array().unwrap() {
        assert_eq!(participant["samples"], 24, "what came before is not counted: {participant}");
    }
    let sandbox = Sandbox::with_attention();
    let bench =
        ["bench", "attention-scalar", "--workload", "small", "--case", "s4d4", "--device", "virtual", "--sustained"];
    insta::assert_snapshot!(sandbox.fails(&bench), @"2 error: the virtual H200 models times, and its model has no clocks or power that settle: omit --sustained");
}

/// A project with committed winners of a session.
fn after_a_session() -> Sandbox {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("30", &[]).status.success());
    sandbox
}

#[test]
fn figures_of_another_state_are_neither_reproduced_nor_divided() {
    let sandbox = after_a_session();
    let path = format!("{FAKE_WINNERS}/s128.json");
    let mut sidecar = sandbox.json(&path);
    sidecar["measurement"]["graphs"] = "among_others".into();
    sandbox.write(&path, &sidecar.to_string());
    sandbox.git(&["commit", "--quiet", "--all", "--message", "another state"]);
    insta::assert_snapshot!(sandbox.fails(&["reproduce", "HEAD", "--device", "fake"]), @"2 error: kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s128.json cannot be reproduced here: these times are not comparable: the state of the graphs is alone here and among_others there; `optloop remeasure small` replaces the recorded ones");
    let iteration = sandbox.report()["cases"][2]["iteration"].to_string();
    insta::assert_snapshot!(sandbox.fails(&["compare", &iteration, "small/s128", "--case", "s128"]), @"2 error: these times are not comparable: the state of the graphs is alone here and among_others there");
}

#[test]
fn winners_are_measured_again_and_their_figures_replaced_by_a_commit_each() {
    let sandbox = after_a_session();
    let path = format!("{FAKE_WINNERS}/s128.json");
    let before = sandbox.json(&path);
    let printed = json(&called(&sandbox, &["remeasure", "small", "--case", "s128", "--device", "fake", "--json"]));
    assert_eq!([&printed["schema"], &printed["workload"]], ["optloop.remeasure/1", "small"]);
    let [winner] = &printed["winners"].as_array().unwrap()[..] else { panic!("{printed}") };
    assert_eq!(winner["recorded_us"], before["measurement"]["median_us"]);
    let head = sandbox.git(&["rev-parse", "HEAD"]);
    assert_eq!(winner["commit"], head.trim());

    let after = sandbox.json(&path);
    assert_eq!(after["measurement"]["median_us"], winner["us"]);
    assert_eq!(after["measurement"]["graph_node_ns"], 700.0);
    for same in ["launches", "variant", "source", "tensors"] {
        assert_eq!(after[same], before[same]);
    }
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    assert_eq!(sandbox.git(&["show", "--format=", "--name-only", "HEAD"]).trim(), path);
    let message = sandbox.git(&["log", "-1", "--format=%B"]);
    assert!(
        message.starts_with("small/s128: ") && message.lines().next().unwrap().contains("measured again ("),
        "{message}"
    );
    assert!(message.contains("Timed by:   optloop remeasure\n"), "{message}");
    assert!(sandbox.optloop(&["reproduce", "HEAD", "--device", "fake"]).status.success());

    sandbox.succeeds(&["remeasure", "small", "--case", "s64", "--device", "fake", "--no-commit"]);
    let status = sandbox.git(&["status", "--porcelain"]);
    assert_eq!(status.trim(), format!("M {FAKE_WINNERS}/s64.json"), "it is written and not committed");
}

#[test]
fn winners_that_cannot_be_measured_again_are_refused() {
    let sandbox = Sandbox::with_attention();
    insta::assert_snapshot!(sandbox.fails(&["remeasure", "small", "--device", "virtual"]), @"2 error: the virtual H200 models times, which do not change: choose a GPU with --device");
    insta::assert_snapshot!(sandbox.fails(&["remeasure", "small", "--device", "fake"]), @"2 error: no winner of small is committed for this device: there is none in kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/");
    insta::assert_snapshot!(sandbox.fails(&["remeasure", "smal", "--device", "fake"]), @"2 error: there is no workload `smal` (did you mean `small`?); kernels/workloads/ has: small");
    let sandbox = after_a_session();
    let workload = WORKLOAD.replace("dtype =", "baseline = ['sh', 'absent.sh']\ndtype =");
    sandbox.write("kernels/workloads/small.toml", &workload);
    let said = sandbox.fails(&["remeasure", "small", "--device", "fake", "--trust"]);
    assert!(said.contains("the winners of small are recorded beside their baseline, and it does not run: "), "{said}");
}
