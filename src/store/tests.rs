//! Scenarios of a store, through its public functions.

use super::testing::{Scene, artifact, evaluation, finish, on_commit, proposal, session, timing, wrong};
use super::*;
use crate::domain::budget::cost::Spent;
use crate::domain::budget::phase::{Phase, PhaseTime, StepTimes};
use crate::domain::code::CodeFigures;
use crate::domain::code::ablation::{Ablated, Ablation, Removed, SourceLine};
use crate::domain::code::counters::{Counted, CountedBaseline, Counters, LaunchCounters, Resource};
use crate::domain::code::launched::LaunchedKernel;
use crate::domain::code::profile::Profile;
use crate::domain::code::profile::tests::launch;
use crate::domain::device::regime::Regime;
use crate::domain::family::plan::{Initial, Launch, LaunchPlan, LaunchShape, Workspace};
use crate::domain::history::History;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::measurement::verdict::{Decision, Verdict};
use crate::domain::models::call::{AnswerForm, CallPurpose, ModelRequest};
use crate::domain::models::call_record::CallSubject;
use crate::domain::models::money::MicroUsd;
use crate::domain::op::Axis;
use crate::domain::proposal::experiment::Scaling;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::journal::{Begun, Concluded, Record};
use crate::domain::record::{Baseline, BaselineKind, Status};
use crate::error::Error;

/// Removes the instants, which differ in every run. Both must be there.
fn without_instants(started_at: &mut String, ended_at: &mut Option<String>) {
    for instant in [started_at, ended_at.as_mut().unwrap()] {
        *instant = "[instant]".to_owned();
    }
}

#[tokio::test]
async fn what_a_virtual_gpu_counted_is_kept() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let iteration = scene.store.begin(session, &proposal(64, None)).await.unwrap();
    let mut evaluation = evaluation(100_000.0, false);
    let profile = Profile { launches: vec![launch("tiled", 100_000.0)], checked_on: None };
    evaluation.measurements[0].profile = Some(profile.clone());
    scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!(record.iterations[0].measurements[0].profile, Some(profile));
}

#[tokio::test]
async fn suggestions_that_were_left_out_are_counted() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    for (block, left_out) in [(64, 0), (128, 3), (256, 40)] {
        let iteration = scene.store.begin(session, &proposal(block, None)).await.unwrap();
        let evaluation = evaluation(100_000.0, false);
        scene.store.finish(iteration, &Finish { left_out, ..finish(&evaluation, &[]) }).await.unwrap();
    }
    assert_eq!(scene.store.session_record(session).await.unwrap().suggestions_left_out, 43);
    let refused = sqlx::query("DELETE FROM suggestions_left_out").execute(&scene.store.pool).await.unwrap_err();
    assert!(refused.to_string().contains("never changes"), "{refused}");
}

#[tokio::test]
async fn the_time_of_work_that_belongs_to_no_iteration_is_kept_and_never_changes() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let steps = StepTimes { acceptance_s: 0.5, comparison_s: 1.25, ..StepTimes::default() };
    let times = [
        PhaseTime::of(Phase::Baselines, Duration::from_millis(1500)),
        PhaseTime { phase: Phase::Final, case: Some("b1h1s128".into()), wall_s: 2.0, steps },
    ];
    for time in &times {
        scene.store.record_phase(session, time).await.unwrap();
    }
    assert_eq!(scene.store.session_record(session).await.unwrap().phases, times);
    for change in ["UPDATE phases SET wall_s = 0", "DELETE FROM phases"] {
        let refused = sqlx::query(change).execute(&scene.store.pool).await.unwrap_err().to_string();
        assert!(refused.contains("never changes"), "{refused}");
    }
}

/// Ctrl-C drops the future, wherever it is.
#[tokio::test]
async fn a_write_that_is_dropped_half_way_is_undone_and_blocks_no_other() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let changed = tokio::sync::Notify::new();
    let half = scene.store.write(async |connection| {
        sqlx::query("UPDATE sessions SET proposer = 'nobody'").execute(connection).await?;
        changed.notify_one();
        std::future::pending::<Result<(), StoreError>>().await
    });
    tokio::select! {
        _ = half => unreachable!("it waits for ever"),
        () = changed.notified() => {}
    }
    let spent = Spent { gpu_s: 1.0, gpu_usd: 0.0, llm_usd: 0.0 };
    scene
        .store
        .end_session(session, Status::Interrupted, ("stopped", None), Duration::from_secs(1), spent)
        .await
        .unwrap();
    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!((record.session.status, record.session.proposer.as_str()), (Status::Interrupted, "rules"));
}

