//! The part of HTTP/1.1 that one request and one reply need.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// The largest body, in bytes.
const MAX_BODY_BYTES: usize = 64 << 20;

/// A request that the server got.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Such as `POST`.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The headers, with lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
}

/// Reads a request.
pub(crate) fn read(stream: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let first = line(&mut reader)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let line = line(&mut reader)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; MAX_BODY_BYTES.min(length)];
    reader.read_exact(&mut body)?;
    Ok(Request { method, path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

/// Reads a line without its end.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match reader.read_line(&mut line)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

/// Writes a status and headers. The body that follows is chunked, so that a client can tell whether it is complete.
pub(crate) fn begin(
    mut stream: &TcpStream,
    status: u16,
    content_type: &str,
    headers: &BTreeMap<String, String>,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {content_type}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "connection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes())
}

/// Writes a piece of the body.
pub(crate) fn piece(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    stream.write_all(&chunk)
}

/// Writes the end of the body.
pub(crate) fn end(mut stream: &TcpStream) -> io::Result<()> {
    stream.write_all(b"0\r\n\r\n")
}

/// Waits until the client ends the connection.
pub(crate) fn stall(mut stream: &TcpStream) {
    let mut rest = [0; 256];
    while stream.read(&mut rest).is_ok_and(|bytes| bytes > 0) {}
}
