//! Endpoints that fail. None of this ends a session.

use scripted_llm::{End, Reply};
use serde_json::json;

use super::{KEY, Scenario, apis, code, files, one_pass, plan, script, tokens};

/// Runs a session whose first plan gets these replies. Later plans are empty.
fn course(api: &str, first: Reply) -> (Scenario, super::Ended) {
    let scenario =
        Scenario::new(api, script(vec![first, plan("edits", json!({}))], vec![code("edits", one_pass())]), "");
    let ended = scenario.ends_well(&["--iterations", "2", "--budget", "40s"]);
    (scenario, ended)
}

#[test]
fn answers_that_cannot_be_used_are_counted_and_the_session_goes_on() {
    for &api in apis() {
        let empty = || Reply::answer(json!({ "hypotheses": [] }));
        let refusal = if api == "anthropic" { "refusal" } else { "content_filter" };
        let cases = [
            ("truncated", Reply::text("{\"hypotheses\": [{\"claim\": \"x"), "plan failed (unparsable)"),
            ("refused", Reply { stop: Some(refusal.to_owned()), ..empty() }, "plan failed (refused)"),
            ("huge", Reply { times: 6 << 20, ..Reply::text("x") }, "plan failed (too_large)"),
        ];
        for (name, reply, expected) in cases {
            let (_, ended) = course(api, tokens(reply));
            assert!(ended.course().starts_with(expected), "{api}, {name}: {}", ended.course());
        }
    }
}

#[test]
fn a_lost_answer_is_estimated_and_requested_once_more_as_far_as_the_money_may_reach() {
    for &api in apis() {
        let cut = Reply { end: End::CutAfter(20), ..plan("edits", json!({})) };
        let (_, ended) = course(api, cut.clone());
        assert!(ended.course().starts_with("plan failed (cut), again plan answered"), "{api}: {}", ended.course());
        let first = &ended.calls[0];
        let reserve = first["reserve_micro_usd"].as_u64().unwrap();
        assert_eq!((&first["cost_is_known"], &first["cost_micro_usd"]), (&json!(false), &json!(reserve)));
        let estimate = first["estimate_micro_usd"].as_u64().unwrap();
        assert!(estimate > 0 && estimate < reserve / 2, "{api}: {first}");
        assert!(ended.said.contains("failed, about $"), "{}", ended.said);
        assert_eq!(ended.report["cost"]["unknown"]["calls"], 1, "{}", ended.report["cost"]);

        // The rest of the reserve could be owed, so there is no second one.
        let scenario = Scenario::new(api, script(vec![cut], vec![]), "");
        let once = format!("{}", reserve as f64 * 1.5e-6);
        let ended = scenario.ends_well(&["--iterations", "2", "--budget", "40s", "--max-cost", &once]);
        assert_eq!(ended.course(), "plan failed (cut)", "{api}: {}", ended.said);
        assert!(ended.said.contains("--max-cost leaves no money for another call"), "{}", ended.said);
    }
}

#[test]
fn busy_servers_are_retried_and_dead_ones_are_not() {
    for &api in apis() {
        let mut busy = Reply::status(429, "slow down");
        busy.headers.insert("retry-after".to_owned(), "0".to_owned());
        let (scenario, ended) = course(api, busy);
        // The second reply is the plan.
        assert!(ended.course().starts_with("plan answered, code answered"), "{api}: {}", ended.course());
        assert!(scenario.server.requests().len() > ended.calls.len());

        let refused = Reply::status(401, "no such key");
        let (_, ended) = course(api, refused);
        assert_eq!(ended.course(), "plan failed (unauthorized)");
        assert_eq!(ended.said.matches("the session continues without language models").count(), 1, "{}", ended.said);
    }
}

#[test]
fn slow_streams_in_small_pieces_are_read_completely() {
    for &api in apis() {
        let pieces = Reply { piece_bytes: 7, events: 12, ..plan("edits", json!({})) };
        let (_, ended) = course(api, pieces);
        assert!(ended.course().starts_with("plan answered, code answered"), "{api}: {}", ended.course());
        let prose = Reply::text(format!("Here is my plan:\n```json\n{}\n```\nGood luck!", json!({ "hypotheses": [] })));
        let (_, ended) = course(api, tokens(Reply { pause_ms: 20, events: 5, ..prose }));
        assert!(ended.course().starts_with("plan answered"), "{api}: {}", ended.course());
    }
}

/// As a server writes a key into the address of a page, or as much of it as fits into a message.
#[test]
fn a_key_that_a_server_encodes_or_truncates_is_in_no_file() {
    let every: String = KEY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let forms = [every, KEY.replace('-', "%2d"), KEY[..KEY.len() - 4].to_owned(), KEY[..12].to_owned()];
    for &api in apis() {
        for form in &forms {
            let (scenario, ended) = course(api, Reply::status(401, format!("wrong: ?key={form}&more")));
            let stored = serde_json::to_string(&ended.calls).unwrap();
            assert!(stored.contains(&format!("?key={}&more", "*".repeat(form.len()))), "{form}: {stored}");
            for file in files(&scenario.sandbox.path("")) {
                let bytes = std::fs::read(&file).unwrap();
                assert!(memchr::memmem::find(&bytes, form.as_bytes()).is_none(), "{form}: {}", file.display());
            }
        }
    }
}
