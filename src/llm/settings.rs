//! The settings for calls of language models.

use std::path::PathBuf;
use std::time::Duration;

use super::address::Address;

/// The settings for calls of models. `config::LlmConfig::settings` makes them.
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
