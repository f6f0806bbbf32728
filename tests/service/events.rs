//! Event streams.

use std::fs;

use serde_json::{Value, json};

use super::running::{Event, Service, StandingStill};
use crate::common::Sandbox;

/// The events of the session in a stream, as text.
fn of_session(events: impl Iterator<Item = Event>) -> Vec<(u64, Value)> {
    events.filter_map(|event| Some((event.id?, event.data))).collect()
}

#[test]
fn a_client_that_comes_back_gets_each_event_once() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let id = service.submit(json!({ "max_iterations": 8 }))["id"].clone();
    // It leaves three times.
    let mut seen: Vec<(u64, Value)> = Vec::new();
    for _ in 0..3 {
        let last = seen.last().map_or(0, |(last, _)| *last);
        seen.extend(of_session(service.events(&id, last)).into_iter().take(3));
    }
    let last = seen.last().unwrap().0;
    seen.extend(of_session(service.events(&id, last)));
    let log = fs::read_to_string(sandbox.path(&format!(".optloop/service/logs/{id}.jsonl"))).unwrap();
    let all: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen.into_iter().map(|(_, event)| event).collect::<Vec<_>>(), all);
    assert_eq!(all.last().unwrap()["event"], "ended");

    let refused = service.send("GET", &format!("/api/v1/submissions/{id}/events"), &["Last-Event-ID: 3"], "");
    insta::assert_snapshot!(refused.error(), @"400 no event of this submission has the id that the client has seen last (begin again, without Last-Event-ID)");
    // What has ended is over for a client that has seen all of it.
    let rest: Vec<_> = service.events(&id, log.len() as u64).map(|event| event.kind).collect();
    assert_eq!(rest.last().map(String::as_str), Some("end"));
}

#[test]
fn streams_beyond_the_limit_are_refused_and_a_place_is_free_again_after_one() {
    let sandbox = Sandbox::new();
    let service = Service::start_with(&sandbox, &["--max-streams", "2", "--max-connections", "4"]);
    let id = service.submit(json!({ "budget": "1h" }))["id"].clone();
    service.first_iteration_of(&id);
    let still = StandingStill::new(&sandbox);
    let path = format!("/api/v1/submissions/{id}/events");
    let mut streams: Vec<_> = (0..2).map(|_| service.events(&id, 0)).collect();
    streams.iter_mut().for_each(|stream| assert!(stream.next().is_some()));
    insta::assert_snapshot!(service.get(&path).error(), @"503 too many event streams are open (try again later)");
    // A connection that has ended may keep its place for a moment, so it can take more than two to fill the service.
    let mut connections = Vec::new();
    let refused = loop {
        let answer = service.get("/healthz");
        if answer.status == 503 {
            break answer;
        }
        connections.push(service.connect());
    };
    insta::assert_snapshot!(refused.error(), @"503 too many connections are open (try again later)");
    drop((connections, streams));
    // A place is free as soon as the service notices.
    while service.post(&format!("/api/v1/submissions/{id}/cancel"), &json!({})).status == 503 {}
    drop(still);
    assert_eq!(service.end_of(&id)["state"], "cancelled");
}
