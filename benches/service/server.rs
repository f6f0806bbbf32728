//! A service in a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::large::Project;

/// The pause between two requests: a client may send 50 per second.
const PAUSE: Duration = Duration::from_millis(21);

pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts a service of a project, called `p`.
    pub fn start(project: &Project) -> Self {
        let folder = format!("p={}", project.path().display());
        let listen =
            ["serve", &folder, "--listen", "127.0.0.1:0", "--max-streams", "2000", "--max-connections", "4000"];
        let mut command = project.command(&listen);
        command.env("OPTLOOP_FAKE_DEVICE", "1").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        let address = said["listening"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { child, address }
    }

    /// Sends a request over a new connection, and returns the connection and the time of sending.
    pub fn send(&self, method: &str, path: &str, body: &str) -> (TcpStream, Instant) {
        std::thread::sleep(PAUSE);
        let started = Instant::now();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, length) = (&self.address, body.len());
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n");
        stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
        (stream, started)
    }

    /// Returns the time to the first byte of an answer, which must be good, and the size of its body in bytes.
    pub fn first_byte(&self, path: &str) -> (Duration, usize) {
        let (mut stream, started) = self.send("GET", path, "");
        let mut answer = vec![0];
        stream.read_exact(&mut answer).unwrap();
        let took = started.elapsed();
        stream.read_to_end(&mut answer).unwrap();
        assert!(
            answer.starts_with(b"HTTP/1.0 200"),
            "{path}: {}",
            String::from_utf8_lossy(&answer[..300.min(answer.len())])
        );
        let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        (took, answer.len() - head - 4)
    }

    /// Returns the processor time that the service has used, in seconds, and the most memory it held, in MiB.
    pub fn usage(&self) -> (f64, f64) {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap();
        let stat = read("stat");
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks: f64 = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
        let status = read("status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: f64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        (ticks / 100.0, kib / 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
