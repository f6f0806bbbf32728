//! The differences between the two APIs: the body of a request, its headers, and the events of the answer.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::dialect::Dialect;
use super::failure::Failure;
use super::key::Key;
use super::partial::Partial;
use super::provider::Provider;
use super::sse::Event;
use super::{anthropic, openai};
use crate::domain::models::call::ModelRequest;

/// Returns the path of the request below the address.
pub(super) fn path(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "messages",
        Provider::OpenAi => "chat/completions",
    }
}

/// Returns the body of a request.
pub(super) fn body(provider: Provider, request: &ModelRequest, dialect: Dialect, is_own: bool) -> Value {
    match provider {
        Provider::Anthropic => anthropic::body(request, dialect),
        // OpenAI's own newer models refuse `max_tokens`. Other servers may ignore an unknown key, and then write
        // without limit.
        Provider::OpenAi => {
            let has_completion_limit = dialect.has_completion_limit || is_own;
            openai::body(request, Dialect { has_completion_limit, ..dialect })
        }
    }
}

/// Returns the headers that every request has.
pub(super) fn headers(provider: Provider, key: Option<&Key>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let name = match provider {
        Provider::Anthropic => {
            let version = HeaderName::from_static("anthropic-version");
            headers.insert(version, HeaderValue::from_static(anthropic::VERSION));
            HeaderName::from_static("x-api-key")
        }
        Provider::OpenAi => AUTHORIZATION,
    };
    let prefix = if name == AUTHORIZATION { "Bearer " } else { "" };
    headers.extend(key.and_then(|key| key.header(prefix)).map(|value| (name, value)));
    headers
}

/// Adds an event to an answer.
pub(super) fn take(provider: Provider, partial: &mut Partial, event: &Event) -> Result<(), Failure> {
    match provider {
        Provider::Anthropic => anthropic::take(partial, event),
        Provider::OpenAi => openai::take(partial, event),
    }
}
