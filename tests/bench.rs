//! Scenarios of `optloop bench` and `optloop reproduce`, through the command line.

use std::process::Output;

use crate::common::{FAKE_WINNERS, Sandbox};
use serde_json::Value;

const CONFIGURATION: &str = "toy:TILE=8,THREADS=128";

/// Calls `optloop bench` on the fake device.
fn bench(sandbox: &Sandbox, what: &str, more: &[&str]) -> String {
    sandbox.succeeds(&[&["bench", what, "--device", "fake", "--samples", "24"], more].concat())
}

/// Calls `optloop bench` on the fake device, which must refuse.
fn refused(sandbox: &Sandbox, what: &str, more: &[&str]) -> String {
    sandbox.fails(&[&["bench", what, "--device", "fake"], more].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Replaces every figure and its padding: `12.5` is `#`.
fn without_figures(text: &str) -> String {
    let word = |word: &str| match word.trim_matches(['%', ';', '×', '(', ')']) {
        number if number.parse::<f64>().is_ok() => word.replace(number, "#"),
        hash if hash.len() == 10 && hash.chars().all(|c| c.is_ascii_hexdigit()) => "HASH".to_owned(),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ") + "\n";
    // An interval is shown only where it has a width.
    text.lines().map(line).collect::<String>().replace("#× (# to #)", "#×")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {value}"))
}

/// A project with a session that won and committed.
fn after_a_session() -> Sandbox {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("30", &[]).status.success());
    sandbox
}

#[test]
fn a_configuration_is_compared_with_the_baseline_and_itself() {
    let sandbox = Sandbox::new();
    let table = bench(&sandbox, CONFIGURATION, &["--workload", "small", "--case", "s64", "--case", "s128"]);
    insta::assert_snapshot!(without_figures(&table), @"
    small/s64 on fake device (no kernel was executed), warm L2, times are modelled
    role what iteration µs interval samples over the challenger challenger is share of floor error SM MHz W °C mJ
    challenger toy HASH # # # to # # - - #% # - - - -
    baseline toy HASH - # # to # # #× faster #% # - - - -
    control toy HASH # # # to # # #× tied #% # - - - -
    # rounds, group size #; # more rounds discarded, in which the GPU or its graphs were in another state; noise #% (the challenger over its A/A control)
    The floor is # µs, #% of the challenger's time

    small/s128 on fake device (no kernel was executed), warm L2, times are modelled
    role what iteration µs interval samples over the challenger challenger is share of floor error SM MHz W °C mJ
    challenger toy HASH # # # to # # - - #% # - - - -
    baseline toy HASH - # # to # # #× faster #% # - - - -
    control toy HASH # # # to # # #× tied #% # - - - -
    # rounds, group size #; # more rounds discarded, in which the GPU or its graphs were in another state; noise #% (the challenger over its A/A control)
    The floor is # µs, #% of the challenger's time

    versions: optloop 0.2.0, nvrtc #
    ");
}

#[test]
fn the_json_has_every_figure_of_every_participant_in_both_regimes() {
    let sandbox = Sandbox::new();
    let against = ["--against", "toy:TILE=16,THREADS=128", "--against", CONFIGURATION, "--against", "baseline"];
    let printed = bench(
        &sandbox,
        CONFIGURATION,
        &[&["--workload", "small", "--case", "s128", "--regime", "both", "--json"], &against[..]].concat(),
    );
    let printed = json(&printed);
    assert_eq!(printed["schema"], "optloop.bench/1");
    assert_eq!(printed["device"]["time_source"], "modelled");
    assert!(printed["versions"]["nvrtc"].is_string() && printed["versions"]["optloop"].is_string());
    let comparisons = printed["comparisons"].as_array().unwrap();
    assert_eq!([&comparisons[0]["regime"], &comparisons[1]["regime"]], ["warm", "cold"]);
    for comparison in comparisons {
        let participants = comparison["participants"].as_array().unwrap();
        let roles: Vec<&str> = participants.iter().map(|participant| participant["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["challenger", "incumbent", "incumbent", "baseline", "control"]);
        for participant in participants {
            assert!(
                number(participant, "samples") == 24.0 && number(participant, "share_of_floor") < 1.0,
                "{participant}"
            );
            assert!(number(participant, "relative_l2") > 0.0, "it was checked against float64: {participant}");
        }
        let [challenger, slower, same, ..] = &participants[..] else { panic!("{comparison}") };
        assert_eq!([&challenger["ratio"], &challenger["challenger_is"]], [&Value::Null, &Value::Null]);
        assert_eq!(slower["challenger_is"], "faster");
        assert!((number(slower, "ratio") - number(slower, "median_us") / number(challenger, "median_us")).abs() < 0.01);
        assert_eq!(same["challenger_is"], "tied", "a kernel does not beat itself");
        assert!(number(comparison, "noise") < 0.01);
    }
}

#[test]
fn repeats_are_fresh_processes_and_show_how_far_the_medians_spread() {
    let sandbox = Sandbox::new();
    let asked = ["--workload", "small", "--case", "s64", "--against", CONFIGURATION, "--repeat", "3"];
    insta::assert_snapshot!(without_figures(&bench(&sandbox, CONFIGURATION, &asked)), @"
    small/s64 on fake device (no kernel was executed), warm L2, times are modelled; # comparisons, each in a fresh process
    role kernel µs, modelled medians max/min challenger faster tied slower
    challenger toy HASH # # to # # - - -
    incumbent toy HASH # # to # # # # #
    control toy HASH # # to # # # # #

    versions: optloop 0.2.0, nvrtc #
    ");
    let printed = json(&bench(&sandbox, CONFIGURATION, &[&asked[..], &["--json"]].concat()));
    let repeats: Vec<&Value> = printed["comparisons"].as_array().unwrap().iter().map(|c| &c["repeat"]).collect();
    assert_eq!(repeats, [1, 2, 3]);
    let [challenger, itself, _] = &printed["spreads"].as_array().unwrap()[..] else { panic!("{printed}") };
    assert!((1.0..1.01).contains(&number(challenger, "max_over_min")), "{challenger}");
    assert_eq!([&itself["challenger_faster"], &itself["challenger_tied"], &itself["challenger_slower"]], [0, 3, 0]);
}

#[test]
fn what_was_measured_by_hand_is_on_record_and_in_no_list_unless_asked() {
    let sandbox = after_a_session();
    let rows = json(&sandbox.succeeds(&["history", "--case", "s128", "--json"]));
    let base = rows[0]["iteration"].to_string();
    let claim = ["--claim", "small tiles", "--predict", "1.5..9", "--against", &base];
    let asked = ["--workload", "small", "--case", "s128", "--json"];
    let printed = json(&bench(&sandbox, CONFIGURATION, &[&asked[..], &claim].concat()));
    let [evaluated] = &printed["evaluations"].as_array().unwrap()[..] else { panic!("{printed}") };
    let number_of = |value: &Value| value.as_i64().unwrap().to_string();
    let iteration = number_of(&evaluated["iteration"]);
    assert_eq!((&evaluated["kind"], &evaluated["proposer"]), (&"single".into(), &"user".into()));
    assert_eq!(evaluated["passed"], serde_json::json!(["compile", "check", "time", "compare"]));
    assert_eq!(
        (&evaluated["claim"]["text"], &evaluated["claim"]["over"]),
        (&"small tiles".into(), &format!("iteration {base}").into())
    );
    let on_case = &evaluated["cases"][0];
    assert_eq!(on_case["over_base"]["iteration"], rows[0]["iteration"], "{on_case}");
    let actual = number(&evaluated["claim"], "actual");
    assert!((number(&on_case["over_base"], "ratio") / actual - 1.0).abs() < 1e-5, "{evaluated}");
    assert!(on_case["over_base"]["ci"].is_array() && number(&on_case["over_record"], "ratio") > 0.0, "{on_case}");
    assert!(
        number(&on_case["launches"][0], "blocks_per_sm") >= 1.0 && number(&on_case["dims"], "Sq") == 128.0,
        "{on_case}"
    );

    // Other verbs know the iteration.
    let shown = json(&sandbox.succeeds(&["show", &iteration, "--json"]));
    assert_eq!(shown["evaluation"]["iteration"], evaluated["iteration"]);
    assert!(sandbox.succeeds(&["show", &iteration]).contains("claim       small tiles"));
    assert!(sandbox.succeeds(&["compare", &iteration, &base, "--case", "s128"]).contains("iteration"));
    let session = number_of(&evaluated["session"]);
    assert_eq!(json(&sandbox.succeeds(&["history", &session, "--json"])).as_array().unwrap().len(), 1);
    assert_eq!(sandbox.succeeds(&["report", &session, "--format", "csv"]).lines().count(), 2);
    insta::assert_snapshot!(sandbox.fails(&["report", &session]), @"2 error: session 2 holds what was measured by hand: `optloop history 2` and `optloop report 2 --format csv` list it");
    let again = json(&bench(&sandbox, &iteration, &["--json"]));
    assert_eq!(again["comparisons"][0]["participants"][0]["iteration"], evaluated["iteration"]);

    // Lists, reports and resumptions are about sessions that search.
    let sessions = |more: &[&str]| -> Vec<Value> {
        json(&sandbox.succeeds(&[&["sessions", "--json"], more].concat())).as_array().unwrap().clone()
    };
    assert_eq!((sessions(&[]).len(), sessions(&["--all"]).len()), (1, 3));
    assert_eq!(sessions(&["--all"])[1]["status"], "finished");
    assert_eq!(json(&sandbox.succeeds(&["history", "--json"]))[0]["session"], 1);
    assert_eq!(sandbox.report()["session"]["id"], 1);
    let said = sandbox.fails(&["resume", &session]);
    assert!(said.starts_with("2 error: session 2 is finished"), "{said}");
}

/// A script stands in for nvdisasm.
#[test]
fn the_source_and_the_machine_code_of_an_iteration_are_shown_alone() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    bench(&sandbox, CONFIGURATION, &["--workload", "small", "--case", "s64"]);
    let source = sandbox.succeeds(&["show", "1", "--source"]);
    assert!(source.contains("extern \"C\" __global__") && !source.contains("outcome"), "{source}");
    let show = |tool: &std::path::Path, lines: &[&str]| {
        let path = std::env::join_paths([tool, "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
        let mut command = sandbox.command(&[&["show", "1", "--sass"], lines].concat());
        let output = command.env("PATH", path).env_remove("CUDA_HOME").env_remove("CUDA_PATH").output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
    };
    let tools = sandbox.path("tools");
    sandbox.write(
        "tools/nvdisasm",
        "#!/bin/sh\ntest -s \"$2\" || exit 1\nprintf '.text.toy:\\n\\t//## File \"variant.cu\", line 5\\n/*0000*/ IADD3 ;\\n\\t//## File \
         \"variant.cu\", line 6\\n/*0010*/ EXIT ;\\n'\n",
    );
    std::fs::set_permissions(tools.join("nvdisasm"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let all = show(&tools, &[]);
    assert!(all.contains("IADD3 ;") && all.contains("EXIT ;") && all.starts_with("toy:"), "{all}");
    let one = show(&tools, &["6"]);
    assert!(!one.contains("IADD3") && one.contains("\n    6  "), "{one}");
    assert!(show(&tools, &["7..9"]).contains("error: iteration 1: no instruction comes from these lines"));
    assert!(show(&tools, &["x"]).contains("`x` names no lines"));
}

#[test]
fn a_kernel_without_a_time_is_on_record_with_the_reason() {
    let sandbox = Sandbox::new();
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0]", "values = [0, 1]");
    refused(&sandbox, "toy:FAULT=1", &["--workload", "small", "--case", "s64"]);
    let shown = json(&sandbox.succeeds(&["show", "1", "--json"]))["evaluation"].clone();
    let failure = &shown["failure"];
    assert_eq!(
        (&failure["outcome"], &failure["case"], &failure["dims"]["Sq"]),
        (&"wrong".into(), &"s64".into(), &64.into())
    );
    assert!(failure["message"].as_str().unwrap().contains("element "), "{failure}");
    assert_eq!(shown["passed"], serde_json::json!(["compile"]));
    assert_eq!(json(&sandbox.succeeds(&["sessions", "--all", "--json"]))[0]["status"], "failed");
    insta::assert_snapshot!(sandbox.fails(&["resume", "1"]), @"2 error: session 1 holds what was measured by hand, so there is nothing to resume: call `optloop bench` or `optloop check` again");
    insta::assert_snapshot!(sandbox.fails(&["resume"]), @"1 error: there are no sessions yet: run `optloop start` first");
}

#[test]
fn winners_files_and_iterations_of_a_session_can_be_measured_again() {
    let sandbox = after_a_session();
    let session = sandbox.report();
    let case = session["cases"].as_array().unwrap().iter().find(|case| case["case"] == "s128").unwrap();
    let iteration = case["iteration"].to_string();
    let (source, sidecar) = (sandbox.source(FAKE_WINNERS, "s128"), format!("{FAKE_WINNERS}/s128.json"));
    let one_case = ["--case", "s128"];
    for (what, more) in [("small/s128", &[][..]), (&sidecar, &[]), (&source, &one_case), (&iteration, &one_case)] {
        let printed = json(&bench(&sandbox, what, &[more, &["--json"]].concat()));
        let [comparison] = &printed["comparisons"].as_array().unwrap()[..] else { panic!("{what}: {printed}") };
        let challenger = &comparison["participants"][0];
        assert_eq!(comparison["case"], "s128");
        assert!((number(challenger, "median_us") / number(case, "best_us") - 1.0).abs() < 0.01, "{what}: {challenger}");
    }
}

/// What makes the PyTorch of the tests one of the fake device.
const ON_FAKE_DEVICE: &str = r#"
import json
dumps = json.dumps
json.dumps = lambda said: dumps({**said, "time_source": "modelled"} if "time_source" in said else said)
cuda.get_device_name = lambda _ordinal: "fake device (no kernel was executed)"
"#;

/// With one key, attention returns the values.
#[test]
fn solutions_in_pytorch_are_rivals_by_graph_or_else_by_call_and_a_wrong_one_is_said_to_be() {
    let sandbox = Sandbox::new();
    sandbox.replace("kernels/workloads/small.toml", "Sq = 4\nSk = 4", "Sq = 1\nSk = 1");
    sandbox.write("python/torch.py", &(include_str!("baseline/torch.py").to_owned() + ON_FAKE_DEVICE));
    sandbox.write("right.py", "def run(v, scale):\n    return v.clone()\n");
    sandbox.write("wrong.py", "def run(q, k, v):\n    return v * 2\n\ndef broken(v):\n    return v.no\n");
    let class = "import torch\n\nclass ModelNew:\n    def __init__(self, factor):\n        self.factor = factor\n\n    def to(self, device):\n        \
                 return self\n\n    named_parameters = named_buffers = lambda self: []\n\n    def forward(self, v):\n        \
                 torch.cuda.synchronize()\n        return v * self.factor\n\n    __call__ = forward\n\ndef get_init_inputs():\n    return [1]\n";
    sandbox.write("calls.py", class);
    let call = |more: &[&str]| {
        let named =
            ["bench", CONFIGURATION, "--device", "fake", "--samples", "24", "--workload", "small", "--case", "s4d4"];
        let arguments = [&named, more].concat();
        let output = sandbox.command(&arguments).env("PYTHONPATH", sandbox.path("python")).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let file = |name: &str| format!("module:{}", sandbox.path(name).display());
    let (right, wrong, calls, broken) = (file("right.py"), file("wrong.py"), file("calls.py"), file("wrong.py:broken"));
    let against = [
        "--against",
        &right,
        "--against",
        &wrong,
        "--against",
        &calls,
        "--against",
        &broken,
        "--against",
        CONFIGURATION,
    ];
    let [_, said] = call(&against[..2]);
    assert!(said.contains("right.py is a program: read it, then agree with --trust to run it, confined"), "{said}");
    let [table, said] = call(&[&against[..], &["--trust"]].concat());
    insta::assert_snapshot!(without_figures(&[table, said].concat()), @"
    small/s4d4 on fake device (no kernel was executed), warm L2, times are modelled
    role what iteration µs interval samples over the challenger challenger is share of floor error SM MHz W °C mJ
    challenger toy HASH # # # to # # - - #% # - - - -
    incumbent toy HASH - # # to # # #× tied #% # - - - -
    control toy HASH # # # to # # #× tied #% # - - - -
    rival right.py - # - # #× faster #% # - - - -
    rival wrong.py - # - # #× faster #% - - - - -
    rival_by_call calls.py - # - # - - #% # - - - -
    # rounds, group size #; # more rounds discarded, in which the GPU or its graphs were in another state; noise #% (the challenger over its A/A control)
    wrong.py is wrong: its output: relative error # over the output (tolerance 1e-3), # in its worst row # (tolerance #); element # of row # is # by the kernel and # by the oracle
    calls.py cannot be captured in a graph, and the challenger was not timed by call, so the two are not compared
    The floor is # µs, #% of the challenger's time

    versions: optloop 0.2.0, nvrtc #
    wrong.py:broken is not timed on s4d4: it fails: AttributeError: 'Tensor' object has no attribute 'no'
    toy HASH is not timed by call on s4d4: PyTorch can only call a winner that is committed for this kind of device
    on record as iteration 1: `optloop show 1`
    ");
    let [printed, _] = call(&[&against[..], &["--trust", "--json"]].concat());
    let printed = json(&printed);
    let participants = printed["comparisons"][0]["participants"].as_array().unwrap();
    let of = |role: &str| participants.iter().find(|one| one["role"] == role).unwrap();
    assert!(of("rival_by_call")["ratio"].is_null() && of("rival")["ratio"].is_number(), "{participants:?}");
    let evaluated = &printed["evaluations"][0]["cases"][0];
    assert!(
        evaluated["over_base"]["ratio"].is_number() && !printed["evaluations"].to_string().contains("rival"),
        "{evaluated}"
    );
}

/// Each returns the right output, or seems to.
#[test]
fn a_rival_that_cheats_is_told_how() {
    let sandbox = Sandbox::new();
    sandbox.replace("kernels/workloads/small.toml", "Sq = 4\nSk = 4", "Sq = 1\nSk = 1");
    sandbox.write("python/torch.py", &(include_str!("baseline/torch.py").to_owned() + ON_FAKE_DEVICE));
    sandbox.write("rivals.py", include_str!("baseline/cheating_rivals.py"));
    let names = "by_address by_shape after_three_calls by_its_first_numbers the_output_itself the_input later with_another_clock on_another_stream";
    let rivals = names.split(' ').map(|name| format!("module:{}:{name}", sandbox.path("rivals.py").display()));
    let mut command = sandbox.command(&["bench", CONFIGURATION, "--device", "fake", "--samples", "24", "--trust"]);
    command.args(["--workload", "small", "--case", "s4d4"]).env("PYTHONPATH", sandbox.path("python"));
    let output = command.args(rivals.flat_map(|rival| ["--against".to_owned(), rival])).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    let of_rivals: Vec<&str> = said.lines().filter(|line| line.contains("rivals.py:")).collect();
    insta::assert_snapshot!(without_figures(&of_rivals.join("\n")), @"
    rival rivals.py:by_address - # - # #× faster #% - - - - -
    rival rivals.py:by_shape - # - # #× faster #% - - - - -
    rival rivals.py:after_three_calls - # - # #× faster #% - - - - -
    rival rivals.py:by_its_first_numbers - # - # #× faster #% - - - - -
    rival_by_call rivals.py:the_output_itself - # - # - - #% - - - - -
    rival_by_call rivals.py:on_another_stream - # - # - - #% # - - - -
    rivals.py:by_address is wrong: it keeps its output: with other values of `v` at the same address, it gives the same one
    rivals.py:by_shape is wrong: its output: relative error # over the output (tolerance 1e-3), # in its worst row # (tolerance #); element # of row # is # by the kernel and # by the oracle
    rivals.py:after_three_calls is wrong: its output: relative error # over the output (tolerance 1e-3), # in its worst row # (tolerance #); element # of row # is # by the kernel and # by the oracle
    rivals.py:by_its_first_numbers is wrong: it keeps its output: with other values of `v` at the same address, it gives the same one
    rivals.py:the_output_itself is wrong: its output: # of # elements were not written; rivals.py:the_output_itself cannot be captured in a graph, and the challenger was not timed by call, so the two are not compared
    rivals.py:on_another_stream cannot be captured in a graph, and the challenger was not timed by call, so the two are not compared
    rivals.py:the_input is not timed on s4d4: its output is the memory of its input `v`: let it return a tensor of its own
    rivals.py:later is not timed on s4d4: it gives a Later, and not a torch.Tensor
    rivals.py:with_another_clock is not timed on s4d4: it replaces `torch.cuda.Event.elapsed_time`, which times it or copies its outputs
    ");
}

#[test]
fn an_edited_file_is_measured() {
    let sandbox = after_a_session();
    // The source may also be that of s64.
    let file = &sandbox.source(FAKE_WINNERS, "s128");
    sandbox.replace(file, "extern \"C\"", "extern \"C\" /* edited */");
    let edited = json(&bench(&sandbox, file, &["--case", "s128", "--against", "small/s128", "--json"]));
    let itself = json(&bench(&sandbox, "small/s128", &["--json"]));
    let name = |printed: &Value| printed["comparisons"][0]["participants"][0]["name"].clone();
    assert_eq!(name(&edited), name(&itself), "both are the file");
    sandbox.replace(file, "/* edited */", "nonsense");
    let said = refused(&sandbox, file, &["--case", "s128"]);
    assert!(said.starts_with("1 ") && said.contains(&format!("does not compile: {file}(")), "{said}");
    sandbox.replace("templates/kernels/toy/kernel.cu.tera", "+ FAULT;", "+ FAUTL;");
    let said = refused(&sandbox, CONFIGURATION, &["--case", "s128"]);
    assert!(said.contains("does not compile: templates/kernels/toy/kernel.cu.tera, line 5: "), "{said}");
}

#[test]
fn a_kernel_that_is_wrong_has_no_time() {
    let sandbox = Sandbox::new();
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0]", "values = [0, 1]");
    let configuration = ["--workload", "small", "--case", "s64"];
    let said = refused(&sandbox, "toy:FAULT=1", &configuration);
    let (error, element) = said.lines().last().unwrap().split_once("; element ").unwrap();
    assert!(element.contains(" of row ") && element.contains(" by the oracle"), "{element}");
    insta::assert_snapshot!(without_figures(error), @"error: toy HASH has no time on s64, wrong: relative error # over the output (tolerance 1e-3), # in its worst row # (tolerance #)");
}

#[test]
fn kernels_that_cannot_be_measured_are_refused_with_a_remedy() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(refused(&sandbox, "3", &[]), @"2 error: there are no sessions yet: run `optloop start` first");
    insta::assert_snapshot!(refused(&sandbox, "small/s64", &[]), @"2 error: no winner of small/s64 is committed: there is no kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s64.json");
    insta::assert_snapshot!(refused(&sandbox, "s64", &[]), @"2 error: no winner of small/s64 is committed: there is no kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s64.json");
    insta::assert_snapshot!(refused(&sandbox, "s46", &[]), @"2 error: there is no family or case `s46` (did you mean `s4d4`?)");
    insta::assert_snapshot!(refused(&sandbox, "s64", &["--workload", "smal"]), @"2 error: there is no workload `smal` (did you mean `small`?); kernels/workloads/ has: small");
    insta::assert_snapshot!(refused(&sandbox, "smal/s64", &[]), @"2 error: there is no workload `smal` (did you mean `small`?); kernels/workloads/ has: small");
    insta::assert_snapshot!(refused(&sandbox, "toy", &["--workload", "small"]), @"2 error: `toy` is a family: choose a case of small with --case");
    insta::assert_snapshot!(refused(&sandbox, "toy:TILE=7", &["--workload", "small", "--case", "s64"]), @"2 error: TILE=7 is not one of the values of family `toy`: [4, 8, 16, 32, 64]");
    insta::assert_snapshot!(refused(&sandbox, "toy:TIEL=8", &["--workload", "small", "--case", "s64"]), @"2 error: family `toy` has no parameter `TIEL` (did you mean `TILE`?); it has: TILE, THREADS, FAULT");
    insta::assert_snapshot!(refused(&sandbox, "toy:TILE=64,THREADS=256", &["--workload", "small", "--case", "s64"]), @"2 error: toy on s64: `TILE * THREADS <= 8192` does not hold: a made-up limit");
    insta::assert_snapshot!(refused(&sandbox, "toy", &["--workload", "small", "--case", "s4d4", "--regime", "cold"]), @r#"2 error: case `s4d4`: a working set of 512 bytes cannot be timed cold: this needs 6146 sets of buffers for an L2 of 1048576 bytes, and the limit is 4096; give the case `regime = "warm"`"#);
    insta::assert_snapshot!(refused(&sandbox, "toy", &["--workload", "small", "--case", "s64", "--samples", "5"]), @"2 error: --samples must be 12 or more: fewer samples have no interval");

    let sandbox = after_a_session();
    insta::assert_snapshot!(refused(&sandbox, "99", &[]), @"2 error: there is no iteration 99; the iterations are 1 to 30");
    insta::assert_snapshot!(refused(&sandbox, "small/s64", &["--case", "s128"]), @"2 error: the winner of case `s64` of small can be launched on that case only: select it with --case");
    insta::assert_snapshot!(refused(&sandbox, "small/s64", &["--against", "small/s128"]), @"2 error: --against: the winner of case `s128` of small can be launched on that case only: select it with --case");
    insta::assert_snapshot!(refused(&sandbox, "small/s64", &["--workload", "large"]), @"2 error: it belongs to workload small, not to the requested large");
    std::fs::rename(sandbox.path(FAKE_WINNERS), sandbox.path("elsewhere")).unwrap();
    sandbox.write("kernels/variants/a-gpu-1sm-4gib/small/s64.json", "{}");
    insta::assert_snapshot!(refused(&sandbox, "small/s64", &[]), @"2 error: no winner of small/s64 is committed: there is no kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s64.json; other devices have kernels/variants/a-gpu-1sm-4gib/small/s64.json");
    sandbox.write("lonely/toy.cu", "");
    insta::assert_snapshot!(refused(&sandbox, "lonely/toy.cu", &[]), @"2 error: lonely/toy.cu has no sidecar, which describes how to compile and launch it");
}

#[test]
fn the_figure_of_a_commit_holds_and_a_false_one_does_not() {
    let sandbox = after_a_session();
    let commit = sandbox.git(&["log", "-1", "--format=%H", "--", &format!("{FAKE_WINNERS}/s128.json")]);
    let reproduce = ["reproduce", commit.trim(), "--case", "s128", "--device", "fake"];
    insta::assert_snapshot!(without_figures(&sandbox.succeeds(&reproduce)), @"
    small/s128 on fake device (no kernel was executed), warm L2, times are modelled
    role what iteration µs interval samples over the challenger challenger is share of floor error SM MHz W °C mJ
    challenger toy HASH - # # to # # - - #% # - - - -
    control toy HASH - # # to # # #× tied #% # - - - -
    # rounds, group size #; # more rounds discarded, in which the GPU or its graphs were in another state; noise #% (the challenger over its A/A control)
    The floor is # µs, #% of the challenger's time

    case kernel regime µs, recorded µs, found ratio interval may differ by
    s128 toy HASH warm # # # # to # #% holds
    versions: optloop 0.2.0, nvrtc #
    ");
    let printed = json(&sandbox.succeeds(&[&reproduce[..], &["--json"]].concat()));
    assert_eq!([&printed["schema"], &printed["commit"]], ["optloop.reproduce/1", commit.trim()]);
    let case = &printed["cases"][0];
    assert!(case["holds"] == true && number(case, "tolerance") == 0.03, "{case}");
    assert_eq!(case["comparison"]["participants"].as_array().unwrap().len(), 2, "the winner, and its A/A control");

    // A manipulated figure in the sidecar is detected.
    let path = &format!("{FAKE_WINNERS}/s128.json");
    let mut sidecar = json(&std::fs::read_to_string(sandbox.path(path)).unwrap());
    let boast = |sidecar: &Value| {
        sandbox.write(path, &sidecar.to_string());
        sandbox.git(&["commit", "--quiet", "--all", "--message", "a boast"]);
    };
    let us = number(case, "recorded_us");
    let honest = sidecar.clone();
    sidecar["launches"][0]["programmatic"] = Value::from(true);
    boast(&sidecar);
    insta::assert_snapshot!(sandbox.fails(&["reproduce", "HEAD", "--device", "fake"]), @"2 error: kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s128.json cannot be reproduced here: the winner of case `s128` of small cannot be launched: launch `toy`: the first launch of a plan cannot be programmatic, because no launch precedes it");
    sidecar = honest;
    sidecar["measurement"]["median_us"] = Value::from(us * 0.8);
    boast(&sidecar);
    insta::assert_snapshot!(sandbox.fails(&["reproduce", "HEAD", "--device", "fake"]), @"2 error: kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s128.json cannot be reproduced here: the time in its sidecar is outside its interval");
    sidecar["measurement"]["ci_us"] = serde_json::json!([us * 0.799, us * 0.801]);
    // As in the first release, when only the workload's file had the dimensions.
    sidecar["measurement"].as_object_mut().unwrap().remove("dims").unwrap();
    boast(&sidecar);
    let output = sandbox.optloop(&["reproduce", "HEAD", "--device", "fake"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("does not hold"));
    assert!(
        said(&output).contains("1 of 1 recorded times of") && said(&output).contains("were not reproduced: s128"),
        "{}",
        said(&output)
    );
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn winners_that_cannot_be_reproduced_here_are_refused_with_the_differences() {
    let sandbox = after_a_session();
    insta::assert_snapshot!(sandbox.fails(&["reproduce", "nonsense", "--device", "fake"]), @"2 error: there is no commit `nonsense`: `git log -- kernels` lists those of winners");
    let first = sandbox.git(&["rev-list", "--max-parents=0", "HEAD"]);
    let said = sandbox.fails(&["reproduce", first.trim(), "--device", "fake"]);
    insta::assert_snapshot!(said.replace(first.trim(), "COMMIT"), @"2 error: commit COMMIT has no winner: `git log -- kernels` lists those that have");

    let commit = sandbox.git(&["log", "-1", "--format=%H", "--", &format!("{FAKE_WINNERS}/s128.json")]);
    let said = sandbox.fails(&["reproduce", commit.trim(), "--case", "s129", "--device", "fake"]);
    assert!(said.starts_with("2 error: commit ") && said.contains("has no winner of case `s129`; it has "), "{said}");
    insta::assert_snapshot!(sandbox.fails(&["reproduce", commit.trim(), "--case", "s128", "--device", "virtual"]), @"2 error: kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s128.json cannot be reproduced here: these times are not comparable: the device is virtual H200 here and fake device (no kernel was executed) there");
    sandbox.replace("kernels/workloads/small.toml", "Sq = 128", "Sq = 127");
    insta::assert_snapshot!(sandbox.fails(&["reproduce", commit.trim(), "--case", "s128", "--device", "fake"]), @"2 error: kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s128.json cannot be reproduced here: these times are not comparable: the case's shape is B=2 CAUSAL=1 D=16 H=2 Sk=128 Sq=127 here and B=2 CAUSAL=1 D=16 H=2 Sk=128 Sq=128 there");
    sandbox.replace("kernels/workloads/small.toml", "Sq = 127", "regime = \"cold\"\nSq = 128");
    assert!(
        sandbox.optloop(&["reproduce", commit.trim(), "--case", "s128", "--device", "fake"]).status.success(),
        "the sidecar says warm"
    );
    sandbox.replace(&sandbox.source(FAKE_WINNERS, "s128"), "extern", "/* another source */ extern");
    sandbox.git(&["commit", "--quiet", "--all", "--message", "another source"]);
    insta::assert_snapshot!(sandbox.fails(&["reproduce", "HEAD", "--device", "fake"]), @"2 error: kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s128.json cannot be reproduced here: its source does not match its sidecar");
}

#[test]
fn a_modelled_winner_comes_out_the_same_on_the_same_virtual_gpu() {
    let sandbox = Sandbox::with_attention();
    let start = ["start", "--workload", "small", "--seed", "1", "--iterations", "6", "--device", "virtual:h200"];
    sandbox.succeeds(&[&start[..], &["--case", "s64"]].concat());
    let printed = json(&sandbox.succeeds(&["reproduce", "HEAD", "--device", "virtual:h200", "--json"]));
    let case = &printed["cases"][0];
    assert_eq!([&case["ratio"], &case["holds"]], [&Value::from(1.0), &Value::from(true)], "{case}");
    assert!(sandbox.fails(&["reproduce", "HEAD", "--device", "virtual:l4"]).contains("the device is virtual L4 here"));

    let table = sandbox.succeeds(&["bench", "small/s64", "--device", "virtual:h200"]);
    insta::assert_snapshot!(without_figures(&table), @"
    small/s64 on virtual H200, warm L2, times are modelled
    role what iteration µs interval samples over the challenger challenger is share of floor error SM MHz W °C mJ
    challenger attention-scalar HASH # # - # - - #% # - - - -
    baseline attention-scalar HASH # # - # #× faster #% # - - - -
    These times are modelled separately, without noise
    The floor is # µs, #% of the challenger's time

    versions: optloop 0.2.0, nvrtc #
    ");
}

/// As the first call in the README, on a machine without the GPU of the committed winners.
#[test]
fn a_winner_of_another_device_is_measured_where_this_one_has_none() {
    let sandbox = after_a_session();
    let theirs = "kernels/variants/another-gpu-1sm-4gib/small";
    std::fs::create_dir_all(sandbox.path("kernels/variants/another-gpu-1sm-4gib")).unwrap();
    std::fs::rename(sandbox.path(FAKE_WINNERS), sandbox.path(theirs)).unwrap();
    let output = sandbox.optloop(&["bench", "s64", "--device", "fake", "--samples", "24"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    insta::assert_snapshot!(said.lines().next().unwrap(), @"small/s64 has no winner of the fake device (no kernel was executed): taking kernels/variants/another-gpu-1sm-4gib/small/s64.json, the winner of another device");
    let diagnosed = sandbox.succeeds(&["diagnose", "s64", "--device", "fake"]);
    assert!(diagnosed.starts_with("small/s64 on "), "{diagnosed}");

    // The code of another architecture does not run here.
    sandbox.replace(&format!("{theirs}/s64.json"), "\"arch\": \"sm_90a\"", "\"arch\": \"sm_80\"");
    assert!(refused(&sandbox, "small/s64", &[]).contains("no winner of small/s64 is committed"));
}
