//! Comparisons of recorded times through the command line: what is answered, and what is refused.

mod common;

use common::Sandbox;
use optloop::domain::conditions::Conditions;
use optloop::domain::contest::{Contest, Entrant, Role};
use optloop::domain::evaluation::Timing;
use serde_json::Value;

const WINNER: &str = "kernels/modelled/fake/small/s128.json";

/// A project whose only case has a committed winner.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("20", &["--case", "s128"]).status.success());
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

#[test]
fn a_start_and_a_winner_are_compared_whatever_they_are_called() {
    let sandbox = sandbox();
    let best = winner(&sandbox);
    let told = sandbox.succeeds(&["compare", &best, "1"]);
    assert!(told.starts_with("small/s128 (B=2 H=2 CAUSAL=1 Sq=128 Sk=128 D=16), f16 on fake device"), "{told}");
    assert!(told.contains("warm L2, modelled") && told.contains("no GPU ran"), "{told}");

    let answer =
        |a: &str, b: &str| -> Value { serde_json::from_str(&sandbox.succeeds(&["compare", a, b, "--json"])).unwrap() };
    let stored = answer(&best, "1");
    let (us, start_us) = (stored["a"]["us"].as_f64().unwrap(), stored["b"]["us"].as_f64().unwrap());
    assert!((stored["ratio"]["estimate"].as_f64().unwrap() - start_us / us).abs() < 1e-9);
    assert_eq!(stored["ratio"]["paired"], false);
    for name in ["small/s128", WINNER, "kernels/modelled/fake/small/s128.cu"] {
        let committed = answer(name, "1");
        assert!((committed["a"]["us"].as_f64().unwrap() / us - 1.0).abs() < 1e-6, "{name}");
        assert_eq!(committed["a"]["samples"], 40, "a sidecar has no samples, but their number");
        assert_eq!(committed["conditions"], stored["conditions"], "{name}");
    }
    // The fake device's baseline is the seed, which is the first iteration.
    assert_eq!(answer("baseline:1/s128", "1")["ratio"]["estimate"], 1.0);
}

#[test]
fn unlike_times_are_refused_with_what_differs() {
    let sandbox = sandbox();
    let refused = |change: &dyn Fn(&mut Value)| {
        changed(&sandbox, change);
        sandbox.fails(&["compare", WINNER, "other/s128.json"])
    };
    let set = |pointer: &'static str, value: Value| {
        move |sidecar: &mut Value| *sidecar.pointer_mut(pointer).unwrap() = value.clone()
    };
    insta::assert_snapshot!(refused(&set("/measurement/workload", "attention".into())), @"");
    insta::assert_snapshot!(refused(&set("/measurement/case", "s64".into())), @"");
    insta::assert_snapshot!(refused(&set("/measurement/dims/Sq", 256.into())), @"");
    insta::assert_snapshot!(refused(&set("/tensors/q/dtype", "f32".into())), @"");
    insta::assert_snapshot!(refused(&set("/environment/device", "NVIDIA H200".into())), @"");
    insta::assert_snapshot!(refused(&set("/measurement/regime", "cold".into())), @"");
    insta::assert_snapshot!(refused(&set("/measurement/time_source", "measured".into())), @"");
}

#[test]
fn what_names_no_time_is_answered_with_what_would() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("6", &[]).status.success());
    let said = |a: &str, more: &[&str]| sandbox.fails(&[&["compare", a, "1"], more].concat());
    insta::assert_snapshot!(said("1", &[]), @"");
    insta::assert_snapshot!(said("1", &["--case", "s12"]), @"");
    insta::assert_snapshot!(said("99", &[]), @"");
    insta::assert_snapshot!(said("winner", &[]), @"");
    insta::assert_snapshot!(said("small/s999", &["--case", "s128"]), @"");
    insta::assert_snapshot!(said("baseline:s128", &[]), @"");
    insta::assert_snapshot!(said("baseline:1/s12", &["--case", "s128"]), @"");
    insta::assert_snapshot!(said("missing.cu", &["--case", "s128"]), @"");
    sandbox.write("broken.json", "{}");
    assert!(said("broken.json", &["--case", "s128"]).starts_with("2 error: broken.json is no sidecar of a winner: "));
}

/// A winner of the first release says neither its workload nor its dimensions: its folder and its tensors do.
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
    insta::assert_snapshot!(sandbox.fails(&["compare", "small/s128", "1"]), @"");
}

/// The fake device holds no contests, so one is written for it.
#[tokio::test]
async fn entrants_of_one_contest_are_compared_by_its_rounds() {
    let sandbox = sandbox();
    let best: i64 = winner(&sandbox).parse().unwrap();
    let stored: Value =
        serde_json::from_str(&sandbox.succeeds(&["compare", &best.to_string(), "1", "--json"])).unwrap();
    let conditions: Conditions = serde_json::from_value(stored["conditions"].clone()).unwrap();
    // Both slow down alike, which the medians show and the ratio of rounds does not.
    let entrant = |role, name: &str, iteration, ns: f64| {
        let blocks_ns: Vec<f64> = (0..12).map(|round| ns * (1.0 + 0.05 * f64::from(round))).collect();
        let timing = Timing::of(blocks_ns.clone(), 1).unwrap();
        let name = name.to_owned();
        Entrant { role, name, iteration, timing, blocks_ns, correctness: None, machine: None, energy_j: None }
    };
    let contest = Contest {
        conditions,
        entrants: vec![
            entrant(Role::Challenger, "toy best", Some(best), 1000.0),
            entrant(Role::Twin, "toy best", Some(best), 1000.0),
            entrant(Role::Rival, "toy seed", Some(1), 1250.0),
            entrant(Role::Baseline, "torch sdpa (flash)", None, 2000.0),
        ],
        block: 1,
        discarded_rounds: 0,
        shrinkage: None,
        floor_ns: None,
        others: Vec::new(),
    };
    record_final(&sandbox, &contest, best).await;

    let told = sandbox.succeeds(&["compare", &best.to_string(), "1"]);
    let answer = told.split_once("B takes").unwrap().1;
    insta::assert_snapshot!(answer, @"");
    let reversed: Value =
        serde_json::from_str(&sandbox.succeeds(&["compare", "baseline:1/s128", &best.to_string(), "--json"])).unwrap();
    assert_eq!((&reversed["a"]["name"], &reversed["ratio"]["paired"]), (&"torch sdpa (flash)".into(), &true.into()));
    assert!((reversed["ratio"]["estimate"].as_f64().unwrap() - 0.5).abs() < 1e-6, "{reversed}");
}

/// Puts a final on record as if the session were still running.
async fn record_final(sandbox: &Sandbox, contest: &Contest, winner: i64) {
    let path = sandbox.path(".optloop/optloop.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let reopen = "DROP TRIGGER ended_session_stays;
                  UPDATE sessions SET status = 'interrupted';
                  CREATE TRIGGER ended_session_stays BEFORE UPDATE ON sessions WHEN OLD.status IN ('finished', 'failed')
                  BEGIN SELECT RAISE(ABORT, 'the session has ended'); END;";
    sqlx::raw_sql(reopen).execute(&mut connection).await.unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    let store = optloop::store::Store::open_existing(&path).await.unwrap();
    store.record_final(1, contest, winner).await.unwrap();
    store.close().await;
}
