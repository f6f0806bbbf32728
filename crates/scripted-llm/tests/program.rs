//! The program serves a script and prints its address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_scripted-llm");

#[test]
fn it_prints_its_address_and_serves() {
    let script = std::env::temp_dir().join(format!("scripted-llm-{}.json", std::process::id()));
    std::fs::write(&script, r#"{"models": ["one"], "replies": [{"answer": {"a": 1}}]}"#).unwrap();
    let mut program = Command::new(PROGRAM).arg("--script").arg(&script).stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim_end().strip_prefix("http://").unwrap().to_owned();
    let ask = |head: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "{head} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let (models, reply) = (ask("GET /v1/models?limit=9", ""), ask("POST /v1/chat/completions", "{}"));
    let (end, nowhere) = (ask("POST /v1/messages", "{}"), ask("GET /", ""));
    program.kill().unwrap();
    program.wait().unwrap();
    std::fs::remove_file(script).unwrap();
    assert!(models.starts_with("HTTP/1.1 200") && models.contains(r#""id":"one""#), "{models}");
    assert!(
        reply.contains(r#"{\"a\":1}"#) && reply.contains("data: [DONE]") && !reply.contains("prompt_tokens"),
        "{reply}"
    );
    assert!(end.starts_with("HTTP/1.1 400") && nowhere.starts_with("HTTP/1.1 404"), "{end}{nowhere}");
}

#[test]
fn a_mistake_is_reported() {
    for arguments in [&["--script"][..], &[], &["--script", "/no/such/file"], &["--port", "x"]] {
        let output = Command::new(PROGRAM).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: "));
    }
}
