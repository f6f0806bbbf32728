//! Health, metrics and the description of the API.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::answer::json;
use crate::service::app::App;
use crate::service::error::ApiError;

/// The OpenAPI document. It is made from all routes, so the router hands it to this one.
#[derive(Debug, Clone)]
pub struct Description(pub Arc<Value>);

/// `GET /healthz`: the process answers
pub async fn healthz() -> Response {
    "ok\n".into_response()
}

/// `GET /readyz`: the largest submission would be stored, and the service is not about to stop
pub async fn readyz(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    if *app.stopping.borrow() {
        return Err(ApiError::busy("the service is about to stop"));
    }
    app.queue.check_writable().await?;
    Ok("ready\n".into_response())
}

/// `GET /metrics`
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let counts = app.queue.counts().await?;
    let open = [app.connections.taken(), app.streams.taken()];
    let text = app.metrics.text(&counts, &app.room, open);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// `GET /workers`: the workers of the service's fleet. Without a fleet, there are none
pub async fn workers(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let Some(fleet) = &app.fleet else { return json(&Value::Array(Vec::new())) };
    let unanswered = |error: anyhow::Error| {
        tracing::warn!("no list of workers: {error:#}");
        ApiError::busy("the NATS server does not answer")
    };
    json(&fleet.workers().await.map_err(unanswered)?)
}

/// `GET /openapi.json`
pub async fn document(Extension(Description(document)): Extension<Description>) -> Result<Response, ApiError> {
    json(&*document)
}
