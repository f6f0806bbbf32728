//! Accepts connections, a limited number at once, and gives each a limited time to send its request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::peer::Peers;
use super::places::{Place, Places};

/// The longest time in which a client takes nothing of what it is sent, in times that a request may take.
const UNREAD: u32 = 3;

/// The largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The longest time for answers that are on their way when the service stops.
const GRACE: Duration = Duration::from_secs(5);

/// The pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a client gets when there is no place for its connection.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\n\
    Connection: close\r\nContent-Length: 67\r\n\r\n{\"error\":\"too many connections are open\",\"hint\":\"try again later\"}\n";

/// What a client that has no business here gets.
const STRANGER: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n\
    Content-Length: 114\r\n\r\n{\"error\":\"another user runs this service\",\
    \"hint\":\"a service for several users needs tokens: see `optloop docs service`\"}\n";

/// How connections are served.
#[derive(Clone)]
pub struct Rules {
    /// Encrypts them.
    pub tls: Option<TlsAcceptor>,
    /// Tells who connects, if only the user who runs the service may.
    pub peers: Option<Peers>,
    /// Room for them.
    pub places: Arc<Places>,
    /// The longest time for a handshake, for the head of a request, and between two requests. A client that takes nothing
    /// of its answer for three times as long is disconnected.
    pub client_timeout: Duration,
}

/// Serves until `stopping` is true.
pub async fn serve(
    listener: TcpListener,
    rules: Rules,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut connections = JoinSet::new();
    while !*stopping.borrow() {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.changed() => break,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection cannot be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Behind a proxy on this machine, all clients have one address.
        let client = (!address.ip().is_loopback()).then(|| address.ip().to_string());
        match rules.places.take(client.as_deref()) {
            Some(place) => {
                let (router, rules, stopping) = (router.clone(), rules.clone(), stopping.clone());
                let connection = Connection { router, rules, address, stopping, _place: place };
                connections.spawn(connection.serve(stream));
            }
            None if rules.tls.is_none() => refuse(stream, FULL),
            None => {}
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(GRACE, all).await.is_err() {
        tracing::warn!("some clients did not take their answers in time");
    }
    Ok(())
}

/// Sends a client away, without waiting for it.
fn refuse(stream: TcpStream, answer: &[u8]) {
    let _ = stream.try_write(answer);
    let _ = stream.into_std().map(|stream| stream.shutdown(std::net::Shutdown::Write));
}

struct Connection {
    router: Router,
    rules: Rules,
    address: SocketAddr,
    stopping: watch::Receiver<bool>,
    _place: Place,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        if !self.is_welcome(&stream).await {
            return refuse(stream, STRANGER);
        }
        let served = match (limit_unread(&stream, UNREAD * self.rules.client_timeout), self.rules.tls.clone()) {
            (Err(error), _) => Err(error),
            (Ok(()), None) => self.speak(stream).await,
            (Ok(()), Some(tls)) => match timeout(self.rules.client_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.speak(stream).await,
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(anyhow::anyhow!("the handshake took too long")),
            },
        };
        if let Err(error) = served {
            tracing::debug!("a connection has ended: {error:#}");
        }
    }

    async fn is_welcome(&self, stream: &TcpStream) -> bool {
        let Some(peers) = &self.rules.peers else { return true };
        let Ok(service) = stream.local_addr() else { return false };
        peers.is_this_user(self.address, service).await
    }

    async fn speak(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> anyhow::Result<()> {
        let (router, address) = (self.router, self.address);
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(address));
            router.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.rules.client_timeout)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let stops = async { drop(self.stopping.wait_for(|stops| *stops).await) };
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = stops => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        ended.context("Failed to serve the connection")
    }
}

/// Has the system close a connection whose client does not read. Its buffers would otherwise stay full forever.
#[cfg(target_os = "linux")]
fn limit_unread(stream: &TcpStream, time: Duration) -> anyhow::Result<()> {
    let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(stream, ms).context("Failed to limit the connection")
}

#[cfg(not(target_os = "linux"))]
fn limit_unread(_: &TcpStream, _: Duration) -> anyhow::Result<()> {
    Ok(())
}
