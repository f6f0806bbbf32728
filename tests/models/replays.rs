//! Cassettes, and sessions that are killed between a request and its answer.

use scripted_llm::Reply;
use serde_json::json;

use super::{KEY, Scenario, apis, code, one_pass, plan, script};

#[test]
fn a_replayed_session_gives_the_same_proposals_without_network() {
    for &api in apis() {
        let scenario = Scenario::new(
            api,
            script(vec![plan("edits", json!({}))], vec![code("edits", one_pass())]),
            "record = 'tapes'",
        );
        let first = scenario.ends_well(&["--iterations", "2"]);
        let asked = scenario.server.requests().len();
        // The winner of the first session would change the second.
        scenario.sandbox.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
        scenario.sandbox.replace("config.toml", "record = 'tapes'", "replay = 'tapes'");
        let second = scenario.ends_well(&["--iterations", "2"]);
        assert_eq!(scenario.server.requests().len(), asked, "nothing was sent");
        assert_eq!(second.course(), first.course());
        let proposals = |ended: &super::Ended| {
            ended
                .iterations
                .iter()
                .map(|one| (one["family"].clone(), one["params"].clone(), one["hash"].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(proposals(&second), proposals(&first));
        assert!(second.said.contains("are replayed from tapes"), "{}", second.said);
    }
}

#[test]
fn a_session_that_is_killed_between_request_and_answer_is_resumed() {
    for &api in apis() {
        let slow = Reply { delay_ms: 60_000, ..plan("edits", json!({})) };
        let plans = vec![slow, plan("edits", json!({}))];
        let scenario = Scenario::new(api, script(plans, vec![code("edits", one_pass())]), "");
        let start =
            ["start", "--workload", "small", "--device", "virtual", "--seed", "1", "--trust", "--proposer", "llm"];
        let mut child = scenario
            .sandbox
            .command(&[&start[..], &["--iterations", "2"]].concat())
            .env("SOME_API_KEY", KEY)
            .spawn()
            .unwrap();
        while scenario.server.requests().is_empty() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let output = scenario.sandbox.command(&["resume", "--trust"]).env("SOME_API_KEY", KEY).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let ended = scenario.ended(said);
        assert_eq!(ended.course(), "plan lost, again plan answered, code answered", "{}", ended.said);
        let lost = &ended.calls[0];
        assert_eq!((&lost["cost_is_known"], &lost["cost_micro_usd"]), (&json!(false), &lost["reserve_micro_usd"]));
        assert_eq!(ended.tried(), ["measured"]);
    }
}
