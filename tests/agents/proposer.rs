//! Agents that optloop starts: `optloop start --proposer agent:COMMAND`.

use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::Sandbox;

/// Returns the interpreter itself. A version manager's script would start others.
fn python() -> String {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}

/// Runs a session with an agent on the fake device. Returns what it said on standard error.
fn session(sandbox: &Sandbox, agent: &str, arguments: &[&str]) -> String {
    let proposer = format!("agent:{agent}");
    let fixed = ["start", "--workload", "small", "--case", "s64", "--device", "fake", "--proposer", &proposer];
    let mut command = sandbox.command(&[&fixed, arguments].concat());
    command.env("OPTLOOP_TEST_NAMED", "named").env("OPTLOOP_TEST_PASSWORD", "withheld-from-agents");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

fn runs(sandbox: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&sandbox.succeeds(&["calls", "--agent", "--json"])).unwrap()
}

/// Tells whether a process of an agent is left.
fn is_left() -> bool {
    let found = Command::new("pgrep").args(["-f", "an-optloop-test"]).output().unwrap();
    found.status.success()
}

/// An agent fails, is started again, proposes, ends, is started again, and ends the session.
#[test]
fn an_agent_proposes_in_its_own_folder_until_it_ends_the_session() {
    let (sandbox, outside, other) =
        (Sandbox::new(), TempDir::new().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let program = outside.path().join("agent.py");
    std::fs::write(&program, include_str!("agent.py")).unwrap();
    let project = sandbox.path("").canonicalize().unwrap();
    let port = other.local_addr().unwrap().port();
    let command = format!("'{}' '{}' 'project={}' {port}", python(), program.display(), project.display());
    let named = ["--budget", "5m", "--agent-env", "OPTLOOP_TEST_NAMED", "--agent-env", "OPTLOOP_TEST_PASSWORD"];
    let said = session(&sandbox, &command, &named[..4]);
    assert!(said.contains("run 1 of the agent has failed (exit code 3)"), "{said}");
    let runs = runs(&sandbox);
    let of = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("exit_code"), [json!(3), json!(0), json!(0)], "{runs:#?}");
    assert_eq!(of("evaluations"), [0, 1, 0]);
    assert_eq!(of("cost_micro_usd"), [json!(null), json!(250_000), json!(null)], "what is not reported is unknown");
    assert_eq!(of("said")[1..], [json!("one kernel"), json!("nothing is left\n")]);
    assert_eq!((&runs[1]["usage"]["cached_tokens"], &runs[1]["command"][3]), (&json!(90), &json!(port.to_string())));
    let attempts: Value = serde_json::from_str(runs[0]["said"].as_str().unwrap()).unwrap();
    assert_eq!(attempts, json!({ "went through": [], "variables": ["OPTLOOP_TEST_NAMED"], "home": true }));
    assert!(!is_left(), "nothing outlives its agent");
    assert!(sandbox.git(&["log", "--format=%s"]).contains("s64"), "what has won is committed");
    let listed = sandbox.succeeds(&["calls", "--agent"]);
    assert!(listed.contains("exit code 3") && listed.contains("$0.25") && listed.contains("unknown"), "{listed}");
}

/// An agent that hangs is ended with the budget, and one that does nothing is not started for ever.
#[test]
fn an_agent_is_ended_by_the_budget_and_given_up_without_kernels() {
    let sandbox = Sandbox::new();
    session(&sandbox, "sh -c 'setsid sleep 601 & sleep 601'", &["--budget", "4s"]);
    let hung = runs(&sandbox);
    assert_eq!((hung.len(), &hung[0]["exit_code"]), (1, &json!(null)), "{hung:#?}");
    let left = Command::new("pgrep").args(["-f", "sleep 601"]).output().unwrap();
    assert!(!left.status.success(), "the whole tree of processes is ended");
    let said = session(&sandbox, "sh -c 'cat >&2; echo over >&2; exit 1'", &["--budget", "5m"]);
    assert!(said.contains("the agent has ended 3 times without a kernel: the session ends"), "{said}");
    let runs = runs(&sandbox);
    assert_eq!((runs.len(), &runs[2]["said"]), (3, &json!("over")));
}

#[test]
fn agents_that_cannot_be_run_are_refused() {
    let sandbox = Sandbox::new();
    let refused = |arguments: &[&str]| {
        sandbox.fails(&[&["start", "--device", "fake", "--workload", "small"], arguments].concat())
    };
    insta::assert_snapshot!(refused(&["--proposer", "agent:"]), @"2 error: the agent has no command: write --proposer 'agent:claude -p'");
    insta::assert_snapshot!(refused(&["--proposer", "agent:'a"]), @"2 error: `'a` has a quote that does not end: close it");
    insta::assert_snapshot!(refused(&["--proposer", "random", "--agent-network"]), @"2 error: --agent-env and --agent-network are about an agent: name it with --proposer agent:COMMAND");
    insta::assert_snapshot!(refused(&["--proposer", "agent:true", "--agent-env", "NO_SUCH_VARIABLE"]), @"2 error: --agent-env NO_SUCH_VARIABLE: there is no such variable: set it, or leave it out");
    let said = refused(&["--proposer", "agent:true", "--check"]);
    assert!(said.starts_with("2 error: a service starts no agent"), "a token of a service runs no commands: {said}");
    let own = format!("agent:{}", sandbox.path("agent.sh").display());
    sandbox.write("agent.sh", "#!/bin/sh\n");
    let said = refused(&["--proposer", &own]);
    assert!(said.starts_with("2 error: the agent may read ") && said.contains("must not see"), "{said}");
    // What a project names needs consent.
    sandbox.replace("config.toml", "proposer = 'local'", "proposer = 'agent:true'");
    insta::assert_snapshot!(refused(&[]), @"2 error: this project chooses what you have not trusted: the agent `true` (session.proposer in config.toml); `optloop trust` shows it and asks, `--trust` trusts it");
    let listed = sandbox.succeeds(&["trust", "--yes"]);
    assert!(listed.contains("the agent `true` (session.proposer in config.toml): new"), "{listed}");
}
