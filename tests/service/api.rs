//! The description of the API says what the service does.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::running::Service;
use crate::common::Sandbox;

#[test]
fn every_described_route_answers_and_no_other_method_does() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let id = service.submit(json!({ "max_iterations": 2 }))["id"].clone();
    service.end_of(&id);
    let document = service.get("/api/v1/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.values().map(|operations| operations.as_object().unwrap().len());
    assert_eq!(operations.sum::<usize>(), 21);
    for (path, operations) in paths {
        let mut real = path.replace("{project}", "p");
        for name in ["{id}", "{session}", "{iteration}"] {
            real = real.replace(name, "1");
        }
        if path.ends_with("/compare") {
            real.push_str("?a=1&b=1");
        }
        for (method, operation) in operations.as_object().unwrap() {
            let answer = match method.as_str() {
                "get" => service.get(&real),
                _ => service.post(&real, &json!({ "project": "p" })),
            };
            // Some answers are refusals, such as to stop what has ended. They have a body of the described form.
            assert!(![404, 405, 500].contains(&answer.status), "{method} {real}: {answer:?}");
            let kind = operation["responses"]["200"]["content"].as_object().unwrap().keys().next().unwrap();
            let kind = if answer.status < 300 { kind.as_str() } else { "application/json" };
            assert!(answer.head.contains(&format!("content-type: {kind}")), "{method} {real}: {}", answer.head);
        }
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            if operations.get(method.to_lowercase()).is_none() {
                assert_eq!(
                    service.send(method, &real, &["Content-Type: application/json"], "{}").status,
                    405,
                    "{method} {real}"
                );
            }
        }
    }
}

#[test]
fn answers_have_the_described_keys() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let submission = service.submit(json!({ "max_iterations": 2 }));
    service.end_of(&submission["id"]);
    let document = service.get("/api/v1/openapi.json").json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let described = |name: &str| keys(&document["components"]["schemas"][name]["properties"]);
    let mut of_submission = described("Submission");
    of_submission.remove("ahead");
    assert_eq!(of_submission, keys(&service.submission(&submission["id"])), "`ahead` is only there while it waits");
    assert_eq!(described("Request"), keys(&submission["request"]));
    assert_eq!(described("Project"), keys(&service.get("/api/v1/projects").json()[0]));
    assert_eq!(described("Error"), keys(&service.get("/nowhere").json()));
    assert_eq!(described("Diff"), keys(&service.get("/api/v1/projects/p/iterations/1/diff").json()));
    // A submission with a key that is not described is refused.
    let mut wrong = json!({ "project": "p" });
    for key in described("Submit") {
        assert!(["project", "priority", "request"].contains(&key.as_str()));
    }
    wrong["surplus"] = json!(1);
    assert_eq!(service.post("/api/v1/submissions", &wrong).status, 400);
}
