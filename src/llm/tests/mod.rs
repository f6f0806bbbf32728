//! Scenarios against a scripted server, for both APIs.

mod answers;
mod errors;
mod forms;
mod secrecy;

use std::time::Duration;

use scripted_llm::{Reply, Script, Server};
use serde_json::{Value, json};

use super::{Address, Endpoint, Key, Provider, Settings};
use crate::domain::models::call::{AnswerForm, CallPurpose, ModelReply, ModelRequest};
use crate::domain::models::call_error::CallError;

/// A key that no output may contain.
const KEY: &str = "canary-key-5d1f0b7a";

const BOTH: [Provider; 2] = [Provider::Anthropic, Provider::OpenAi];

/// A request whose schema is strict in OpenAI's sense.
fn request() -> ModelRequest {
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["text"],
                         "properties": { "text": { "type": "string" } } });
    ModelRequest {
        purpose: CallPurpose::Code,
        ordinal: 1,
        model: "some-model".to_owned(),
        system: "You write kernels.".to_owned(),
        cached: "The workload.".to_owned(),
        prompt: "The incumbent.".to_owned(),
        answer: AnswerForm { name: "kernel_edit".to_owned(), description: "An edit".to_owned(), schema },
        max_output_tokens: 500,
        temperature: Some(0.5),
    }
}

fn settings(provider: Provider, server: &Server) -> Settings {
    Settings {
        address: Address::new(provider, Some(&server.url()), false).unwrap(),
        key_variable: None,
        connect_timeout: Duration::from_secs(10),
        timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(30),
        concurrency: 1,
        retries: 2,
        record: None,
        replay: None,
    }
}

fn endpoint(settings: &Settings) -> Endpoint {
    Endpoint::with_key(settings, Some(Key::new(KEY).unwrap())).unwrap().without_waits()
}

/// The result of one request, and the requests that the server received.
struct Exchange {
    result: Result<ModelReply, CallError>,
    requests: Vec<scripted_llm::Request>,
}

impl Exchange {
    fn reply(&self) -> &ModelReply {
        self.result.as_ref().unwrap()
    }

    fn error(&self) -> &CallError {
        self.result.as_ref().unwrap_err()
    }

    /// The body of the last request.
    fn body(&self) -> &Value {
        &self.requests.last().unwrap().body
    }
}

/// Sends a request to a server with these replies.
async fn ask(provider: Provider, replies: impl IntoIterator<Item = Reply>) -> Exchange {
    ask_with(provider, replies, |_| {}).await
}

/// Does the same with other settings.
async fn ask_with(
    provider: Provider,
    replies: impl IntoIterator<Item = Reply>,
    change: impl FnOnce(&mut Settings),
) -> Exchange {
    let server = Server::start(Script::of(replies)).unwrap();
    let mut settings = settings(provider, &server);
    change(&mut settings);
    let result = endpoint(&settings).ask(&request()).await;
    Exchange { result, requests: server.requests() }
}