#[tokio::test]
async fn a_session_is_told_from_start_to_end() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let session = scene.session().await;
    let baseline = Baseline {
        case: "b1h1s128".into(),
        name: "torch sdpa".to_owned(),
        kind: BaselineKind::Program,
        regime: Regime::Cold,
        timing: timing(25_000.0),
        eager_ns: Some(40_000.0),
        relative_l2: Some(2e-4),
        kernels: vec![LaunchedKernel {
            name: "flash".to_owned(),
            grid: [1, 8, 2],
            block: [128, 1, 1],
            shared_bytes: Some(49_152),
            registers: None,
        }],
    };
    store.record_baselines(session, std::slice::from_ref(&baseline)).await.unwrap();

    let first = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let second = scene.measured(session, 128, Some(first), 80_000.0, Verdict::Improved).await;
    store.link_commit(second, "b1h1s128", "abc123").await.unwrap();
    let third = store.begin(session, &proposal(256, Some(second))).await.unwrap();
    let (evaluation, decisions) = wrong();
    store.finish(third, &finish(&evaluation, &decisions)).await.unwrap();
    let spent = Spent { gpu_s: 3600.0, gpu_usd: 0.2, llm_usd: 0.06 };
    store
        .end_session(session, Status::Finished, ("its time budget is spent", None), Duration::from_secs(3600), spent)
        .await
        .unwrap();

    let record = store.session_record(session).await.unwrap();
    assert_eq!(record.environment, self::session().environment);
    assert_eq!(record.baselines, [baseline]);
    let mut summary = record.session.clone();
    without_instants(&mut summary.started_at, &mut summary.ended_at);
    insta::assert_json_snapshot!(summary, @r#"
    {
      "id": 1,
      "kind": "search",
      "workload": "attention-fp16-d64",
      "cases": [
        "b1h1s128"
      ],
      "proposer": "rules",
      "seed": 18446744073709551615,
      "device": "NVIDIA L4",
      "devices": 1,
      "oracle_on": "cuda:0",
      "time_source": "measured",
      "graphs": "alone",
      "status": "finished",
      "stop_reason": "its time budget is spent",
      "early_end": null,
      "started_at": "[instant]",
      "ended_at": "[instant]",
      "budget_s": 3600.0,
      "max_cost_usd": 1.5,
      "max_iterations": null,
      "wall_s": 3600.0,
      "resumptions": 0,
      "iterations": 3,
      "unfinished": 0,
      "wins": 1,
      "best_speedup": 1.2628,
      "best_speedup_ci": null,
      "cost": {
        "gpu_s": 3600.0,
        "gpu_usd": 0.2,
        "llm_usd": 0.06
      }
    }
    "#);
    let mut iteration = record.iterations[1].clone();
    without_instants(&mut iteration.started_at, &mut iteration.ended_at);
    insta::assert_json_snapshot!(iteration, @r#"
    {
      "id": 2,
      "session": 1,
      "ordinal": 2,
      "proposer": "rules",
      "purpose": "screening",
      "origin": {
        "kind": "random"
      },
      "parent": 1,
      "hypothesis": {
        "claim": "128 threads fill the SMs",
        "evidence": "2 blocks on 58 SMs",
        "mechanism": "threads",
        "case": "b1h1s128",
        "predicted": {
          "median": 1.25,
          "lo": 1.1,
          "hi": 1.5,
          "strength": "weak",
          "model": {
            "mean": 0.25,
            "sd": 0.125
          }
        },
        "tuned": [
          1.2,
          1.6
        ],
        "reference": "iteration",
        "relative_to": 1
      },
      "family": "tiled",
      "params": {
        "BLOCK": 128
      },
      "hash": "e2935da259580704f68c029b824df9ed",
      "kernels": [
        {
          "name": "tiled",
          "registers": 64,
          "shared_bytes": 0,
          "stack_bytes": 0,
          "spill_store_bytes": 0,
          "spill_load_bytes": 0,
          "instructions": null
        }
      ],
      "cases": [
        {
          "name": "b1h1s128",
          "dims": {
            "S": 128
          },
          "regime": "warm"
        }
      ],
      "started_at": "[instant]",
      "ended_at": "[instant]",
      "outcome": {
        "kind": "measured"
      },
      "actual": 1.25,
      "score": "in_range",
      "measurements": [
        {
          "case": "b1h1s128",
          "regime": "warm",
          "correctness": {
            "relative_l2": 0.0001,
            "worst_row": 0.0002,
            "rows_checked": 64,
            "rows": 128
          },
          "ctas": 2,
          "screening": {
            "samples_ns": [
              40512.0,
              81024.0,
              121536.0
            ],
            "launches_per_sample": 4,
            "median_ns": 81024.0,
            "interval_ns": {
              "lo": 40512.0,
              "hi": 121536.0
            }
          },
          "confirmation": {
            "samples_ns": [
              40000.0,
              80000.0,
              120000.0
            ],
            "launches_per_sample": 4,
            "median_ns": 80000.0,
            "interval_ns": {
              "lo": 40000.0,
              "hi": 120000.0
            }
          },
          "comparison": null,
          "profile": null,
          "explanation": null,
          "counters": null,
          "verdict": "improved",
          "speedup": 1.25,
          "commit": "abc123",
          "is_earlier": false,
          "found_in": null
        }
      ],
      "device_s": 0.25,
      "wall_s": 3.0,
      "steps": {
        "waiting_s": 0.0,
        "screening_s": 0.25,
        "acceptance_s": 0.5,
        "sanitizer_s": 0.0,
        "comparison_s": 0.0
      },
      "cost": {
        "gpu_s": 9.0,
        "gpu_usd": 0.01,
        "llm_usd": 0.02
      }
    }
    "#);
    assert_eq!(record.iterations[2].outcome, Some(evaluation.outcome));
    assert_eq!(record.iterations[2].measurements[0].correctness, None);
    assert_eq!(store.cumulative_cost().await.unwrap(), spent);
    assert_eq!(store.latest_session().await.unwrap(), record.session);
}

#[tokio::test]
async fn a_crash_leaves_a_running_session_and_its_unfinished_iteration() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let iteration = scene.store.begin(session, &proposal(64, None)).await.unwrap();
    let path = scene.path();
    scene.store.close().await;

    let store = Store::open_existing(&path).await.unwrap();
    let summary = store.latest_session().await.unwrap();
    assert_eq!((summary.status, summary.unfinished), (Status::Running, 1));
    let history = store.history(&Filter::default()).await.unwrap();
    assert_eq!((history[0].iteration, history[0].outcome.as_deref()), (iteration, None));
}

