//! Submissions from their beginning to their end.

use serde_json::{Value, json};

use super::running::{Service, kill, on_the_fake_device, session_process};
use crate::common::Sandbox;

const SUBMISSIONS: &str = "/api/v1/submissions";

/// A session that does not end by itself within a test.
fn long() -> Value {
    json!({ "budget": "1h" })
}

#[test]
fn a_submission_runs_a_session_and_its_results_can_be_read() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let submission = service.submit(json!({ "max_iterations": 12 }));
    assert_eq!((&submission["state"], &submission["project_name"]), (&json!("queued"), &json!("p")));
    let end = service.end_of(&submission["id"]);
    assert_eq!((&end["state"], &end["session"]), (&json!("ended"), &json!(1)), "{end}");
    assert_eq!(end["iterations"], 12);

    let get = |path: &str| service.get(&format!("/api/v1/projects/p/{path}"));
    let session = get("sessions/1").json();
    assert_eq!((&session["status"], &session["submission"]), (&json!("finished"), &submission["id"]));
    assert_eq!(get("sessions/1/iterations?limit=2").json().as_array().unwrap().len(), 2);
    let rows = get("sessions/1/iterations?sort=time&case=s128").json();
    let (fastest, slowest) = (&rows[0], rows.as_array().unwrap().last().unwrap());
    let id = &fastest["iteration"];
    let iteration = get(&format!("iterations/{id}")).json();
    assert!(iteration["source"].as_str().unwrap().contains("toy("), "{iteration}");
    let other = &slowest["iteration"];
    let diff = get(&format!("iterations/{id}/diff?against={other}")).json();
    assert!(diff["diff"].as_str().unwrap().starts_with(&format!("--- iteration {other}\n")), "{diff}");
    assert!(diff["cases"].as_array().unwrap().contains(&json!("s128")), "both were timed on it: {diff}");
    assert_eq!(get("sessions/1/report").json(), sandbox.report());
    let html = get("sessions/1/report?format=html");
    assert!(html.body.starts_with("<!doctype html>") && html.head.contains("sandbox"), "{}", html.head);
    let compared = get(&format!("compare?what=iterations&a={other}&b={id}&case=s128")).json();
    assert!(compared["ratio"]["estimate"].is_f64(), "{compared}");
    insta::assert_snapshot!(get("sessions/7").error(), @"404 there is no session 7; the only one is 1");
    let wrong = get("sessions/one");
    assert!(wrong.status == 400 && wrong.error().contains("`one`"), "{wrong:?}");
    let unknown = get("sessions/1/iterations?verdct=x");
    assert!(unknown.status == 400 && unknown.error().contains("unknown field `verdct`"), "{unknown:?}");
    for path in [
        "compare?what=iterations&a=1&b=2&case=%00",
        "iterations?case=%0a",
        "sessions/1/iterations?family=x%7F",
        "sessions?x=%00",
        "iterations/1%00/diff",
    ] {
        let refused = get(path);
        assert!(refused.status == 400 && refused.error().contains("control character"), "{path}: {refused:?}");
    }
    assert_eq!(service.get("/api/v1/projects/p%00/sessions").status, 400);
}

#[test]
fn a_second_submission_with_the_same_key_is_the_first_one() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let post = |key: &str, request: Value| {
        let body = json!({ "project": "p", "request": on_the_fake_device(request) }).to_string();
        service.send(
            "POST",
            SUBMISSIONS,
            &["Content-Type: application/json", &format!("Idempotency-Key: {key}")],
            &body,
        )
    };
    let first = post("a", long());
    let again = post("a", long());
    assert_eq!((first.status, again.status, &first.json()["id"]), (201, 200, &again.json()["id"]));
    insta::assert_snapshot!(post("a", json!({ "budget": "2h" })).error(), @"409 submission 1 has the same idempotency key and asks for something else (use a new key for each submission)");
    assert_eq!(post("b", long()).json()["id"], 2);
    assert_eq!(service.get(SUBMISSIONS).json().as_array().unwrap().len(), 2);
    service.cancel(&json!(2));
    service.cancel(&json!(1));
    service.end_of(&json!(1));
}

#[test]
fn the_queue_is_in_the_order_of_priorities_and_one_session_runs_in_a_project() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let first = service.submit(long());
    service.first_iteration_of(&first["id"]);
    let submit = |priority: i64| {
        let request = on_the_fake_device(json!({ "max_iterations": 2 }));
        service.submit_as(json!({ "project": "p", "priority": priority, "request": request }))["id"].clone()
    };
    let (low, high) = (submit(-1), submit(3));
    assert_eq!(
        (service.submission(&low)["ahead"].clone(), service.submission(&high)["ahead"].clone()),
        (json!(1), json!(0))
    );
    let dropped = submit(9);
    assert_eq!(service.cancel(&dropped)["state"], "cancelled");

    service.cancel(&first["id"]);
    let [first, low, high] = [&first["id"], &low, &high].map(|id| service.end_of(id));
    assert_eq!([&first["state"], &low["state"], &high["state"]], ["cancelled", "ended", "ended"]);
    let at = |submission: &Value, key: &str| submission[key].as_str().unwrap().to_owned();
    assert!(at(&first, "ended_at") <= at(&high, "started_at"), "{first} {high}");
    assert!(at(&high, "ended_at") <= at(&low, "started_at"), "{high} {low}");
    assert_eq!([&first["session"], &high["session"], &low["session"]], [1, 2, 3]);
}

