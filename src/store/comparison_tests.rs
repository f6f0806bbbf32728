//! Scenarios of comparisons in a store.

use super::testing::{Scene, comparison, evaluation, finish, participant, proposal};
use super::*;
use crate::domain::budget::cost::Spent;
use crate::domain::device::regime::Regime;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::measurement::verdict::Verdict;
use crate::domain::record::{Final, Status};

/// A comparison of a challenger with its A/A control, its incumbent and a baseline.
fn held(challenger: IterationId, incumbent: IterationId) -> Comparison {
    comparison(
        "b1h1s128",
        vec![
            participant(Role::Challenger, "tiled 2b", Some(challenger), 80.0),
            participant(Role::Control, "tiled 2b", Some(challenger), 80.0),
            participant(Role::Incumbent, "tiled 1a", Some(incumbent), 100.0),
            participant(Role::Baseline, "torch sdpa (flash)", None, 40.0),
        ],
    )
}

async fn confirmed_in_comparison(
    scene: &Scene,
    session: SessionId,
    incumbent: IterationId,
) -> (IterationId, Comparison) {
    let iteration = scene.store.begin(session, &proposal(128, Some(incumbent))).await.unwrap();
    let comparison = held(iteration, incumbent);
    let mut evaluation = evaluation(80_000.0, true);
    evaluation.measurements[0].regime = Regime::Cold;
    evaluation.measurements[0].comparison = Some(comparison.clone());
    scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
    (iteration, comparison)
}

#[tokio::test]
async fn a_comparison_is_read_back_with_its_iteration_and_a_final_with_its_session() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let (iteration, comparison) = confirmed_in_comparison(&scene, session, start).await;
    let last = held(start, iteration);
    scene.store.record_final(session, &last, iteration).await.unwrap();

    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!(record.iterations[0].measurements[0].comparison, None);
    assert_eq!(record.iterations[1].measurements[0].comparison.as_ref(), Some(&comparison));
    assert_eq!(record.iterations[1].measurements[0].regime, Regime::Cold);
    assert_eq!(record.finals, [Final { comparison: last, winner: iteration }]);
    let shown = scene.store.iteration(iteration).await.unwrap();
    assert_eq!(shown.iteration.measurements[0].comparison.as_ref(), Some(&comparison));
}

/// What a user of sqlite3 sees, without optloop.
#[tokio::test]
async fn ratios_and_clocks_are_plain_columns() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    confirmed_in_comparison(&scene, session, start).await;
    let seen: String = sqlx::query_scalar(
        "SELECT group_concat(format('%s %s %.3f %.3f..%.3f %d MHz %.1f W %d C %s', role, coalesce(iteration_id, '-'),
                                    ratio, ratio_lo, ratio_hi, sm_clock_mhz, power_w, temperature_c, throttle), char(10))
         FROM (SELECT * FROM participants ORDER BY position)",
    )
    .fetch_one(&scene.store.pool)
    .await
    .unwrap();
    insta::assert_snapshot!(seen, @r#"
    challenger 2 0.000 0.000..0.000 1980 MHz 71.5 W 64 C ["power_cap"]
    control 2 1.002 0.996..1.003 1980 MHz 71.5 W 64 C ["power_cap"]
    incumbent 1 1.256 1.241..1.256 1980 MHz 71.5 W 64 C ["power_cap"]
    baseline - 0.499 0.499..0.505 1980 MHz 71.5 W 64 C ["power_cap"]
    "#);
    let seen: String = sqlx::query_scalar(
        "SELECT format('%s %s %d participants, %d rounds of %d, noise %.3f', case_name, regime, participants, rounds, group_size, noise)
         FROM comparisons",
    )
    .fetch_one(&scene.store.pool)
    .await
    .unwrap();
    insta::assert_snapshot!(seen, @"b1h1s128 warm 4 participants, 12 rounds of 1, noise 0.004");
}

#[tokio::test]
async fn a_comparison_never_changes() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let (iteration, comparison) = confirmed_in_comparison(&scene, session, start).await;
    store.record_final(session, &comparison, iteration).await.unwrap();
    for sql in [
        "UPDATE comparisons SET noise = 0",
        "DELETE FROM comparisons",
        "UPDATE participants SET ratio = 2",
        "DELETE FROM participants",
        "INSERT INTO participants SELECT comparison_id, 9, role, name, iteration_id, samples, launches_per_sample, median_ns,
             ci_lo_ns, ci_hi_ns, raw_ns, groups_ns, ratio, ratio_lo, ratio_hi, relative_l2, worst_row, rows_checked, rows,
             machine, energy_j, graph_node_ns FROM participants WHERE position = 0",
        "INSERT INTO comparisons (iteration_id, case_name, conditions, participants, group_size, rounds, discarded_rounds, noise, others)
         SELECT iteration_id, 'other', conditions, 0, group_size, rounds, 0, noise, others FROM comparisons
         WHERE iteration_id IS NOT NULL",
    ] {
        let error = sqlx::query(sql).execute(&store.pool).await.unwrap_err();
        assert!(matches!(StoreError::from(error), StoreError::Refused(_)), "{sql}");
    }
    let end = store.end_session(session, Status::Finished, ("done", None), Duration::from_secs(1), Spent::default());
    end.await.unwrap();
    let late = store.record_final(session, &comparison, iteration).await.unwrap_err();
    insta::assert_snapshot!(late, @"the store refuses the change: the session has ended");
    assert_eq!(store.session_record(session).await.unwrap().finals.len(), 1);
}

#[tokio::test]
async fn a_comparison_of_unknown_iterations_is_recorded_not_at_all() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    // The last participants are written after the comparison's own row.
    let error = scene.store.record_final(session, &held(start, IterationId(99)), start).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
    let rows: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM comparisons").fetch_one(&scene.store.pool).await.unwrap();
    assert_eq!(rows, 0);
}
