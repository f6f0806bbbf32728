//! Errors of the API: a status, a sentence, and what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::domain::submission::SubmissionId;
use crate::secrets;
use crate::store::StoreError;

/// An error as clients see it.
#[derive(Debug, Clone, Serialize)]
pub struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    error: String,
    hint: Option<String>,
}

impl ApiError {
    /// Makes an error from a sentence.
    pub fn new(status: StatusCode, error: impl std::fmt::Display) -> Self {
        Self { status, error: secrets::mask(&error.to_string()).into_owned(), hint: None }
    }

    /// Adds what to do.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A request that no client should send.
    pub fn bad(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// Something that does not exist.
    pub fn not_found(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// A submission that does not exist.
    pub fn no_submission(id: SubmissionId) -> Self {
        Self::not_found(format!("there is no submission {id}")).hint("GET /api/v1/submissions lists them")
    }

    /// Too much at once.
    pub fn busy(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error).hint("try again later")
    }

    /// Nothing is stored, so the client may send its request again once there is room. What failed is in the log: it names
    /// files and settings of the service's machine, and a full disk fails in several ways.
    fn no_room() -> Self {
        Self::busy("the service cannot write to its disk, so nothing was stored")
            .hint("free some space on the service's machine, or let it write there, and send the request again")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert("retry-after", axum::http::HeaderValue::from_static("5"));
        }
        response
    }
}

impl From<anyhow::Error> for ApiError {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<StoreError>() {
            Ok(error) => error.into(),
            Err(error) => {
                tracing::error!("a request failed: {error:#}");
                if error.chain().any(is_of_a_full_disk) {
                    return Self::no_room();
                }
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"))
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownSession { .. } | StoreError::UnknownIteration { .. } | StoreError::NoSessions => {
                Self::not_found(error)
            }
            StoreError::Locked => Self::busy(error),
            StoreError::DiskFull | StoreError::Disk(_) | StoreError::NotWritable => {
                tracing::error!("a request failed: {error}");
                Self::no_room()
            }
            error => {
                tracing::error!("a request failed: {error}");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
            }
        }
    }
}

fn is_of_a_full_disk(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(StorageFull | QuotaExceeded | FileTooLarge))
}
