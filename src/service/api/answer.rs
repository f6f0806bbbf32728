//! Reads requests and writes answers as JSON.

use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::text::expected::in_words;
use crate::secrets;
use crate::service::error::ApiError;

/// Writes an answer. Secrets of the environment are masked.
pub fn json<T: Serialize>(value: &T) -> Result<Response, ApiError> {
    json_with(StatusCode::OK, value)
}

/// Writes an answer with a status.
pub fn json_with<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, ApiError> {
    let text = serde_json::to_string(value).map_err(anyhow::Error::from)?;
    let text = secrets::mask_json(&text).into_owned();
    Ok((status, [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], text).into_response())
}

/// Reads the body of a request. Only JSON is accepted, which pages of other sites cannot send without asking first.
pub fn body<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, ApiError> {
    check_type(headers)?;
    serde_json::from_slice(body)
        .map_err(|error| ApiError::bad(format!("the body is not what is expected: {}", in_words(&error.to_string()))))
}

/// Refuses a request whose body has another type.
pub fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let error = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON");
    Err(error.hint("send the header Content-Type: application/json"))
}