#[tokio::test]
async fn an_iteration_is_shown_with_its_source_its_parents_and_its_artifact() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let first = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let second = scene.measured(session, 128, Some(first), 80_000.0, Verdict::Improved).await;

    let detail = scene.store.iteration(second).await.unwrap();
    assert_eq!(detail.source, "__launch_bounds__(128)\n");
    assert_eq!(detail.parent_source.as_deref(), Some("__launch_bounds__(64)\n"));
    assert_eq!(detail.artifact.map(|artifact| (artifact.key, artifact.cubin_bytes)), Some(("key-128".to_owned(), 100)));
    // All of these samples are exact in f32.
    assert_eq!(detail.iteration.measurements[0].confirmation, Some(timing(80_000.0)));
}

#[tokio::test]
async fn a_history_is_filtered_and_sorted() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let slow = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let fast = scene.measured(session, 128, Some(slow), 80_000.0, Verdict::Improved).await;
    let refused = scene.store.begin(session, &proposal(256, Some(fast))).await.unwrap();
    let evaluation = Evaluation::without_device(Outcome::RejectedByCompiler { message: "expected a `;`".to_owned() });
    let free = Finish { spent: Spent::default(), compile_log: Some("expected a `;`"), ..finish(&evaluation, &[]) };
    scene.store.finish(refused, &free).await.unwrap();

    let numbers = async |filter: Filter| {
        let rows = scene.store.history(&filter).await.unwrap();
        rows.iter().map(|row| row.iteration).collect::<Vec<_>>()
    };
    assert_eq!(numbers(Filter::default()).await, [slow, fast, refused]);
    assert_eq!(numbers(Filter { sort: Sort::Time, ..Filter::default() }).await, [fast, slow], "what has a time");
    assert_eq!(numbers(Filter { sort: Sort::Speedup, ..Filter::default() }).await, [fast], "what has a speed-up");
    let of_session = Filter { session: Some(session), ..Filter::default() };
    assert_eq!(numbers(Filter { sort: Sort::Time, ..of_session.clone() }).await, [fast, slow]);
    assert_eq!(numbers(Filter { reverse: true, limit: Some(2), ..of_session.clone() }).await, [refused, fast]);
    assert_eq!(numbers(Filter { offset: 1, limit: Some(1), ..of_session }).await, [fast]);
    assert_eq!(numbers(Filter { sort: Sort::Time, reverse: true, ..Filter::default() }).await, [slow, fast]);
    assert_eq!(numbers(Filter { origin: Some("family_default".to_owned()), ..Filter::default() }).await, [slow]);
    assert_eq!(numbers(Filter { proposer: Some("rules".to_owned()), ..Filter::default() }).await.len(), 3);
    assert_eq!(numbers(Filter { proposer: Some("llm".to_owned()), ..Filter::default() }).await, []);
    let since = |instant: &str| Filter { since: Some(instant.to_owned()), ..Filter::default() };
    assert_eq!((numbers(since("2020-01-01")).await.len(), numbers(since("3020-01-01T00:00")).await.len()), (3, 0));
    assert_eq!(numbers(Filter { sort: Sort::Cost, limit: Some(2), ..Filter::default() }).await, [slow, fast]);
    assert_eq!(numbers(Filter { verdict: Some(Verdict::Improved), ..Filter::default() }).await, [fast]);
    assert_eq!(
        numbers(Filter { outcome: Some("rejected_by_compiler".to_owned()), ..Filter::default() }).await,
        [refused]
    );
    assert_eq!(numbers(Filter { case: Some("b1h1s128".into()), ..Filter::default() }).await, [slow, fast]);
    assert_eq!(numbers(Filter { family: Some("other".to_owned()), ..Filter::default() }).await, []);
    assert_eq!(numbers(Filter { session: Some(SessionId(session.0 + 1)), ..Filter::default() }).await, []);
}

