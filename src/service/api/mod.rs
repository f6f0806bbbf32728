//! The HTTP API. One table has every route; the router and the OpenAPI document are made from it.

mod answer;
mod events;
mod extract;
mod openapi;
mod operations;
mod results;
mod routes;
mod sessions;
mod submissions;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};

use crate::service::app::App;
use crate::service::error::ApiError;
use crate::service::http::tokens::{Client, Scope};

/// Makes the router of the API.
pub fn router() -> Router<Arc<App>> {
    let mut router = Router::new();
    for route in routes::all() {
        let scope = route.scope;
        let require = move |request: Request, next: Next| require(scope, request, next);
        router = router.route(&route.full_path(), route.handler.layer(middleware::from_fn(require)));
    }
    let description = operations::Description(Arc::new(openapi::document()));
    router.method_not_allowed_fallback(wrong_method).layer(Extension(description))
}

/// Refuses a client whose token does not reach.
pub(super) async fn require(scope: Option<Scope>, request: Request, next: Next) -> Response {
    let Some(scope) = scope else { return next.run(request).await };
    match request.extensions().get::<Client>() {
        Some(client) if client.scope >= scope => next.run(request).await,
        Some(client) => {
            let has = client.scope.name();
            let error = format!("the token `{}` has the scope {has}, and this needs {}", client.name, scope.name());
            ApiError::new(StatusCode::FORBIDDEN, error).into_response()
        }
        None => ApiError::new(StatusCode::UNAUTHORIZED, "a token is needed")
            .hint("send the header Authorization: Bearer TOKEN")
            .into_response(),
    }
}

/// Answers requests for what does not exist.
pub async fn not_found(uri: Uri) -> Response {
    ApiError::not_found(format!("there is no {}", uri.path()))
        .hint("GET /api/v1/openapi.json lists everything")
        .into_response()
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let error = format!("{} does not allow {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, error).into_response()
}
