//! What differs between the two APIs: the body of a request, its headers, and the events of the answer.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::failure::Failure;
use super::key::Key;
use super::partial::Partial;
use super::settings::Provider;
use super::sse::Event;
use super::{anthropic, openai};
use crate::domain::model_call::{AnswerForm, ModelRequest};

/// What a server has shown not to accept, for one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dialect {
    /// It lets no request demand that a tool is called. Anthropic's models do not since 2026-09, because they think first.
    pub has_free_choice: bool,
    /// It takes neither tools nor schemas, so the form of the answer is described in the prompt.
    pub is_plain: bool,
    /// It names the limit of the output as OpenAI's newer models do.
    pub has_completion_limit: bool,
    /// It takes no temperature.
    pub has_no_temperature: bool,
    /// It takes no options for the stream, and so counts no tokens.
    pub has_no_stream_options: bool,
}

impl Dialect {
    /// Returns the dialect after an error of the server about a request in this one; `None` if the error is about
    /// something else. Each step removes something, so the steps end.
    pub(super) fn after(self, error: &str, sent: &Value) -> Option<Self> {
        let error = error.to_ascii_lowercase();
        let about = |words: &[&str]| words.iter().any(|word| error.contains(word));
        if sent.get("max_tokens").is_some() && about(&["max_completion_tokens"]) {
            return Some(Self { has_completion_limit: true, ..self });
        }
        if sent.get("temperature").is_some() && about(&["temperature"]) {
            return Some(Self { has_no_temperature: true, ..self });
        }
        if sent.get("stream_options").is_some() && about(&["stream_options", "include_usage"]) {
            return Some(Self { has_no_stream_options: true, ..self });
        }
        if sent.get("tool_choice").is_some() && about(&["tool_choice", "tool choice", "forced tool", "forces tool"]) {
            return Some(Self { has_free_choice: true, ..self });
        }
        let is_structured = sent.get("tools").or_else(|| sent.get("response_format")).is_some();
        let about_form = about(&["response_format", "json_schema", "tool", "schema", "grammar", "structured"]);
        (is_structured && about_form).then_some(Self { is_plain: true, ..self })
    }
}

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
        // OpenAI's own newer models refuse `max_tokens`. Other servers may ignore what they do not know, and so would
        // write without limit.
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

/// Returns the prompt's addition for servers that take neither tools nor schemas.
pub(super) fn described(form: &AnswerForm) -> String {
    let AnswerForm { name, description, schema } = form;
    format!(
        "\n\nAnswer with one JSON object and nothing else ({name}: {description}). It must satisfy this JSON schema:\n{schema}"
    )
}
