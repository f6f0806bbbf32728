//! Sends requests and reads the answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use super::api;
use super::dialect::Dialect;
use super::extract::json_object;
use super::failure::{Failure, short};
use super::key::Key;
use super::partial::Partial;
use super::retry;
use super::settings::Settings;
use super::sse::Decoder;
use crate::domain::instant;
use crate::domain::models::call::{ModelReply, ModelRequest};
use crate::domain::models::call_error::{CallError, CallErrorKind};
use crate::error::{Error, error};
use crate::secrets;

/// The largest answer, in bytes. The largest kernel of the repository has a fiftieth of that.
pub(super) const MAX_ANSWER_BYTES: usize = 4 << 20;

/// The largest stream of an answer, in bytes. Each token comes in an event of some 200 bytes.
const MAX_STREAM_BYTES: usize = 128 << 20;

/// The largest event, in bytes: a whole answer, escaped.
const MAX_EVENT_BYTES: usize = 2 * MAX_ANSWER_BYTES;

/// The part of an error's body that is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The longest wait after the first attempt.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// An endpoint, with what its errors have shown about it.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) http: reqwest::Client,
    pub(super) settings: Settings,
    key: Option<Key>,
    dialects: Mutex<HashMap<String, Dialect>>,
    turns: Semaphore,
    /// The longest wait after the first attempt.
    pub first_wait: Duration,
}

