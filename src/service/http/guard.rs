//! What every request passes before it reaches the API, and what every answer gets.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::hosts::Hosts;
use super::rate::Rates;
use super::refusals::Refusals;
use super::tokens::{Client, Tokens};
use crate::service::error::ApiError;
use crate::service::metrics::Metrics;

/// The policy of answers that are not pages: nothing in them runs, loads or is framed.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/// The path that tells whether the process answers.
const HEALTH: &str = "/healthz";

/// The rules of a service.
#[derive(Debug)]
pub struct Guard {
    /// The names of the service.
    pub hosts: Hosts,
    /// Who may come in. None on loopback: the user of the machine.
    pub tokens: Option<Tokens>,
    /// How much each client has sent.
    pub rates: Rates,
    /// How much each address has sent in vain.
    pub failures: Rates,
    /// What was refused lately.
    pub refusals: Refusals,
    /// Where answers are counted.
    pub metrics: Arc<Metrics>,
    /// The longest time in which a body must arrive.
    pub body_timeout: Duration,
    /// The largest body.
    pub max_body_bytes: usize,
}

/// Checks a request, passes it on, and completes the answer.
pub async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let address = network(request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip()));
    let (mut response, is_known) = match admit(&guard, &address, request).await {
        Ok(request) => {
            let is_known = request.extensions().get::<Client>().is_some();
            (next.run(request).await, is_known)
        }
        Err(refused) => (refused.into_response(), false),
    };
    let is_stranger = !is_known && matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if is_stranger && !guard.failures.admit(&address, began) {
        response = too_many("this address sends too many requests that are refused").into_response();
    }
    complete(&mut response);
    let (status, took) = (response.status().as_u16(), began.elapsed());
    guard.metrics.count(&route, status, took);
    let ms = took.as_millis();
    if is_stranger || status == StatusCode::TOO_MANY_REQUESTS {
        if let Some(refused) = guard.refusals.note(began) {
            tracing::warn!(refused, address, path, status, "requests were refused, this one last");
        }
    } else if path == HEALTH {
        tracing::debug!(%method, path, status, ms, "answered");
    } else {
        tracing::info!(%method, path, status, ms, "answered");
    }
    response
}

async fn admit(guard: &Guard, address: &str, request: Request) -> Result<Request, ApiError> {
    if let Some(reason) = guard.hosts.refusal(request.uri(), request.headers()) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, reason));
    }
    if request.uri().path() == HEALTH {
        // It says whether the process answers, to everybody and in a flood, too.
        return Ok(request);
    }
    let client = match &guard.tokens {
        None => Some(Client::local()),
        Some(tokens) => client(tokens, request.headers())?,
    };
    let who = client.as_ref().map_or(address, |client| &client.name);
    if !guard.rates.admit(who, Instant::now()) {
        return Err(too_many("this client sends too many requests"));
    }
    let (mut parts, body) = request.into_parts();
    if let Some(client) = client {
        parts.extensions.insert(client);
    }
    Ok(Request::from_parts(parts, received(body, guard.body_timeout, guard.max_body_bytes).await?))
}

fn too_many(reason: &str) -> ApiError {
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, reason).hint("wait a second")
}

/// Returns the client with the token of a request. None without a token: some routes need none.
fn client(tokens: &Tokens, headers: &HeaderMap) -> Result<Option<Client>, ApiError> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let (scheme, token) = value.to_str().ok().and_then(|value| value.split_once(' ')).unwrap_or_default();
    match tokens.client(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("Bearer")) {
        Some(client) => Ok(Some(client.clone())),
        None => Err(ApiError::new(StatusCode::UNAUTHORIZED, "this token is not known")),
    }
}

/// Names a client without a token by its address. The addresses of a network belong to one client.
fn network(address: Option<IpAddr>) -> String {
    match address {
        Some(IpAddr::V6(address)) => format!("{:x?}", &address.segments()[..4]),
        Some(address) => address.to_string(),
        None => String::new(),
    }
}

/// Receives a whole body, so that no handler waits for a slow client.
async fn received(body: Body, timeout: Duration, most: usize) -> Result<Body, ApiError> {
    let too_large = || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"));
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(timeout, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    }
}

/// Adds what browsers need to know about every answer.
fn complete(response: &mut Response) {
    let is_refused = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    if is_refused {
        set(WWW_AUTHENTICATE, "Bearer");
    }
}
