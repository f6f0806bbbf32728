//! The server: one thread that accepts, and one for each connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{self, Request};
use crate::script::{End, Reply, Script};
use crate::{anthropic, openai};

/// A server on a loopback port. It serves until the process ends, or until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    requests: Mutex<Vec<Request>>,
    is_over: Mutex<bool>,
}

impl Server {
    /// Starts a server on any free port.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::start_on(0, script)
    }

    /// Starts a server on a port; 0 for any free one.
    pub fn start_on(port: u16, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Shared { script: Mutex::new(script), requests: Mutex::default(), is_over: Mutex::default() };
        let shared = Arc::new(shared);
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if *locked(&of_thread.is_over) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&of_thread)) else { continue };
                // Clients that end their connection are part of many scripts.
                thread::spawn(move || shared.serve(&stream).ok());
            }
        });
        Ok(Self { address, shared })
    }

    /// Returns the address for both APIs, such as `http://127.0.0.1:4321`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.shared.requests).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *locked(&self.shared.is_over) = true;
        // The accepting thread sees this at the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        // Pieces are sent as the script divides them.
        stream.set_nodelay(true)?;
        let request = http::read(stream)?;
        locked(&self.requests).push(request.clone());
        let path = request.path.split('?').next().unwrap_or_default();
        match path.rsplit_once("/v1/").map(|(_, path)| path) {
            Some("messages") => self.answer(stream, &request.body, anthropic::stream, anthropic::error),
            Some("chat/completions") => self.answer(stream, &request.body, openai::stream, openai::error),
            Some("models") => {
                let models = locked(&self.script).models.clone();
                let list: Vec<Value> = models.iter().map(|id| json!({ "id": id })).collect();
                whole(stream, 200, json!({ "data": list, "has_more": false }))
            }
            _ => whole(stream, 404, openai::error("there is no such path")),
        }
    }

    fn answer(
        &self,
        stream: &TcpStream,
        request: &Value,
        of: fn(&Reply, &Value) -> String,
        error: fn(&str) -> Value,
    ) -> io::Result<()> {
        let reply = locked(&self.script).next(&request.to_string());
        thread::sleep(Duration::from_millis(reply.delay_ms));
        match reply.end {
            End::CutBeforeHeaders => return Ok(()),
            End::StallBeforeHeaders => {
                http::stall(stream);
                return Ok(());
            }
            End::Whole | End::CutAfter(_) | End::StallAfter(_) => {}
        }
        let (kind, body) = match reply.status {
            200 => ("text/event-stream; charset=utf-8", of(&reply, request)),
            _ => ("application/json", error(&reply.content()).to_string()),
        };
        http::begin(stream, reply.status, reply.content_type.as_deref().unwrap_or(kind), &reply.headers)?;
        send(stream, &reply, body.as_bytes())
    }
}

/// Sends the body in its pieces, as far as the script says.
fn send(stream: &TcpStream, reply: &Reply, body: &[u8]) -> io::Result<()> {
    let length = match reply.end {
        End::CutAfter(bytes) | End::StallAfter(bytes) => bytes.min(body.len()),
        _ => body.len(),
    };
    let size = if reply.piece_bytes == 0 { length.max(1) } else { reply.piece_bytes };
    for piece in body[..length].chunks(size) {
        http::piece(stream, piece)?;
        thread::sleep(Duration::from_millis(reply.pause_ms));
    }
    match reply.end {
        End::StallAfter(_) => http::stall(stream),
        End::CutAfter(_) => {}
        _ => http::end(stream)?,
    }
    Ok(())
}

fn whole(stream: &TcpStream, status: u16, body: Value) -> io::Result<()> {
    http::begin(stream, status, "application/json", &[].into())?;
    http::piece(stream, body.to_string().as_bytes())?;
    http::end(stream)
}

/// A panicked thread leaves the locked data intact.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
