//! The provider whose API an endpoint speaks.

use serde::{Deserialize, Serialize};

/// The provider whose API an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// The chat completions of OpenAI, which many servers speak.
    #[serde(rename = "openai")]
    OpenAi,
}

impl Provider {
    /// Returns the name in `config.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// Returns the variable in which the provider's own programs look for a key.
    pub fn usual_key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }

    /// Returns the provider's own endpoint.
    pub(super) fn own_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }
}
