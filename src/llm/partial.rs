//! The part of an answer received so far, independent of the API.

use crate::domain::models::call::Usage;

/// The parts of an answer that a stream has delivered.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// The model's text.
    pub text: String,
    /// The arguments of its tool call.
    pub arguments: String,
    /// The tokens counted so far.
    pub counts: Counts,
    /// Why the model stopped; `None` while it has not.
    pub stop: Option<Stop>,
    /// Whether the stream announced its end.
    pub is_over: bool,
    /// The provider's name for the call.
    pub request_id: Option<String>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It had finished.
    Finished,
    /// It reached a limit of tokens.
    Truncated,
    /// It, or a filter, declined to answer.
    Refused,
}

/// The token counts that a stream has reported. All others are unknown.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// See [`Usage`].
    pub input: Option<u64>,
    /// See [`Usage`].
    pub cached: Option<u64>,
    /// See [`Usage`].
    pub cache_write: Option<u64>,
    /// See [`Usage`].
    pub output: Option<u64>,
}

impl Counts {
    /// Returns the tokens, if both input and output are known.
    pub(super) fn usage(&self) -> Option<Usage> {
        Some(Usage {
            input_tokens: self.input?,
            cached_tokens: self.cached.unwrap_or(0),
            cache_write_tokens: self.cache_write.unwrap_or(0),
            output_tokens: self.output?,
        })
    }
}

impl Partial {
    /// Returns what the model wrote: its arguments if it called the tool, else its text.
    pub(super) fn written(&self) -> &str {
        if self.arguments.is_empty() { &self.text } else { &self.arguments }
    }

    /// Returns the size of what was kept, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.arguments.len()
    }
}
