//! Sessions that resume, and sessions that must not.

use serde_json::Value;

use super::record::{Record, commits, store};
use super::running::{Running, no_orphans};
use crate::common::{self, FAKE_WINNERS, Sandbox};

const START: [&str; 10] =
    ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--iterations", "24", "--json"];

/// Starts a session of 24 iterations and stops it after the first few.
fn interrupted(sandbox: &Sandbox) {
    let session = Running::start(sandbox, &START);
    session.wait_for("iteration");
    session.signal("INT");
    let (status, events, said) = session.end();
    assert!(status.success(), "{said}");
    assert_eq!(events.last().unwrap()["status"], "interrupted");
}

/// Changes a project's store in a way that no verb would.
fn tamper(sandbox: &Sandbox, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        use sqlx::Connection;
        let url = format!("sqlite://{}", store(sandbox).display());
        let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn an_interrupted_session_resumes_with_its_own_settings_and_remaining_budget() {
    let sandbox = Sandbox::new();
    interrupted(&sandbox);
    let before = Record::of(&sandbox).lasting();
    let (status, events, said) = Running::start(&sandbox, &["resume", "--json"]).end();
    assert!(status.success(), "{said}");
    let resumed = &events[0];
    assert_eq!(resumed["event"], "resumed");
    assert_eq!((&resumed["session"], &resumed["resumption"]), (&Value::from(1), &Value::from(1)));
    assert!(resumed["used_s"].as_f64().unwrap() > 0.0, "{resumed}");
    let ended = events.last().unwrap();
    assert_eq!((&ended["status"], &ended["iterations"]), (&Value::from("finished"), &Value::from(24)));
    assert!(ended["wall_s"].as_f64().unwrap() > resumed["used_s"].as_f64().unwrap());

    let record = Record::of(&sandbox);
    record.check();
    assert!(record.lasting().is_superset(&before));
    let report = sandbox.report();
    assert_eq!(report["session"]["resumptions"], 1);
    assert_eq!(report["iterations"]["total"], 24);
    assert!(report["cases"].as_array().unwrap().iter().all(|case| case["baseline"].is_object()), "{report}");
    let sessions: Value = serde_json::from_str(&sandbox.succeeds(&["sessions", "--json"])).unwrap();
    assert_eq!((&sessions[0]["resumptions"], sessions.as_array().unwrap().len()), (&Value::from(1), 1));
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
}

#[test]
fn sessions_that_cannot_be_resumed_are_refused_in_one_sentence() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(&["resume"]), @"1 error: there are no sessions yet: run `optloop start` first");
    interrupted(&sandbox);
    insta::assert_snapshot!(sandbox.fails(&["resume", "7"]), @"2 error: there is no session 7; the only one is 1");
    insta::assert_snapshot!(sandbox.fails(&["resume", "--budget", "0s"]), @"2 error: --budget: `0s` is zero: use a duration such as 10m or 4h");

    sandbox.replace("kernels/workloads/small.toml", "Sk = 64", "Sk = 65");
    insta::assert_snapshot!(sandbox.fails(&["resume"]), @"2 error: case `s64` of workload `small` was B=2 H=2 CAUSAL=1 Sq=64 Sk=64 D=16 (warm) when session 1 began and is B=2 H=2 CAUSAL=1 Sq=64 Sk=65 D=16 (warm) now: restore the workload, or start another session");
    sandbox.replace("kernels/workloads/small.toml", "Sk = 65", "Sk = 64");

    sandbox.replace("kernels/workloads/small.toml", "worst_row = 4e-3", "worst_row = 5e-3");
    insta::assert_snapshot!(sandbox.fails(&["resume"]), @"2 error: op, dtype, compute mode, tolerance or initial kernel of workload `small` has changed since session 1 began: restore the workload, or start another session");
    sandbox.replace("kernels/workloads/small.toml", "worst_row = 5e-3", "worst_row = 4e-3");
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0]", "values = [0, 4]");
    insta::assert_snapshot!(sandbox.fails(&["resume"]), @"2 error: family `toy` has changed since session 1 began: restore its manifest and template, or start another session");
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0, 4]", "values = [0]");

    let device = "UPDATE environments SET device = json_set(device, '$.name', 'NVIDIA L4', '$.uuid', 'GPU-1')";
    tamper(&sandbox, device);
    insta::assert_snapshot!(sandbox.fails(&["resume"]), @"2 error: session 1 ran on NVIDIA L4 (GPU-1), and fake is now fake device (no kernel was executed): times of two devices are not comparable, so start another session");
    tamper(
        &sandbox,
        "UPDATE environments SET device = json_set(device, '$.name', 'fake device (no kernel was executed)')",
    );

    tamper(&sandbox, "UPDATE environments SET nvrtc = '1.2'");
    let said = sandbox.fails(&["resume"]);
    assert!(said.starts_with("2 error: session 1 was compiled by NVRTC 1.2, but this machine has "), "{said}");
    let nvrtc = said.split_once("this machine has ").unwrap().1.split(',').next().unwrap().to_owned();
    tamper(&sandbox, &format!("UPDATE environments SET nvrtc = '{nvrtc}'"));

    // The state of a store from an optloop that did not record content hashes.
    tamper(&sandbox, "UPDATE sessions SET asked = json_remove(asked, '$.meaning')");
    assert!(sandbox.optloop(&["resume"]).status.success(), "none of the refusals has left anything");
    insta::assert_snapshot!(sandbox.fails(&["resume", "1"]), @"2 error: session 1 is finished (its iteration limit (--iterations) is reached), so it cannot be resumed: `optloop start` begins another");
}

