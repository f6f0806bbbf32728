//! A worker that fails at a stage is an outcome of the current variant, and the session continues with another one.

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use optloop::domain::device::DeviceInfo;
use optloop::runner::device::DeviceChoice;
use optloop::runner::worker::Worker;

use super::{hasty, said, session_with, unmet};

/// Runs a session with a single injected fault. Returns the record of the one affected iteration.
fn outcome_of(faults: &str, outcome: &str) -> String {
    let sandbox = hasty();
    let output = session_with(&sandbox, faults);
    assert!(output.status.success(), "{faults}: {}", said(&output));
    assert_eq!(unmet(&sandbox), "", "{faults}: the stage was never reached");
    let report = sandbox.report();
    assert_eq!(report["session"]["status"], "finished");
    assert_eq!(report["iterations"]["total"], 8, "{faults}: no iteration is lost");
    assert_eq!(report["iterations"][outcome], 1, "{faults}: {}", report["iterations"]);
    assert_eq!(report["iterations"]["measured"], 7, "{faults}: {}", report["iterations"]);
    let rows = sandbox.succeeds(&["history", "--outcome", outcome, "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let shown = sandbox.succeeds(&["show", &rows[0]["iteration"].to_string()]);
    // The terminal's width has wrapped the line.
    let (_, line) = shown.split_once("outcome ").unwrap();
    let (line, _) = line.split_once("\nfamily ").unwrap();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_worker_killed_during_an_evaluation() {
    for stage in ["load", "check", "time"] {
        let line = outcome_of(&format!("{stage} pass\n{stage} die\n"), "crashed");
        assert!(line.contains(&format!("the worker died during `{stage}`: signal: 9 (SIGKILL)")), "{line}");
    }
}

#[test]
fn a_worker_killed_during_acceptance_checks() {
    let line = outcome_of("accept die\n", "crashed");
    assert!(line.contains("the worker died during `load`: signal: 9 (SIGKILL)"), "{line}");
}

#[test]
fn a_worker_killed_during_a_comparison() {
    for stage in ["enter", "sample"] {
        let line = outcome_of(&format!("{stage} die\n"), "crashed");
        assert!(line.contains("the worker died during"), "{line}");
    }
}

#[test]
fn one_that_hangs() {
    let line = outcome_of("time hang\n", "timed_out");
    assert!(line.contains("`time` took over 3s (worker.step_timeout)"), "{line}");
    let line = outcome_of("replay pass\nreplay hang\n", "timed_out");
    assert!(line.contains("`replay` took over 3s (worker.step_timeout)"), "{line}");
}

/// A context on a GPU would disturb another user's measurements.
#[tokio::test]
async fn a_worker_does_not_open_a_claimed_device() {
    let folder = tempfile::tempdir().unwrap();
    let (program, told) = (folder.path().join("worker"), folder.path().join("told"));
    // The worker records the head of its first frame before passing it on, so the record exists once it has answered.
    let (kept, optloop) = (told.display(), env!("CARGO_BIN_EXE_optloop"));
    let script = format!("#!/bin/sh\n(head -c 32 >'{kept}'; cat '{kept}' -) | {optloop} \"$@\"\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let start = |claim: fn(&DeviceInfo) -> anyhow::Result<()>| {
        Worker::claim(program.clone(), &DeviceChoice::Fake(0), Duration::from_secs(60), claim)
    };
    let refused = start(|device| anyhow::bail!("the {} is taken", device.name)).await.err().unwrap();
    assert_eq!(refused.to_string(), "the fake device (no kernel was executed) is taken");
    assert_eq!(fs::read(&told).unwrap_or_default(), b"", "it was told nothing");
    start(|_| Ok(())).await.unwrap();
    assert_ne!(fs::read(&told).unwrap(), b"");
}

#[test]
fn a_worker_with_a_damaged_pipe_is_replaced() {
    let line = outcome_of("check chatter\n", "crashed");
    assert!(line.contains("the pipe contains data that is not a frame: `Loading the model"), "{line}");
    let line = outcome_of("check cut\n", "crashed");
    assert!(line.contains("the worker died during `check`: signal: 9 (SIGKILL)"), "{line}");
}

#[test]
fn a_worker_that_fails_to_start_is_started_again() {
    let line = outcome_of("hello pass\ncheck die\nhello die\nhello cut\n", "crashed");
    assert!(line.contains("the worker died during `check`"), "{line}");
}

/// The CUDA driver prints what kernels print to file 1. It must not reach the supervisor as a reply.
#[test]
fn output_of_kernels_goes_to_standard_error() {
    for device in ["fake", "virtual"] {
        let mut worker = Command::new(env!("CARGO_BIN_EXE_optloop"));
        worker.args(["worker", "--device", device]).env("OPTLOOP_FAKE_DEVICE", "1");
        let worker = worker.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut worker = worker.spawn().unwrap();
        let id = worker.id();
        let file = |number: u32| fs::read_link(format!("/proc/{id}/fd/{number}")).unwrap();
        let given = fs::read_link(format!("/proc/self/fd/{}", worker.stdout.as_ref().unwrap().as_raw_fd()));
        let mut greeting = [0; 4];
        worker.stdout.as_mut().unwrap().read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"OPTL", "replies still come over the pipe");
        assert_ne!(file(1), given.unwrap());
        assert_eq!(file(1), file(2));
        drop(worker.stdin.take());
        worker.wait().unwrap();
    }
}
