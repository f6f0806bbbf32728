//! Services and sessions that are killed: every submission ends once.

use std::fs;

use serde_json::{Value, json};

use super::running::{Service, kill};
use crate::common::Sandbox;

/// Returns the process of the session that runs in a project.
fn session_process(sandbox: &Sandbox) -> Option<u32> {
    let lock = fs::read_to_string(sandbox.path(".optloop/session.lock")).ok()?;
    serde_json::from_str::<Value>(&lock).ok()?["process"].as_u64()?.try_into().ok()
}

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

/// Kills the service, the session or both after these many events, and checks that both submissions end once.
fn survives(moments: impl Iterator<Item = usize>) {
    let sandbox = Sandbox::new();
    let mut service = Service::start(&sandbox);
    let ids = [0, 1].map(|_| service.submit(json!({ "max_iterations": 25 }))["id"].clone());
    for (round, events) in moments.enumerate() {
        // The stream of the second submission ends only after the first one.
        let _ = service.events(&ids[1], 0).take(1 + events / 7).count();
        let _ = service.events(&ids[0], 0).take(events).count();
        if round % 3 != 1
            && let Some(process) = session_process(&sandbox)
        {
            // It may have ended by itself.
            let _ = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).output();
        }
        if round % 3 != 0 {
            service.kill();
            service = Service::start(&sandbox);
        }
    }
    for id in &ids {
        let end = service.end_of(id);
        assert_eq!((&end["state"], &end["iterations"]), (&json!("ended"), &json!(25)), "{end}");
        let ended = service.events(id, 0).filter(|event| event.data["event"] == "ended").count();
        assert!(ended <= 1, "{id} has ended {ended} times");
    }
    assert_eq!(sessions(&sandbox), 2);
}

#[test]
fn submissions_end_once_whatever_is_killed_when() {
    survives([0, 3, 1, 9, 14, 20].into_iter());
}

/// Takes minutes: `cargo test --test integration service::kills -- --ignored`.
#[test]
#[ignore = "slow"]
fn submissions_end_once_after_fifty_kills() {
    survives((0..50).map(|round| (round * 37) % 41));
}