#[test]
fn a_running_session_cannot_be_resumed() {
    let sandbox = Sandbox::new();
    let start = ["start", "--device", "fake", "--workload", "small", "--budget", "10m", "--json"];
    let session = Running::start(&sandbox, &start);
    session.wait_for("started");
    let said = sandbox.fails(&["resume"]);
    let holder =
        format!("75 error: this project is in use by `optloop start` (process {}, session 1) in ", session.id());
    assert!(said.starts_with(&holder) && said.ends_with(": wait for it, or end it"), "{said}");
    session.kill();
    let (status, ..) = Running::start(&sandbox, &["resume", "--budget", "1s", "--json"]).end();
    assert!(status.success(), "the file that the dead process has left blocks no other process");
}

/// After a power cut, a machine's clock may show any time.
#[test]
fn a_clock_jump_does_not_change_the_budget() {
    for instant in ["1970-01-01T00:00:00.000Z", "2999-12-31T23:59:59.999Z"] {
        let sandbox = Sandbox::new();
        interrupted(&sandbox);
        tamper(
            &sandbox,
            &format!(
                "DROP TRIGGER finished_iteration_stays; UPDATE iterations SET started_at = '{instant}', ended_at = '{instant}';
                 UPDATE sessions SET started_at = '{instant}', ended_at = '{instant}'"
            ),
        );
        let used = |sandbox: &Sandbox| sandbox.report()["session"]["wall_s"].as_f64().unwrap();
        let before = used(&sandbox);
        assert!(before > 0.0 && sandbox.succeeds(&["sessions"]).contains(&instant[..10]));
        let (status, events, said) = Running::start(&sandbox, &["resume", "--json"]).end();
        assert!(status.success(), "{said}");
        assert!((events[0]["used_s"].as_f64().unwrap() / before - 1.0).abs() < 1e-9, "{}", events[0]);
        assert_eq!(events.last().unwrap()["status"], "finished");
        assert!(used(&sandbox) > before);
        assert!(sandbox.path(".optloop/reports/session-1.md").is_file());
    }
}

