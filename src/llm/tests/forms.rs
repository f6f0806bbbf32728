//! The forms of a request, and what happens where a server does not accept one.

use scripted_llm::{Reply, Rule, Script, Server};
use serde_json::{Value, json};

use super::{BOTH, ask, endpoint, request, settings};
use crate::llm::Provider;

fn answer() -> Reply {
    Reply::answer(json!({ "text": "x" }))
}

#[tokio::test]
async fn anthropic_requests_have_a_tool_call_and_a_cache_marker() {
    let asked = ask(Provider::Anthropic, [answer()]).await;
    let header = |name: &str| asked.requests[0].headers.get(name).map(String::as_str);
    assert_eq!((header("anthropic-version"), header("authorization")), (Some("2023-06-01"), None));
    insta::assert_json_snapshot!(asked.body(), @r#"
    {
      "max_tokens": 500,
      "messages": [
        {
          "content": [
            {
              "cache_control": {
                "type": "ephemeral"
              },
              "text": "The workload.",
              "type": "text"
            },
            {
              "text": "The incumbent.",
              "type": "text"
            }
          ],
          "role": "user"
        }
      ],
      "model": "some-model",
      "stream": true,
      "system": "You write kernels.",
      "temperature": 0.5,
      "tool_choice": {
        "disable_parallel_tool_use": true,
        "name": "kernel_edit",
        "type": "tool"
      },
      "tools": [
        {
          "description": "An edit",
          "input_schema": {
            "additionalProperties": false,
            "properties": {
              "text": {
                "type": "string"
              }
            },
            "required": [
              "text"
            ],
            "type": "object"
          },
          "name": "kernel_edit"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn openai_requests_have_a_schema_and_token_counts() {
    let asked = ask(Provider::OpenAi, [answer()]).await;
    assert!(asked.requests[0].headers.contains_key("authorization"));
    insta::assert_json_snapshot!(asked.body(), @r#"
    {
      "max_tokens": 500,
      "messages": [
        {
          "content": "You write kernels.",
          "role": "system"
        },
        {
          "content": "The workload.\n\nThe incumbent.",
          "role": "user"
        }
      ],
      "model": "some-model",
      "response_format": {
        "json_schema": {
          "description": "An edit",
          "name": "kernel_edit",
          "schema": {
            "additionalProperties": false,
            "properties": {
              "text": {
                "type": "string"
              }
            },
            "required": [
              "text"
            ],
            "type": "object"
          },
          "strict": true
        },
        "type": "json_schema"
      },
      "stream": true,
      "stream_options": {
        "include_usage": true
      },
      "temperature": 0.5
    }
    "#);
}

#[tokio::test]
async fn without_tools_or_schemas_the_prompt_describes_the_form() {
    for (provider, message) in BOTH.into_iter().zip(["tools: not supported", "unknown field response_format"]) {
        let prose = Reply::text("It is {\"text\": \"x\"}.");
        let asked = ask(provider, [Reply::status(400, message), prose]).await;
        assert_eq!((asked.reply().answer.clone(), asked.reply().attempts), (json!({ "text": "x" }), 2));
        assert!(asked.body().get("tools").or(asked.body().get("response_format")).is_none());
        let messages = asked.body()["messages"].to_string();
        assert!(messages.contains("Answer with one JSON object") && messages.contains("additionalProperties"));
    }
}

#[tokio::test]
async fn a_model_that_cannot_be_forced_to_call_a_tool_is_instructed_to() {
    let refused = Reply::status(400, "tool_choice: type `tool` is not supported on this model");
    let asked = ask(Provider::Anthropic, [refused, answer()]).await;
    assert!(asked.body().get("tool_choice").is_none() && asked.body()["tools"][0]["name"] == "kernel_edit");
    assert!(asked.body()["messages"].to_string().contains("calling the tool `kernel_edit`"));
}

#[tokio::test]
async fn rejected_options_are_remembered_for_each_model() {
    let errors = [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_completion_tokens"),
        ("temperature does not support 0.5", "model"),
        ("stream_options: extra fields not permitted", "model"),
    ];
    let refusals = errors.iter().map(|(message, _)| Reply::status(400, *message));
    let script = Script { replies: refusals.chain([answer(), answer()]).collect(), ..Script::default() };
    let server = Server::start(script).unwrap();
    let endpoint = endpoint(&settings(Provider::OpenAi, &server));
    assert_eq!(endpoint.ask(&request()).await.unwrap().attempts, 4);
    let reply = endpoint.ask(&request()).await.unwrap();
    assert_eq!((reply.attempts, reply.usage_is_known), (1, false), "without the option, tokens are unknown");
    let body = &server.requests()[4].body;
    let has = |key: &str| body.get(key).is_some();
    assert!(has("max_completion_tokens") && !has("max_tokens") && !has("temperature") && !has("stream_options"));
    assert!(has("response_format"));
}

#[tokio::test]
async fn an_error_about_the_request_ends_even_if_it_is_always_the_same() {
    for provider in BOTH {
        let rule = Rule {
            contains: String::new(),
            replies: vec![Reply::status(400, "max_completion_tokens temperature stream_options tool_choice schema")],
            repeat: true,
        };
        let server = Server::start(Script { rules: vec![rule], ..Script::default() }).unwrap();
        let error = endpoint(&settings(provider, &server)).ask(&request()).await.unwrap_err();
        assert_eq!((error.kind(), error.may_be_billed), ("rejected", false));
        assert!(server.requests().len() <= 5, "{provider:?}: {}", server.requests().len());
    }
}

#[tokio::test]
async fn models_are_listed_without_a_call() {
    for provider in BOTH {
        let script = Script { models: vec!["b".to_owned(), "a".to_owned()], ..Script::default() };
        let server = Server::start(script).unwrap();
        let models = endpoint(&settings(provider, &server)).models().await.unwrap();
        assert_eq!(models.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(server.requests().iter().all(|request| request.method == "GET" && request.body == Value::Null));
    }
}
