//! Money: exact costs, reserves, limits, and the estimate before a session.

use scripted_llm::{Reply, Tokens};
use serde_json::{Value, json};

use super::answers::add_wide;
use super::{Scenario, apis, code, one_pass, plan, script};

#[test]
fn costs_agree_with_the_tokens_to_the_micro_dollar() {
    for &api in apis() {
        let scenario = Scenario::new(api, script(vec![plan("edits", json!({}))], vec![code("edits", one_pass())]), "");
        let ended = scenario.ends_well(&["--iterations", "2"]);
        for call in &ended.calls {
            // 1234 tokens at 3, 100 from the cache at 0.3, 321 of output at 15 dollars per million.
            assert_eq!(
                (&call["cost_micro_usd"], &call["cost_is_known"]),
                (&json!(1234 * 3 + 30 + 321 * 15), &json!(true)),
                "{api}: {call}"
            );
        }
    }
}

#[test]
fn the_cost_of_an_answer_with_impossible_or_missing_counts_is_estimated() {
    for &api in apis() {
        let none = Reply { usage: None, ..plan("edits", json!({})) };
        let absurd = Reply {
            usage: Some(Tokens { input: 0, output: u64::from(u32::MAX), ..Tokens::default() }),
            ..plan("edits", json!({}))
        };
        for reply in [none, absurd] {
            let scenario = Scenario::new(api, script(vec![reply], vec![code("edits", one_pass())]), "");
            let ended = scenario.ends_well(&["--iterations", "2"]);
            let first = &ended.calls[0];
            assert_eq!(
                (&first["cost_is_known"], &first["cost_micro_usd"]),
                (&json!(false), &first["reserve_micro_usd"]),
                "{api}"
            );
            assert!(first["estimate_micro_usd"].as_u64() > Some(0), "{first}");
            assert!(ended.said.contains("answered, about $"), "{}", ended.said);
        }
    }
}

#[test]
fn a_call_that_may_exceed_the_budget_is_not_made() {
    for &api in apis() {
        let scenario = Scenario::new(api, script(vec![plan("edits", json!({}))], vec![code("edits", one_pass())]), "");
        let ended = scenario.ends_well(&["--iterations", "2", "--max-cost", "0.01", "--budget", "30s"]);
        assert!(ended.calls.is_empty() && scenario.server.requests().is_empty());
        assert!(ended.said.contains("--max-cost leaves no money for another call"), "{}", ended.said);
    }
}

#[test]
fn the_estimate_and_the_data_that_is_sent_are_shown_before_a_call() {
    let scenario = Scenario::new("openai", script(vec![], vec![]), "");
    let estimate = scenario.start(&["--estimate"]);
    let estimate = String::from_utf8(estimate.stdout).unwrap();
    assert!(estimate.contains("m: a call costs at most $") && scenario.server.requests().is_empty(), "{estimate}");
    let ended = scenario.ends_well(&["--iterations", "1"]);
    assert!(ended.said.contains("sources of kernels and oracles, shapes, times"), "{}", ended.said);
    scenario.sandbox.replace("config.toml", "retries = 2", "retries = 2\nsend = 'parameters'");
    scenario.sandbox.trust();
    let ended = scenario.ends_well(&["--iterations", "2"]);
    assert!(ended.said.contains("no source"), "{}", ended.said);
    let last = scenario.server.requests().pop().unwrap().body.to_string();
    assert!(!last.contains("__half2float"), "no source is sent");
}

/// The second idea changes the same family by the same mechanism, and promises more than the first has shown.
#[test]
fn the_money_for_ideas_that_were_refuted_before_they_were_asked_for_is_told() {
    for &api in apis() {
        let more = json!({ "claim": "Ten times as fast.", "speedup_low": 10.0, "speedup_high": 20.0 });
        let plans = vec![plan("edits", json!({})), plan("edits", more)];
        let codes = vec![code("edits", one_pass()), code("edits", json!({ "skip": "no" }))];
        let scenario = Scenario::new(api, script(plans, codes), "");
        add_wide(&scenario);
        let ended = scenario.ends_well(&["--iterations", "9"]);
        let by_call = scenario.sandbox.succeeds(&["history", "--by", "call", "--json"]);
        let by_call: Value = serde_json::from_str(&by_call).unwrap();
        let calls = by_call["calls"].as_array().unwrap();
        assert_eq!(calls.len(), ended.calls.len());
        let measured = calls.iter().find(|call| call["outcome"] == "measured").unwrap();
        assert!(measured["actual"].as_f64().unwrap() < 10.0 && measured["refuted_by"].is_null(), "{measured}");
        let of_claim = |claim: &str, purpose: &str| {
            let found = calls.iter().find(|call| call["claim"] == claim && call["purpose"] == purpose);
            found.unwrap_or_else(|| panic!("{}: {by_call}", ended.course()))
        };
        let refuted = of_claim("Ten times as fast.", "code");
        assert_eq!(refuted["refuted_by"]["iteration"], measured["iteration"], "{refuted}");
        let usd =
            |calls: &mut dyn Iterator<Item = &Value>| calls.map(|call| call["usd"].as_f64().unwrap()).sum::<f64>();
        let spent = usd(&mut calls.iter().filter(|call| call["refuted_by"].is_object()));
        let share = by_call["refuted_share"].as_f64().unwrap();
        assert!((share - spent / usd(&mut calls.iter())).abs() < 1e-9 && share > 0.0 && share < 1.0, "{by_call}");
        let table = scenario.sandbox.succeeds(&["history", "--by", "call"]);
        assert!(table.contains("50% of the money ($0.02 of $0.03) went to ideas"), "{table}");
    }
}