#[tokio::test]
async fn what_is_finished_never_changes() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let session = scene.session().await;
    let first = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;

    let (evaluation, decisions) = wrong();
    assert!(matches!(store.finish(first, &finish(&evaluation, &decisions)).await, Err(StoreError::Refused(_))));
    store.link_commit(first, "b1h1s128", "abc").await.unwrap();
    // A winner that becomes the best again keeps its commit.
    store.link_commit(first, "b1h1s128", "def").await.unwrap();
    for sql in [
        "UPDATE iterations SET source = ''",
        "DELETE FROM iterations",
        "UPDATE measurements SET screening_median_ns = 1",
        "DELETE FROM measurements",
        "UPDATE commits SET commit_id = 'def'",
        "UPDATE hypotheses SET predicted_lo = 0",
        "UPDATE hypotheses SET score = 'above'",
    ] {
        let error = sqlx::query(sql).execute(&store.pool).await.unwrap_err();
        assert!(matches!(StoreError::from(error), StoreError::Refused(_)), "{sql}");
    }
}

#[tokio::test]
async fn an_interrupted_session_may_go_on_and_a_finished_one_may_not() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let end = async |status| {
        scene.store.end_session(session, status, ("stopped", None), Duration::from_secs(1), Spent::default()).await
    };
    end(Status::Interrupted).await.unwrap();
    end(Status::Failed).await.unwrap();
    end(Status::Finished).await.unwrap();
    assert!(matches!(end(Status::Finished).await, Err(StoreError::Refused(_))));
}

#[tokio::test]
async fn references_must_exist() {
    let scene = Scene::new().await;
    let store = &scene.store;
    assert!(matches!(store.begin(SessionId(7), &proposal(64, None)).await, Err(StoreError::Refused(_))));
    let session = scene.session().await;
    assert!(matches!(store.begin(session, &proposal(64, Some(IterationId(99)))).await, Err(StoreError::Refused(_))));
    assert!(matches!(store.link_commit(IterationId(99), "b1h1s128", "abc").await, Err(StoreError::Refused(_))));
}

