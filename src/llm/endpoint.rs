//! The source of answers: an endpoint, or a cassette.

use super::client::Client;
use super::key::Key;
use super::settings::Settings;
use crate::domain::model_call::{ModelReply, ModelRequest};
use crate::domain::model_error::CallError;

/// Answers requests.
#[derive(Debug)]
pub struct Endpoint {
    client: Client,
}

impl Endpoint {
    /// Prepares an endpoint, with the key from the environment. Nothing is sent yet.
    pub fn open(settings: &Settings) -> Result<Self, String> {
        let key = settings.key_variable.as_deref().map(Key::of_variable).transpose()?;
        Self::with_key(settings, key)
    }

    /// Prepares an endpoint with a key from elsewhere.
    pub fn with_key(settings: &Settings, key: Option<Key>) -> Result<Self, String> {
        Ok(Self { client: Client::new(settings, key)? })
    }

    /// Asks a model. Requests beyond `concurrency` wait for their turn.
    pub async fn ask(&self, request: &ModelRequest) -> Result<ModelReply, CallError> {
        self.client.ask(request).await
    }
}
