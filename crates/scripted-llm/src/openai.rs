//! The stream of OpenAI's chat completions.

use serde_json::{Value, json};

use crate::script::{Form, Reply, Tokens};

/// Returns the stream of an answer to a request.
pub(crate) fn stream(reply: &Reply, request: &Value) -> String {
    let is_tool = match reply.form {
        Form::Requested => request.get("tools").is_some(),
        Form::Tool => true,
        Form::Text => false,
    };
    let chunk = |choices: Value| {
        let mut chunk = json!({ "id": "chatcmpl-scripted", "object": "chat.completion.chunk", "choices": choices });
        chunk["model"] = request["model"].clone();
        chunk
    };
    let delta =
        |delta: Value, finish: Option<&str>| chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }]));
    let mut events = vec![delta(json!({ "role": "assistant", "content": "" }), None)];
    for (index, part) in reply.parts().into_iter().enumerate() {
        events.push(match (is_tool, index) {
            (false, _) => delta(json!({ "content": part }), None),
            (true, 0) => {
                let call = json!({ "index": 0, "id": "call_scripted", "type": "function",
                                   "function": { "name": "answer", "arguments": part } });
                delta(json!({ "tool_calls": [call] }), None)
            }
            (true, _) => delta(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": part } }] }), None),
        });
    }
    let mut stream = String::new();
    match &reply.stream_error {
        Some(message) => events.push(error(message)),
        None => {
            let stop = reply.stop.as_deref().unwrap_or(if is_tool { "tool_calls" } else { "stop" });
            events.push(delta(json!({}), Some(stop)));
            events.extend(usage(reply, request).map(|usage| {
                let mut last = chunk(json!([]));
                last["usage"] = usage;
                last
            }));
        }
    }
    for event in &events {
        stream += &format!("data: {event}\n\n");
    }
    if reply.stream_error.is_none() {
        stream += "data: [DONE]\n\n";
    }
    stream
}

/// The API counts all input together, and only on request.
fn usage(reply: &Reply, request: &Value) -> Option<Value> {
    let Tokens { input, cached, cache_write, output } = reply.usage?;
    let is_asked = request.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
    let prompt = input + cached + cache_write;
    is_asked.then(|| {
        json!({ "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
                "prompt_tokens_details": { "cached_tokens": cached, "cache_write_tokens": cache_write } })
    })
}

/// Returns an error, as a body or in a stream.
pub(crate) fn error(message: &str) -> Value {
    json!({ "error": { "message": message, "type": "server_error", "code": null } })
}
