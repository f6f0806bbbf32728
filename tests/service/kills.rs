//! Services and sessions that are killed: every submission ends once.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::running::{Service, kill, session_process};
use crate::common::{Sandbox, is_nightly};

/// Returns the number of sessions on record.
fn sessions(sandbox: &Sandbox) -> usize {
    let rows: Value = serde_json::from_str(&sandbox.succeeds(&["sessions", "--json"])).unwrap();
    rows.as_array().unwrap().len()
}

#[test]
fn a_session_outlives_its_service_and_the_next_one_takes_it_over() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let id = service.submit(json!({ "max_iterations": 30 }))["id"].clone();
    service.first_iteration_of(&id);
    let process = session_process(&sandbox);
    service.kill();

    let service = Service::start(&sandbox);
    assert_eq!(service.submission(&id)["state"], "running");
    let end = service.end_of(&id);
    assert_eq!(
        (&end["state"], &end["iterations"], &end["attempts"]),
        (&json!("ended"), &json!(30), &json!(1)),
        "{end}"
    );
    assert_eq!(session_process(&sandbox), process, "no other process ran");
    assert_eq!(sessions(&sandbox), 1);
}

#[test]
fn a_session_that_was_taken_over_can_be_stopped() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let id = service.submit(json!({ "budget": "1h" }))["id"].clone();
    service.first_iteration_of(&id);
    service.kill();
    let service = Service::start(&sandbox);
    service.post(&format!("/api/v1/submissions/{id}/stop"), &json!({}));
    assert_eq!(service.end_of(&id)["reason"], "stopped by a request");
}

#[test]
fn a_killed_session_is_resumed() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let id = service.submit(json!({ "max_iterations": 30 }))["id"].clone();
    service.first_iteration_of(&id);
    kill("KILL", session_process(&sandbox).unwrap());
    let end = service.end_of(&id);
    assert_eq!((&end["state"], &end["iterations"], &end["session"]), (&json!("ended"), &json!(30), &json!(1)), "{end}");
    let kinds: Vec<_> =
        service.events(&id, 0).filter_map(|event| event.data["event"].as_str().map(str::to_owned)).collect();
    let count = |kind: &str| kinds.iter().filter(|found| *found == kind).count();
    assert_eq!((count("started"), count("resumed"), count("ended")), (1, 1, 1), "{kinds:?}");
    assert_eq!(sessions(&sandbox), 1);
}

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Service,
    Session,
    Both,
    /// The process of the session that runs kernels.
    Worker,
}

/// When something is killed: after this many events of the oldest submission that has not ended, and this time.
#[derive(Debug, Clone, Copy)]
struct Blow {
    victim: Victim,
    events: usize,
    pause: Duration,
}

/// Returns the worker of a session's process.
fn worker_of(session: u32) -> Option<u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(
        |id: &u32| {
            let read = |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
            read("status").contains(&format!("\nPPid:\t{session}\n")) && read("cmdline").contains("\0worker\0")
        },
    )
}

/// Kills what the blows say while there is always a submission, and checks that all of them end once with all their
/// iterations.
fn survives(blows: impl IntoIterator<Item = Blow>) {
    const ITERATIONS: usize = 25;
    let sandbox = Sandbox::new();
    let mut service = Service::start(&sandbox);
    let mut ids: Vec<Value> = Vec::new();
    for blow in blows {
        let mut open: Vec<Value> = ids.clone();
        open.retain(|id| ["queued", "running"].contains(&service.submission(id)["state"].as_str().unwrap()));
        while open.len() < 2 {
            let id = service.submit(json!({ "max_iterations": ITERATIONS }))["id"].clone();
            open.push(id.clone());
            ids.push(id);
        }
        let _ = service.events(&open[0], 0).take(blow.events).count();
        std::thread::sleep(blow.pause);
        let session = session_process(&sandbox);
        let killed = match blow.victim {
            Victim::Service => None,
            Victim::Session | Victim::Both => session,
            Victim::Worker => session.and_then(worker_of),
        };
        if let Some(process) = killed {
            // It may have ended by itself.
            let _ = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).output();
        }
        if matches!(blow.victim, Victim::Service | Victim::Both) {
            service.kill();
            service = Service::start(&sandbox);
        }
    }
    for id in &ids {
        let end = service.end_of(id);
        assert_eq!((&end["state"], &end["iterations"]), (&json!("ended"), &json!(ITERATIONS)), "{end}");
        let ended = service.events(id, 0).filter(|event| event.data["event"] == "ended").count();
        assert!(ended <= 1, "{id} has ended {ended} times");
        let session = end["session"].to_string();
        let rows = sandbox.succeeds(&["history", &session, "--json", "--limit", "1000"]);
        let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
        // What was in flight when a session was killed has no outcome, and is tried again.
        let ended = rows.iter().filter(|row| row["outcome"].is_string());
        let numbers: BTreeSet<i64> = ended.map(|row| row["iteration"].as_i64().unwrap()).collect();
        assert_eq!(numbers.len(), ITERATIONS, "each iteration is on record once");
    }
    assert_eq!(sessions(&sandbox), ids.len());
}

#[test]
fn submissions_end_once_whatever_is_killed_when() {
    let victims = [Victim::Session, Victim::Service, Victim::Both];
    let events = [0, 3, 1, 9, 14, 20];
    let blow = |(round, events)| Blow { victim: victims[round % 3], events, pause: Duration::ZERO };
    survives(events.into_iter().enumerate().map(blow));
}

/// `OPTLOOP_SEED=N` repeats a run.
#[test]
fn submissions_end_once_after_kills_at_random_moments() {
    let chosen = std::env::var("OPTLOOP_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = chosen.unwrap_or_else(rand::random);
    eprintln!("OPTLOOP_SEED={seed}");
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    let victims = [Victim::Service, Victim::Session, Victim::Both, Victim::Worker];
    let blow = |_| Blow {
        victim: victims[rng.random_range(0..victims.len())],
        events: rng.random_range(0..60),
        pause: Duration::from_millis(rng.random_range(0..400)),
    };
    survives((0..if is_nightly() { 50 } else { 3 }).map(blow).collect::<Vec<_>>());
}
