//! Requests to stop end a session cleanly, in any number and order.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};

use super::processes::{children, watch_children};
use crate::common::Sandbox;

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn many_signals_end_a_session_cleanly() {
    for seed in 0..4 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let sandbox = Sandbox::new();
        let start = ["start", "--device", "fake", "--workload", "small", "--budget", "10m", "--json"];
        let mut session = sandbox.command(&start).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut events = BufReader::new(session.stdout.take().unwrap()).lines();
        // The requests begin somewhere in the session.
        for _ in 0..rng.random_range(1..12) {
            events.next().unwrap().unwrap();
        }
        for _ in 0..50 {
            let signals = [Signal::INT, Signal::TERM, Signal::HUP];
            send(session.id(), signals[rng.random_range(0..3)]);
            if rng.random_bool(0.3) {
                std::thread::yield_now();
            }
        }
        let last = events.map(Result::unwrap).last().unwrap();
        assert!(last.contains("\"status\":\"interrupted\""), "{last}");
        assert!(session.wait().unwrap().success());
        assert_eq!(sandbox.report()["session"]["status"], "interrupted");
        assert!(sandbox.path(".optloop/reports/session-1.md").is_file());
        assert_eq!(integrity(&sandbox).await, "ok");
    }
}

/// A service supervisor signals every process of a group. Children ignore the signal, and no variant fails because of
/// it.
#[test]
fn signals_to_every_process_end_a_session_cleanly_without_failing_a_variant() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let sandbox = Sandbox::new();
        let start = ["start", "--device", "fake", "--workload", "small", "--budget", "10m", "--json"];
        let mut session = sandbox.command(&start).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut events = BufReader::new(session.stdout.take().unwrap()).lines();
        for _ in 0..8 {
            events.next().unwrap().unwrap();
        }
        let started = children(session.id());
        let kinds = [" worker ", " compiler "];
        assert!(kinds.iter().all(|kind| started.iter().any(|(_, command)| command.contains(kind))), "{started:?}");
        // The children first: for a moment only they have the signal.
        for (pid, _) in started {
            send(pid, signal);
        }
        send(session.id(), signal);
        let last = events.map(Result::unwrap).last().unwrap();
        assert!(last.contains("\"status\":\"interrupted\""), "{last}");
        assert!(session.wait().unwrap().success());
        let counts = &sandbox.report()["iterations"];
        for outcome in ["crashed", "timed_out", "rejected_by_compiler"] {
            assert_eq!(counts[outcome].as_u64().unwrap_or(0), 0, "{counts}");
        }
    }
}

/// Asks SQLite whether the database is intact.
async fn integrity(sandbox: &Sandbox) -> String {
    use sqlx::{Connection, SqliteConnection};
    let path = sandbox.path(".optloop/optloop.db");
    let mut database = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut database).await.unwrap()
}

#[test]
fn a_bench_that_is_stopped_leaves_no_process_and_no_folder() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("temporary")).unwrap();
        let bench = ["bench", "toy", "--workload", "small", "--case", "s64", "--device", "fake", "--repeat", "10000"];
        let mut command = sandbox.command(&bench);
        command.env("TMPDIR", sandbox.path("temporary")).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut bench = command.spawn().unwrap();
        let mut said = BufReader::new(bench.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(said.any(|line| line.contains("2 of 10000")), "it measures");
        let left = watch_children(bench.id());
        assert!(left.len() >= 2, "a worker and a compiler");
        send(bench.id(), signal);
        assert_eq!(said.last().unwrap(), "error: it was interrupted");
        assert_eq!(bench.wait().unwrap().code(), Some(130));
        for (process, command) in left {
            assert!(process.ends(), "{command} is left");
        }
        assert_eq!(std::fs::read_dir(sandbox.path("temporary")).unwrap().count(), 0);
    }
}

/// `optloop bench | head` is not a failure, even if output is left.
#[test]
fn a_closed_output_pipe_does_not_fail_a_bench() {
    let sandbox = Sandbox::new();
    let bench = ["bench", "toy", "--workload", "small", "--case", "s64", "--device", "fake"];
    let mut bench = sandbox.command(&bench).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((bench.stdout.take(), bench.stderr.take()));
    assert!(bench.wait().unwrap().success());
}
