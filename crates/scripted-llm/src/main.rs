//! `scripted-llm --script FILE [--port N]`: serves a script, and prints its address in one line.

use std::process::ExitCode;
use std::{env, fs, thread};

use scripted_llm::{Script, Server};

const USAGE: &str = "usage: scripted-llm --script FILE [--port N]";

fn main() -> ExitCode {
    match run() {
        Ok(server) => {
            println!("{}", server.url());
            loop {
                thread::park();
            }
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<Server, String> {
    let (mut script, mut port, mut arguments) = (None, 0, env::args().skip(1));
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match argument.as_str() {
            "--script" => script = Some(value),
            "--port" => port = value.parse().map_err(|_| format!("`{value}` is not a port"))?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let path = script.ok_or(USAGE)?;
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let script: Script = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    Server::start_on(port, script).map_err(|error| format!("cannot listen on port {port}: {error}"))
}
