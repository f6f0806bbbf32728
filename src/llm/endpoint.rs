//! The source of answers: an endpoint, or a cassette.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use super::cassette::{Cassette, Recorded, Recorder};
use super::client::Client;
use super::key::Key;
use super::settings::Settings;
use crate::domain::models::call::{ModelReply, ModelRequest};
use crate::domain::models::call_error::CallError;
use crate::error::Error;

/// Answers requests, and records them if the settings say so.
#[derive(Debug)]
pub struct Endpoint {
    source: Source,
    recorder: Option<Recorder>,
}

/// Where answers come from.
#[derive(Debug)]
enum Source {
    Server(Box<Client>),
    Cassette(Cassette),
}

impl Endpoint {
    /// Prepares an endpoint, with the key from the environment. Nothing is sent yet. A cassette needs no key. The error
    /// is one sentence that says what to do.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let variable = settings.key_variable.as_deref().filter(|_| settings.replay.is_none());
        Self::with_key(settings, variable.map(Key::of_variable).transpose()?)
    }

    /// Prepares an endpoint with a key from elsewhere.
    pub fn with_key(settings: &Settings, key: Option<Key>) -> Result<Self, Error> {
        let source = match &settings.replay {
            Some(folder) => Source::Cassette(Cassette::open(folder)?),
            None => Source::Server(Box::new(Client::new(settings, key)?)),
        };
        Ok(Self { source, recorder: settings.record.as_deref().map(Recorder::new).transpose()? })
    }

    /// Sends a request to a model. Requests beyond `concurrency` wait for their turn. A cassette answers at once, with
    /// the tokens that were counted when it was recorded.
    pub async fn ask(&self, request: &ModelRequest) -> Result<ModelReply, CallError> {
        self.ask_counting(request, &AtomicU64::new(0)).await
    }

    /// Does the same, and counts the bytes of the answer as they come, so that a call that is given up can be estimated.
    pub async fn ask_counting(&self, request: &ModelRequest, received: &AtomicU64) -> Result<ModelReply, CallError> {
        match &self.source {
            Source::Server(client) => client.ask(request, received).await,
            Source::Cassette(cassette) => cassette.answer(request),
        }
    }

    /// Tells whether a cassette answers, so that nothing is sent and nothing is paid.
    pub fn is_replay(&self) -> bool {
        matches!(self.source, Source::Cassette(_))
    }

    /// Returns the cassette's data about a call; `None` if it has no such call, or if there is no cassette.
    pub fn recorded(&self, request: &ModelRequest) -> Option<Recorded> {
        match &self.source {
            Source::Server(_) => None,
            Source::Cassette(cassette) => cassette.recorded(request),
        }
    }

    /// Records a call if the settings name a folder for it. `asked_after` and `answered_after` count the iterations
    /// that had ended when the request was sent, and when its answer was used. The error is one sentence.
    pub fn record(
        &self,
        request: &ModelRequest,
        result: &Result<ModelReply, CallError>,
        asked_after: u64,
        answered_after: u64,
    ) -> Result<(), Error> {
        let recorder = self.recorder.as_ref();
        recorder.map_or(Ok(()), |recorder| recorder.record(request, result, asked_after, answered_after))
    }

    /// Returns the names of the models that the endpoint serves, which costs nothing. A cassette serves none.
    pub async fn models(&self) -> Result<BTreeSet<String>, CallError> {
        match &self.source {
            Source::Server(client) => client.models().await,
            Source::Cassette(_) => Ok(BTreeSet::new()),
        }
    }

    /// Makes the endpoint try again at once, for tests.
    #[cfg(test)]
    pub(super) fn without_waits(mut self) -> Self {
        if let Source::Server(client) = &mut self.source {
            client.first_wait = std::time::Duration::ZERO;
        }
        self
    }
}
