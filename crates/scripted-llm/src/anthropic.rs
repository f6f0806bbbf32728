//! The stream of Anthropic's Messages API.

use serde_json::{Value, json};

use crate::script::{Form, Reply, Tokens};

/// Returns the stream of an answer to a request.
pub(crate) fn stream(reply: &Reply, request: &Value) -> String {
    let is_tool = match reply.form {
        Form::Requested => request.get("tools").is_some(),
        Form::Tool => true,
        Form::Text => false,
    };
    let tool = request.pointer("/tools/0/name").and_then(Value::as_str).unwrap_or("answer");
    let mut message = json!({ "id": "msg_scripted", "type": "message", "role": "assistant", "content": [] });
    message["model"] = request["model"].clone();
    if let Some(Tokens { input, cached, cache_write, .. }) = reply.usage {
        message["usage"] = json!({ "input_tokens": input, "cache_read_input_tokens": cached,
                                   "cache_creation_input_tokens": cache_write, "output_tokens": 1 });
    }
    let mut events = vec![json!({ "type": "message_start", "message": message }), json!({ "type": "ping" })];
    let block = match is_tool {
        true => json!({ "type": "tool_use", "id": "toolu_scripted", "name": tool, "input": {} }),
        false => json!({ "type": "text", "text": "" }),
    };
    events.push(json!({ "type": "content_block_start", "index": 0, "content_block": block }));
    for part in reply.parts() {
        let delta = match is_tool {
            true => json!({ "type": "input_json_delta", "partial_json": part }),
            false => json!({ "type": "text_delta", "text": part }),
        };
        events.push(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
    }
    events.push(json!({ "type": "content_block_stop", "index": 0 }));
    match &reply.stream_error {
        Some(message) => events.push(error(message)),
        None => {
            let stop = reply.stop.as_deref().unwrap_or(if is_tool { "tool_use" } else { "end_turn" });
            let mut delta = json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null } });
            if let Some(Tokens { output, .. }) = reply.usage {
                delta["usage"] = json!({ "output_tokens": output });
            }
            events.extend([delta, json!({ "type": "message_stop" })]);
        }
    }
    let written = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(written).collect()
}

/// Returns an error, as a body or in a stream.
pub(crate) fn error(message: &str) -> Value {
    json!({ "type": "error", "error": { "type": "overloaded_error", "message": message } })
}
