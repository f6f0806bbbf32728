//! Scenarios of store files: new, old, newer, foreign and unwritable ones.

use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;

use super::testing::{comparison, participant};
use super::*;
use crate::domain::claims::hypothesis::{Reference, Score};
use crate::domain::device::regime::Regime;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::comparison::Role;
use crate::domain::proposal::origin::Origin;
use crate::domain::record::Final;

/// One row of every table, as the first release wrote it. Append to it when a migration adds a table.
const POPULATED: &str = r#"
INSERT INTO environments (hash, device, nvrtc, optloop, host)
VALUES ('h', '{"id":"cuda:0","name":"NVIDIA L4","sm":89,"arch":"sm_89","sms":58,"smem_limit_bytes":101376,
        "max_threads":1024,"l2_bytes":1,"memory_bytes":1,"driver":null,"time_source":"measured","peaks":{"f16_flops":1.0,
        "f32_flops":1.0,"memory_bytes_per_s":1.0,"l2_bytes_per_s":1.0,"launch_ns":1.0,"source":"s"}}',
        '13.0', '0.1.0', 'Linux');
INSERT INTO sessions (environment_id, workload, proposer, seed, budget_s, cases, config, started_at)
VALUES (1, 'attention', 'rules', 1, 3600, '["a"]', '{}', '2026-11-20T00:00:00Z');
INSERT INTO baselines VALUES (1, 'a', 'torch', 1, 1, 9.0, 9.0, 9.0, x'00001041');
INSERT INTO artifacts VALUES ('k', 'sm_89', '13.0', '[]', '[]', '', 1.0, 1);
INSERT INTO iterations (session_id, ordinal, proposer, family, params, hash, source, cases, started_at, artifact_key)
VALUES (1, 1, 'rules', 'tiled', '{}', 'v', 'source', '[]', '2026-11-20T00:00:01Z', 'k');
INSERT INTO hypotheses (iteration_id, claim, evidence, case_name, predicted_lo, predicted_hi)
VALUES (1, 'claim', 'evidence', 'a', 1.0, 2.0);
INSERT INTO measurements (iteration_id, case_name, verdict) VALUES (1, 'a', 'rejected');
INSERT INTO commits VALUES (1, 'a', 'abc');
INSERT INTO costs (session_id, iteration_id, kind, seconds, usd) VALUES (1, 1, 'gpu', 1.0, 0.5);
UPDATE iterations SET ended_at = '2026-11-20T00:00:02Z', outcome = 'wrong', outcome_case = 'a', outcome_message = 'zeros';
"#;

/// Rows that a release without comparisons would have added to its own.
const WITHOUT_COMPARISONS: &str = r#"
INSERT INTO iterations (session_id, ordinal, proposer, family, params, hash, source, cases, started_at)
VALUES (1, 2, 'rules', 'tiled', '{}', 'w', 'source', '[]', '2026-11-20T00:00:03Z');
INSERT INTO hypotheses (iteration_id, claim, evidence, case_name, predicted_lo, predicted_hi)
VALUES (2, 'claim', 'evidence', 'a', 1.0, 2.0);
INSERT INTO measurements (iteration_id, case_name, verdict, profile) VALUES (2, 'a', 'start', '{"launches":[],"checked_on":null}');
"#;

/// Rows of the last schema before 0.2.0, with every word that changed.
const BEFORE_0_2: &str = include_str!("before_0_2.sql");

async fn plain_connection(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    SqliteConnection::connect_with(&options).await.unwrap()
}

async fn message(path: &Path) -> String {
    let message = Store::open(path).await.unwrap_err().to_string();
    message.replace(&path.parent().unwrap().display().to_string(), "[folder]")
}

#[tokio::test]
async fn every_question_can_be_asked_of_an_empty_store() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(&folder.path().join("store.db")).await.unwrap();
    assert_eq!(store.sessions().await.unwrap(), []);
    assert_eq!(store.history(&Filter::default()).await.unwrap(), []);
    assert_eq!(store.cumulative_cost().await.unwrap().total_usd(), 0.0);
    assert!(matches!(store.latest_session().await, Err(StoreError::NoSessions)));
}

#[tokio::test]
async fn a_store_of_the_first_release_is_brought_up_to_date_with_its_rows() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let mut connection = plain_connection(&path).await;
    MIGRATIONS.run_to(1, &mut connection).await.unwrap();
    sqlx::raw_sql(POPULATED).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();

    let store = Store::open(&path).await.unwrap();
    let record = store.session_record(SessionId(1)).await.unwrap();
    assert_eq!(record.baselines[0].timing.samples_ns, [9.0]);
    assert_eq!(record.iterations[0].measurements[0].commit.as_deref(), Some("abc"));
    assert_eq!(store.iteration(IterationId(1)).await.unwrap().artifact.unwrap().key, "k");
    let range = record.iterations[0].rationale.hypothesis.prediction.expect("its range is kept");
    assert_eq!((range.median, range.lo, range.hi), (None, 1.0, 2.0), "how probable it was is not known");
    assert_eq!(store.history(&Filter::default()).await.unwrap()[0].cost_usd, 0.5);
}

