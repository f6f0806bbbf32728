//! Clients over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::common::Sandbox;

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

    /// Calls a tool, which must be answered.
    fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let request = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments },
        });
        let (status, body) = self.post(Some(token), &request);
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        answer["result"]["structuredContent"]["result"].clone()
    }
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
    served.call(&run, "task", json!({}));
    let propose = |tile: i64| {
        let claim = json!({
            "claim": format!("tiles of {tile}"), "speedup_low": 1.1, "speedup_high": 9.0, "base": "toy",
            "configurations": [{ "TILE": tile, "THREADS": 64 }],
        });
        let evaluated = served.call(&run, "evaluate", claim)["evaluations"][0].clone();
        assert_eq!(evaluated["params"]["TILE"], tile, "each client gets its own verdict");
        let iteration = evaluated["iteration"].as_i64().unwrap();
        let submitted = served.call(&run, "submit", json!({ "iteration": iteration }));
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
    let attempts = served.call(&run, "history", json!({}));
    assert_eq!(attempts["attempts"].as_array().unwrap().len(), 2, "{attempts}");
    let end = served.call(&run, "finish", json!({}));
    assert_eq!(end["committed"][0]["case"], "s64", "{end}");
    assert!(served.server.wait().unwrap().success());
}
