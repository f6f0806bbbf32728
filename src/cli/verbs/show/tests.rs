use serde_json::Value;

use super::*;
use crate::domain::code::profile::tests::launch;
use crate::domain::code::profile::{LaunchProfile, Profile};
use crate::domain::measurement::comparison::Role;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::statistics::timing::Timing;
use crate::store::testing::{Scene, comparison, evaluation, finish, participant, proposal};

async fn printed(scene: &Scene, iteration: IterationId, json: bool) -> String {
    let mut out = Vec::new();
    let args = Args { iteration, case: None, brief: false, source: false, sass: None, json };
    run(&args, None, &scene.store, &Killed::default(), Screen::plain(), &mut out).await.unwrap();
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn an_iteration_is_shown_in_full() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let better = scene.measured(session, 128, Some(start), 80_000.0, Verdict::Improved).await;
    let begun = scene.store.iteration(better).await.unwrap().iteration.started_at;
    insta::assert_snapshot!(printed(&scene, better, false).await.replace(&begun, "2026-11-20T10:00:00.000Z"), @"
    Iteration 2 of session 1: attention-fp16-d64 on NVIDIA L4, times are measured

    outcome     measured
    family      tiled
    parameters  BLOCK=128
    variant     e2935da259580704f68c029b824df9ed
    proposer    rules
    parent      1
    claim       128 threads fill the SMs
    evidence    2 blocks on 58 SMs
    mechanism   threads
    predicted   1.25× (80%: 1.10× to 1.50×) on b1h1s128 over iteration 1
    actual      1.25×
    score       in_range
    started     2026-11-20T10:00:00.000Z
    time        3 s, 0.3 s of it on the device
    cost        $0.03 (GPU $0.01, language models $0.02)

    case          b1h1s128
    verdict       improved
    µs, measured  80.00
    interval      40.00 to 120.00
    samples       3
    confirmed     yes
    speed-up      1.25×
    error         1.0e-4
    worst row     2.0e-4
    rows          64 of 128
    blocks        2
    commit        -

    Compiled for sm_89 by NVRTC 13.0 in 120 ms to 100 bytes, options:
    --use_fast_math
    kernel  registers  shared bytes  stack bytes  spill stores  spill loads
    tiled          64             0            0             0            0

    Compiler's log:
    ptxas info

    Source:
    __launch_bounds__(128)

    Changes from its parent:
    --- iteration 1
    +++ iteration 2
    @@ -1 +1 @@
    -__launch_bounds__(64)
    +__launch_bounds__(128)
    ");
    let json: serde_json::Value = serde_json::from_str(&printed(&scene, better, true).await).unwrap();
    assert_eq!(json["parent_source"], "__launch_bounds__(64)\n");
}

#[tokio::test]
async fn what_a_virtual_gpu_counted_is_shown_launch_by_launch() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let iteration = scene.store.begin(session, &proposal(64, None)).await.unwrap();
    let mut evaluation = evaluation(1000.0, false);
    let launches = vec![launch("attend", 900.0), LaunchProfile { executed_blocks: 64, ..launch("combine", 100.0) }];
    evaluation.measurements[0].profile = Some(Profile { launches, checked_on: None });
    scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
    let shown = printed(&scene, iteration, false).await;
    let counted = shown.split("Counted:").nth(1).and_then(|rest| rest.split("\nSource").next()).unwrap();
    insta::assert_snapshot!(counted, @"

    case                       b1h1s128  b1h1s128
    kernel                     attend    combine
    µs, modelled               0.900     0.100
    limiter                    shared    shared
    blocks per SM              4         4
    active lanes               31.5      31.5
    divergent branches         5.0%      5.0%
    global sectors / ideal     1.20×     1.20×
    shared wavefronts / ideal  32.00×    32.00×
    local sectors              0         0
    b1h1s128 was not executed in full: combine: 64 of 256 blocks counted
    ");
}

#[tokio::test]
async fn programs_get_every_interval_that_people_get() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let iteration = scene.store.begin(session, &proposal(128, Some(start))).await.unwrap();
    let mut evaluation = evaluation(80_000.0, false);
    let held = comparison(
        "b1h1s128",
        vec![
            participant(Role::Challenger, "tiled", Some(iteration), 80.0),
            participant(Role::Control, "tiled", Some(iteration), 80.0),
            participant(Role::Incumbent, "tiled", Some(start), 100.0),
        ],
    );
    let (_, ratio) = held.against(Role::Incumbent).unwrap();
    evaluation.measurements[0].confirm(held.clone());
    scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
    let json: Value = serde_json::from_str(&printed(&scene, iteration, true).await).unwrap();
    let time = &json["times"][0];
    let ends = |value: &Value| [value[0].as_f64().unwrap(), value[1].as_f64().unwrap()];
    let [lo, hi] = ends(&time["ci_us"]);
    assert!(lo < time["median_us"].as_f64().unwrap() && time["median_us"].as_f64().unwrap() < hi, "{time}");
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-5;
    let [lo, hi] = ends(&time["speedup_ci"]);
    assert!(near(lo, ratio.interval.lo) && near(hi, ratio.interval.hi), "{time}");
    assert!(near(time["noise"].as_f64().unwrap(), held.noise()), "{time}");
    let participants = &json["comparisons"][0]["participants"];
    assert!(near(participants[2]["ratio"].as_f64().unwrap(), ratio.estimate), "{participants}");
    assert!(participants[2]["ratio_ci"].is_array() && participants[0]["ci_us"].is_array(), "{participants}");
    assert_eq!(participants[2]["challenger_is"], "faster");
}

/// A kernel that takes seconds has one sample.
#[tokio::test]
async fn a_single_sample_has_no_interval() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let iteration = scene.store.begin(session, &proposal(64, None)).await.unwrap();
    let mut evaluation = evaluation(1000.0, false);
    evaluation.measurements[0].screening = Timing::of(vec![1000.0], 1);
    scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
    let shown = printed(&scene, iteration, false).await;
    assert!(shown.contains("µs, measured  1.000\ninterval      -\nsamples       1\n"), "{shown}");
    let json: Value = serde_json::from_str(&printed(&scene, iteration, true).await).unwrap();
    let screening = &json["iteration"]["measurements"][0]["screening"];
    assert_eq!((&screening["interval_ns"], screening["median_ns"].as_f64()), (&Value::Null, Some(1000.0)));
}

#[tokio::test]
async fn an_iteration_that_never_ended_is_shown_as_such() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let begun = scene.store.begin(session, &proposal(64, None)).await.unwrap();
    assert!(printed(&scene, begun, false).await.contains("unfinished: still in flight, or optloop was killed"));
}
