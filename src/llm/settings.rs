//! How models are called.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::address::Address;

/// Whose API an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// The chat completions of OpenAI, which many servers speak.
    #[serde(rename = "openai")]
    OpenAi,
}

/// How models are called. `config::LlmConfig::settings` makes it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The endpoint.
    pub address: Address,
    /// The environment variable with the key; `None` for no key.
    pub key_variable: Option<String>,
    /// The longest time until a connection is made.
    pub connect_timeout: Duration,
    /// The longest time of a call, with all its attempts.
    pub timeout: Duration,
    /// The longest time without a byte of the answer.
    pub idle_timeout: Duration,
    /// Calls at once.
    pub concurrency: usize,
    /// Further attempts of a request that cost nothing.
    pub retries: u32,
    /// The folder in which calls are recorded.
    pub record: Option<PathBuf>,
    /// The folder whose cassettes answer.
    pub replay: Option<PathBuf>,
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
