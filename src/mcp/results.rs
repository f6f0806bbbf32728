//! The results of the tools: structured content, and a short text for clients without it.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::error::Error;
use crate::evaluated::{Evaluated, Over};
use crate::secrets;
use crate::session::Standing;

/// The longest text beside a structured result, in bytes.
const MAX_TEXT_BYTES: usize = 60_000;

/// Makes a result. A problem is a sentence, and an error of the tool.
pub(super) fn result(told: Result<(Value, String), Error>, standing: &Standing) -> CallToolResult {
    let is_error = told.is_err();
    let (result, text) =
        told.unwrap_or_else(|problem| (json!({ "problem": problem.to_string() }), problem.to_string()));
    let structured = json!({
        "result": result, "spent": standing.spent, "left": standing.left, "record": standing.record,
    });
    // Names and messages of kernels may contain anything, even what the environment of this process holds.
    let masked = secrets::mask(&structured.to_string()).into_owned();
    let structured: Value = serde_json::from_str(&masked).unwrap_or(Value::Null);
    let text = secrets::mask(&format!("{}\n{}", shortened(text), standing_in_words(standing))).into_owned();
    let content = vec![ContentBlock::text(text)];
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(structured);
    result
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push_str("\n(cut here: the structured result has all of it)");
    }
    text
}

fn standing_in_words(standing: &Standing) -> String {
    let record =
        standing.record.iter().map(|one| format!("{} {:.3} us (iteration {})", one.case, one.us, one.iteration));
    let record: Vec<String> = record.collect();
    let left = standing.left.seconds.map_or_else(String::new, |seconds| format!("{seconds:.0} s left; "));
    format!("{left}record: {}", if record.is_empty() { "none yet".to_owned() } else { record.join(", ") })
}

/// Leaves out what is empty, and rounds numbers: a client pays for each character.
pub(super) fn compact(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, compact(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(compact).collect()),
        Value::Number(number) if number.is_f64() => rounded(number.as_f64().unwrap_or_default()),
        other => other,
    }
}

/// Rounds to five digits.
fn rounded(number: f64) -> Value {
    format!("{number:.4e}").parse::<f64>().map_or(Value::Null, |number| json!(number))
}

/// Sums up an evaluation in a line or two.
pub(super) fn in_words(evaluated: &Evaluated, errors: &[Value]) -> String {
    let name = format!("iteration {} (`{}`)", evaluated.iteration, evaluated.family);
    if let Some(failure) = &evaluated.failure {
        let case = failure.case.as_ref().map(|case| format!(" on {case}")).unwrap_or_default();
        let located = errors.iter().map(|error| {
            let (file, message) = (error["file"].as_str(), error["message"].as_str());
            let line = error["line"].as_u64().map(|line| format!(", line {line}")).unwrap_or_default();
            format!("\n  {}{line}: {}", file.unwrap_or_default(), message.unwrap_or_default())
        });
        let located: String = located.collect();
        // The message names lines of the rendered source.
        let message = if errors.is_empty() { failure.message.as_str() } else { "" };
        return format!("{name}: {}{case}: {message}{located}", failure.outcome.replace('_', " "));
    }
    let over = |over: &Option<Over>, what: &str| {
        let Some(over) = over else { return String::new() };
        let of = over.iteration.map_or_else(|| what.to_owned(), |iteration| format!("{what}, iteration {iteration}"));
        format!(", {:.3}x over {of}", over.ratio)
    };
    let times = evaluated.cases.iter().filter_map(|case| {
        let verdict =
            case.verdict.map(|verdict| format!("; beside the incumbent: {}", verdict.name())).unwrap_or_default();
        let (base, record) = (over(&case.over_base, "its base"), over(&case.over_record, "the record"));
        Some(format!("{} {:.3} us{base}{record}{verdict}", case.case, case.us?))
    });
    let times: Vec<String> = times.collect();
    format!("{name}: {}", if times.is_empty() { "no time".to_owned() } else { times.join("; ") })
}

/// Returns an evaluation as JSON, without the counts that `diagnose` has.
pub(super) fn as_json(evaluated: &Evaluated, errors: &[Value]) -> Value {
    let mut json = serde_json::to_value(evaluated).unwrap_or(Value::Null);
    for case in json["cases"].as_array_mut().into_iter().flatten() {
        case.as_object_mut().map(|case| case.remove("counts"));
    }
    if !errors.is_empty() {
        json["errors"] = json!(errors);
    }
    json
}
