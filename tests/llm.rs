//! `optloop doctor` and language models, against a server that answers from a script.

use scripted_llm::{End, Reply, Script, Server, Tokens};
use serde_json::json;

use crate::common::Sandbox;

const KEY: &str = "canary-8c2d6e14f97a4b03";

/// A project whose models are on a scripted server.
fn sandbox(server: &Server, more: &str) -> Sandbox {
    let sandbox = Sandbox::without_repository();
    let llm = format!("base_url = '{}'\nmodels = ['m']\nkey_env = 'SOME_API_KEY'\n{more}", server.url());
    sandbox.write("config.toml", &format!("[llm]\nprovider = 'openai'\n{llm}"));
    sandbox
}

fn server(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(Script { models: vec!["m".to_owned()], ..Script::of(replies) }).unwrap()
}

/// Runs doctor. Returns its exit code, its lines about models, and its errors.
fn doctor(sandbox: &Sandbox, server: &Server, arguments: &[&str]) -> String {
    let output = sandbox.command(&[&["doctor"], arguments].concat()).env("SOME_API_KEY", KEY).output().unwrap();
    let (told, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(!told.contains(KEY) && !said.contains(KEY), "{told}{said}");
    let models = told.lines().filter(|line| line.contains("language models:") || line.starts_with("paid"));
    let errors = said.lines().filter(|line| line.starts_with("error"));
    let lines: Vec<&str> = models.chain(errors).collect();
    format!("{}: {}", output.status.code().unwrap(), lines.join("\n")).replace(&server.url(), "URL")
}

const PRICE: &str = "[llm.prices.m]\ninput = 3\noutput = 15\n";

#[test]
fn doctor_checks_the_endpoint_without_spending() {
    let none = Sandbox::without_repository();
    let nowhere = server([]);
    insta::assert_snapshot!(doctor(&none, &nowhere, &[]), @"0: ok       language models: llm.models names none, so sessions do not use any (`optloop docs models`)");

    let server = server([]);
    let project = sandbox(&server, PRICE);
    insta::assert_snapshot!(doctor(&project, &server, &[]), @"0: missing  language models: [llm] in config.toml is not trusted, so the endpoint was not asked");
    assert!(server.requests().is_empty(), "without trust, nothing is sent");
    project.trust();
    insta::assert_snapshot!(doctor(&project, &server, &[]), @"0: ok       language models: URL/v1 answers with the key in SOME_API_KEY: m ($3 for input and $15 for output per million tokens)");
    assert!(server.requests().iter().all(|request| request.method == "GET"));

    insta::assert_snapshot!(doctor(&sandbox_trusted(&server, ""), &server, &[]), @r#"0: missing  language models: the price of the model `m` is not known: set input and output in [llm.prices."m"], in US dollars per million tokens (0 for a model of your own)"#);
    let other = "[llm.prices.m]\ninput = 0\noutput = 0\n";
    let renamed = sandbox_trusted(&server, other);
    renamed.replace("config.toml", "'m'", "'m', 'n'");
    renamed.replace("config.toml", "[llm.prices.m]", "[llm.prices.n]\ninput = 0\noutput = 0\n[llm.prices.m]");
    insta::assert_snapshot!(doctor(&renamed, &server, &[]), @"0: missing  language models: URL/v1 does not list n: correct llm.models");
}

#[test]
fn a_key_that_is_not_set_is_named() {
    let server = server([]);
    let project = sandbox_trusted(&server, PRICE);
    let told = project.command(&["doctor"]).env_remove("SOME_API_KEY").output().unwrap().stdout;
    let told = String::from_utf8(told).unwrap();
    let line = told.lines().find(|line| line.contains("language models")).unwrap();
    insta::assert_snapshot!(line, @"missing  language models: the variable SOME_API_KEY is not set: set it to the key of the language model");
    assert!(server.requests().is_empty());
}

fn sandbox_trusted(server: &Server, more: &str) -> Sandbox {
    let sandbox = sandbox(server, more);
    sandbox.trust();
    sandbox
}

#[test]
fn doctor_makes_one_paid_call_and_reports_its_cost() {
    let tokens = Tokens { input: 200, output: 20, ..Tokens::default() };
    let server = server([
        Reply { usage: Some(tokens), ..Reply::answer(json!({ "ready": true })) },
        Reply { usage: None, ..Reply::answer(json!({ "ready": true })) },
        Reply::status(401, format!("no such key: {KEY}")),
        Reply { end: End::CutAfter(50), ..Reply::answer(json!({ "ready": true })) },
    ]);
    let project = sandbox_trusted(&server, PRICE);
    let call = || {
        let told = doctor(&project, &server, &["--llm"]);
        let paid = told.split_once('\n').unwrap().1.to_owned();
        // The time differs.
        match paid.split_once(" in ").zip(paid.split_once(" ms")) {
            Some(((before, _), (_, after))) => format!("{before}{after}"),
            None => paid,
        }
    };
    insta::assert_snapshot!(call(), @"paid     m: it answered; 200 tokens of input, 20 of output; $0.0009");
    insta::assert_snapshot!(call(), @"paid     m: it answered, and did not count its tokens; at most $0.038247");
    insta::assert_snapshot!(call(), @"error: Failed to call m: the endpoint does not accept the key (status 401): no such key: ***********************. Check the variable in llm.key_env. It cost nothing");
    insta::assert_snapshot!(call(), @"error: Failed to call m: the connection ended before the answer was whole: unexpected EOF during chunk size line. It may have cost up to $0.038247");
    assert_eq!(server.requests().iter().filter(|request| request.method == "POST").count(), 4);
}