/// Only the lock that ends with its process tells the two apart.
#[test]
fn a_killed_session_is_distinguished_from_a_running_one_and_says_how_to_resume() {
    let sandbox = Sandbox::new();
    let status = |sandbox: &Sandbox| -> (String, String) {
        let sessions: Value = serde_json::from_str(&sandbox.succeeds(&["sessions", "--json"])).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&sessions[0]["status"]), text(&sandbox.report()["session"]["status"]))
    };
    let both = |name: &str| (name.to_owned(), name.to_owned());
    // More configurations than the test lasts.
    let many = format!("values = [0, {}]", (100..2000).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
    sandbox.replace("templates/kernels/toy/family.toml", "values = [0]", &many);
    let session =
        Running::start(&sandbox, &["start", "--device", "fake", "--workload", "small", "--budget", "10m", "--json"]);
    session.wait_for("iteration");
    assert_eq!(status(&sandbox), both("running"));
    session.kill();
    assert_eq!(status(&sandbox), both("killed"));
    assert!(sandbox.succeeds(&["sessions"]).contains("killed: optloop resume 1"));
    let report = sandbox.succeeds(&["report"]);
    assert!(report.contains("killed: its process is gone; continue it with optloop resume 1."), "{report}");
    let shown: Value = serde_json::from_str(&sandbox.succeeds(&["show", "1", "--json"])).unwrap();
    assert_eq!(shown["session"]["status"], "killed");
    let (code, _, said) = Running::start(&sandbox, &["resume", "--budget", "1ms", "--json"]).end();
    assert!(code.success(), "{said}");
    assert_eq!(status(&sandbox), both("finished"));
}

/// One of the two configurations hangs. A user who kills the session meanwhile may not know why the machine stood
/// still.
#[test]
fn a_configuration_in_flight_at_two_crashes_is_not_proposed_again() {
    let sandbox = Sandbox::new();
    let manifest = "templates/kernels/toy/family.toml";
    sandbox.replace(manifest, "values = [0]", "values = [0, 4]");
    sandbox.replace(manifest, "values = [4, 8, 16, 32, 64]", "values = [64]");
    sandbox.replace(manifest, "values = [32, 64, 128, 256]", "values = [32]");
    let unfinished = || Record::of(&sandbox).ask("SELECT hash FROM iterations WHERE ended_at IS NULL");
    let mut session =
        Running::start(&sandbox, &["start", "--device", "fake", "--workload", "small", "--case", "s64", "--json"]);
    session.wait_for("iteration");
    for death in 1..=2 {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while unfinished().len() < death {
            assert!(std::time::Instant::now() < deadline, "it is never in flight");
            session.listen(std::time::Duration::from_millis(50));
        }
        session.kill();
        session = Running::start(&sandbox, &["resume", "--json"]);
    }
    let (status, events, said) = session.end();
    assert!(status.success(), "{said}");
    let ended = events.last().unwrap();
    assert_eq!((&ended["reason"], &ended["iterations"]), (&"there is nothing new left to try".into(), &1.into()));
    let hashes = unfinished();
    assert_eq!(hashes.len(), 2, "both are a trace for ever");
    assert_eq!(hashes[0], hashes[1]);
}

/// A screening run and its confirmation are two iterations of one variant. It fails in its confirmation, or in its
/// final, and the process dies before all of that is recorded.
#[test]
fn a_disqualified_variant_does_not_return_through_its_screening_run() {
    for faults in ["accept die\n", "enter pass\nenter pass\nenter pass\nenter pass\nenter die\n"] {
        let sandbox = Sandbox::new();
        let faults_at = sandbox.path(".optloop-faults");
        std::fs::write(&faults_at, faults).unwrap();
        let mut session = sandbox.command(&[&START[..], &["--case", "s128"]].concat());
        assert!(session.env("OPTLOOP_FAKE_FAULTS", &faults_at).output().unwrap().status.success());
        assert_eq!(std::fs::read_to_string(&faults_at).unwrap(), "");
        let rejected = |sandbox: &Sandbox| -> Vec<(i64, String)> {
            let rows: Value = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
            let rows = rows.as_array().unwrap().iter().filter(|row| row["verdict"] == "rejected");
            rows.map(|row| (row["iteration"].as_i64().unwrap(), row["hash"].as_str().unwrap().to_owned())).collect()
        };
        let out = rejected(&sandbox);
        assert_eq!(out.len(), 2, "the screening run and the confirmation: {out:?}");
        assert_eq!(out[0].1, out[1].1);

        tamper(
            &sandbox,
            "DROP TRIGGER finished_session_stays;
             UPDATE sessions SET status = 'running', ended_at = NULL, max_iterations = 40",
        );
        let (status, events, said) = Running::start(&sandbox, &["resume", "--json"]).end();
        assert!(status.success(), "{said}");
        let last = events.iter().rfind(|event| event["event"] == "final").unwrap();
        assert!(out.iter().all(|(iteration, _)| last["iteration"] != *iteration), "{last}");
        Record::of(&sandbox).check();
        let winner = sandbox.json(&format!("{FAKE_WINNERS}/s128.json"));
        assert_ne!(winner["variant"]["hash"], *out[0].1, "what is committed is not what failed");
    }
}