#[tokio::test]
async fn a_store_without_comparisons_is_brought_up_to_date_and_holds_them_from_then_on() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let mut connection = plain_connection(&path).await;
    MIGRATIONS.run_to(2, &mut connection).await.unwrap();
    sqlx::raw_sql(POPULATED).execute(&mut connection).await.unwrap();
    sqlx::raw_sql(WITHOUT_COMPARISONS).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();

    let store = Store::open(&path).await.unwrap();
    let record = store.session_record(SessionId(1)).await.unwrap();
    let baseline = &record.baselines[0];
    assert_eq!((baseline.regime, baseline.eager_ns, baseline.relative_l2), (Regime::Warm, None, None));
    let found = &record.iterations[1].measurements[0];
    assert_eq!((found.regime, &found.comparison, found.profile.is_some()), (Regime::Warm, &None, true));
    assert_eq!(record.finals, []);

    let held = comparison("a", vec![participant(Role::Challenger, "tiled w", Some(IterationId(2)), 9.0)]);
    store.record_final(SessionId(1), &held, IterationId(2)).await.unwrap();
    assert_eq!(
        store.session_record(SessionId(1)).await.unwrap().finals,
        [Final { comparison: held, winner: IterationId(2) }]
    );
}

#[tokio::test]
async fn a_store_in_the_words_before_0_2_is_brought_up_to_date_with_its_rows() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let mut connection = plain_connection(&path).await;
    MIGRATIONS.run_to(6, &mut connection).await.unwrap();
    sqlx::raw_sql(BEFORE_0_2).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();

    let store = Store::open(&path).await.unwrap();
    let past = store.past(SessionId(1)).await.unwrap();
    assert_eq!(past.config["benchmark"], serde_json::json!({ "min_speedup": 1.01, "group_size": 5 }));
    assert_eq!(past.config["session"]["proposer"], "fault-injection");
    let record = past.record;
    assert_eq!((&*record.session.proposer, &*record.iterations[0].proposer), ("fault-injection", "fault-injection"));
    assert!(
        matches!(record.iterations[0].rationale.origin, Origin::WarmStart { .. }),
        "{:?}",
        record.iterations[0].rationale.origin
    );
    assert_eq!(record.iterations[0].rationale.hypothesis.reference, Reference::Incumbent, "it names no iteration");
    let confirmed = record.iterations[0].measurements[0].comparison.as_ref().unwrap();
    assert_eq!((confirmed.group_size, confirmed.winners_curse), (5, Some(1.25)));
    let roles = [Role::Challenger, Role::Control, Role::Incumbent, Role::NearTie, Role::Baseline];
    for comparison in [confirmed, &record.finals[0].comparison] {
        assert!(comparison.participants.iter().map(|participant| participant.role).eq(roles));
        assert!(comparison.participants.iter().all(|participant| participant.groups_ns == [9.0]));
    }
    let checks: Vec<_> = record.iterations[1..].iter().map(|one| one.outcome.as_ref().unwrap().check()).collect();
    assert_eq!(checks, [Check::Memoization, Check::HeldOutInputs, Check::GuardRegions].map(Some));
    // The triggers that protect rows were migrated, too.
    for sql in [
        "UPDATE comparisons SET noise = 1",
        "DELETE FROM participants",
        "UPDATE iterations SET proposer = ''",
        "UPDATE sessions SET proposer = ''",
    ] {
        let error = sqlx::query(sql).execute(&store.pool).await.unwrap_err();
        assert!(matches!(StoreError::from(error), StoreError::Refused(_)), "{sql}");
    }
}

#[tokio::test]
async fn readers_leave_a_store_of_the_first_release_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let mut connection = plain_connection(&path).await;
    MIGRATIONS.run_to(1, &mut connection).await.unwrap();
    sqlx::raw_sql(POPULATED).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let before = std::fs::read(&path).unwrap();

    let store = Store::open_existing(&path).await.unwrap();
    assert_eq!(store.session_record(SessionId(1)).await.unwrap().session.resumptions, 0);
    assert_eq!(store.history(&Filter::default()).await.unwrap()[0].cost_usd, 0.5);
    store.close().await;
    assert!(std::fs::read(&path).unwrap() == before);
    // A session that cannot be resumed says so.
    let store = Store::open(&path).await.unwrap();
    insta::assert_snapshot!(store.past(SessionId(1)).await.unwrap_err(), @"session 1 was recorded by an older version of optloop, which did not store enough to resume it: start another one");
}

