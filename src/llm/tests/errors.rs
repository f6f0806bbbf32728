//! Errors: which ones are retried, which are final, and which may have been billed.

use std::time::Duration;

use scripted_llm::{End, Reply, Tokens};
use serde_json::json;

use super::{BOTH, ask, ask_with};

fn answer() -> Reply {
    Reply::answer(json!({ "text": "x" }))
}

#[tokio::test]
async fn requests_that_cost_nothing_are_retried() {
    for provider in BOTH {
        for status in [429, 500, 502, 503, 529] {
            let asked = ask(provider, [Reply::status(status, "busy"), Reply::status(status, "busy"), answer()]).await;
            assert_eq!((asked.reply().attempts, asked.requests.len()), (3, 3), "{provider:?} {status}");
            assert!(asked.requests.iter().all(|request| request.body == asked.requests[0].body));
        }
    }
}

#[tokio::test]
async fn after_the_last_attempt_the_error_says_so() {
    for provider in BOTH {
        let asked = ask(provider, std::iter::repeat_n(Reply::status(529, "Overloaded."), 4)).await;
        let error = asked.error();
        assert_eq!((error.kind(), error.attempts, error.may_be_billed), ("server_error", 3, false));
        assert_eq!(error.to_string(), "the endpoint answered with status 529: Overloaded");
    }
}

#[tokio::test]
async fn a_server_may_ask_to_wait() {
    for provider in BOTH {
        let busy = |wait: &str| Reply {
            headers: [("retry-after".to_owned(), wait.to_owned())].into(),
            ..Reply::status(429, "slow down")
        };
        let past = "Mon, 23 Nov 2020 10:00:20 GMT";
        assert_eq!(ask(provider, [busy("0"), busy(past), answer()]).await.reply().attempts, 3);
        // An hour is longer than a call may take.
        let asked = ask(provider, [busy("3600"), answer()]).await;
        assert_eq!((asked.error().kind(), asked.error().attempts), ("rate_limited", 1));
        // So is a minute if the call may take less.
        let asked = ask_with(provider, [busy("60"), answer()], |with| with.timeout = Duration::from_secs(50)).await;
        assert_eq!((asked.error().kind(), asked.error().attempts), ("rate_limited", 1));
    }
}

#[tokio::test]
async fn other_statuses_are_final() {
    for provider in BOTH {
        for (status, kind) in [(400, "rejected"), (401, "unauthorized"), (403, "unauthorized"), (404, "rejected")] {
            let asked = ask(provider, [Reply::status(status, "no"), answer()]).await;
            let error = asked.error();
            assert_eq!((error.kind(), error.attempts, error.may_be_billed), (kind, 1, false), "{status}");
        }
        let elsewhere = [("location".to_owned(), "http://127.0.0.1:1/".to_owned())].into();
        let asked = ask(provider, [Reply { headers: elsewhere, ..Reply::status(307, "") }, answer()]).await;
        assert_eq!(
            asked.error().to_string(),
            "the endpoint redirects elsewhere (status 307), which is not followed: correct llm.base_url"
        );
    }
}

#[tokio::test]
async fn an_unusable_answer_was_billed() {
    let broken = || Reply::text(r#"{"text": "x", "more": {"text": 1}"#);
    let cases = |truncated: &str, refused: &str| {
        [
            ("truncated", Reply { stop: Some(truncated.to_owned()), ..answer() }),
            ("refused", Reply { stop: Some(refused.to_owned()), ..Reply::text("I cannot.") }),
            ("unparsable", broken()),
            ("unparsable", Reply::text("no JSON at all")),
            ("unparsable", Reply::text("")),
        ]
    };
    for (provider, cases) in BOTH.into_iter().zip([cases("max_tokens", "refusal"), cases("length", "content_filter")]) {
        for (kind, reply) in cases {
            let asked =
                ask(provider, [Reply { usage: Some(Tokens { output: 7, ..Tokens::default() }), ..reply }]).await;
            let error = asked.error();
            assert_eq!((error.kind(), error.attempts, error.may_be_billed), (kind, 1, true), "{provider:?}");
            assert_eq!(error.usage.unwrap().output_tokens, 7, "{provider:?} {kind}");
        }
        assert!(ask(provider, [broken()]).await.error().text.contains("more"), "what the model wrote is kept");
    }
}

#[tokio::test]
async fn a_broken_stream_may_have_been_billed_and_is_not_tried_again() {
    for provider in BOTH {
        let overloaded = Reply { stream_error: Some("Overloaded".to_owned()), ..answer() };
        let cases = [
            ("cut", Reply { end: End::CutAfter(300), ..answer() }),
            ("cut", Reply { end: End::CutAfter(0), ..answer() }),
            ("unreachable", Reply { end: End::CutBeforeHeaders, ..answer() }),
            ("server_error", overloaded),
            ("protocol", Reply { content_type: Some("text/html".to_owned()), ..answer() }),
            ("timed_out", Reply::status(504, "gateway")),
        ];
        for (kind, reply) in cases {
            let asked = ask(provider, [reply, answer()]).await;
            let error = asked.error();
            assert_eq!((error.kind(), error.attempts, error.may_be_billed), (kind, 1, true), "{provider:?}");
            assert_eq!(error.usage, None, "{provider:?} {kind}: the end of the count is missing");
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_sending_times_out() {
    for provider in BOTH {
        for end in [End::StallBeforeHeaders, End::StallAfter(0), End::StallAfter(200)] {
            let reply = Reply { end, ..answer() };
            let quick = Duration::from_millis(100);
            let asked = ask_with(provider, [reply.clone()], |with| with.idle_timeout = quick).await;
            assert_eq!(asked.error().to_string(), "the endpoint did not answer within llm.idle_timeout");
            assert_eq!((asked.error().kind(), asked.error().may_be_billed), ("timed_out", true));
            let asked = ask_with(provider, [reply], |with| with.timeout = quick).await;
            assert_eq!(asked.error().to_string(), "the endpoint did not answer within llm.timeout");
        }
    }
}

#[tokio::test]
async fn an_endless_answer_is_refused() {
    for provider in BOTH {
        for events in [1, 200] {
            let huge = Reply { text: "0123456789abcdef".repeat(64), times: 9000, events, ..Reply::default() };
            let asked = ask(provider, [huge]).await;
            assert_eq!((asked.error().kind(), asked.error().may_be_billed), ("too_large", true), "{provider:?}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_address_bills_nothing() {
    for provider in BOTH {
        let nowhere = crate::llm::Address::new(provider, Some("http://127.0.0.1:1"), false).unwrap();
        let asked = ask_with(provider, [], |with| with.address = nowhere).await;
        let error = asked.error();
        assert_eq!((error.kind(), error.attempts, error.may_be_billed), ("unreachable", 3, false));
    }
}
