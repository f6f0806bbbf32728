//! A call of a language model: the request, the answer and the token counts. Plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Tokens that a provider may add to the bytes of a prompt: the instructions for tools (up to 1000 with some of
/// Anthropic's models), the marks of a chat between messages, and some margin.
const OVERHEAD_TOKENS: u64 = 2000;

/// Bytes of English or of code that tokenizers usually make one token of, for estimates.
const BYTES_OF_A_TOKEN: u64 = 4;

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallPurpose {
    /// Hypotheses about what to try.
    Plan,
    /// The code or the parameters of a hypothesis.
    Code,
    /// A correction after an error.
    Repair,
    /// A test of the connection.
    Check,
}

/// The requested form of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerForm {
    /// Its name: letters, digits, `_` and `-`, at most 64, as both APIs demand.
    pub name: String,
    /// What it is, for the model.
    pub description: String,
    /// A JSON schema whose type is `object`.
    pub schema: serde_json::Value,
}

/// One request to a language model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// What it is for.
    pub purpose: CallPurpose,
    /// Counts the session's calls for this purpose. A cassette is replayed by purpose and ordinal.
    pub ordinal: u64,
    /// The provider's name of the model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The part of the prompt that stays the same between calls. It comes first, so that the provider can cache it.
    pub cached: String,
    /// The rest of the prompt.
    pub prompt: String,
    /// The form of the answer.
    pub answer: AnswerForm,
    /// The maximum number of output tokens, including those of the model's reasoning.
    pub max_output_tokens: u32,
    /// The sampling temperature; `None` for the provider's default. Some models accept no other.
    pub temperature: Option<f32>,
}

/// The tokens of a call. The three kinds of input do not overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that is neither read from the cache nor written to it.
    pub input_tokens: u64,
    /// Input that was read from the cache.
    pub cached_tokens: u64,
    /// Input that was written to the cache.
    pub cache_write_tokens: u64,
    /// Output.
    pub output_tokens: u64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The answer: a JSON object. It is not checked against the schema.
    pub answer: serde_json::Value,
    /// What the model wrote: the arguments of its tool call, or its text.
    pub text: String,
    /// The tokens, as the provider counted them.
    pub usage: Usage,
    /// Whether the provider counted them, and the counts are possible for this request. If not, the call counts at its
    /// reserve.
    pub usage_is_known: bool,
    /// From the first attempt to the end of the answer.
    pub latency_ms: u64,
    /// How often the request was sent. All attempts but the last were refused before they cost anything.
    pub attempts: u32,
    /// The provider's name for the call.
    pub request_id: Option<String>,
}

impl CallPurpose {
    /// All purposes.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Code, Self::Repair, Self::Check];

    /// Returns the name that the store, cassettes and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Code => "code",
            Self::Repair => "repair",
            Self::Check => "check",
        }
    }
}

impl fmt::Display for CallPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ModelRequest {
    /// Returns a number of tokens that the prompt does not exceed: its bytes, with the schema's, and the provider's
    /// additions. A tokenizer turns each token into at least one byte, so a text has no more tokens than bytes.
    pub fn prompt_tokens_upper_bound(&self) -> u64 {
        let AnswerForm { name, description, schema } = &self.answer;
        let texts = [&self.system, &self.cached, &self.prompt, name, description, &schema.to_string()];
        texts.iter().map(|text| text.len() as u64).sum::<u64>() + OVERHEAD_TOKENS
    }

    /// Estimates the tokens of a call of whose answer so many bytes came. What a model thinks without writing it is not counted.
    pub fn estimated_usage(&self, received_bytes: u64) -> Usage {
        let tokens = |bytes: u64| bytes.div_ceil(BYTES_OF_A_TOKEN);
        Usage {
            input_tokens: tokens(self.prompt_tokens_upper_bound() - OVERHEAD_TOKENS),
            output_tokens: tokens(received_bytes),
            ..Usage::default()
        }
    }
}

impl Usage {
    /// Returns the tokens of the whole prompt.
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.cached_tokens).saturating_add(self.cache_write_tokens)
    }

    /// Tells whether an answer to a request can have taken these tokens. Every prompt and every answer has some.
    pub fn is_possible(&self, request: &ModelRequest) -> bool {
        (1..=request.prompt_tokens_upper_bound()).contains(&self.prompt_tokens())
            && (1..=u64::from(request.max_output_tokens)).contains(&self.output_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ModelRequest {
        ModelRequest {
            purpose: CallPurpose::Code,
            ordinal: 1,
            model: "m".to_owned(),
            system: "abc".to_owned(),
            cached: "défg".to_owned(),
            prompt: String::new(),
            answer: AnswerForm { name: "n".to_owned(), description: "d".to_owned(), schema: serde_json::json!({}) },
            max_output_tokens: 50,
            temperature: None,
        }
    }

    #[test]
    fn a_prompt_has_no_more_tokens_than_bytes_and_the_overhead() {
        assert_eq!(request().prompt_tokens_upper_bound(), 3 + 5 + 1 + 1 + 2 + OVERHEAD_TOKENS);
    }

    #[test]
    fn impossible_counts_are_ignored() {
        let is_possible = |input_tokens, output_tokens| {
            Usage { input_tokens, output_tokens, ..Usage::default() }.is_possible(&request())
        };
        assert!(is_possible(10, 50) && is_possible(2012, 1));
        assert!(!is_possible(0, 10) && !is_possible(10, 0) && !is_possible(2013, 10) && !is_possible(10, 51));
        assert!(!Usage { input_tokens: u64::MAX, cached_tokens: 2, ..Usage::default() }.is_possible(&request()));
    }
}
