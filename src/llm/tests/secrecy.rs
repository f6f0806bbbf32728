//! The key is in one header, and nowhere else.

use scripted_llm::{Reply, Script, Server};
use serde_json::json;

use super::{BOTH, KEY, ask, endpoint, request, settings};
use crate::llm::{Endpoint, Provider};

#[tokio::test]
async fn the_key_is_in_one_header_only() {
    for (provider, name, value) in [
        (Provider::Anthropic, "x-api-key", KEY.to_owned()),
        (Provider::OpenAi, "authorization", format!("Bearer {KEY}")),
    ] {
        let asked = ask(provider, [Reply::answer(json!({}))]).await;
        let request = &asked.requests[0];
        assert_eq!(request.headers[name], value);
        let others = request.headers.iter().filter(|(header, _)| *header != name);
        assert!(others.into_iter().all(|(_, value)| !value.contains(KEY)));
        assert!(!request.path.contains(KEY) && !request.body.to_string().contains(KEY));
    }
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_shown() {
    for provider in BOTH {
        let said = format!("the key {KEY} is wrong, and so is {}{KEY}", "x".repeat(380));
        let replies = [
            Reply::status(401, &said),
            Reply::status(400, &said),
            Reply { stream_error: Some(said.clone()), ..Reply::text(&said) },
            Reply { content_type: Some(format!("text/{KEY}")), ..Reply::default() },
            Reply::text(&said),
            Reply { events: 200, ..Reply::text(&said) },
        ];
        for reply in replies {
            let asked = ask(provider, [reply.clone()]).await;
            let error = asked.error();
            let shown = format!("{error} {error:?} {}", serde_json::to_string(error).unwrap());
            assert!(!shown.contains(&KEY[..12]), "{provider:?}: {shown}");
            assert!(shown.len() < 4000, "{shown}");
        }
        let echoed = Reply { events: 9, ..Reply::answer(json!({ "text": KEY })) };
        let shown = format!("{:?}", ask(provider, [echoed]).await.reply());
        assert!(shown.contains("********") && !shown.contains(KEY), "{shown}");
    }
}

#[tokio::test]
async fn neither_debug_nor_a_cassette_has_the_key() {
    for provider in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let said = format!("your key is {KEY}");
        let replies = [Reply::answer(json!({ "text": "x" })), Reply::status(403, said)];
        let server = Server::start(Script::of(replies)).unwrap();
        let mut with = settings(provider, &server);
        with.record = Some(folder.path().to_owned());
        let recording = endpoint(&with);
        let first = recording.ask(&request()).await;
        recording.record(&request(), &first, 3, 5).unwrap();
        let mut second_request = request();
        second_request.ordinal = 2;
        let second = recording.ask(&second_request).await;
        recording.record(&second_request, &second, 5, 5).unwrap();
        let shown = format!("{recording:?} {with:?} {first:?} {second:?}");
        let cassette = std::fs::read_to_string(folder.path().join("code.jsonl")).unwrap();
        assert!(!shown.contains(KEY) && !cassette.contains(KEY) && !cassette.contains("authorization"));
        assert_eq!(cassette.lines().count(), 2);

        // The cassette gives the same answers, without a server and without a key.
        drop(server);
        (with.record, with.replay) = (None, Some(folder.path().to_owned()));
        with.key_variable = Some("OPTLOOP_NO_SUCH_KEY".to_owned());
        let replaying = Endpoint::open(&with).unwrap();
        assert_eq!(replaying.ask(&request()).await, first);
        assert_eq!(replaying.ask(&second_request).await, second);
        let recorded = replaying.recorded(&request()).unwrap();
        assert_eq!((recorded.asked_after, recorded.answered_after, recorded.difference), (3, 5, None));
    }
}
