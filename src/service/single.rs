//! Serves one session over HTTP to clients that propose in it, behind the guard of a service.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::extract::Request;
use axum::middleware::Next;
use axum::{Router, middleware};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::api::require;
use super::http::guard::{Guard, guard};
use super::http::hosts::Hosts;
use super::http::peer::Peers;
use super::http::places::Places;
use super::http::rate::{FAILURES, REQUESTS, Rates};
use super::http::refusals::Refusals;
use super::http::server::{self, Rules};
use super::http::tokens::{Scope, Tokens};
use super::metrics::Metrics;

/// The most connections at once.
const MAX_CONNECTIONS: usize = 64;

/// The longest time for a client to send the head or the body of a request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// How a session is served.
pub struct SingleSession {
    /// Where it listens.
    pub listener: TcpListener,
    /// The file with the tokens. None for the user of this machine alone.
    pub tokens: Option<PathBuf>,
    /// What answers.
    pub router: Router,
    /// The largest body of a request.
    pub max_body_bytes: usize,
}

/// Serves until `stopping` is true. Listens on loopback only: what encrypts the connections of others is a program in front of it.
pub async fn serve_session(single: SingleSession, stopping: watch::Receiver<bool>) -> anyhow::Result<()> {
    let SingleSession { listener, tokens, router, max_body_bytes } = single;
    let address = listener.local_addr().context("Failed to read the address")?;
    if !address.ip().is_loopback() {
        bail!("{address} can be reached by others: listen on 127.0.0.1");
    }
    let tokens = tokens.as_deref().map(Tokens::load).transpose()?;
    let rules = Rules {
        tls: None,
        peers: tokens.is_none().then(Peers::start),
        places: Places::new(MAX_CONNECTIONS),
        client_timeout: CLIENT_TIMEOUT,
    };
    let admitted = Guard {
        hosts: Hosts::of(address, &[], false),
        tokens,
        rates: Rates::new(REQUESTS),
        failures: Rates::new(FAILURES),
        refusals: Refusals::default(),
        metrics: Arc::new(Metrics::default()),
        body_timeout: CLIENT_TIMEOUT,
        max_body_bytes,
    };
    // Whoever proposes uses the device.
    let runs = |request: Request, next: Next| require(Some(Scope::Run), request, next);
    let router = router.layer(middleware::from_fn(runs));
    let router = router.layer(middleware::from_fn_with_state(Arc::new(admitted), guard));
    server::serve(listener, rules, router, stopping).await
}
