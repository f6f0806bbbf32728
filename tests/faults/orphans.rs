//! No process that optloop started outlives it, even if optloop is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::hasty;
use super::processes::{Watched, children, watch_children};
use crate::common::{Sandbox, TEMPLATE, WORKLOAD};

const START: [&str; 7] = ["start", "--device", "fake", "--workload", "small", "--budget", "10m"];

/// Makes a named pipe in the project.
fn pipe(sandbox: &Sandbox) -> std::path::PathBuf {
    let path = sandbox.path("told");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Kills a process and waits for its children.
fn kill_and_wait(mut parent: Child, left: Vec<(Watched, String)>) {
    parent.kill().unwrap();
    parent.wait().unwrap();
    for (process, command) in left {
        assert!(process.ends(), "{command} is left");
    }
}

#[test]
fn no_worker_that_hangs_and_no_compiler_is_left() {
    let sandbox = hasty();
    let told = pipe(&sandbox);
    sandbox.write("config.toml", "");
    sandbox.write(".optloop/faults", &format!("check hang {}\n", told.display()));
    let mut session = sandbox.command(&START);
    session.env("OPTLOOP_FAKE_FAULTS", sandbox.path(".optloop/faults")).stdout(Stdio::null()).stderr(Stdio::null());
    let session = session.spawn().unwrap();
    // Blocks until the worker opens it, too.
    let hanging = fs::read_to_string(told).unwrap();
    let left = watch_children(session.id());
    let own = children(session.id());
    assert!(own.iter().any(|(pid, _)| pid.to_string() == hanging), "{hanging} is none of {own:?}");
    assert!(own.iter().any(|(_, command)| command.contains(" compiler ")), "{own:?}");
    kill_and_wait(session, left);
}

#[test]
fn no_compiler_that_hangs_is_left() {
    let sandbox = Sandbox::new();
    let endless = "
        template <int N, int M> struct Fork { static constexpr int n = Fork<N - 1, 2 * M>::n + Fork<N - 1, 2 * M + 1>::n; };
        template <int M> struct Fork<0, M> { static constexpr int n = 1; };
        constexpr int forked = Fork<24, 1>::n;";
    sandbox.write("templates/kernels/toy/kernel.cu.tera", &format!("{endless}{TEMPLATE}"));
    let mut session = sandbox
        .command(&[&START[..], &["--json"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut events = BufReader::new(session.stdout.take().unwrap()).lines();
    assert!(events.any(|event| event.unwrap().contains("\"event\":\"started\"")));
    let left = watch_children(session.id());
    assert!(left.len() >= 2, "a worker and a compiler");
    kill_and_wait(session, left);
}

/// Starts a session whose baseline program behaves like this.
fn with_baseline(fault: &str) -> (Sandbox, Child) {
    let sandbox = Sandbox::new();
    pipe(&sandbox);
    sandbox.write("fake.sh", include_str!("../baseline/fake.sh"));
    let workload = WORKLOAD.replace("dtype =", &format!("baseline = ['sh', 'fake.sh', '{fault}']\ndtype ="));
    sandbox.write("kernels/workloads/small.toml", &workload);
    sandbox.trust_to_write();
    let session = sandbox.command(&START).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (sandbox, session)
}

/// Waits until the baseline program names its processes, and watches them.
fn named(sandbox: &Sandbox) -> Vec<(Watched, String)> {
    let told = fs::read_to_string(sandbox.path("told")).unwrap();
    let watched = |pid: &str| (Watched::new(pid.parse().unwrap()).unwrap(), format!("baseline {pid} of {told}"));
    told.split_whitespace().map(watched).collect()
}

#[test]
fn a_sleeping_baseline_and_its_children_are_ended() {
    let (sandbox, session) = with_baseline("sleeps");
    // The shell and the sleeper that the shell started.
    let mut left = named(&sandbox);
    assert_eq!(left.len(), 2);
    left.extend(watch_children(session.id()));
    let own = children(session.id());
    assert!(own.iter().any(|(_, command)| command.contains(" guard ") && command.contains("fake.sh")), "{own:?}");
    kill_and_wait(session, left);
}

#[test]
fn baseline_processes_cannot_escape_by_a_session_or_an_open_input() {
    let (sandbox, session) = with_baseline("escapes");
    let left = named(&sandbox);
    assert_eq!(left.len(), 3);
    kill_and_wait(session, left);
}

/// The session goes on without its baseline meanwhile.
#[test]
fn processes_that_a_baseline_leaves_end_with_it() {
    let (sandbox, mut session) = with_baseline("escapes-and-dies");
    let escaped = loop {
        match fs::read_to_string(sandbox.path("escaped")) {
            Ok(pid) if pid.ends_with('\n') => break pid.trim().parse().unwrap(),
            _ => assert!(session.try_wait().unwrap().is_none(), "the session has ended"),
        }
    };
    assert!(Watched::new(escaped).is_none_or(|process| process.ends()), "{escaped} is left");
    assert!(session.try_wait().unwrap().is_none(), "it ended with its baseline, and not with the session");
    kill_and_wait(session, Vec::new());
}

#[test]
fn processes_of_a_baseline_without_its_guard_end_with_the_session() {
    let (sandbox, mut session) = with_baseline("kills-its-guard");
    let left = named(&sandbox);
    assert_eq!(left.len(), 2);
    assert!(Command::new("kill").args(["-TERM", &session.id().to_string()]).status().unwrap().success());
    session.wait().unwrap();
    for (process, command) in left {
        assert!(process.ends(), "{command} is left");
    }
}
