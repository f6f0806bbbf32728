//! Comparisons of recorded times through the command line: answers and refusals.

use crate::common::Sandbox;
use serde_json::Value;

const WINNER: &str = "kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s128.json";

/// A project whose only case has a committed winner.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let output = sandbox.session("20", &["--case", "s128"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(sandbox.path(WINNER).is_file());
    sandbox
}

/// Returns the iteration whose variant is the committed winner.
fn winner(sandbox: &Sandbox) -> String {
    sandbox.report()["cases"][0]["iteration"].to_string()
}

/// Copies the winner's sidecar with one thing changed.
fn changed(sandbox: &Sandbox, change: impl FnOnce(&mut Value)) {
    let mut sidecar: Value = serde_json::from_str(&std::fs::read_to_string(sandbox.path(WINNER)).unwrap()).unwrap();
    change(&mut sidecar);
    sandbox.write("other/s128.json", &sidecar.to_string());
}

fn answer(sandbox: &Sandbox, a: &str, b: &str) -> Value {
    serde_json::from_str(&sandbox.succeeds(&["compare", a, b, "--json"])).unwrap()
}

fn number(answer: &Value, pointer: &str) -> f64 {
    answer.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} of {answer}"))
}

/// The session's final compared its winner with its start, the default configuration of the initial kernel.
#[test]
fn participants_of_one_comparison_are_compared_by_its_rounds() {
    let sandbox = sandbox();
    let best = winner(&sandbox);
    let told = sandbox.succeeds(&["compare", &best, "1"]);
    assert!(told.starts_with("small/s128 (B=2 H=2 CAUSAL=1 Sq=128 Sk=128 D=16), f16 on fake device"), "{told}");
    assert!(told.contains("warm L2, modelled") && told.contains("Both were participants of one comparison"), "{told}");

    let stored = answer(&sandbox, &best, "1");
    assert_eq!(stored["ratio"]["paired"], true);
    let (ratio, noise) = (number(&stored, "/ratio/estimate"), number(&stored, "/noise"));
    assert!((ratio / (number(&stored, "/b/us") / number(&stored, "/a/us")) - 1.0).abs() < 0.01, "{stored}");
    assert!(ratio > 1.5 && noise < 0.01, "{stored}");
    let reversed = answer(&sandbox, "1", &best);
    assert!((ratio * number(&reversed, "/ratio/estimate") - 1.0).abs() < 1e-9, "{reversed}");
    // The baseline of a modelled session is its default configuration.
    assert_eq!(answer(&sandbox, "baseline:1/s128", "1")["ratio"]["estimate"], 1.0);
}

#[test]
fn a_committed_winner_is_compared_by_its_interval_whatever_it_is_called() {
    let sandbox = sandbox();
    let stored = answer(&sandbox, &winner(&sandbox), "1");
    for name in ["small/s128", WINNER, &sandbox.source(crate::common::FAKE_WINNERS, "s128")] {
        let committed = answer(&sandbox, name, "1");
        assert_eq!((&committed["ratio"]["paired"], &committed["noise"]), (&false.into(), &Value::Null), "{name}");
        assert_eq!(committed["conditions"], stored["conditions"], "{name}");
        assert!(number(&committed, "/a/samples") >= 40.0, "a sidecar has no samples, but their number: {committed}");
        let ratio = number(&committed, "/ratio/estimate");
        assert!((ratio - number(&committed, "/b/us") / number(&committed, "/a/us")).abs() < 1e-9, "{committed}");
        assert!(number(&committed, "/ratio/lo") < ratio && ratio < number(&committed, "/ratio/hi"), "{committed}");
    }
    let told = sandbox.succeeds(&["compare", "small/s128", "1"]);
    assert!(told.ends_with("Both times are modelled: no GPU ran.\n"), "{told}");
}

