//! Stories about contests in a store.

use super::testing::{Scene, contest, entrant, evaluation, finish, proposal};
use super::*;
use crate::domain::contest::{Contest, Role};
use crate::domain::cost::Spent;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::record::{Final, Status};
use crate::domain::regime::Regime;
use crate::domain::verdict::Verdict;

/// A contest of a challenger with its twin, its incumbent and a baseline.
fn held(challenger: IterationId, incumbent: IterationId) -> Contest {
    contest(
        "b1h1s128",
        vec![
            entrant(Role::Challenger, "tiled 2b", Some(challenger), 80.0),
            entrant(Role::Twin, "tiled 2b", Some(challenger), 80.0),
            entrant(Role::Incumbent, "tiled 1a", Some(incumbent), 100.0),
            entrant(Role::Baseline, "torch sdpa (flash)", None, 40.0),
        ],
    )
}

async fn confirmed_in_contest(scene: &Scene, session: SessionId, incumbent: IterationId) -> (IterationId, Contest) {
    let iteration = scene.store.begin(session, &proposal(128, Some(incumbent))).await.unwrap();
    let contest = held(iteration, incumbent);
    let mut evaluation = evaluation(80_000.0, true);
    evaluation.measurements[0].regime = Regime::Cold;
    evaluation.measurements[0].contest = Some(contest.clone());
    scene.store.finish(iteration, &finish(&evaluation, &[])).await.unwrap();
    (iteration, contest)
}

#[tokio::test]
async fn a_contest_is_read_back_with_its_iteration_and_a_final_with_its_session() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let (iteration, contest) = confirmed_in_contest(&scene, session, start).await;
    let last = held(start, iteration);
    scene.store.record_final(session, &last, iteration).await.unwrap();

    let record = scene.store.session_record(session).await.unwrap();
    assert_eq!(record.iterations[0].measurements[0].contest, None);
    assert_eq!(record.iterations[1].measurements[0].contest.as_ref(), Some(&contest));
    assert_eq!(record.iterations[1].measurements[0].regime, Regime::Cold);
    assert_eq!(record.finals, [Final { contest: last, winner: iteration }]);
    let shown = scene.store.iteration(iteration).await.unwrap();
    assert_eq!(shown.iteration.measurements[0].contest.as_ref(), Some(&contest));
}

/// What a person with sqlite3 sees, without optloop.
#[tokio::test]
async fn ratios_and_clocks_are_plain_columns() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    confirmed_in_contest(&scene, session, start).await;
    let seen: String = sqlx::query_scalar(
        "SELECT group_concat(format('%s %s %.3f %.3f..%.3f %d MHz %.1f W %d C %s', role, coalesce(iteration_id, '-'),
                                    ratio, ratio_lo, ratio_hi, sm_clock_mhz, power_w, temperature_c, throttle), char(10))
         FROM (SELECT * FROM entrants ORDER BY position)",
    )
    .fetch_one(&scene.store.pool)
    .await
    .unwrap();
    insta::assert_snapshot!(seen, @r#"
    challenger 2 0.000 0.000..0.000 1980 MHz 71.5 W 64 C ["power_cap"]
    twin 2 1.002 0.996..1.003 1980 MHz 71.5 W 64 C ["power_cap"]
    incumbent 1 1.256 1.241..1.256 1980 MHz 71.5 W 64 C ["power_cap"]
    baseline - 0.499 0.499..0.505 1980 MHz 71.5 W 64 C ["power_cap"]
    "#);
    let seen: String = sqlx::query_scalar(
        "SELECT format('%s %s %d entrants, %d rounds of %d, noise %.3f', case_name, regime, entrants, rounds, block, noise)
         FROM contests",
    )
    .fetch_one(&scene.store.pool)
    .await
    .unwrap();
    insta::assert_snapshot!(seen, @"b1h1s128 warm 4 entrants, 12 rounds of 1, noise 0.004");
}

#[tokio::test]
async fn a_contest_never_changes() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    let (iteration, contest) = confirmed_in_contest(&scene, session, start).await;
    store.record_final(session, &contest, iteration).await.unwrap();
    for sql in [
        "UPDATE contests SET noise = 0",
        "DELETE FROM contests",
        "UPDATE entrants SET ratio = 2",
        "DELETE FROM entrants",
        "INSERT INTO entrants SELECT contest_id, 9, role, name, iteration_id, samples, launches_per_sample, median_ns,
             ci_lo_ns, ci_hi_ns, raw_ns, blocks_ns, ratio, ratio_lo, ratio_hi, relative_l2, worst_row, rows_checked, rows,
             machine, energy_j FROM entrants WHERE position = 0",
        "INSERT INTO contests (iteration_id, case_name, conditions, entrants, block, rounds, discarded_rounds, noise, others)
         SELECT iteration_id, 'other', conditions, 0, block, rounds, 0, noise, others FROM contests
         WHERE iteration_id IS NOT NULL",
    ] {
        let error = sqlx::query(sql).execute(&store.pool).await.unwrap_err();
        assert!(matches!(StoreError::from(error), StoreError::Refused(_)), "{sql}");
    }
    let end = store.end_session(session, Status::Finished, "done", Duration::from_secs(1), Spent::default());
    end.await.unwrap();
    let late = store.record_final(session, &contest, iteration).await.unwrap_err();
    insta::assert_snapshot!(late, @"the store refuses the change: the session has ended");
    assert_eq!(store.session_record(session).await.unwrap().finals.len(), 1);
}

#[tokio::test]
async fn a_contest_of_unknown_iterations_is_recorded_not_at_all() {
    let scene = Scene::new().await;
    let session = scene.session().await;
    let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
    // The last entrants are written after the contest's own row.
    let error = scene.store.record_final(session, &held(start, IterationId(99)), start).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
    let rows: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM contests").fetch_one(&scene.store.pool).await.unwrap();
    assert_eq!(rows, 0);
}
