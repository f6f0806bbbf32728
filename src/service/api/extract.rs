//! Parameters of paths and queries. A wrong one is answered like every other mistake.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::domain::text::expected::in_words;
use crate::service::error::ApiError;

/// The parameters of a path.
pub struct Path<T>(pub T);

/// The parameters of a query.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        check_characters("path", parts.uri.path())?;
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0)).map_err(|error| ApiError::bad(in_words(&error.body_text())))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        check_characters("query", parts.uri.query().unwrap_or_default())?;
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        query.map(|query| Self(query.0)).map_err(|error| ApiError::bad(in_words(&error.body_text())))
    }
}

/// Refuses control characters, which no name has and no program takes as an argument. A URI holds them in hexadecimal digits only.
fn check_characters(part: &str, text: &str) -> Result<(), ApiError> {
    let code = |escaped: &str| u8::from_str_radix(escaped.get(..2)?, 16).ok();
    match text.split('%').skip(1).filter_map(code).find(u8::is_ascii_control) {
        None => Ok(()),
        Some(byte) => Err(ApiError::bad(format!("the {part} has the control character %{byte:02x}: remove it"))),
    }
}