#[tokio::test]
async fn readers_of_nothing_are_told_to_start() {
    let folder = TempDir::new().unwrap();
    let error = Store::open_existing(&folder.path().join("store.db")).await.unwrap_err();
    insta::assert_snapshot!(error, @"there are no sessions yet: run `optloop start` first");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_store_of_a_newer_optloop_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    Store::open(&path).await.unwrap().close().await;
    let mut connection = plain_connection(&path).await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (9999, 'later', TRUE, x'00', 0)";
    sqlx::query(newer).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    insta::assert_snapshot!(message(&path).await, @"cannot open the store [folder]/store.db: it was written by a newer version of optloop: update optloop, or use another store");
}

#[tokio::test]
async fn another_file_is_not_taken_for_a_store() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    std::fs::write(&path, "a text that is much longer than the header of a database ".repeat(20)).unwrap();
    insta::assert_snapshot!(message(&path).await, @"cannot open the store [folder]/store.db: it is not an optloop store, or it is damaged: move it away, or name another file as store.path in config.toml");
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_is_not_writable_is_named() {
    use std::os::unix::fs::PermissionsExt;

    let folder = TempDir::new().unwrap();
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
    // Root can write to every folder.
    if std::fs::write(closed.join("probe"), "").is_ok() {
        return;
    }
    insta::assert_snapshot!(message(&closed.join("store.db")).await, @"cannot open the store [folder]/store.db: the file or its folder is not writable: change its permissions, or name another file as store.path in config.toml");
    assert!(matches!(Store::open(&closed.join("deeper/store.db")).await, Err(StoreError::Open { .. })));
}

#[tokio::test]
async fn a_full_disk_and_another_writer_are_told_apart() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&path).await.unwrap();
    let write = || sqlx::query("INSERT INTO artifacts VALUES (?, '', '', '[]', '[]', ?, 0, 0)").bind("k");
    // A limit on pages simulates a full disk. A zero timeout simulates a writer that never ends.
    sqlx::raw_sql("PRAGMA max_page_count = 1; PRAGMA busy_timeout = 0").execute(&store.pool).await.unwrap();

    let full = write().bind("x".repeat(100_000)).execute(&store.pool).await.unwrap_err();
    insta::assert_snapshot!(StoreError::from(full), @"the disk is full, or the store is as large as store.max_mb in config.toml allows: free some space; `optloop resume` continues a session that this ended");
    let mut other = plain_connection(&path).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let locked = write().bind("").execute(&store.pool).await.unwrap_err();
    insta::assert_snapshot!(StoreError::from(locked), @"another process keeps the store locked for longer than store.busy_timeout in config.toml: wait for it or end it; `optloop resume` continues a session that this ended");
}

/// Iterations of the last schema that took every range for a prediction.
const BEFORE_CLAIMS: &str = r#"
INSERT INTO iterations (session_id, ordinal, proposer, family, params, hash, source, cases, started_at, purpose, origin)
VALUES (1, 2, 'local', 'tiled', '{}', 'w', 's', '[]', '2026-11-22T00:00:03Z', 'screening',
        '{"kind":"move","changes":[{"parameter":"BR","from":1,"to":2}]}'),
       (1, 3, 'local', 'tiled', '{}', 'x', 's', '[]', '2026-11-22T00:00:04Z', 'screening', '{"kind":"random"}'),
       (1, 4, 'local', 'tiled', '{}', 'y', 's', '[]', '2026-11-22T00:00:05Z', 'confirmation', '{"kind":"random"}'),
       (1, 5, 'local', 'tiled', '{}', 'z', 's', '[]', '2026-11-22T00:00:06Z', 'screening',
        '{"kind":"coverage","changes":[{"parameter":"BR","from":1,"to":4},{"parameter":"BC","from":8,"to":4}]}');
INSERT INTO hypotheses (iteration_id, claim, evidence, case_name, predicted_lo, predicted_hi, relative_to, reference,
                        actual, score)
VALUES (2, 'c', 'e', 'a', 0.5, 2.0, 1, 'iteration', 0.9, 'confirmed'), (3, 'c', 'e', 'a', 0.05, 1.0, 1, 'iteration', 0.2, 'confirmed'),
       (4, 'c', 'e', 'a', 1.0, 1.1, NULL, 'incumbent', NULL, 'untested'), (5, 'c', 'e', 'a', 1.0, 1.1, 1, 'iteration', 1.2, 'exceeded');
