//! The verbs that talk to a service.

use serde_json::{Value, json};

use super::running::Service;
use crate::common::Sandbox;

#[test]
fn a_session_is_handed_in_followed_listed_and_cancelled_from_a_terminal() {
    let sandbox = Sandbox::new();
    let service = Service::start(&sandbox);
    let call = |words: &[&str]| {
        let output = sandbox.command(words).env("OPTLOOP_SERVICE", format!("http://{}", service.address())).output();
        let output = output.unwrap();
        let [out, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        if output.status.success() { out } else { format!("{} {said}", output.status.code().unwrap_or(-1)) }
    };
    let submit = ["submit", "--workload", "small", "--device", "fake", "--seed", "1"];
    let followed = call(&[&submit[..], &["--iterations", "3", "--follow"]].concat());
    let lines: Vec<_> = followed.lines().collect();
    assert!(lines.contains(&"session 1: small on fake device (no kernel was executed)"), "{followed}");
    assert!(lines.iter().any(|line| line.starts_with("iteration 3: measured after ")), "{followed}");
    assert!(lines.last().unwrap().starts_with("ended (session 1): "), "{followed}");

    insta::assert_snapshot!(call(&[&submit[..], &["--budget", "1h"]].concat()), @"submission 2 is queued: `optloop tail 2` follows it");
    let events = call(&["tail", "1", "--json"]);
    let kinds: Vec<Value> =
        events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&json!("plan")), Some(&json!("ended"))));
    let open: Value = serde_json::from_str(&call(&["queue", "--open", "--json"])).unwrap();
    assert_eq!(open[0]["id"], 2);
    assert!(call(&["queue"]).contains("small"));
    let cancelled = call(&["cancel", "2"]);
    assert!(cancelled.starts_with("submission 2 "), "{cancelled}");
    service.end_of(&json!(2));
    insta::assert_snapshot!(call(&["cancel", "2"]), @"2 error: submission 2 is cancelled, and it is over already");
    insta::assert_snapshot!(call(&["submit", "--on", "q"]), @"2 error: this service has no project `q` (GET /api/v1/projects lists them)");
    drop(service);
    for verb in [&["queue"][..], &["tail", "1"]] {
        let lost = sandbox.command(verb).args(["--service", "http://127.0.0.1:1"]).output().unwrap();
        let said = String::from_utf8(lost.stderr).unwrap();
        let expected = "error: no service answers at http://127.0.0.1:1/: `optloop serve` starts one";
        assert!(said.starts_with(expected) && said.lines().count() == 1, "{verb:?}: {said}");
    }
}