#[tokio::test]
async fn an_unknown_number_is_answered_with_the_known_ones() {
    let scene = Scene::new().await;
    let say = |error: StoreError| error.to_string();
    insta::assert_snapshot!(say(scene.store.latest_session().await.unwrap_err()), @"there are no sessions yet: run `optloop start` first");
    insta::assert_snapshot!(say(scene.store.session(SessionId(3)).await.unwrap_err()), @"there is no session 3; there are no sessions yet: run `optloop start` first");
    let session = scene.session().await;
    insta::assert_snapshot!(say(scene.store.session_record(SessionId(3)).await.unwrap_err()), @"there is no session 3; the only one is 1");
    for block in [64, 128, 256] {
        scene.store.begin(session, &proposal(block, None)).await.unwrap();
    }
    insta::assert_snapshot!(say(scene.store.iteration(IterationId(12)).await.unwrap_err()), @"there is no iteration 12; the iterations are 1 to 3");
    let (evaluation, decisions) = wrong();
    insta::assert_snapshot!(say(scene.store.finish(IterationId(12), &finish(&evaluation, &decisions)).await.unwrap_err()), @"there is no iteration 12; the iterations are 1 to 3");
}

#[tokio::test]
async fn the_same_machine_is_recorded_once() {
    let scene = Scene::new().await;
    scene.session().await;
    scene.session().await;
    let mut other = session();
    other.environment.torch = Some("2.9".to_owned());
    scene.store.begin_session(&other).await.unwrap();
    let environments: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM environments").fetch_one(&scene.store.pool).await.unwrap();
    assert_eq!(environments, 2);
}

/// On a full disk, the error comes with the commit, after SQLite has returned the row. A call that is not on record must
/// not be sent, because it costs money.
#[tokio::test]
async fn no_session_iteration_or_call_begins_that_is_not_stored() {
    let scene = Scene::new().await;
    let known = scene.session().await;
    let request = ModelRequest {
        purpose: CallPurpose::Plan,
        ordinal: 0,
        model: "m".to_owned(),
        system: String::new(),
        cached: String::new(),
        prompt: "?".to_owned(),
        answer: AnswerForm { name: "a".to_owned(), description: String::new(), schema: serde_json::json!({}) },
        max_output_tokens: 1,
        temperature: None,
    };
    let call =
        NewCall { request: &request, subject: &CallSubject::Plan, reserve: MicroUsd(8500), is_retry: false, after: 0 };
    on_commit(&scene.store.pool, || false).await;
    scene.store.begin_session(&session()).await.unwrap_err();
    scene.store.begin(known, &proposal(64, None)).await.unwrap_err();
    scene.store.begin_call(known, &call).await.unwrap_err();

    on_commit(&scene.store.pool, || true).await;
    assert_eq!(scene.store.sessions().await.unwrap().len(), 1);
    assert!(scene.store.calls(known).await.unwrap().is_empty());
    scene.store.begin_call(known, &call).await.unwrap();
    assert_eq!(scene.store.calls(known).await.unwrap()[0].0.reserve, MicroUsd(8500));
}

#[tokio::test]
async fn the_view_of_sessions_counts_no_attempt_that_a_kill_cut_off() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    scene.store.begin(session, &proposal(64, None)).await.unwrap();
    scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let count: i64 =
        sqlx::query_scalar("SELECT iterations FROM v_sessions").fetch_one(&scene.store.pool).await.unwrap();
    assert_eq!(count, 1);
}

/// What every iteration of a scene costs on the device. No dollars: a history does not know them.
const SPENT: Spent = Spent { gpu_s: 9.0, gpu_usd: 0.0, llm_usd: 0.0 };

/// Everything that a session loses with its process: three iterations, one of them wrong, and one that never ended.
#[tokio::test]
async fn what_a_session_knew_is_rebuilt_from_its_record() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let mut learnt = History::default();
    let code = CodeFigures::of(&artifact(64).kernels);
    for (block, ns, verdict) in [(64, 100_000.0, Verdict::Start), (128, 80_000.0, Verdict::Improved)] {
        let parent = (block > 64).then_some(IterationId(1));
        let id = scene.measured(session, block, parent, ns, verdict).await;
        let decisions = [Decision { case: "b1h1s128".into(), verdict, speedup: None }];
        let found = evaluation(ns, verdict == Verdict::Improved);
        let concluded = Concluded::of(id, &found, &decisions, SPENT, Duration::ZERO);
        learnt.learn(&Begun::of(id, &proposal(block, parent), code), &concluded);
    }
    let third = scene.store.begin(session, &proposal(256, Some(IterationId(2)))).await.unwrap();
    let (_, rejected) = wrong();
    let outcome = Outcome::Wrong { case: "b1h1s128".into(), check: Check::Accuracy, message: "one row".to_owned() };
    let fast_but_wrong = Evaluation { outcome, ..evaluation(1.0, false) };
    scene.store.finish(third, &finish(&fast_but_wrong, &rejected)).await.unwrap();
    let concluded = Concluded::of(third, &fast_but_wrong, &[], SPENT, Duration::ZERO);
    learnt.learn(&Begun::of(third, &proposal(256, Some(IterationId(2))), code), &concluded);
    scene.store.begin(session, &proposal(512, Some(IterationId(2)))).await.unwrap();

    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!(History::of(&record), learnt);
    assert_eq!(learnt.incumbents["b1h1s128"].timing.median_ns, 80_000.0);
    assert_eq!(learnt.finished.len(), 2, "what was wrong teaches no time");
}

