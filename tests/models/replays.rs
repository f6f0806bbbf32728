//! Cassettes, and sessions that are killed between a request and its answer.

use scripted_llm::Reply;
use serde_json::{Value, json};

use super::{Ended, KEY, Scenario, apis, code, one_pass, plan, script};

#[test]
fn a_session_replayed_twice_gives_the_same_proposals_and_the_same_ledger_without_network() {
    for &api in apis() {
        let plans = vec![plan("edits", json!({})), plan("edits", json!({ "claim": "A second idea." }))];
        let broken = code("edits", json!({ "edits": [{ "search": "float sum = 0", "replace": "float sum = x" }] }));
        let codes = vec![broken, code("edits", one_pass()), code("edits", json!({ "skip": "no" }))];
        let scenario = Scenario::new(api, script(plans, codes), "record = 'tapes'");
        let first = scenario.ends_well(&["--iterations", "4"]);
        let asked = scenario.server.requests().len();
        let replayed = [0, 1].map(|_| {
            // The winner of one session would change the next.
            scenario.sandbox.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
            scenario.sandbox.replace("config.toml", "record = 'tapes'", "replay = 'tapes'");
            let ended = scenario.ends_well(&["--iterations", "4"]);
            assert!(ended.said.contains("are replayed from tapes"), "{}", ended.said);
            ended
        });
        assert_eq!(scenario.server.requests().len(), asked, "nothing was sent");
        assert!(first.course().contains("repair answered"), "{}", first.course());
        for ended in &replayed {
            assert_eq!(ended.course(), first.course());
            assert_eq!(proposals(ended), proposals(&first));
            assert_eq!(ledger(ended), ledger(&first));
        }
    }
}

fn proposals(ended: &Ended) -> Vec<[Value; 3]> {
    ended.iterations.iter().map(|one| ["family", "params", "hash"].map(|key| one[key].clone())).collect()
}

/// Returns what each call was for, how it ended, its tokens and its cost.
fn ledger(ended: &Ended) -> Vec<[Value; 7]> {
    let keys = ["purpose", "ordinal", "status", "usage", "cost_micro_usd", "cost_is_known", "claim"];
    ended.calls.iter().map(|call| keys.map(|key| call[key].clone())).collect()
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
