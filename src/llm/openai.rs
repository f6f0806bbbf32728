//! Chat completions (<https://platform.openai.com/docs/api-reference/chat>), as OpenAI, vLLM, Ollama and llama.cpp
//! speak them.

use serde_json::{Value, json};

use super::dialect::{Dialect, described};
use super::failure::Failure;
use super::partial::{Partial, Stop};
use super::sse::Event;
use crate::domain::models::call::{AnswerForm, ModelRequest};

/// The data of the event after the last one.
const END: &str = "[DONE]";

/// Returns the body of a request. The answer is text that satisfies a JSON schema.
pub(super) fn body(request: &ModelRequest, dialect: Dialect) -> Value {
    let form = if dialect.is_plain { described(&request.answer) } else { String::new() };
    let between = if request.cached.is_empty() { "" } else { "\n\n" };
    let prompt = format!("{}{between}{}{form}", request.cached, request.prompt);
    let mut messages = vec![json!({ "role": "user", "content": prompt })];
    if !request.system.is_empty() {
        messages.insert(0, json!({ "role": "system", "content": request.system }));
    }
    let mut body = json!({ "model": request.model, "stream": true, "messages": messages });
    let limit = if dialect.has_completion_limit { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = json!(request.max_output_tokens);
    if !dialect.has_no_stream_options {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(temperature) = request.temperature.filter(|_| !dialect.has_no_temperature) {
        body["temperature"] = json!(temperature);
    }
    if !dialect.is_plain {
        let AnswerForm { name, description, schema } = &request.answer;
        let schema = json!({ "name": name, "description": description, "schema": schema, "strict": is_strict(schema) });
        body["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
    }
    body
}

/// Tells whether OpenAI enforces a schema: every object must require all its properties and allow no others.
fn is_strict(schema: &Value) -> bool {
    let is_strict_here = match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            let required = schema.get("required").and_then(Value::as_array);
            let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|one| one == name));
            schema.get("additionalProperties") == Some(&Value::Bool(false)) && properties.keys().all(is_required)
        }
        None => schema.get("type") != Some(&json!("object")),
    };
    is_strict_here
        && match schema {
            Value::Object(object) => object.values().all(is_strict),
            Value::Array(array) => array.iter().all(is_strict),
            _ => true,
        }
}

/// Adds an event to an answer.
pub(super) fn take(partial: &mut Partial, event: &Event) -> Result<(), Failure> {
    if event.data.trim() == END {
        partial.is_over = true;
        return Ok(());
    }
    let data: Value = serde_json::from_str(&event.data).map_err(|_| Failure::protocol("an event is not JSON"))?;
    let text = |path: &str| data.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if data.get("error").is_some_and(|error| !error.is_null()) {
        let kind = if text("/error/type").is_empty() { text("/error/code") } else { text("/error/type") };
        return Err(Failure::in_stream(kind, text("/error/message")));
    }
    if partial.request_id.is_none() {
        partial.request_id = Some(text("/id").to_owned()).filter(|id| !id.is_empty());
    }
    partial.text.push_str(text("/choices/0/delta/content"));
    for call in data.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array).into_iter().flatten() {
        partial.arguments.push_str(call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default());
    }
    if !text("/choices/0/delta/refusal").is_empty() {
        partial.stop = Some(Stop::Refused);
    }
    // A refusal ends with the reason `stop`, too.
    partial.stop = partial.stop.or(stop(text("/choices/0/finish_reason")));
    count(partial, data.get("usage"));
    Ok(())
}

/// OpenAI counts cached tokens among those of the prompt.
fn count(partial: &mut Partial, usage: Option<&Value>) {
    let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let cached = number("/prompt_tokens_details/cached_tokens").unwrap_or(0);
    // Some gateways report this for models that charge for it.
    let written = number("/prompt_tokens_details/cache_write_tokens").unwrap_or(0);
    // A part cannot exceed the whole, so the input stays unknown.
    partial.counts.input = number("/prompt_tokens").and_then(|all| all.checked_sub(cached)?.checked_sub(written));
    (partial.counts.cached, partial.counts.cache_write) = (Some(cached), Some(written));
    partial.counts.output = number("/completion_tokens");
}

fn stop(reason: &str) -> Option<Stop> {
    match reason {
        "" => None,
        "length" => Some(Stop::Truncated),
        "content_filter" => Some(Stop::Refused),
        _ => Some(Stop::Finished),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_strict_if_every_object_is_closed() {
        let inner = json!({ "type": "object", "properties": { "b": { "type": "string" } } });
        let closed = |inner: &Value| {
            json!({ "type": "object", "additionalProperties": false, "required": ["a"],
                    "properties": { "a": { "type": "array", "items": inner } } })
        };
        assert!(is_strict(&closed(&json!({ "type": "string" }))) && !is_strict(&closed(&inner)));
        assert!(is_strict(&closed(&closed(&json!({ "type": "integer" })))));
        assert!(!is_strict(&json!({ "type": "object" })));
    }
}