/// The incumbent fails in a comparison and alone, and the comparison goes on without it. The process dies meanwhile.
#[test]
fn a_disqualification_is_recorded_before_the_comparison_ends() {
    let sandbox = Sandbox::new();
    let (faults, told) = (sandbox.path(".optloop-faults"), sandbox.path("told"));
    // The challenger enters first and passes the acceptance checks.
    let script = ["enter pass", "enter die", "accept pass", "accept die", &format!("enter hang {}", told.display())];
    std::fs::write(&faults, script.join("\n")).unwrap();
    let mut command = sandbox.command(&[&START[..], &["--case", "s128"]].concat());
    command.env("OPTLOOP_FAKE_FAULTS", &faults);
    let session = Running::spawn(command);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !told.exists() {
        assert!(std::time::Instant::now() < deadline, "{}", std::fs::read_to_string(&faults).unwrap());
        session.listen(std::time::Duration::from_millis(50));
    }
    session.kill();
    no_orphans(&sandbox);
    let out = Record::of(&sandbox).ask("SELECT iteration_id || ' ' || case_name FROM disqualifications");
    assert_eq!(out, ["1 s128"]);
    let (status, events, said) = Running::start(&sandbox, &["resume", "--json"]).end();
    assert!(status.success(), "{said}");
    let last = events.iter().rfind(|event| event["event"] == "final").unwrap();
    assert_ne!(last["iteration"], 1, "{last}");
}

/// A confirmed winner is settled. An unconfirmed one gets its final, however late it is.
#[test]
fn with_no_time_left_a_resumption_holds_the_finals_without_which_nothing_is_settled() {
    let sandbox = Sandbox::new();
    let finals = |events: &[Value]| -> Vec<(String, String)> {
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let finals = events.iter().map(|event| (text(event, "event"), text(event, "case")));
        finals.filter(|(event, _)| event == "final" || event == "no_final").collect()
    };
    let again = |last: u32| {
        let sql = "DROP TRIGGER IF EXISTS finished_session_stays;
                   UPDATE sessions SET status = 'running', ended_at = NULL, max_iterations =";
        tamper(&sandbox, &format!("{sql} {last}"));
        let (status, events, said) = Running::start(&sandbox, &["resume", "--budget", "1ms", "--json"]).end();
        assert!(status.success(), "{said}");
        finals(&events)
    };
    assert!(sandbox.session("24", &["--case", "s128"]).status.success());
    assert_eq!(again(40), [("no_final".to_owned(), "s128".to_owned())], "its figures are on record");
    assert!(sandbox.session("1", &["--case", "s64"]).status.success());
    assert_eq!(again(40), [("final".to_owned(), "s64".to_owned())], "a start is accepted and timed");
}

