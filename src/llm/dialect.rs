//! The parts of the APIs that a server accepts, learnt from its errors.

use serde_json::Value;

use crate::domain::models::call::AnswerForm;

/// Restrictions that a server has shown for one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dialect {
    /// It refuses requests that force a tool call. Anthropic's models do so since 2026-09, because they think first.
    pub has_free_choice: bool,
    /// It supports neither tools nor schemas, so the form of the answer is described in the prompt.
    pub is_plain: bool,
    /// It expects the name that OpenAI's newer models have for the output limit.
    pub has_completion_limit: bool,
    /// It does not accept a temperature.
    pub has_no_temperature: bool,
    /// It does not accept stream options, and so reports no token counts.
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

/// Returns the addition to the prompt for servers that support neither tools nor schemas.
pub(super) fn described(form: &AnswerForm) -> String {
    let AnswerForm { name, description, schema } = form;
    format!(
        "\n\nAnswer with one JSON object and nothing else ({name}: {description}). It must satisfy this JSON \
         schema:\n{schema}"
    )
}
