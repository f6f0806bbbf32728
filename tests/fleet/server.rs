//! A NATS server with its own store, and workers, as processes.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::Sandbox;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server on a free port of loopback. It keeps its store while it is restarted.
pub struct Server {
    port: u16,
    store: TempDir,
    child: Child,
}

impl Server {
    /// Starts one. None if `nats-server` is not installed, unless OPTLOOP_NEEDS names it.
    pub fn start() -> Option<Self> {
        let is_missing = Command::new("nats-server").arg("--version").output().is_err();
        if is_missing && std::env::var_os("OPTLOOP_NEEDS").is_none_or(|needed| needed != "nats-server") {
            eprintln!("this scenario is left out: it needs nats-server (Debian: `apt-get install nats-server`)");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let store = tempfile::tempdir().unwrap();
        let child = started(port, store.path());
        Some(Self { port, store, child })
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills it as a power cut would, and starts it again.
    pub fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = started(self.port, self.store.path());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn started(port: u16, store: &Path) -> Child {
    let mut command = Command::new("nats-server");
    command.args(["--jetstream", "--addr", "127.0.0.1", "--port", &port.to_string(), "--store_dir"]).arg(store);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.expect("this test needs nats-server (Debian: `apt-get install nats-server`)");
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "nats-server does not answer");
        std::thread::yield_now();
    }
    child
}

/// A worker of another user, who trusts the one of a sandbox.
pub struct FleetWorker {
    child: Child,
    lines: Receiver<String>,
    state: TempDir,
}

impl FleetWorker {
    /// Starts one on a fake device, and waits until it serves.
    pub fn start(sandbox: &Sandbox, server: &Server, device: &str) -> Self {
        Self::with_state(sandbox, server, device, tempfile::tempdir().unwrap())
    }

    /// Starts one that says of each variant that it takes three times as long (`slow`), or of each wrong one that it is right (`right`).
    pub fn start_liar(sandbox: &Sandbox, server: &Server, device: &str, lie: &str) -> Self {
        let mut command = command(sandbox, server, device);
        command.env("OPTLOOP_FAKE_LIES", lie);
        Self::spawned(command, tempfile::tempdir().unwrap())
    }

    fn with_state(sandbox: &Sandbox, server: &Server, device: &str, state: TempDir) -> Self {
        Self::spawned(command(sandbox, server, device), state)
    }

    /// Starts one as a command says.
    pub fn run(sandbox: &Sandbox, program: &str, words: &[String]) -> Self {
        let mut command = Command::new(program);
        command.args(words).current_dir(sandbox.path(".")).env("OPTLOOP_FAKE_DEVICE", "1");
        Self::spawned(command, tempfile::tempdir().unwrap())
    }

    fn spawned(mut command: Command, state: TempDir) -> Self {
        command.env("XDG_STATE_HOME", state.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (line, lines) = mpsc::channel();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || said.map_while(Result::ok).try_for_each(|text| line.send(text)));
        Self { child, lines, state }
    }

    /// Waits until it serves, and returns its public key.
    pub fn key(&self) -> String {
        let line = self.lines.recv().expect("the worker has ended");
        line.rsplit_once("key is ").unwrap_or_else(|| panic!("it said: {line}")).1.to_owned()
    }

    /// Kills it as a power cut would, and starts it again with the same key.
    pub fn restart(mut self, sandbox: &Sandbox, server: &Server, device: &str) -> Self {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let state = std::mem::replace(&mut self.state, tempfile::tempdir().unwrap());
        Self::with_state(sandbox, server, device, state)
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for FleetWorker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command of a worker for the user of a sandbox.
fn command(sandbox: &Sandbox, server: &Server, device: &str) -> Command {
    let key = sandbox.succeeds(&["workers", "--key"]);
    let arguments = ["worker", "--nats", &server.url(), "--device", device, "--name", "rack", "--trust", key.trim()];
    let mut command = sandbox.command(&arguments);
    command.env("OPTLOOP_FAKE_SCREENING_MS", "100");
    command
}