#[tokio::test]
async fn a_killed_session_has_used_the_time_that_was_noted_after_its_last_iteration() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let used = async || scene.store.past(session).await.unwrap().used.as_secs_f64();
    scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    scene.store.note_used(session, Duration::from_secs(2)).await.unwrap();
    assert_eq!(used().await, 3.0, "its iteration ended after that");
    scene.store.note_used(session, Duration::from_secs(40)).await.unwrap();
    assert_eq!(used().await, 40.0);
    scene.store.resume_session(session, Duration::from_secs(40), Duration::from_secs(60)).await.unwrap();
    scene.measured(session, 128, None, 100_000.0, Verdict::Start).await;
    assert_eq!(used().await, 43.0);
}

/// A session that is killed, resumed, interrupted and resumed again.
#[tokio::test]
async fn the_time_that_a_session_has_used_is_that_of_its_iterations_or_what_its_end_says() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let used = async || scene.store.past(session).await.unwrap().used.as_secs_f64();
    assert_eq!(used().await, 0.0);
    let first = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    scene.store.begin(session, &proposal(128, Some(first))).await.unwrap();
    assert_eq!(used().await, 3.0, "what was in flight has no share");

    let hour = Duration::from_secs(3600);
    scene.store.resume_session(session, Duration::from_secs(3), 2 * hour).await.unwrap();
    scene.measured(session, 256, Some(first), 80_000.0, Verdict::Improved).await;
    assert_eq!(used().await, 6.0);
    let spent = Spent { gpu_s: 19.0, gpu_usd: 0.02, llm_usd: 0.04 };
    scene
        .store
        .end_session(session, Status::Interrupted, ("stopped", None), Duration::from_secs(10), spent)
        .await
        .unwrap();
    assert_eq!(used().await, 10.0, "with what came before the first iteration and after the last");

    scene.store.resume_session(session, Duration::from_secs(10), hour).await.unwrap();
    let past = scene.store.past(session).await.unwrap();
    assert_eq!((past.used, past.budget()), (Duration::from_secs(10), hour));
    assert_eq!(past.asked, self::session().asked);
    assert_eq!((past.record.session.status, past.record.session.resumptions), (Status::Running, 2));
    assert_eq!(past.record.session.cost, spent);
    scene.store.end_session(session, Status::Finished, ("done", None), hour, spent).await.unwrap();
    assert!(matches!(scene.store.resume_session(session, hour, hour).await, Err(StoreError::Refused(_))));
    assert_eq!(scene.store.past(session).await.unwrap().record.session.resumptions, 2, "nothing is half-written");
    assert!(matches!(scene.store.latest_unfinished().await, Err(StoreError::AllFinished)));
}

