//! Health, metrics, logs and the end of a service.

use serde_json::{Value, json};

use super::running::Service;
use crate::common::Sandbox;

#[test]
fn a_service_tells_its_health_and_its_figures() {
    let sandbox = Sandbox::new();
    let service = Service::start_with(&sandbox, &["--log-format", "json"]);
    assert_eq!((service.get("/healthz").body.as_str(), service.get("/readyz").body.as_str()), ("ok\n", "ready\n"));
    let id = service.submit(json!({ "max_iterations": 1 }))["id"].clone();
    service.end_of(&id);
    service.get("/nowhere");
    let text = service.get("/metrics").body;
    for line in [
        "optloop_submissions{state=\"ended\"} 1",
        "optloop_submissions{state=\"queued\"} 0",
        "# TYPE optloop_http_requests_total counter",
        "optloop_http_requests_total{route=\"/healthz\",status=\"200\"} 1",
        "optloop_http_requests_total{route=\"other\",status=\"404\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let log = std::fs::read_to_string(sandbox.path("service.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["message"] == "a session starts" && line["submission"] == 1), "{log}");
}

#[test]
fn a_service_that_is_stopped_ends_its_streams_and_leaves_the_session() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let id = service.submit(json!({ "budget": "1h" }))["id"].clone();
    service.first_iteration_of(&id);
    let events = service.events(&id, 0);
    service.signal("TERM");
    assert!(events.last().is_some(), "the stream ends");
    assert!(service.wait_for_end().success());

    let service = Service::start(&sandbox);
    assert_eq!(service.submission(&id)["state"], "running");
    let second = sandbox.fails(&["serve", "--listen", "127.0.0.1:0", "--state", ".optloop/service"]);
    insta::assert_snapshot!(second, @"2 error: another service uses .optloop/service: talk to that one, or give this one another folder with --state");
    service.cancel(&id);
    assert_eq!(service.end_of(&id)["state"], "cancelled");
}