"#;

#[tokio::test]
async fn older_ranges_are_kept_and_not_taken_for_claims() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let mut connection = plain_connection(&path).await;
    MIGRATIONS.run_to(1, &mut connection).await.unwrap();
    sqlx::raw_sql(POPULATED).execute(&mut connection).await.unwrap();
    MIGRATIONS.run_to(10, &mut connection).await.unwrap();
    sqlx::raw_sql(BEFORE_CLAIMS).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();

    let store = Store::open(&path).await.unwrap();
    let record = store.session_record(SessionId(1)).await.unwrap();
    let scored: Vec<_> = record.iterations[1..]
        .iter()
        .map(|one| (one.rationale.hypothesis.prediction.map(|old| (old.median, old.lo, old.hi)), one.score.unwrap()))
        .collect();
    assert_eq!(
        scored,
        [
            (Some((None, 0.5, 2.0)), Score::InRange),
            (None, Score::NoClaim),
            (None, Score::NoClaim),
            (Some((None, 1.0, 1.1)), Score::Above),
        ]
    );
    let changed: Vec<(i64, String, i64)> =
        sqlx::query_as("SELECT iteration_id, parameter, to_value FROM changed_parameters ORDER BY 1, 2")
            .fetch_all(&store.pool)
            .await
            .unwrap();
    assert_eq!(changed, [(2, "BR".to_owned(), 2), (5, "BC".to_owned(), 4), (5, "BR".to_owned(), 4)]);
    let by_kind = store.paid(SessionId(1), Grouping::Kind).await.unwrap();
    let tried: Vec<_> = by_kind.iter().map(|paid| (paid.what.as_str(), paid.tries, paid.faster, paid.claims)).collect();
    assert_eq!(tried, [("coverage", 1, 1, 0), ("move", 1, 0, 0), ("random", 1, 0, 0)]);
    // The triggers that protect rows were migrated, too.
    for sql in ["UPDATE hypotheses SET score = 'above'", "UPDATE changed_parameters SET to_value = 1"] {
        let error = sqlx::query(sql).execute(&store.pool).await.unwrap_err();
        assert!(matches!(StoreError::from(error), StoreError::Refused(_)), "{sql}");
    }
}

#[tokio::test]
async fn purposes_and_the_journal_outlast_new_kinds_of_both() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.db");
    let mut connection = plain_connection(&path).await;
    MIGRATIONS.run_to(1, &mut connection).await.unwrap();
    sqlx::raw_sql(POPULATED).execute(&mut connection).await.unwrap();
    MIGRATIONS.run_to(10, &mut connection).await.unwrap();
    let insert = "INSERT INTO iterations (session_id, ordinal, proposer, family, params, hash, source, cases, started_at, purpose)
                  VALUES (1, 2, 'rules', 'tiled', '{}', 'w', 'source', '[]', '2026-11-20T00:00:03Z', 'confirmation');";
    sqlx::raw_sql(insert).execute(&mut connection).await.unwrap();
    let journal = "SELECT seq || kind FROM journal ORDER BY seq";
    let before: Vec<String> = sqlx::query_scalar(journal).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();

    let store = Store::open(&path).await.unwrap();
    let purposes: Vec<String> =
        sqlx::query_scalar("SELECT purpose FROM iterations ORDER BY id").fetch_all(&store.pool).await.unwrap();
    assert_eq!(purposes, ["screening", "confirmation"]);
    let after: Vec<String> = sqlx::query_scalar(journal).fetch_all(&store.pool).await.unwrap();
    assert_eq!((after.len(), &after), (before.len(), &before));
    let execute = async |statement: &'static str| sqlx::raw_sql(statement).execute(&store.pool).await;
    assert!(execute("UPDATE journal SET kind = 'begun'").await.is_err(), "the journal never changes");
    assert!(execute("UPDATE iterations SET purpose = 'x' WHERE id = 2").await.is_err(), "no such purpose");
    execute("UPDATE iterations SET purpose = 'experiment' WHERE id = 2").await.unwrap();
    let begin =
        "INSERT INTO iterations (session_id, ordinal, proposer, family, params, hash, source, cases, started_at)
                 VALUES (1, 3, 'rules', 'tiled', '{}', 'x', 'source', '[]', '2026-11-20T00:00:04Z')";
    execute(begin).await.unwrap();
    let last: String =
        sqlx::query_scalar("SELECT kind FROM journal ORDER BY seq DESC LIMIT 1").fetch_one(&store.pool).await.unwrap();
    assert_eq!(last, "begun", "the triggers write the new table");
}
