//! A disk that is full. What is acknowledged is stored, and what cannot be stored is refused.

use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::running::{Service, on_the_fake_device};
use crate::common::Sandbox;

const SUBMISSIONS: &str = "/api/v1/submissions";

/// Starts a service that goes on when the system refuses to let a file grow.
fn start(sandbox: &Sandbox) -> Service<'_> {
    let project = format!("p={}", sandbox.path("").display());
    let state = sandbox.path(".optloop/service").display().to_string();
    let optloop = sandbox.command(&["serve", &project, "--listen", "127.0.0.1:0", "--state", &state]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(optloop.get_program()).args(optloop.get_args());
    command.current_dir(optloop.get_current_dir().unwrap());
    command.envs(optloop.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Service::spawn(sandbox, command)
}

/// The disk has room for a page, and for a little more each time.
#[test]
fn a_service_that_is_ready_stores_the_largest_submission() {
    let sandbox = Sandbox::new();
    // A request may have 64 KiB, and a list of it 1,000 names.
    let name = "a".repeat(54);
    sandbox.replace("kernels/workloads/small.toml", "name = \"s4d4\"", &format!("name = \"{name}\""));
    let service = start(&sandbox);
    let first = service.submit(json!({ "budget": "1h" }))["id"].clone();
    service.first_iteration_of(&first);
    let (cases, families) = (vec![name.as_str(); 1000], vec!["toy"; 1000]);
    let request = on_the_fake_device(json!({ "budget": "1h", "cases": cases, "families": families }));
    let body = json!({ "project": "p", "request": request }).to_string();
    assert!((60 << 10..=64 << 10).contains(&body.len()), "{}", body.len());
    let post = || service.send("POST", SUBMISSIONS, &["Content-Type: application/json"], &body);
    let process = Pid::from_raw(service.process().cast_signed());
    let log = sandbox.path(".optloop/service/queue.db-wal");
    let most = |current| prlimit(process, Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
    let length = log.metadata().unwrap().len();
    let mut answers = Vec::new();
    for pages in [1, 2, 4, 8, 16, 32, 128] {
        most(Some(length + pages * 4200));
        answers.push((service.get("/readyz").status, post().status));
    }
    most(None);
    assert_eq!(answers.first(), Some(&(503, 503)), "{answers:?}");
    assert_eq!(answers.last(), Some(&(200, 201)), "{answers:?}");
    assert!(answers.iter().all(|(ready, stored)| *ready == 503 || *stored == 201), "{answers:?}");
}

#[test]
fn what_cannot_be_stored_is_refused_and_what_is_acknowledged_is_stored() {
    let sandbox = Sandbox::new();
    let service = start(&sandbox);
    let post = |key: &str| {
        let body = json!({ "project": "p", "request": on_the_fake_device(json!({ "budget": "1h" })) }).to_string();
        let key = format!("Idempotency-Key: {key}");
        service.send("POST", SUBMISSIONS, &["Content-Type: application/json", &key], &body)
    };
    let first = post("first").json()["id"].clone();
    service.first_iteration_of(&first);
    let second = post("second").json()["id"].clone();
    let all = || service.get(&format!("{SUBMISSIONS}?state=queued")).json();
    let before = all();

    let process = Pid::from_raw(service.process().cast_signed());
    let log = sandbox.path(".optloop/service/queue.db-wal");
    let most = |current| {
        prlimit(process, Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
    };
    most(Some(log.metadata().unwrap().len()));
    assert_eq!([post("third").status, post("third").status], [503; 2]);
    insta::assert_snapshot!(post("third").error(), @"503 the service cannot write to its disk, so nothing was stored (free some space on the service's machine, or let it write there, and send the request again)");
    assert_eq!(service.post(&format!("{SUBMISSIONS}/{second}/cancel"), &json!({})).status, 503);
    assert_eq!((service.get("/readyz").status, service.get("/healthz").status), (503, 200));
    assert_eq!(all(), before);

    most(None);
    let third = post("third");
    assert_eq!((third.status, post("third").status), (201, 200));
    assert_eq!(all().as_array().map(Vec::len), Some(2));
    assert_eq!(service.get("/readyz").status, 200);
    for id in [&third.json()["id"], &second, &first] {
        service.cancel(id);
    }
    let state = |id: &Value| service.end_of(id)["state"].clone();
    assert_eq!([state(&first), state(&second)], ["cancelled", "cancelled"]);
}
