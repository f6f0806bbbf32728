//! Clients over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::common::{Sandbox, is_nightly};

/// A session that is served over HTTP.
struct Served {
    server: Child,
    address: String,
}

impl Served {
    fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let fixed = ["mcp", "--listen", "127.0.0.1:0", "--workload", "small", "--case", "s64", "--device", "fake"];
        let mut command = sandbox.command(&[&fixed, arguments].concat());
        let mut server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(server.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("clients: http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        // Nobody would read the rest otherwise, and the server would wait.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { server, address }
    }

    /// Posts a request. Returns the status and the body.
    fn post(&self, token: Option<&str>, body: &Value) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, body) = (&self.address, body.to_string());
        let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        write!(
            stream,
            "POST /mcp HTTP/1.0\r\nHost: {host}\r\n{authorization}Accept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Sends a request and leaves without waiting for the answer, as a client does that is killed.
    fn abandon(&self, body: &Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, body) = (&self.address, body.to_string());
        write!(
            stream,
            "POST /mcp HTTP/1.0\r\nHost: {host}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    }

    /// Calls a tool, which must be answered.
    fn call<'t>(&self, token: impl Into<Option<&'t str>>, tool: &str, arguments: Value) -> Value {
        let (status, body) = self.post(token.into(), &request(tool, arguments));
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        answer["result"]["structuredContent"]["result"].clone()
    }
}

fn request(tool: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

/// An evaluation of a configuration.
fn evaluation(configuration: Value) -> Value {
    json!({ "claim": "c", "speedup_low": 1.1, "speedup_high": 9.0, "base": "toy", "configurations": [configuration] })
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// Two clients propose and submit at once: each gets its own verdict, and each kernel is one iteration.
#[test]
fn clients_with_tokens_share_a_session() {
    let sandbox = Sandbox::new();
    let token = |scope: &str| {
        let made = sandbox.optloop(&["serve", "--new-token", scope, "--scope", scope]);
        let (line, said) = (String::from_utf8(made.stdout).unwrap(), String::from_utf8(made.stderr).unwrap());
        let token = said.split_whitespace().find(|word| word.starts_with("optloop_")).unwrap().to_owned();
        (token, line)
    };
    let ((run, own), (read, other)) = (token("run"), token("read"));
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), format!("{}\n{}\n", own.trim(), other.trim())).unwrap();
    let mut served = Served::start(&sandbox, &["--budget", "5m", "--tokens", tokens.path().to_str().unwrap()]);

    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert_eq!(served.post(None, &list).0, 401);
    assert_eq!(served.post(Some(&read), &list).0, 403, "a token that may only read cannot propose");
    assert!(served.post(Some(&run), &list).1.contains("\"evaluate\""));
    served.call(&*run, "task", json!({}));
    let propose = |tile: i64| {
        let claim = json!({
            "claim": format!("tiles of {tile}"), "speedup_low": 1.1, "speedup_high": 9.0, "base": "toy",
            "configurations": [{ "TILE": tile, "THREADS": 64 }],
        });
        let evaluated = served.call(&*run, "evaluate", claim)["evaluations"][0].clone();
        assert_eq!(evaluated["params"]["TILE"], tile, "each client gets its own verdict");
        let iteration = evaluated["iteration"].as_i64().unwrap();
        let submitted = served.call(&*run, "submit", json!({ "iteration": iteration }));
        assert_eq!(submitted["params"]["TILE"], tile, "{submitted}");
        submitted["cases"][0]["verdict"].as_str().unwrap().to_owned()
    };
    let verdicts = std::thread::scope(|scope| {
        let clients: Vec<_> = [8, 16]
            .map(|tile| {
                let propose = &propose;
                scope.spawn(move || propose(tile))
            })
            .into_iter()
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(verdicts.iter().any(|verdict| verdict == "improved"), "{verdicts:?}");
    let attempts = served.call(&*run, "history", json!({}));
    assert_eq!(attempts["attempts"].as_array().unwrap().len(), 2, "{attempts}");
    let end = served.call(&*run, "finish", json!({}));
    assert_eq!(end["committed"][0]["case"], "s64", "{end}");
    assert!(served.server.wait().unwrap().success());
}

/// A kernel is evaluated while two clients ask for comparisons without end.
#[test]
fn comparisons_do_not_keep_kernels_waiting() {
    let sandbox = Sandbox::new();
    let served = Served::start(&sandbox, &["--budget", "5m"]);
    let first = served.call(None, "evaluate", evaluation(json!({ "TILE": 64, "THREADS": 64 })));
    let own = first["evaluations"][0]["iteration"].clone();
    let is_evaluated = AtomicBool::new(false);
    let compare = || {
        let until_then = |_: &usize| !is_evaluated.load(Ordering::Relaxed);
        let turns = (0..100).take_while(until_then);
        turns.map(|_| served.call(None, "compare", json!({ "iteration": own, "with": own }))).count()
    };
    std::thread::scope(|scope| {
        let clients = [scope.spawn(compare), scope.spawn(compare)];
        served.call(None, "evaluate", evaluation(json!({ "TILE": 8, "THREADS": 64 })));
        is_evaluated.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().unwrap() < 100, "the kernel had to wait until the comparisons had ended");
        }
    });
}

/// Eight clients compare a kernel with itself, propose kernels of their own, and submit one that is the same for all, at once. None
/// is told that a kernel beats itself. Then clients leave without waiting and the server is killed: nothing is lost or doubled.
#[test]
fn eight_clients_share_a_device() {
    const CLIENTS: usize = 8;
    let comparisons = if is_nightly() { 25 } else { 1 };
    let sandbox = Sandbox::new();
    let mut served = Served::start(&sandbox, &["--budget", "10m"]);
    let configurations: Vec<Value> = [4, 8, 16, 32]
        .into_iter()
        .flat_map(|tile| [64, 128].map(|threads| json!({ "TILE": tile, "THREADS": threads })))
        .collect();
    let first = served.call(None, "evaluate", evaluation(json!({ "TILE": 64, "THREADS": 64 })));
    let shared = first["evaluations"][0]["iteration"].clone();
    let client = |configuration: &Value| {
        let mut wins = 0;
        let own = served.call(None, "evaluate", evaluation(configuration.clone()))["evaluations"][0].clone();
        assert_eq!(own["params"]["TILE"], configuration["TILE"], "{own}");
        let submitted = served.call(None, "submit", json!({ "iteration": shared }));
        assert!(submitted["iteration"].is_i64(), "{submitted}");
        for _ in 0..comparisons {
            let compared =
                served.call(None, "compare", json!({ "iteration": own["iteration"], "with": own["iteration"] }));
            let case = &compared["cases"][0];
            let noise = case["noise"].as_f64().unwrap_or_else(|| panic!("{compared}")).max(0.002);
            wins += usize::from(case["ci"][0].as_f64().unwrap() > 1.0 + noise);
        }
        (own["iteration"].as_i64().unwrap(), wins)
    };
    let (iterations, wins): (Vec<i64>, Vec<usize>) = std::thread::scope(|scope| {
        let clients: Vec<_> = configurations.iter().map(|one| scope.spawn(move || client(one))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).unzip()
    });
    assert_eq!((wins.len(), wins.iter().sum::<usize>()), (CLIENTS, 0), "no kernel is faster than itself");

    for threads in [32, 256] {
        served.abandon(&request("evaluate", evaluation(json!({ "TILE": 8, "THREADS": threads }))));
    }
    served.call(None, "history", json!({}));
    served.server.kill().unwrap();
    served.server.wait().unwrap();
    sandbox.succeeds(&["resume"]);
    let history: Vec<Value> = serde_json::from_str(&sandbox.succeeds(&["history", "--json"])).unwrap();
    let mut tried: Vec<(String, i64)> = history
        .iter()
        .filter(|one| one["claim"] == "c" && one["purpose"] != "confirmation")
        .map(|one| (one["params"].to_string(), one["iteration"].as_i64().unwrap()))
        .collect();
    let count = tried.len();
    tried.sort();
    tried.dedup_by(|a, b| a.0 == b.0);
    assert_eq!(count, tried.len(), "an evaluation is doubled: {history:#?}");
    assert!((CLIENTS + 1..=CLIENTS + 3).contains(&count), "{count} of them: {history:#?}");
    let ids: Vec<i64> = tried.iter().map(|(_, id)| *id).collect();
    assert!(iterations.iter().all(|one| ids.contains(one)), "an evaluation is lost: {iterations:?} {ids:?}");
}