/// With one key, attention is a copy of the values, which the shell program can compute.
#[test]
fn a_baseline_is_started_again_and_timed_once() {
    let sandbox = Sandbox::new();
    sandbox.write("fake.sh", include_str!("../baseline/fake.sh"));
    let shared = &common::WORKLOAD[..common::WORKLOAD.find("[[case]]").unwrap()];
    let shared = shared.replace("CAUSAL = 1", "CAUSAL = 0").replace("H = 2", "H = 64");
    let shared = shared.replace("dtype =", "baseline = ['sh', 'fake.sh', '']\ndtype =");
    let case = "[[case]]\nname = 'one-key'\nSq = 1\nSk = 1\nD = 64\n";
    sandbox.write("kernels/workloads/small.toml", &format!("{shared}{case}"));
    sandbox.trust_to_write();
    let session = Running::start(&sandbox, &START);
    session.wait_for("iteration");
    session.kill();
    no_orphans(&sandbox);
    let baselines = || Record::of(&sandbox).ask("SELECT quote(median_ns) || name FROM baselines");
    let before = baselines();
    assert!(!before.is_empty());
    let (status, events, said) = Running::start(&sandbox, &["resume", "--json"]).end();
    assert!(status.success(), "{said}");
    assert!(!events.iter().any(|event| event["event"] == "baseline"), "it is on record: {events:?}");
    assert_eq!(baselines(), before);
    let last = events.iter().find(|event| event["event"] == "final").unwrap();
    assert_eq!(last["baseline"], "quick", "it takes part in the comparisons of the one that goes on");
}

/// Simulates the death of the process between a commit and its row.
#[test]
fn a_commit_that_its_session_could_not_link_is_found_in_git() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("24", &[]).status.success());
    let (links, made) = (Record::of(&sandbox).links(), commits(&sandbox));
    assert!(!links.is_empty());
    tamper(
        &sandbox,
        "DROP TRIGGER finished_session_stays; DELETE FROM commits;
         UPDATE sessions SET status = 'running', ended_at = NULL, max_iterations = 25",
    );
    let (status, events, said) = Running::start(&sandbox, &["resume", "--json"]).end();
    assert!(status.success(), "{said}");
    let linked = events.iter().position(|event| event["event"] == "committed").unwrap();
    assert!(linked < events.iter().position(|event| event["event"] == "iteration").unwrap(), "{events:?}");
    assert!(Record::of(&sandbox).links().is_superset(&links));
    assert_eq!(commits(&sandbox)[..made.len()], made);
}

/// A process that died between a commit and its row has left a journal, too, and what it names is in the way.
#[test]
fn a_commit_is_linked_even_if_nothing_can_be_committed_any_more() {
    let sandbox = Sandbox::new();
    assert!(sandbox.session("24", &["--case", "s128"]).status.success());
    let links = Record::of(&sandbox).links();
    assert!(!links.is_empty());
    tamper(
        &sandbox,
        "DROP TRIGGER finished_session_stays; DELETE FROM commits;
         UPDATE sessions SET status = 'running', ended_at = NULL",
    );
    let half = format!("{FAKE_WINNERS}/half.cu");
    std::fs::create_dir(sandbox.path(&half)).unwrap();
    let journal = serde_json::json!({
        "about": "", "reference": "refs/heads/main", "files": [[{"Unix": half.as_bytes()}, "0".repeat(40)]], "folders": []
    });
    sandbox.write(".git/index.lock", &journal.to_string());
    let (status, events, said) = Running::start(&sandbox, &["resume", "--budget", "1ms", "--json"]).end();
    assert!(status.success(), "{said}");
    assert!(said.contains("the winners go only to the store: "), "{said}");
    assert_eq!(Record::of(&sandbox).links(), links, "{events:?}");
}

/// The process dies while it commits, and leaves the locks with the journal of what it was doing.
#[test]
fn a_commit_whose_process_died_half_way_is_undone_and_made_once() {
    let sandbox = Sandbox::new();
    let session = Running::start(&sandbox, &[&START[..], &["--case", "s128"]].concat());
    session.wait_for("kept");
    session.kill();
    let half = format!("{FAKE_WINNERS}/half.cu");
    sandbox.write(&half, "// half\n");
    let blob = sandbox.git(&["hash-object", "-w", &half]);
    let journal = serde_json::json!({
        "about": "", "reference": "refs/heads/main", "files": [[{"Unix": half.as_bytes()}, blob.trim()]], "folders": []
    });
    sandbox.write(".git/index.lock", &journal.to_string());
    let (status, events, said) = Running::start(&sandbox, &["resume", "--json"]).end();
    assert!(status.success(), "{said}");
    assert_eq!(events.iter().filter(|event| event["event"] == "committed").count(), 1);
    assert!(!sandbox.path(&half).exists() && !sandbox.path(".git/index.lock").exists());
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    assert_eq!(commits(&sandbox).len(), 1);
}

