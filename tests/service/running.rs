//! A service that runs in parallel with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Sandbox, times};

/// The longest wait of a test. Nothing takes as long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running service with one project, called `p`.
pub struct Service<'a> {
    pub sandbox: &'a Sandbox,
    child: Child,
    address: String,
    /// The header with the token of this client.
    pub authorization: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Reads the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the status and the message of an error.
    pub fn error(&self) -> String {
        let json = self.json();
        let hint = json["hint"].as_str().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{} {}{hint}", self.status, json["error"].as_str().unwrap_or_default())
    }
}

impl<'a> Service<'a> {
    /// Starts a service.
    pub fn start(sandbox: &'a Sandbox) -> Self {
        Self::start_with(sandbox, &[])
    }

    /// Starts a service with further arguments.
    pub fn start_with(sandbox: &'a Sandbox, more: &[&str]) -> Self {
        let project = format!("p={}", sandbox.path("").display());
        let state = sandbox.path(".optloop/service").display().to_string();
        let arguments = ["serve", &project, "--listen", "127.0.0.1:0", "--state", &state];
        Self::spawn(sandbox, sandbox.command(&[&arguments, more].concat()))
    }

    /// Starts a prepared command.
    pub fn spawn(sandbox: &'a Sandbox, mut command: Command) -> Self {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(sandbox.path("service.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = || std::fs::read_to_string(sandbox.path("service.log")).unwrap_or_default();
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}{}", said()));
        let address = line["listening"].as_str().unwrap().split_once("://").unwrap().1.to_owned();
        Self { sandbox, child, address, authorization: None }
    }

    /// Returns the address and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the process ID.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Connects to the service.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request with these header lines and this body, and reads the answer.
    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = self.connect();
        let host = format!("Host: {}", self.address);
        let mut lines = vec![format!("{method} {path} HTTP/1.1"), "Connection: close".to_owned()];
        if !headers.iter().any(|line| line.to_ascii_lowercase().starts_with("host:")) {
            lines.push(host);
        }
        lines.extend(self.authorization.iter().map(|token| format!("Authorization: {token}")));
        lines.extend(headers.iter().map(|line| (*line).to_owned()));
        if !body.is_empty() {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        // The service may refuse a body before it has arrived.
        let _ = write!(stream, "{}\r\n\r\n{body}", lines.join("\r\n"));
        read_answer(stream)
    }

    /// Reads something.
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// Posts JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &["Content-Type: application/json"], &body.to_string())
    }

    /// Hands in a session on the fake device, which must be accepted, and returns the submission.
    pub fn submit(&self, request: Value) -> Value {
        self.submit_as(json!({ "project": "p", "request": on_the_fake_device(request) }))
    }

    /// Hands in a body, which must be accepted, and returns the submission.
    pub fn submit_as(&self, body: Value) -> Value {
        let answer = self.post("/api/v1/submissions", &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    /// Reads a submission.
    pub fn submission(&self, id: &Value) -> Value {
        self.get(&format!("/api/v1/submissions/{id}")).json()
    }

    /// Follows a submission from an event on.
    pub fn events(&self, id: &Value, last: u64) -> Events {
        let mut stream = self.connect();
        let authorization = self.authorization.iter().map(|token| format!("Authorization: {token}\r\n"));
        let authorization = authorization.collect::<String>();
        let host = &self.address;
        write!(stream, "GET /api/v1/submissions/{id}/events HTTP/1.0\r\nHost: {host}\r\n{authorization}Last-Event-ID: {last}\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the service has closed the connection");
        }
        Events(lines)
    }

    /// Waits until a submission is over, and returns it.
    pub fn end_of(&self, id: &Value) -> Value {
        self.events(id, 0).find(|event| event.kind == "end").expect("the stream ends with the submission").data
    }

    /// Waits until a submission runs a session that has recorded an iteration.
    pub fn first_iteration_of(&self, id: &Value) {
        assert!(self.events(id, 0).any(|event| event.data["event"] == "iteration"), "no iteration of {id}");
    }

    /// Sends the service a signal.
    pub fn signal(&self, signal: &str) {
        kill(signal, self.child.id());
    }

    /// Cancels a submission, and returns it.
    pub fn cancel(&self, id: &Value) -> Value {
        self.post(&format!("/api/v1/submissions/{id}/cancel"), &json!({})).json()
    }

    /// Waits for the end of the service.
    pub fn wait_for_end(mut self) -> ExitStatus {
        times::wait(&mut self.child)
    }

    /// Kills the service as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        times::wait(&mut self.child);
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        times::wait(&mut self.child);
        if !std::thread::panicking() {
            return;
        }
        eprintln!("{}", std::fs::read_to_string(self.sandbox.path("service.log")).unwrap_or_default());
    }
}

/// Adds what every session of these tests has in common.
pub fn on_the_fake_device(mut request: Value) -> Value {
    for (key, value) in [("workload", json!("small")), ("device", json!("fake")), ("seed", json!(1))] {
        request.as_object_mut().unwrap().entry(key).or_insert(value);
    }
    request
}

/// Reads an answer to its end.
pub fn read_answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A refused body resets the connection behind the answer.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// Sends a process a signal.
pub fn kill(signal: &str, process: u32) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Returns the process of the session that runs in a project.
pub fn session_process(sandbox: &Sandbox) -> Option<u32> {
    let lock = std::fs::read_to_string(sandbox.path(".optloop/session.lock")).ok()?;
    serde_json::from_str::<Value>(&lock).ok()?["process"].as_u64()?.try_into().ok()
}

/// A session that stands still until this value is dropped, so that it does not end meanwhile.
pub struct StandingStill(u32);

impl StandingStill {
    /// Stops the process of the session that runs in a project.
    pub fn new(sandbox: &Sandbox) -> Self {
        let process = session_process(sandbox).expect("a session runs");
        kill("STOP", process);
        Self(process)
    }
}

impl Drop for StandingStill {
    fn drop(&mut self) {
        kill("CONT", self.0);
    }
}

/// An event of a stream.
#[derive(Debug)]
pub struct Event {
    /// Empty for an event of the session.
    pub kind: String,
    pub id: Option<u64>,
    pub data: Value,
}

/// The events of a stream, until it ends.
pub struct Events(BufReader<TcpStream>);

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event { kind: String::new(), id: None, data: Value::Null };
        let mut line = String::new();
        loop {
            line.clear();
            // A killed service ends the stream, too.
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", kind)) => event.kind = kind.to_owned(),
                Some(("id", id)) => event.id = id.parse().ok(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                None if line.trim_end().is_empty() && !event.data.is_null() => return Some(event),
                _ => {}
            }
        }
    }
}