#[test]
fn incomparable_times_are_refused_with_the_differences() {
    let sandbox = sandbox();
    let refused = |change: &dyn Fn(&mut Value)| {
        changed(&sandbox, change);
        sandbox.fails(&["compare", WINNER, "other/s128.json"])
    };
    let set = |pointer: &'static str, value: Value| {
        move |sidecar: &mut Value| *sidecar.pointer_mut(pointer).unwrap() = value.clone()
    };
    insta::assert_snapshot!(refused(&set("/measurement/workload", "attention".into())), @"2 error: these times are not comparable: the workload is small here and attention there");
    insta::assert_snapshot!(refused(&set("/measurement/case", "s64".into())), @"2 error: these times are not comparable: the case is s128 here and s64 there");
    insta::assert_snapshot!(refused(&set("/measurement/dims/Sq", 256.into())), @"2 error: these times are not comparable: the case's shape is B=2 CAUSAL=1 D=16 H=2 Sk=128 Sq=128 here and B=2 CAUSAL=1 D=16 H=2 Sk=128 Sq=256 there");
    let as_f32 = |sidecar: &mut Value| {
        sidecar["dtype"] = "f32".into();
        for tensor in sidecar["tensors"].as_object_mut().unwrap().values_mut() {
            tensor["dtype"] = "f32".into();
        }
    };
    insta::assert_snapshot!(refused(&as_f32), @"2 error: these times are not comparable: the dtype is f16 here and f32 there");
    insta::assert_snapshot!(refused(&set("/environment/device", "NVIDIA H200".into())), @"2 error: these times are not comparable: the device is fake device (no kernel was executed) here and NVIDIA H200 there");
    insta::assert_snapshot!(refused(&set("/measurement/regime", "cold".into())), @"2 error: these times are not comparable: the cache regime is warm here and cold there");
    insta::assert_snapshot!(refused(&set("/measurement/time_source", "measured".into())), @"2 error: these times are not comparable: the time source is modelled here and measured there");
}

#[test]
fn an_argument_that_names_no_time_gets_the_valid_forms() {
    let sandbox = Sandbox::new();
    let output = sandbox.session("6", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // D is rendered into the source, so two of the three cases share their iterations.
    let rows: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--case", "s128", "--json"])).unwrap();
    let several = rows[0]["iteration"].to_string();
    let said = |a: &str, more: &[&str]| sandbox.fails(&[&["compare", a, &several], more].concat());
    insta::assert_snapshot!(said(&several, &[]), @"2 error: iteration 2 was timed on several cases: add --case, one of s64, s128");
    insta::assert_snapshot!(said(&several, &["--case", "s12"]), @"2 error: iteration 2 was not timed on `s12` (did you mean `s128`?); it was on s64, s128");
    insta::assert_snapshot!(said("99", &[]), @"2 error: there is no iteration 99; the iterations are 1 to 6");
    insta::assert_snapshot!(said("winner", &[]), @"2 error: `winner` does not name a time: write an iteration's number, <workload>/<case>, a winner's .json or .cu, or baseline:<session>/<case>");
    insta::assert_snapshot!(said("small/s999", &["--case", "s128"]), @"2 error: `small/s999` has no committed winner in kernels/variants/");
    insta::assert_snapshot!(said("baseline:s128", &[]), @"2 error: `baseline:s128` does not name a baseline: write baseline:<session>/<case>, such as baseline:3/b1h1s128");
    insta::assert_snapshot!(said("baseline:1/s12", &["--case", "s128"]), @"2 error: session 1 timed no baseline on `s12` (did you mean `s128`?)");
    insta::assert_snapshot!(said("missing.cu", &["--case", "s128"]), @"2 error: `missing.cu` has no sidecar beside it");
    sandbox.write("broken.json", "{}");
    assert!(
        said("broken.json", &["--case", "s128"]).starts_with("2 error: broken.json is not the sidecar of a winner: ")
    );
}

/// A winner of the first release names neither its workload nor its dimensions; its folder and its tensors imply them.
#[test]
fn a_sidecar_of_the_first_release_is_understood_as_long_as_its_case_has_its_shapes() {
    let sandbox = sandbox();
    let mut sidecar: Value = serde_json::from_str(&std::fs::read_to_string(sandbox.path(WINNER)).unwrap()).unwrap();
    for later in ["workload", "dims", "ratio_to_baseline", "noise", "sm_clock_mhz"] {
        sidecar["measurement"].as_object_mut().unwrap().remove(later).unwrap();
    }
    sandbox.write(WINNER, &sidecar.to_string());
    assert!(sandbox.succeeds(&["compare", "small/s128", "1"]).contains("as long as A"));

    sandbox.replace("kernels/workloads/small.toml", "Sq = 128", "Sq = 96");
    insta::assert_snapshot!(sandbox.fails(&["compare", "small/s128", "1"]), @"2 error: kernels/variants/fake-device-no-kernel-was-executed-132sm-16gib/small/s128.json does not record its dimensions, and small no longer has a case `s128` with its shapes");
}
