//! The sessions of a service screen on the same workers.

use serde_json::{Value, json};

use super::server::{FleetWorker, Server};
use super::{project, screened, trust};
use crate::common::Sandbox;
use crate::durability::record::Record;
use crate::service::running::{Service, on_the_fake_device};

/// Starts a service with two projects, which run at once.
fn service<'a>(sandbox: &'a Sandbox, other: &Sandbox, url: &str) -> Service<'a> {
    let [p, q] = [("p", sandbox), ("q", other)].map(|(name, of)| format!("{name}={}", of.path("").display()));
    let state = sandbox.path(".optloop/service").display().to_string();
    let address = ["--listen", "127.0.0.1:0", "--state", &state, "--virtual-slots", "2", "--nats", url];
    Service::spawn(sandbox, sandbox.command(&[&["serve", &p, &q][..], &address].concat()))
}

fn submit(service: &Service<'_>, project: &str) -> Value {
    let request = json!({ "cases": ["s64"], "budget": "4s", "no_stop": true });
    service.submit_as(json!({ "project": project, "request": on_the_fake_device(request) }))["id"].clone()
}

#[test]
fn sessions_of_a_service_share_the_workers_and_go_on_when_the_server_is_gone() {
    let Some(server) = Server::start() else { return };
    let (sandbox, other) = (project(&[]), project(&[]));
    let worker = FleetWorker::start(&sandbox, &server, "fake:1");
    let key = worker.key();
    trust(&sandbox, std::slice::from_ref(&key));
    trust(&other, &[key]);
    sandbox.succeeds(&["--project", &other.path("").display().to_string(), "trust", "--yes"]);
    let service = service(&sandbox, &other, &server.url());
    let submitted = ["p", "q"].map(|project| submit(&service, project));
    for id in &submitted {
        assert_eq!(service.end_of(id)["state"], "ended");
    }
    let shares = [&sandbox, &other].map(|of| screened(&Record::of(of), Some("rack/fake:1")));
    let [fewer, more] = [shares.iter().min().unwrap(), shares.iter().max().unwrap()];
    assert!(*fewer > 0 && *more <= 2 * fewer, "{shares:?}");

    let workers = service.get("/api/v1/workers").json();
    assert_eq!((&workers[0]["host"], &workers[0]["usable"]), (&json!("rack"), &json!("yes")), "{workers}");
    assert!(workers[0]["jobs"].as_u64() >= Some((fewer + more) as u64), "{workers}");

    drop((worker, server));
    let alone = submit(&service, "p");
    assert_eq!(service.end_of(&alone)["state"], "ended");
    let gone = service.get("/api/v1/workers");
    insta::assert_snapshot!(gone.error(), @"503 the NATS server does not answer (try again later)");
}
