//! The failure of one attempt, and whether another one may follow.

use std::time::Duration;

use super::partial::{Partial, Stop};
use crate::domain::models::call_error::CallErrorKind;
use crate::domain::text::escape::is_unsafe;

/// The longest part of a server's message that is shown, in characters.
const MAX_MESSAGE_CHARS: usize = 400;

/// One attempt that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Why.
    pub kind: CallErrorKind,
    /// One sentence.
    pub message: String,
    /// Whether tokens may have been billed.
    pub may_be_billed: bool,
    /// Whether the same request may succeed later.
    pub may_pass: bool,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// Whether the server does not accept the form of the request.
    pub is_about_request: bool,
}

impl Failure {
    /// Makes the failure of an attempt that had reached the server and must not be repeated.
    pub(super) fn new(kind: CallErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message, may_be_billed: true, may_pass: false, retry_after: None, is_about_request: false }
    }

    /// The response does not follow the API.
    pub(super) fn protocol(what: &str) -> Self {
        Self::new(CallErrorKind::Protocol, format!("the endpoint does not follow the API of llm.provider: {what}"))
    }

    /// The server reported an error after it had begun to answer.
    pub(super) fn in_stream(kind: &str, message: &str) -> Self {
        let of = if kind.is_empty() { String::new() } else { format!(" ({})", short(kind)) };
        let text = format!("the endpoint failed while it answered{of}: {}", short(message));
        Self::new(CallErrorKind::ServerError, text)
    }

    /// The server answered with a status other than success.
    pub(super) fn of_status(status: u16, body: &str, retry_after: Option<Duration>) -> Self {
        let said = said(body);
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        let kind = match status {
            401 | 403 => CallErrorKind::Unauthorized,
            429 => CallErrorKind::RateLimited,
            // An intermediate server may give up while the model continues.
            408 | 504 | 524 => CallErrorKind::TimedOut,
            500.. => CallErrorKind::ServerError,
            _ => CallErrorKind::Rejected,
        };
        let message = match kind {
            CallErrorKind::Unauthorized => {
                format!(
                    "the endpoint does not accept the key (status {status}){said}. Check the variable in llm.key_env"
                )
            }
            CallErrorKind::Rejected if (300..400).contains(&status) => {
                format!(
                    "the endpoint redirects elsewhere (status {status}), which is not followed: correct llm.base_url"
                )
            }
            CallErrorKind::Rejected if status == 404 => {
                format!(
                    "the endpoint knows no such model or address (status 404){said}. Check llm.models and llm.base_url"
                )
            }
            _ => format!("the endpoint answered with status {status}{said}"),
        };
        let timed_out = kind == CallErrorKind::TimedOut;
        Self {
            may_be_billed: timed_out,
            may_pass: matches!(kind, CallErrorKind::RateLimited | CallErrorKind::ServerError),
            retry_after,
            is_about_request: matches!(status, 400 | 422 | 501),
            ..Self::new(kind, message)
        }
    }

    /// The request could not be sent, or its answer could not be read.
    pub(super) fn of_transport(error: &reqwest::Error) -> Self {
        let cause = innermost(error);
        if error.is_connect() {
            let message = format!("the endpoint cannot be reached: {cause}");
            // Without a connection there was no request.
            let (may_be_billed, may_pass) = (false, true);
            return Self { may_be_billed, may_pass, ..Self::new(CallErrorKind::Unreachable, message) };
        }
        if error.is_timeout() {
            return Self::new(CallErrorKind::TimedOut, "the endpoint did not answer in time");
        }
        if error.is_body() || error.is_decode() {
            return Self::new(CallErrorKind::Cut, format!("the connection ended before the answer was whole: {cause}"));
        }
        Self::new(CallErrorKind::Unreachable, format!("the connection ended before the request was answered: {cause}"))
    }

    /// Returns the failure of an answer that ended without being complete, if it did.
    pub(super) fn of_stop(partial: &Partial) -> Option<Self> {
        match partial.stop {
            Some(Stop::Finished) => None,
            Some(Stop::Truncated) => {
                let message = "the answer was cut off at the limit of tokens: raise llm.max_output_tokens";
                Some(Self::new(CallErrorKind::Truncated, message))
            }
            Some(Stop::Refused) => Some(Self::new(CallErrorKind::Refused, "the model declined to answer")),
            None => Some(Self::new(CallErrorKind::Cut, "the connection ended before the answer was whole")),
        }
    }
}

/// Returns the message in the body of an error: that of its JSON, or the beginning of its text.
fn said(body: &str) -> String {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let paths = ["/error/message", "/message", "/detail", "/error"];
    let message = json.as_ref().and_then(|json| paths.iter().find_map(|path| json.pointer(path)?.as_str()));
    short(message.unwrap_or(body))
}

/// Returns the beginning of a text in one line.
pub(super) fn short(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = words.chars().filter(|c| !is_unsafe(*c)).take(MAX_MESSAGE_CHARS).collect();
    if shown.len() < words.len() { format!("{shown}...") } else { shown.trim_end_matches('.').to_owned() }
}

/// The outer errors of reqwest have little information, and repeat the URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    short(&inner.to_string())
}
