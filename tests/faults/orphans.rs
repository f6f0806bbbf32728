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
    assert!(events.next().unwrap().unwrap().contains("\"event\":\"started\""));
    let left = watch_children(session.id());
    assert!(left.len() >= 2, "a worker and a compiler");
    kill_and_wait(session, left);
}

#[test]
fn no_baseline_that_sleeps_is_left_nor_what_it_has_started() {
    let sandbox = Sandbox::new();
    let told = pipe(&sandbox);
    sandbox.write("fake.sh", include_str!("../baseline/fake.sh"));
    let workload = WORKLOAD.replace("dtype =", "baseline = ['sh', 'fake.sh', 'sleeps']\ndtype =");
    sandbox.write("kernels/workloads/small.toml", &workload);
    let session = sandbox.command(&START).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The shell and the sleeper that the shell started.
    let told = fs::read_to_string(told).unwrap();
    let mut left = watch_children(session.id());
    left.extend(
        told.split_whitespace().map(|pid| (Watched::new(pid.parse().unwrap()).unwrap(), format!("baseline {pid}"))),
    );
    let (shell, _) = told.split_once(' ').unwrap();
    let own = children(session.id());
    assert!(
        own.iter().any(|(pid, command)| pid.to_string() == shell && command.contains("fake.sh")),
        "{told}: {own:?}"
    );
    kill_and_wait(session, left);
}
