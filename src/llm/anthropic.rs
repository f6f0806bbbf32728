//! Anthropic's Messages API (<https://docs.claude.com/en/api/messages>, version 2023-06-01).

use serde_json::{Value, json};

use super::dialect::{Dialect, described};
use super::failure::Failure;
use super::partial::{Partial, Stop};
use super::sse::Event;
use crate::domain::models::call::ModelRequest;

/// The version of the API, a header of each request.
pub(super) const VERSION: &str = "2023-06-01";

/// Returns the body of a request. The answer is the input of a tool that the model is forced or instructed to call.
pub(super) fn body(request: &ModelRequest, dialect: Dialect) -> Value {
    let ModelRequest { answer, .. } = request;
    let form = match dialect {
        Dialect { is_plain: true, .. } => described(answer),
        Dialect { has_free_choice: true, .. } => format!("\n\nAnswer by calling the tool `{}` once.", answer.name),
        _ => String::new(),
    };
    let mut content = Vec::new();
    // The API refuses an empty block.
    if !request.cached.is_empty() {
        // Everything up to `cache_control` is cached: tools, system prompt and this block.
        content.push(json!({ "type": "text", "text": request.cached, "cache_control": { "type": "ephemeral" } }));
    }
    content.push(json!({ "type": "text", "text": format!("{}{form}", request.prompt) }));
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_output_tokens,
        "stream": true,
        "messages": [{ "role": "user", "content": content }],
    });
    if !request.system.is_empty() {
        body["system"] = json!(request.system);
    }
    if let Some(temperature) = request.temperature.filter(|_| !dialect.has_no_temperature) {
        body["temperature"] = json!(temperature);
    }
    if !dialect.is_plain {
        let tool = json!({ "name": answer.name, "description": answer.description, "input_schema": answer.schema });
        body["tools"] = json!([tool]);
    }
    if !dialect.is_plain && !dialect.has_free_choice {
        body["tool_choice"] = json!({ "type": "tool", "name": answer.name, "disable_parallel_tool_use": true });
    }
    body
}

/// Adds an event to an answer.
pub(super) fn take(partial: &mut Partial, event: &Event) -> Result<(), Failure> {
    let data: Value = serde_json::from_str(&event.data).map_err(|_| Failure::protocol("an event is not JSON"))?;
    let text = |path: &str| data.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match text("/type") {
        "message_start" => {
            partial.request_id = Some(text("/message/id").to_owned()).filter(|id| !id.is_empty());
            count_input(partial, data.pointer("/message/usage"));
        }
        "content_block_delta" => match text("/delta/type") {
            "text_delta" => partial.text.push_str(text("/delta/text")),
            "input_json_delta" => partial.arguments.push_str(text("/delta/partial_json")),
            // Thinking, signatures and citations.
            _ => {}
        },
        "message_delta" => {
            partial.stop = stop(text("/delta/stop_reason")).or(partial.stop);
            // The counts are cumulative; those of the input are repeated by some models only.
            count_input(partial, data.get("usage"));
            let output = data.pointer("/usage/output_tokens").and_then(Value::as_u64);
            partial.counts.output = output.or(partial.counts.output);
        }
        "message_stop" => partial.is_over = true,
        "error" => return Err(Failure::in_stream(text("/error/type"), text("/error/message"))),
        // Pings, the beginnings and ends of blocks, and events of later versions: clients must ignore unknown events.
        _ => {}
    }
    Ok(())
}

fn count_input(partial: &mut Partial, usage: Option<&Value>) {
    let count = |key: &str| usage.and_then(|usage| usage.get(key)).and_then(Value::as_u64);
    let counts = &mut partial.counts;
    counts.input = count("input_tokens").or(counts.input);
    counts.cached = count("cache_read_input_tokens").or(counts.cached);
    counts.cache_write = count("cache_creation_input_tokens").or(counts.cache_write);
}

fn stop(reason: &str) -> Option<Stop> {
    match reason {
        "" => None,
        "max_tokens" | "model_context_window_exceeded" => Some(Stop::Truncated),
        "refusal" => Some(Stop::Refused),
        _ => Some(Stop::Finished),
    }
}