/// A reference moves under a lock file, which stays if the process is killed at that moment.
#[test]
fn a_lock_that_a_killed_process_has_left_on_its_own_reference_costs_no_winner() {
    let sandbox = Sandbox::new();
    let session = Running::start(&sandbox, &START);
    let kept = session.wait_for("kept");
    session.kill();
    let lock = format!(".git/{}.lock", kept["reference"].as_str().unwrap());
    sandbox.write(&lock, "");
    // No time is left for another iteration, so what was kept is what is committed.
    let (status, events, said) = Running::start(&sandbox, &["resume", "--budget", "1ms", "--json"]).end();
    assert!(status.success(), "{said}");
    assert_eq!(events.last().unwrap()["status"], "finished");
    let (links, made) = (Record::of(&sandbox).links(), commits(&sandbox));
    assert!(!made.is_empty(), "{events:?}");
    assert_eq!(links, made.into_iter().collect(), "what git has is linked: {events:?}");
    assert!(
        !events.iter().any(|event| event["event"] == "not_kept" || event["event"] == "not_committed"),
        "{events:?}"
    );
    assert!(!sandbox.path(&lock).exists());
    assert_eq!(sandbox.git(&["for-each-ref", "refs/optloop"]), "");
}

#[test]
fn an_index_that_another_git_has_locked_delays_the_commit_and_loses_no_winner() {
    let sandbox = Sandbox::new();
    sandbox.write(".git/index.lock", "");
    let (status, events, said) = Running::start(&sandbox, &[&START[..], &["--case", "s128"]].concat()).end();
    assert!(status.success(), "{said}");
    let refused = events.iter().find(|event| event["event"] == "not_committed").unwrap();
    assert!(refused["reason"].as_str().unwrap().contains("index.lock` exists"), "{refused}");
    assert_eq!(refused["cases"], serde_json::json!(["s128"]));
    assert_eq!(sandbox.report()["cases"][0]["commit"], Value::Null);
    std::fs::remove_file(sandbox.path(".git/index.lock")).unwrap();

    let reference = refused["kept_under"].as_str().unwrap();
    let advice = format!(
        "session 1 has winners on no branch, under {reference}: `git cherry-pick {reference}` commits them, `git \
         update-ref -d {reference}` drops them\n"
    );
    assert!(sandbox.succeeds(&["sessions"]).ends_with(&advice), "{advice}");
    sandbox.git(&["cherry-pick", reference]);
    sandbox.git(&["update-ref", "-d", reference]);
    assert_eq!(commits(&sandbox).len(), 1);
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    assert!(!sandbox.succeeds(&["sessions"]).contains("on no branch"));
}

/// The session searches no family of another op, so it does not need one.
#[test]
fn a_family_of_another_op_may_break_while_a_session_is_stopped() {
    let sandbox = Sandbox::new();
    sandbox.copy_family("templates/kernels/gemm-scalar", "templates/kernels/gemm-scalar");
    sandbox.write("templates/kernels/gemm-scalar/kernel.cu.tera", common::TEMPLATE);
    let session =
        Running::start(&sandbox, &["start", "--device", "fake", "--workload", "small", "--budget", "10m", "--json"]);
    session.wait_for("iteration");
    session.kill();
    sandbox.replace("templates/kernels/gemm-scalar/family.toml", "requires_sm", "requires_ms");
    let (status, _, said) = Running::start(&sandbox, &["resume", "--budget", "1ms", "--json"]).end();
    assert!(status.success(), "{said}");
    assert!(!said.contains("left out"), "{said}");
}
