//! Sessions on the virtual H200, as they run without a GPU: real kernels, executed on the CPU, with modelled times.

use std::process::Output;

use crate::common::{self, Sandbox, VIRTUAL_WINNERS};
use serde_json::Value;

/// Runs a session of `iterations` on the device of `--device`, or on the default one. An existing driver is hidden.
fn session(sandbox: &Sandbox, iterations: &str, more: &[&str]) -> Output {
    let start = ["start", "--workload", "small", "--seed", "1", "--iterations", iterations];
    sandbox.command(&[&start, more].concat()).env("CUDA_VISIBLE_DEVICES", "").output().unwrap()
}

fn said(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn without_a_gpu_a_session_runs_on_the_virtual_h200_and_every_time_says_modelled() {
    let sandbox = Sandbox::with_attention();
    let said = said(&session(&sandbox, "10", &[]));
    assert!(
        said.contains("no CUDA device is available (")
            && said.contains("); using the virtual H200: times are modelled")
    );
    assert!(said.contains("us (modelled)"), "{said}");

    let report = sandbox.report();
    assert_eq!(report["session"]["device"], "virtual H200");
    assert_eq!(report["session"]["time_source"], "modelled");
    assert_eq!(report["session"]["cost_usd"], 0.0, "no GPU was rented");
    let case = report["cases"].as_array().unwrap().iter().find(|case| case["case"] == "s128").unwrap();
    assert!(case["speedup_over_start"].as_f64().unwrap() > 1.1, "{case}");
    assert_eq!(case["best_ci_us"], Value::Null, "a computed time has no noise");
    assert_eq!(case["baseline"]["name"], "modelled, the default configuration of attention-scalar");
    assert!(case["profile"]["launches"][0]["limiter"].is_string(), "{case}");
    assert_eq!(case["profile"]["checked_on"], Value::Null);
    let told = ["md", "html"].map(|format| sandbox.succeeds(&["report", "--format", format])).concat();
    assert!(told.contains("times are modelled: no GPU ran") && told.contains("limiter"), "{told}");

    // The winner is in git, in the virtual GPU's own folder, and is labelled as such.
    let commit = case["commit"].as_str().unwrap();
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    let files = sandbox.git(&["show", "--name-only", "--format=", commit]);
    assert!(files.contains(&format!("{VIRTUAL_WINNERS}/s128.json\n")), "{files}");
    assert!(files.lines().all(|file| file.starts_with(VIRTUAL_WINNERS)), "{files}");
    let message = sandbox.git(&["log", "-1", "--format=%B", commit]);
    assert!(message.lines().next().unwrap().ends_with("faster (modelled)"), "{message}");
    assert!(message.contains("Device:  virtual H200, modelled\n"), "{message}");
    let sidecar = sandbox.git(&["show", &format!("{commit}:{VIRTUAL_WINNERS}/s128.json")]);
    let sidecar: Value = serde_json::from_str(&sidecar).unwrap();
    assert_eq!(sidecar["measurement"]["time_source"], "modelled");
    assert_eq!(sidecar["measurement"]["samples"], 1, "a modelled time is one number");
    assert_eq!(sidecar["environment"]["device"], "virtual H200");

    let shown = sandbox.succeeds(&["show", &case["iteration"].to_string()]);
    assert!(shown.contains("times are modelled") && shown.contains("shared wavefronts / ideal"), "{shown}");
    let doctor = sandbox.succeeds(&["doctor"]);
    assert!(doctor.contains("virtual H200"), "{doctor}");
    // On any machine, doctor reports the state of each mechanism.
    let confined = doctor.lines().find(|line| line.contains("confinement: ")).unwrap();
    assert!(["namespaces", "Landlock", "seccomp"].iter().all(|name| confined.contains(name)), "{confined}");
}

/// Times of a real device are not used here, and its winner stays in place. Its configuration is a suggestion worth
/// trying.
#[test]
fn a_measured_winner_is_a_suggestion_and_no_time_to_beat() {
    let sandbox = Sandbox::with_attention();
    said(&session(&sandbox, "6", &["--device", "virtual", "--case", "s128"]));
    let measured = "kernels/variants/nvidia-h200-132sm-140gib/small";
    let in_folder = |path: &str| std::path::Path::new(path).parent().unwrap().to_str().unwrap().to_owned();
    sandbox.git(&["mv", &in_folder(VIRTUAL_WINNERS), &in_folder(measured)]);
    let sidecar = format!("{measured}/s128.json");
    let mut told = sandbox.json(&sidecar);
    told["measurement"]["time_source"] = "measured".into();
    told["measurement"]["median_us"] = 0.001.into();
    told["environment"]["device"] = "NVIDIA H200".into();
    sandbox.write(&sidecar, &told.to_string());
    sandbox.git(&["commit", "--quiet", "--all", "--message", "as if it were measured, and much faster"]);

    said(&session(&sandbox, "6", &["--device", "virtual:h200", "--case", "s128"]));
    let second = sandbox.succeeds(&["show", "8"]);
    assert!(second.contains("an earlier session confirmed it on NVIDIA H200"), "{second}");
    assert!(sandbox.report()["cases"][0]["commit"].is_string(), "it is committed beside the measured one");
    let files = sandbox.git(&["ls-files", "kernels"]);
    assert!([VIRTUAL_WINNERS, measured].iter().all(|folder| files.contains(&format!("{folder}/s128.json"))), "{files}");
}

/// Makes a project with a case that is checked on a smaller one.
fn with_a_large_case() -> Sandbox {
    let sandbox = Sandbox::with_attention();
    let large = "[[case]]\nname = \"large\"\nB = 4\nH = 4\nSq = 520\nSk = 520\nD = 16\n";
    sandbox.write("kernels/workloads/small.toml", &format!("{}\n{large}", common::WORKLOAD));
    sandbox.replace(
        "kernels/workloads/small.toml",
        "initial_kernel = \"toy\"",
        "initial_kernel = \"attention-scalar\"",
    );
    sandbox.write("config.toml", "[virtual]\nmax_gflop = 0.01\nlaunch_gflop = 0.02\n");
    sandbox
}

#[test]
fn heavy_cases_take_part_when_named_and_the_report_says_what_was_not_executed() {
    let sandbox = with_a_large_case();
    let told = said(&session(&sandbox, "1", &[]));
    assert!(told.contains("using 3 of the 4 cases of small: "), "{told}");
    assert_eq!(sandbox.report()["cases"].as_array().unwrap().len(), 3);

    said(&session(&sandbox, "2", &["--case", "large"]));
    let report = sandbox.report();
    let case = &report["cases"][0];
    let launch = &case["profile"]["launches"][0];
    assert!(launch["executed_blocks"].as_u64().unwrap() < launch["blocks"].as_u64().unwrap(), "{case}");
    assert!(launch["rows_compared"].as_u64().unwrap() > 8, "{case}");
    let dims = serde_json::json!({ "B": 2, "H": 2, "CAUSAL": 1, "Sq": 264, "Sk": 264, "D": 16 });
    assert_eq!(case["profile"]["checked_on"], dims);
    assert_eq!(report["correctness"][0]["rows"], 2 * 2 * 264);
    let told = sandbox.succeeds(&["report", "--format", "html"]);
    assert!(told.contains("large was not executed in full"), "{told}");
}

/// The smaller case has four heads, the case itself sixteen.
#[test]
fn a_fault_that_occurs_only_on_the_actual_case_is_found() {
    let head = "const size_t head = blockIdx.y";
    let refusals = [
        ("if (blockIdx.y > 6) return;", "% of its blocks were executed, and they wrote"),
        ("if (blockIdx.y > 6 && blockIdx.y < 15) v += D;", "on the case itself, relative error"),
    ];
    for (planted, reason) in refusals {
        let sandbox = with_a_large_case();
        sandbox.replace("templates/kernels/attention-scalar/kernel.cu.tera", head, &format!("{planted} {head}"));
        let output = session(&sandbox, "1", &["--case", "large"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("#1 wrong: ") && said.contains(reason), "{said}");
    }
}
