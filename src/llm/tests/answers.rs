//! Answers, whole and in pieces, and their tokens.

use scripted_llm::{End, Form, Reply, Rule, Script, Server, Tokens};
use serde_json::json;

use super::{BOTH, ask, endpoint, request, settings};
use crate::domain::models::call::{ModelRequest, Usage};
use crate::llm::Provider;

const TOKENS: Tokens = Tokens { input: 40, cached: 1000, cache_write: 200, output: 30 };

#[tokio::test]
async fn an_answer_comes_with_its_tokens() {
    for provider in BOTH {
        let asked = ask(provider, [Reply { usage: Some(TOKENS), ..Reply::answer(json!({ "text": "x" })) }]).await;
        let reply = asked.reply();
        assert_eq!((&reply.answer, reply.text.as_str()), (&json!({ "text": "x" }), r#"{"text":"x"}"#));
        let usage = Usage { input_tokens: 40, cached_tokens: 1000, cache_write_tokens: 200, output_tokens: 30 };
        assert_eq!((reply.usage, reply.usage_is_known, reply.attempts), (usage, true, 1), "{provider:?}");
        assert!(reply.request_id.as_deref().unwrap().ends_with("scripted"));
    }
}

#[tokio::test]
async fn it_does_not_matter_how_a_stream_is_cut_into_pieces() {
    let answer = json!({ "text": "gr\u{fc}n \u{1f600} {\"} \\ \n" });
    for provider in BOTH {
        for (events, piece_bytes) in [(1, 1), (40, 3), (7, 64), (1000, 0)] {
            for form in [Form::Requested, Form::Tool, Form::Text] {
                let reply = Reply { events, piece_bytes, form, ..Reply::answer(answer.clone()) };
                assert_eq!(ask(provider, [reply]).await.reply().answer, answer, "{provider:?} {events} {piece_bytes}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_in_prose_is_found() {
    for provider in BOTH {
        let asked = ask(provider, [Reply::text("Sure!\n```json\n{\"text\": \"x\"}\n```\nEnjoy {it}.")]).await;
        assert_eq!(asked.reply().answer, json!({ "text": "x" }));
        assert!(asked.reply().text.starts_with("Sure!"));
    }
}

#[tokio::test]
async fn tokens_that_are_missing_or_impossible_are_unknown() {
    let impossible = [
        None,
        Some(Tokens { output: 501, ..Tokens::default() }),
        Some(Tokens { output: 0, ..Tokens::default() }),
        Some(Tokens { input: 0, ..Tokens::default() }),
        Some(Tokens { input: 1_000_000, ..Tokens::default() }),
        Some(Tokens { cached: 1_000_000, ..Tokens::default() }),
    ];
    for provider in BOTH {
        for usage in impossible {
            let asked = ask(provider, [Reply { usage, ..Reply::answer(json!({ "text": "x" })) }]).await;
            assert!(!asked.reply().usage_is_known, "{provider:?} {usage:?}");
            assert_eq!(asked.reply().answer, json!({ "text": "x" }), "the answer counts all the same");
        }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_last_word_does_not_matter() {
    // All events except the one that marks the end of the stream.
    for (provider, ending) in [(Provider::Anthropic, "event: message_stop"), (Provider::OpenAi, "data: [DONE]")] {
        let reply = Reply::answer(json!({ "text": "x" }));
        let whole = whole_stream(provider, reply.clone()).await;
        let end = End::CutAfter(whole.find(ending).unwrap());
        let asked = ask(provider, [Reply { end, ..reply }]).await;
        assert!(asked.reply().usage_is_known, "{provider:?}");
    }
}

/// Returns the stream that a server sends.
async fn whole_stream(provider: Provider, reply: Reply) -> String {
    let server = Server::start(Script::of([reply])).unwrap();
    let (path, body) = match provider {
        Provider::Anthropic => ("messages", json!({ "model": "some-model", "tools": [{ "name": "kernel_edit" }] })),
        Provider::OpenAi => {
            ("chat/completions", json!({ "model": "some-model", "stream_options": { "include_usage": true } }))
        }
    };
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let post = client.post(format!("{}/v1/{path}", server.url())).body(body.to_string());
    post.send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_for_their_turn() {
    for provider in BOTH {
        let rule = Rule { contains: "incumbent".to_owned(), replies: vec![Reply::answer(json!({}))], repeat: true };
        let server = Server::start(Script { rules: vec![rule], ..Script::default() }).unwrap();
        let endpoint = endpoint(&settings(provider, &server));
        let requests: Vec<ModelRequest> = (0..8).map(|ordinal| ModelRequest { ordinal, ..request() }).collect();
        let asked = futures::future::join_all(requests.iter().map(|request| endpoint.ask(request))).await;
        assert!(asked.iter().all(Result::is_ok) && server.requests().len() == 8);
    }
}
