//! Why a call of a language model failed, and what it may have cost.

use serde::{Deserialize, Serialize};

use super::call::Usage;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallErrorKind {
    /// No connection was made, or it ended before the request was answered.
    Unreachable,
    /// The answer did not arrive completely in time.
    TimedOut,
    /// There were too many requests (status 429).
    RateLimited,
    /// The server failed (a status from 500, or an error within the stream).
    ServerError,
    /// The key is missing or is not accepted (status 401 or 403).
    Unauthorized,
    /// The request is not accepted (any other status).
    Rejected,
    /// The model, or a filter of its provider, declined to answer.
    Refused,
    /// The answer ended at `max_output_tokens`.
    Truncated,
    /// The answer is not a JSON object and contains none.
    Unparsable,
    /// The answer is larger than the limit.
    TooLarge,
    /// The stream ended before the answer did.
    Cut,
    /// The response does not follow the API.
    Protocol,
    /// The cassette has no such call.
    NotRecorded,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// Why.
    pub kind: CallErrorKind,
    /// One sentence for the user, without secrets.
    pub message: String,
    /// Whether tokens may have been billed. If so and `usage` is `None`, the call counts at its reserve.
    pub may_be_billed: bool,
    /// The tokens, if the provider counted them and the counts are possible.
    pub usage: Option<Usage>,
    /// The text that the model had written by then.
    pub text: String,
    /// From the first attempt to the failure.
    pub latency_ms: u64,
    /// How often the request was sent. All attempts but the last were refused before they cost anything.
    pub attempts: u32,
    /// The provider's name for the call.
    pub request_id: Option<Box<str>>,
}

impl CallErrorKind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Unreachable,
        Self::TimedOut,
        Self::RateLimited,
        Self::ServerError,
        Self::Unauthorized,
        Self::Rejected,
        Self::Refused,
        Self::Truncated,
        Self::Unparsable,
        Self::TooLarge,
        Self::Cut,
        Self::Protocol,
        Self::NotRecorded,
    ];

    /// Returns the name that the store and cassettes use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::RateLimited => "rate_limited",
            Self::ServerError => "server_error",
            Self::Unauthorized => "unauthorized",
            Self::Rejected => "rejected",
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::Unparsable => "unparsable",
            Self::TooLarge => "too_large",
            Self::Cut => "cut",
            Self::Protocol => "protocol",
            Self::NotRecorded => "not_recorded",
        }
    }

    /// Tells whether the endpoint is down or does not serve this user. Another request would fail in the same way.
    pub fn is_of_the_endpoint(self) -> bool {
        match self {
            Self::Unreachable | Self::TimedOut | Self::RateLimited | Self::ServerError => true,
            Self::Unauthorized | Self::Rejected | Self::Protocol | Self::NotRecorded => true,
            Self::Refused | Self::Truncated | Self::Unparsable | Self::TooLarge | Self::Cut => false,
        }
    }
}

impl CallError {
    /// Makes an error of a call that was sent once, was not billed, and has no further details.
    pub fn new(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            may_be_billed: false,
            usage: None,
            text: String::new(),
            latency_ms: 0,
            attempts: 0,
            request_id: None,
        }
    }

    /// Returns the kind's name in the store.
    pub fn kind(&self) -> &'static str {
        self.kind.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for kind in CallErrorKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
