//! A service: a queue of sessions, and an HTTP API and web pages to submit and watch them.
//!
//! Sessions are processes of their own, which outlive the service. What a service knows is in three places, and each has
//! one owner: the queue has the submissions, the event log of a submission tells whether its process lives, and the
//! project's store has the session. After a kill at any moment, the three tell what is left to do (`supervisor`,
//! `settle`).

pub mod api;
pub mod app;
pub mod check;
mod conclusion;
pub mod error;
mod fleet;
mod folder;
pub mod http;
mod log;
mod metrics;
mod pages;
mod projects;
mod readers;
mod schedule;
pub mod session;
mod single;
mod supervisor;
mod verb;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::{Router, middleware};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::store::queue::Queue;
use app::{App, Clock};
pub use fleet::Fleet;
pub use folder::StateFolder;
use http::guard::{Guard, guard};
use http::hosts::Hosts;
use http::peer::Peers;
use http::places::Places;
use http::rate::{FAILURES, REQUESTS, Rates};
use http::refusals::Refusals;
use http::tls;
use http::tokens::Tokens;
use metrics::Metrics;
use projects::Projects;
pub use schedule::Room;
pub use single::{SingleSession, serve_session};

/// The largest body of a request. A submission has less than a KiB.
const MAX_BODY_BYTES: usize = 64 << 10;

/// How a service is set up.
#[derive(Debug)]
pub struct Options {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Its folder.
    pub state: PathBuf,
    /// The projects: folders, or `NAME=FOLDER`.
    pub projects: Vec<String>,
    /// Further names of the service.
    pub hosts: Vec<String>,
    /// The file with the tokens.
    pub tokens: Option<PathBuf>,
    /// The files with the certificate and its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether another address than loopback may do without encryption.
    pub insecure_http: bool,
    /// What the machine has room for.
    pub room: Room,
    /// The most connections at once.
    pub max_connections: usize,
    /// The most event streams at once.
    pub max_streams: usize,
    /// The longest time for a client to send the head or the body of a request.
    pub client_timeout: Duration,
    /// The time after which a session that was cancelled is killed.
    pub cancel_timeout: Duration,
    /// The program that sessions are started with.
    pub exe: PathBuf,
    /// Workers on other machines, for all of its sessions.
    pub fleet: Option<Fleet>,
}

/// Runs a service until `stop` is done. Tells `listens` the address once it accepts connections. Sessions go on after
/// the end.
pub async fn serve(
    options: Options,
    listens: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    check_address(&options)?;
    let tokens = options.tokens.as_deref().map(Tokens::load).transpose()?;
    let encryption = options.tls.as_ref().map(|(certificate, key)| tls::acceptor(certificate, key)).transpose()?;
    let projects = Projects::find(&options.projects)?;
    let folder = StateFolder::claim(options.state)?;
    let queue = Queue::open(&folder.queue()).await?;
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.with_context(|| format!("Failed to listen on {}", options.listen))?;
    let address = listener.local_addr().context("Failed to read the address")?;
    let metrics = Arc::new(Metrics::default());
    let app = Arc::new(App {
        queue,
        folder,
        projects,
        room: options.room,
        clock: Clock::start(),
        cancel_timeout: options.cancel_timeout,
        exe: options.exe,
        fleet: options.fleet,
        changes: watch::Sender::new(0),
        stopping: watch::Sender::new(false),
        connections: Places::new(options.max_connections),
        streams: Places::new(options.max_streams),
        metrics: Arc::clone(&metrics),
    });
    let hosts = Hosts::of(address, &options.hosts, encryption.is_some());
    let connections = http::server::Rules {
        tls: encryption,
        peers: tokens.is_none().then(Peers::start),
        places: Arc::clone(&app.connections),
        client_timeout: options.client_timeout,
    };
    let rules = Guard {
        hosts,
        tokens,
        rates: Rates::new(REQUESTS),
        failures: Rates::new(FAILURES),
        refusals: Refusals::default(),
        metrics,
        body_timeout: options.client_timeout,
        max_body_bytes: MAX_BODY_BYTES,
    };
    let queue = tokio::spawn(supervisor::run(Arc::clone(&app)));
    let served = http::server::serve(listener, connections, router(&app, rules), app.stopping.subscribe());
    listens(address);
    let stopped = async {
        stop.await;
        tracing::info!("the service stops; sessions go on");
        app.stopping.send_replace(true);
    };
    let (served, ()) = tokio::join!(served, stopped);
    served?;
    queue.await.context("Failed to run the queue")??;
    app.queue.close().await;
    Ok(())
}

/// Puts everything behind the guard.
fn router(app: &Arc<App>, rules: Guard) -> Router {
    let router = api::router().merge(pages::router()).fallback(api::not_found);
    router.with_state(Arc::clone(app)).layer(middleware::from_fn_with_state(Arc::new(rules), guard))
}

/// Refuses to listen to others without tokens, and to send tokens in the clear.
fn check_address(options: &Options) -> anyhow::Result<()> {
    let is_loopback = options.listen.ip().is_loopback();
    if !is_loopback && options.tokens.is_none() {
        bail!(
            "{} can be reached by others: give --tokens FILE (`optloop serve --new-token NAME` makes a token), or listen \
             on 127.0.0.1",
            options.listen
        );
    }
    if !is_loopback && options.tls.is_none() && !options.insecure_http {
        bail!(
            "tokens would be sent to {} in the clear: give --tls-cert and --tls-key, or --insecure-http if something else \
             encrypts the connection",
            options.listen
        );
    }
    Ok(())
}