#[test]
fn a_stopped_session_is_resumed_and_ends_once() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let id = service.submit(json!({ "max_iterations": 40 }))["id"].clone();
    service.first_iteration_of(&id);
    let post = |what: &str| service.post(&format!("{SUBMISSIONS}/{id}/{what}"), &json!({}));
    assert_eq!(post("stop").json()["asked"], "stop");
    let stopped = service.end_of(&id);
    assert_eq!((&stopped["state"], &stopped["reason"]), (&json!("ended"), &json!("stopped by a request")), "{stopped}");
    assert!(stopped["iterations"].as_u64() < Some(40), "{stopped}");
    insta::assert_snapshot!(post("stop").error(), @"409 submission 1 is ended, and it is over already");

    assert_eq!(post("resume").json()["state"], "queued");
    let end = service.end_of(&id);
    assert_eq!((&end["state"], &end["iterations"], &end["session"]), (&json!("ended"), &json!(40), &json!(1)), "{end}");
    insta::assert_snapshot!(post("resume").error(), @"409 session 1 is finished: submit another one");
    insta::assert_snapshot!(service.post("/api/v1/submissions/9/cancel", &json!({})).error(), @"404 there is no submission 9 (GET /api/v1/submissions lists them)");
}

#[test]
fn a_cancelled_session_that_does_not_end_is_killed_and_the_queue_goes_on() {
    let sandbox = Sandbox::new();
    let service = Service::start_with(&sandbox, &["--cancel-timeout", "100ms"]);
    let first = service.submit(long())["id"].clone();
    service.first_iteration_of(&first);
    let second = service.submit(json!({ "max_iterations": 1 }))["id"].clone();
    // It takes no signal but this one.
    kill("STOP", session_process(&sandbox).unwrap());
    service.cancel(&first);
    assert_eq!(service.end_of(&first)["state"], "cancelled");
    assert_eq!(service.end_of(&second)["state"], "ended");
}

#[test]
fn what_start_refuses_is_refused_in_the_same_words() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let refused = |request: Value| {
        let body = json!({ "project": "p", "request": on_the_fake_device(request) });
        service.post(SUBMISSIONS, &body).error()
    };
    insta::assert_snapshot!(refused(json!({ "workload": "smal" })), @"422 there is no workload `smal` (did you mean `small`?); kernels/workloads/ has: small");
    insta::assert_snapshot!(refused(json!({ "budget": "soon" })), @"422 --budget: `soon` is not a duration (expected number at 0): use one such as 10m or 4h");
    insta::assert_snapshot!(refused(json!({ "cases": ["--trust"] })), @"422 `cases` must have 1 to 200 bytes, and must not begin with `-`");
    insta::assert_snapshot!(refused(json!({ "commit_to": "main\u{202e}" })), @"422 `commit_to` has the control character U+202E: remove it");
    insta::assert_snapshot!(refused(json!({ "trust": true })), @"400 the body is not what is expected: unknown field `trust`, expected one of `workload`, `cases`, `families`, `budget`, `max_cost_usd`, `max_iterations`, `proposer`, `device`, `commit_to`, `no_commit`, `no_stop`, `seed` at line 1 column 58");
    insta::assert_snapshot!(refused(json!({ "device": "cuda:99" })), @"422 this service does not use the device `cuda:99`");
    let elsewhere = service.post(SUBMISSIONS, &json!({ "project": "/etc", "request": {} }));
    insta::assert_snapshot!(elsewhere.error(), @"404 this service has no project `/etc` (GET /api/v1/projects lists them)");

    // The user has not trusted the baseline, and nobody can do it from here.
    sandbox.replace("kernels/workloads/small.toml", "dims = {", "baseline = [\"sh\", \"x.sh\"]\ndims = {");
    insta::assert_snapshot!(refused(json!({})), @"403 this project chooses what you have not trusted: the baseline of workload `small`, `sh x.sh`; `optloop trust` shows it and asks, `--trust` trusts it (trust is given only on the machine of the service: `optloop trust` in the project)");
    sandbox.trust();
    let trusted = service.submit(json!({ "max_iterations": 1 }));
    assert_eq!(service.end_of(&trusted["id"])["state"], "ended");
    assert_eq!(service.get(SUBMISSIONS).json().as_array().unwrap().len(), 1, "nothing else was queued");
}

#[test]
fn a_project_in_use_makes_a_submission_wait() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    // The lock of another process.
    let lock = sandbox.path(".optloop/session.lock");
    let lock = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(lock).unwrap();
    lock.lock().unwrap();
    let id = service.submit(json!({ "max_iterations": 1 }))["id"].clone();
    let waits = |event: &super::running::Event| event.data["reason"].as_str().is_some_and(|why| why.contains("in use"));
    let waiting = service.events(&id, 0).find(waits).expect("it says why it waits").data;
    assert_eq!(waiting["state"], "queued");
    assert_eq!(service.submission(&id)["attempts"], 0, "it has not failed");
    drop(lock);
    service.cancel(&id);
}
