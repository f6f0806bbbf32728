//! Disks that fill up, stores that another process keeps locked, and read-only users.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::killed::project;
use super::record::{Record, commits, store};
use super::running::{Running, no_orphans};
use crate::common::Sandbox;

const START: [&str; 10] =
    ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--budget", "10m", "--json"];

/// Ends a session whose store fails, and resumes it once the store is repaired.
fn ends_cleanly_and_goes_on(sandbox: &Sandbox, session: Running, why: &str, repair: impl FnOnce()) {
    let (status, events, said) = session.end();
    assert_eq!(status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "one sentence: {said}");
    assert!(errors[0].contains(why) && errors[0].contains("`optloop resume` continues"), "{said}");
    assert_eq!(events.last().unwrap()["status"], "failed");
    no_orphans(sandbox);
    let before = Record::of(sandbox);
    before.check();

    repair();
    let (status, events, said) = Running::start(sandbox, &["resume", "--budget", "1s", "--json"]).end();
    assert!(status.success(), "{said}");
    assert_eq!(events.last().unwrap()["status"], "finished");
    let after = Record::of(sandbox);
    after.check();
    assert!(after.lasting().is_superset(&before.lasting()));
    let made: BTreeSet<String> = commits(sandbox).into_iter().collect();
    assert_eq!(after.links(), made);
    let report = sandbox.report();
    assert!(report["cases"].as_array().unwrap().iter().all(|case| case["commit"].is_string()), "{report}");
    assert_eq!(sandbox.git(&["status", "--porcelain", "kernels"]), "");
}

#[test]
fn a_full_disk_ends_a_session_cleanly_and_it_resumes_when_there_is_room() {
    let sandbox = project("[benchmark]\nscreening_samples = 500\nconfirmation_samples = 2000\n[store]\nmax_mb = 1\n");
    let session = Running::start(&sandbox, &START);
    let repair = || sandbox.replace("config.toml", "max_mb = 1", "max_mb = 0");
    ends_cleanly_and_goes_on(&sandbox, session, "the disk is full", repair);
}

#[test]
fn a_locked_store_ends_a_session_cleanly_and_it_resumes_later() {
    let sandbox = project("[benchmark]\nconfirmation_samples = 40\n[store]\nbusy_timeout = '1s'\n");
    let session = Running::start(&sandbox, &START);
    // By then every case has a winner.
    (0..60).for_each(|_| drop(session.wait_for("iteration")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // On a slow disk, the session holds the lock nearly all the time, and SQLite asks for it only ten times a second.
    let patient = SqliteConnectOptions::new().filename(store(&sandbox)).busy_timeout(Duration::from_secs(300));
    let mut other = runtime.block_on(patient.connect()).unwrap();
    runtime.block_on(sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other)).unwrap();
    let repair = || {
        runtime.block_on(sqlx::raw_sql("ROLLBACK").execute(&mut other)).unwrap();
        runtime.block_on(other.close()).unwrap();
    };
    ends_cleanly_and_goes_on(&sandbox, session, "another process keeps the store locked", repair);
}

#[test]
fn a_store_is_read_and_copied_while_a_session_writes_to_it() {
    let sandbox = project("");
    let session = Running::start(&sandbox, &START);
    session.wait_for("iteration");
    for verb in [&["history"][..], &["show", "1"], &["report"], &["sessions"]] {
        assert!(!sandbox.succeeds(verb).is_empty());
    }
    let said = sandbox.succeeds(&["backup", "copy.db"]);
    assert!(said.starts_with("copy.db: 1 session, ") && said.ends_with("MiB, integrity check ok\n"), "{said}");
    let said = sandbox.fails(&["backup", "copy.db"]);
    assert_eq!(said, "2 error: copy.db already exists: move it away, or choose another file");
    session.signal("INT");
    let (status, ..) = session.end();
    assert!(status.success());

    let copy = Record::at(&sandbox.path("copy.db"));
    copy.check();
    assert!(!copy.lasting().is_empty() && copy.lasting().is_subset(&Record::of(&sandbox).lasting()));
    assert_eq!(copy.ask("SELECT status FROM sessions"), ["running"]);
    // The copy is an ordinary store.
    std::fs::rename(sandbox.path("copy.db"), store(&sandbox)).unwrap();
    for log in ["db-wal", "db-shm"] {
        let _ = std::fs::remove_file(store(&sandbox).with_extension(log));
    }
    let (status, _, said) = Running::start(&sandbox, &["resume", "--budget", "1s", "--json"]).end();
    assert!(status.success(), "{said}");
}

#[test]
fn two_projects_with_one_store_do_not_write_to_it_at_once() {
    let (first, second) = (Sandbox::new(), Sandbox::new());
    let session = Running::start(&first, &START);
    session.wait_for("started");
    second.write("config.toml", &format!("[store]\npath = '{}'\n", store(&first).display()));
    second.trust();
    let said = second.fails(&["start", "--device", "fake", "--workload", "small"]);
    let holder = format!("is in use by `optloop start` (process {}, session 1) in ", session.id());
    assert!(said.starts_with("75 error: the store ") && said.contains(&holder), "{said}");
    assert!(second.succeeds(&["sessions"]).contains("running"), "readers are welcome");
    session.kill();
}

/// Reads a project as a user who may not write there.
fn reads_without_writing(sandbox: &Sandbox) {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let folder = sandbox.path(".optloop");
    let permit =
        |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let shm = store(sandbox).with_extension("db-shm");
    if shm.exists() {
        std::fs::remove_file(shm).unwrap();
    }
    permit(&sandbox.path("."), 0o755);
    permit(&folder, 0o555);
    // Every folder is writable for root, so the test reads as another user, with a program that anyone may run.
    let root = std::fs::write(folder.join("probe"), "").is_ok();
    let program = sandbox.path("optloop");
    if root {
        std::fs::remove_file(folder.join("probe")).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_optloop"), &program).unwrap();
    }
    for verb in [&["history"][..], &["show", "1"], &["report"], &["sessions"]] {
        let mut command = if root { Command::new(&program) } else { Command::new(env!("CARGO_BIN_EXE_optloop")) };
        if root {
            command.uid(65534);
        }
        let output = command.args(verb).current_dir(sandbox.path(".")).output().unwrap();
        assert!(output.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty());
    }
    permit(&folder, 0o755);
}

#[test]
fn a_store_without_write_permission_can_be_read() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("6", &[]).status.success());
    reads_without_writing(&sandbox);
    // A killed session leaves a log, and the store is incomplete without it.
    let session = Running::start(&sandbox, &START);
    session.wait_for("iteration");
    session.kill();
    reads_without_writing(&sandbox);
}