#[tokio::test]
async fn a_variant_is_kept_with_the_way_it_was_launched() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let plan = LaunchPlan {
        workspaces: vec![Workspace { name: "w".to_owned(), bytes: 4, initial: Initial::Zero }],
        launches: vec![launch_of("multiply", [128, 1, 1], 384, 200_000), launch_of("add", [512, 1, 1], 512, 0)],
        ..LaunchPlan::default()
    };
    let (found, decisions) = (evaluation(100_000.0, false), []);
    for block in [64, 128] {
        let iteration = scene.store.begin(session, &proposal(block, None)).await.unwrap();
        let plans = [("b1h1s128", &plan), ("never-reached", &plan)];
        scene.store.finish(iteration, &Finish { plans: &plans, ..finish(&found, &decisions) }).await.unwrap();
        let (variant, plans) = scene.store.launched(iteration).await.unwrap();
        assert_eq!(variant, proposal(block, None).variant);
        assert_eq!(plans, [("b1h1s128".into(), plan.clone())].into());
    }
    let kept: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM plans").fetch_one(&scene.store.pool).await.unwrap();
    assert_eq!(kept, 1, "the same plan is kept once");
    let record = scene.store.session_record(session).await.unwrap();
    let shapes: Vec<_> = record.iterations.iter().flat_map(|one| &one.measurements).map(|found| found.shape).collect();
    let multiplies = LaunchShape { ctas: 128, threads: 384, shared_bytes: 200_000 };
    assert_eq!(shapes, [Some(multiplies); 2], "the other launch has more blocks and threads, but adds up sums");
}

fn launch_of(kernel: &str, grid: [u32; 3], threads: u32, shared_bytes: u32) -> Launch {
    Launch {
        kernel: kernel.to_owned(),
        grid,
        block: [threads, 1, 1],
        shared_bytes,
        cluster: None,
        programmatic: false,
        args: Vec::new(),
    }
}

#[tokio::test]
async fn hardware_counters_are_kept_launch_by_launch_and_so_is_why_there_are_none() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let iteration = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let launch = |kernel: &str, tensor_pct| LaunchCounters {
        kernel: kernel.to_owned(),
        tensor_pct,
        blocks_by: [(Resource::SharedMemory, 2.0)].into(),
        warp_states: [("wait".to_owned(), 7.0)].into(),
        ..LaunchCounters::default()
    };
    let launches = vec![launch("first", Some(81.25)), launch("second", None)];
    let found = Counters { tool: "ncu 2025.3.1.0".to_owned(), launches };
    let counted = Counted { iteration, case: "b1h1s128".into(), counters: Ok(found.clone()), wall_s: 2.5 };
    let spent = Spent { gpu_s: 2.5, gpu_usd: 0.25, llm_usd: 0.0 };
    scene.store.record_counters(session, &counted, spent).await.unwrap();

    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!(record.iterations[0].measurements[0].counters, Some(found.clone()));
    assert_eq!((record.no_counters, record.session.cost.gpu_s), (None, 11.5));
    let shown = scene.store.iteration(iteration).await.unwrap();
    assert_eq!(shown.iteration.measurements[0].counters, Some(found));
    let column = sqlx::query_scalar::<_, Option<f64>>("SELECT tensor_pct FROM counters ORDER BY launch");
    assert_eq!(column.fetch_all(&scene.store.pool).await.unwrap(), [Some(81.25), None]);

    let other = scene.measured(session, 128, None, 90_000.0, Verdict::Tied).await;
    let none =
        Counted { iteration: other, case: "b1h1s128".into(), counters: Err(Error::new("no ncu").into()), wall_s: 0.5 };
    scene.store.record_counters(session, &none, Spent::default()).await.unwrap();
    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!(record.no_counters.as_deref(), Some("no ncu"));
    let journal = scene.store.journal(&record).await.unwrap();
    let recorded = journal.iter().filter_map(|record| match record {
        Record::Counted(counted) => Some(counted.as_ref().clone()),
        _ => None,
    });
    assert_eq!(recorded.collect::<Vec<_>>(), [counted, none]);
    assert_eq!(History::of(&record).counters.len(), 1);
    // A process that died now has used the time of the counters, too.
    assert_eq!(scene.store.past(session).await.unwrap().used, Duration::from_secs_f64(3.0 + 3.0 + 2.5 + 0.5));
}

#[tokio::test]
async fn the_counters_of_baselines_are_kept_call_by_call() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let launch = |kernel: &str| LaunchCounters {
        kernel: kernel.to_owned(),
        instructions: Some(512.0),
        ..LaunchCounters::default()
    };
    let found = Counters { tool: "ncu".to_owned(), launches: vec![launch("split"), launch("reduce")] };
    let of = |name: &str, counters| CountedBaseline {
        case: "b1h1s128".into(),
        name: name.to_owned(),
        counters,
        wall_s: 2.5,
    };
    let both = [of("cudnn", Ok(found)), of("flash", Err(Error::new("ncu is broken").into()))];
    for counted in &both {
        scene.store.record_baseline_counters(session, counted, Spent::default()).await.unwrap();
    }
    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!(record.baseline_counters, both);
    assert_eq!(History::of(&record).baseline_counters, both);
    let journal = scene.store.journal(&record).await.unwrap();
    assert_eq!(journal.last(), Some(&Record::CountedBaseline(Box::new(both[1].clone()))));
    for change in ["UPDATE baseline_counters SET wall_s = 0", "DELETE FROM baseline_counters"] {
        let refused = sqlx::query(change).execute(&scene.store.pool).await.unwrap_err();
        assert!(refused.to_string().contains("counters never change"), "{change}: {refused}");
    }
    // A process that died now has used their time, too.
    assert_eq!(scene.store.past(session).await.unwrap().used, Duration::from_secs_f64(3.0 + 2.5 + 2.5));
}

