//! A client of the Model Context Protocol: one process of `optloop mcp`, over its standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::common::Sandbox;

/// A client with its server.
pub struct Client {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// What the server has said on standard error.
    said: tempfile::NamedTempFile,
    requests: u64,
    /// Notifications of progress that came.
    pub progress: u64,
}

/// The result of a tool.
pub struct Called {
    /// What was asked for.
    pub result: Value,
    /// The whole of the structured content.
    pub structured: Value,
    /// The text beside it.
    pub text: String,
    pub is_error: bool,
}

impl Client {
    /// Starts a session and opens the protocol.
    pub fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let arguments = [&["mcp", "--workload", "small"], arguments].concat();
        let mut command = sandbox.command(&arguments);
        let said = tempfile::NamedTempFile::new().unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said.reopen().unwrap());
        let mut server = command.spawn().unwrap();
        let (input, output) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
        let mut client = Self { server, input, output, said, requests: 0, progress: 0 };
        let opened = client.request(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                    "clientInfo": { "name": "a test", "version": "1" } }),
        );
        assert_eq!(opened["result"]["serverInfo"]["name"], "optloop", "{opened}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// Sends a request, and waits for its response.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                panic!("the server has left: {}", std::fs::read_to_string(self.said.path()).unwrap());
            }
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
            self.progress += u64::from(message["method"] == "notifications/progress");
        }
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Called {
        let response = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = response.get("result").unwrap_or_else(|| panic!("{tool}: {response}"));
        let structured = result["structuredContent"].clone();
        for key in ["result", "spent", "left", "record"] {
            assert!(structured.get(key).is_some(), "{tool} has no {key}: {structured}");
        }
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        Called { result: structured["result"].clone(), structured, text, is_error: result["isError"] == true }
    }

    /// Calls a tool that must succeed. Returns what was asked for.
    pub fn gets(&mut self, tool: &str, arguments: Value) -> Value {
        let called = self.call(tool, arguments);
        assert!(!called.is_error, "{tool}: {}", called.text);
        called.result
    }

    /// Sends a message without waiting.
    pub fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    /// Kills the server, as a machine that loses power does.
    pub fn kill(mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// Leaves, and waits for the server. Returns its exit code.
    pub fn leave(mut self) -> Option<i32> {
        self.input.take();
        self.server.wait().unwrap().code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Only a test that fails gets here with a server.
        drop(self.server.kill());
        drop(self.server.wait());
    }
}