impl Client {
    /// Makes a client. It connects on the first request.
    pub(super) fn new(settings: &Settings, key: Option<Key>) -> Result<Self, Error> {
        let headers = api::headers(settings.address.provider(), key.as_ref());
        let mut http = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("optloop/", env!("CARGO_PKG_VERSION")))
            // A redirect would send the key and the prompt elsewhere.
            .redirect(Policy::none())
            .connect_timeout(settings.connect_timeout);
        if settings.address.is_loopback() {
            // A proxy could not reach an endpoint on this machine.
            http = http.no_proxy();
        }
        Ok(Self {
            http: http.build().map_err(|error| error!("Failed to prepare HTTP requests: {error}"))?,
            settings: settings.clone(),
            key,
            dialects: Mutex::default(),
            turns: Semaphore::new(settings.concurrency),
            first_wait: FIRST_WAIT,
        })
    }

    /// Sends a request to a model, with retries.
    pub(super) async fn ask(&self, request: &ModelRequest, received: &AtomicU64) -> Result<ModelReply, CallError> {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        let began = Instant::now();
        let deadline = began + self.settings.timeout;
        let (mut attempts, mut refused) = (0, 0);
        loop {
            attempts += 1;
            let mut partial = Partial::default();
            let failure = match self.attempt(request, deadline, (&mut partial, received)).await {
                Ok(answer) => return Ok(reply(request, answer, partial, began.elapsed(), attempts)),
                Err(failure) => failure,
            };
            // A request in another form is not the same one, and does not count as a retry.
            if failure.is_about_request && self.adapt(request, &failure.message) {
                continue;
            }
            refused += 1;
            let wait = retry::wait(&failure, refused, self.settings.retries, self.first_wait, rand::random());
            match wait.filter(|wait| Instant::now() + *wait < deadline) {
                Some(wait) => sleep(wait).await,
                None => return Err(self.error(request, failure, partial, began.elapsed(), attempts)),
            }
        }
    }

    /// Sends the request once, and reads the answer to its end.
    async fn attempt(
        &self,
        request: &ModelRequest,
        deadline: Instant,
        (partial, received): (&mut Partial, &AtomicU64),
    ) -> Result<Value, Failure> {
        let address = &self.settings.address;
        let body = api::body(address.provider(), request, self.dialect(&request.model), address.is_own());
        let post = self.http.post(address.url(api::path(address.provider())));
        let sent = post.header(CONTENT_TYPE, "application/json").body(body.to_string()).send();
        let response = self.in_time(deadline, sent).await?.map_err(|error| Failure::of_transport(&error))?;
        partial.request_id = request_id(response.headers()).map(|id| self.masked(&id));
        if !response.status().is_success() {
            return Err(self.status(response, deadline).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream") {
            return Err(Failure::protocol(&format!(
                "its answer is not a stream of events but {:?}",
                short(&self.masked(kind))
            )));
        }
        let read = self.read(response, deadline, (partial, received)).await;
        // A server that repeats the key may have divided it among events.
        partial.text = self.without_key(&partial.text);
        partial.arguments = self.without_key(&partial.arguments);
        read?;
        if let Some(failure) = Failure::of_stop(partial) {
            return Err(failure);
        }
        json_object(partial.written())
            .ok_or_else(|| Failure::new(CallErrorKind::Unparsable, "the answer contains no complete JSON object"))
    }

    /// Reads a stream to its end. A connection that breaks after the end of the answer does not matter.
    async fn read(
        &self,
        mut response: Response,
        deadline: Instant,
        (partial, received): (&mut Partial, &AtomicU64),
    ) -> Result<(), Failure> {
        let before = received.load(Ordering::Relaxed);
        let too_large = || Failure::new(CallErrorKind::TooLarge, "the answer is larger than 4 MiB");
        let provider = self.settings.address.provider();
        let (mut decoder, mut bytes) = (Decoder::new(MAX_EVENT_BYTES), 0);
        while !partial.is_over {
            let piece = match self.in_time(deadline, response.chunk()).await? {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(_) if partial.stop.is_some() => break,
                Err(error) => return Err(Failure::of_transport(&error)),
            };
            bytes += piece.len();
            for mut event in decoder.take(&piece).map_err(|_| too_large())? {
                // Masked before a message in it is shortened, because half a key is not recognized.
                event.data = self.without_key(&event.data);
                api::take(provider, partial, &event)?;
            }
            received.store(before + partial.bytes() as u64, Ordering::Relaxed);
            if bytes > MAX_STREAM_BYTES || partial.bytes() > MAX_ANSWER_BYTES {
                return Err(too_large());
            }
        }
        Ok(())
    }

    /// Reads the body of an answer whose status is an error.
    pub(super) async fn status(&self, mut response: Response, deadline: Instant) -> Failure {
        let status = response.status().as_u16();
        let asked = response.headers().get(RETRY_AFTER).and_then(|header| header.to_str().ok());
        let asked = asked.and_then(|header| retry::retry_after(header, instant::now()));
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BYTES {
            // An unreadable body is not shown.
            match self.in_time(deadline, response.chunk()).await {
                Ok(Ok(Some(piece))) => body.extend_from_slice(&piece[..piece.len().min(MAX_ERROR_BYTES - body.len())]),
                _ => break,
            }
        }
        // Masked before it is shortened, because half a key is not recognized.
        Failure::of_status(status, &self.masked(&String::from_utf8_lossy(&body)), asked)
    }

    /// Waits for the next data from the server.
    pub(super) async fn in_time<T>(&self, deadline: Instant, next: impl Future<Output = T>) -> Result<T, Failure> {
        let idle = Instant::now() + self.settings.idle_timeout;
        timeout_at(deadline.min(idle), next).await.map_err(|_| {
            let key = if idle < deadline { "idle_timeout" } else { "timeout" };
            Failure::new(CallErrorKind::TimedOut, format!("the endpoint did not answer within llm.{key}"))
        })
    }

    fn dialect(&self, model: &str) -> Dialect {
        let dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        dialects.get(model).copied().unwrap_or_default()
    }

    /// Learns from an error what the server does not accept. Returns whether the request can be sent in another form.
    fn adapt(&self, request: &ModelRequest, error: &str) -> bool {
        let (address, before) = (&self.settings.address, self.dialect(&request.model));
        let sent = api::body(address.provider(), request, before, address.is_own());
        let after = before.after(error, &sent).filter(|after| *after != before);
        let mut dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        after.map(|after| dialects.insert(request.model.clone(), after)).is_some()
    }

    fn error(
        &self,
        request: &ModelRequest,
        failure: Failure,
        partial: Partial,
        latency: Duration,
        attempts: u32,
    ) -> CallError {
        CallError {
            message: self.masked(&failure.message),
            may_be_billed: failure.may_be_billed,
            usage: partial.counts.usage().filter(|usage| usage.is_possible(request)),
            text: secrets::mask(partial.written()).into_owned(),
            latency_ms: millis(latency),
            attempts,
            request_id: partial.request_id.map(String::into_boxed_str),
            ..CallError::new(failure.kind, "")
        }
    }

    /// Masks the key, and the other secrets of the environment.
    pub(super) fn masked(&self, text: &str) -> String {
        self.without_key(&secrets::mask(text))
    }

    fn without_key(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.masked(text))
    }
}

fn reply(request: &ModelRequest, answer: Value, partial: Partial, latency: Duration, attempts: u32) -> ModelReply {
    let usage = partial.counts.usage();
    ModelReply {
        answer,
        text: partial.written().to_owned(),
        usage: usage.unwrap_or_default(),
        usage_is_known: usage.is_some_and(|usage| usage.is_possible(request)),
        latency_ms: millis(latency),
        attempts,
        request_id: partial.request_id,
    }
}

/// Returns the provider's name for a request, for questions to its support.
fn request_id(headers: &HeaderMap) -> Option<String> {
    let header = headers.get("request-id").or_else(|| headers.get("x-request-id"))?;
    Some(short(header.to_str().ok()?))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