#[tokio::test]
async fn ablations_are_kept_with_what_they_remove_and_what_they_gain() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let iteration = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let one = |removed, places, kept, time_ns, lines| Ablation { removed, places, diverting: 1, kept, time_ns, lines };
    let line = |line, text: &str, places, time_ns| SourceLine { line, text: text.to_owned(), places, time_ns };
    let lines = vec![line(61, "load(k);", 48, Some(2900.0)), line(12, "load(q);", 17, None)];
    let waits = vec![line(70, "wait<0>();", 1, None)];
    let ablations = vec![
        one(Removed::Nothing, 0, 0, Ok(4000.0), Vec::new()),
        one(Removed::GlobalLoads, 65, 2, Ok(2500.0), lines),
        one(Removed::Barriers, 0, 3, Err(Error::new("they order mbarriers").into()), Vec::new()),
        one(Removed::AllKindsAndWaits, 90, 0, Ok(1500.0), waits),
    ];
    let ablated = Ablated { iteration, case: "b1h1s128".into(), ablations: ablations.clone(), wall_s: 1.5 };
    scene.store.record_ablations(session, &ablated, Spent { gpu_s: 1.5, ..Spent::default() }).await.unwrap();

    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!(record.iterations[0].measurements[0].ablations, ablations);
    let gains =
        sqlx::query_scalar::<_, String>("SELECT IFNULL(round(gain, 2), 'none') || '' FROM ablations ORDER BY place");
    assert_eq!(gains.fetch_all(&scene.store.pool).await.unwrap(), ["1.0", "1.6", "none", "2.67"]);
    for change in ["UPDATE ablated_lines SET line = 1", "DELETE FROM ablated_lines"] {
        let refused = sqlx::query(change).execute(&scene.store.pool).await.unwrap_err();
        assert!(refused.to_string().contains("an ablation never changes"), "{change}: {refused}");
    }
    let journal = scene.store.journal(&record).await.unwrap();
    assert_eq!(journal.last(), Some(&Record::Booked(Spent { gpu_s: 1.5, ..Spent::default() })));
    assert!(journal.contains(&Record::Ablated(Box::new(ablated.clone()))));
    let hash = &record.iterations[0].hash;
    assert_eq!(History::of(&record).ablations_of(hash, "b1h1s128"), ablations);
    // A process that died now has used their time, too.
    assert_eq!(scene.store.past(session).await.unwrap().used, Duration::from_secs_f64(3.0 + 1.5));
}

#[tokio::test]
async fn an_experiment_is_no_win_and_is_read_back_apart() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let scaling = Scaling { of: start, case: "b1h1s128".into(), axis: Axis::Sequential, factor: 0.5 };
    let mut proposal = proposal(64, Some(start));
    (proposal.rationale.purpose, proposal.rationale.origin) =
        (Purpose::Experiment, Origin::ScaledCase(scaling.clone()));
    proposal.cases[0].name = scaling.case_name();
    let iteration = scene.store.begin(session, &proposal).await.unwrap();
    let mut found = evaluation(10_000.0, true);
    found.measurements[0].case = scaling.case_name();
    scene.store.finish(iteration, &finish(&found, &[])).await.unwrap();

    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!((record.session.wins, record.session.best_speedup), (0, None));
    let history = History::of(&record);
    let [seen] = &history.experiments[..] else { panic!("{:?}", history.experiments) };
    assert_eq!((seen.iteration, &seen.scaling, seen.time_ns, seen.ctas), (iteration, &scaling, 10_000.0, 2));
    assert_eq!(history.finished.len(), 1, "the start");
    assert!(history.fastest(&scaling.case_name()).is_none());
}
