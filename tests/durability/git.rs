//! A repository that does not answer: a file that it names is a pipe without another end.

use std::process::Command;

use super::killed::project;
use super::record::Record;
use super::running::{Running, no_orphans};
use crate::common::Sandbox;

const START: [&str; 10] =
    ["start", "--device", "fake", "--workload", "small", "--seed", "1", "--budget", "10m", "--json"];

/// Has the configuration of a project's repository include a pipe outside of it.
fn include_a_pipe(sandbox: &Sandbox) -> String {
    let pipe = sandbox.path("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let before = std::fs::read_to_string(sandbox.path(".git/config")).unwrap();
    sandbox.write(".git/config", &format!("{before}[include]\n\tpath = {pipe}\n"));
    before
}

#[test]
fn two_interrupts_end_a_session_whose_git_does_not_answer_and_it_resumes() {
    let sandbox = project("[benchmark]\nconfirmation_samples = 40\n");
    let session = Running::start(&sandbox, &START);
    session.wait_for("kept");
    let config = include_a_pipe(&sandbox);
    session.signal("INT");
    session.signal("INT");
    let (status, _, said) = session.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("error: git has not answered for ") && said.contains("`optloop resume` continues"), "{said}");
    no_orphans(&sandbox);

    sandbox.write(".git/config", &config);
    let before = Record::of(&sandbox);
    let (status, events, said) = Running::start(&sandbox, &["resume", "--budget", "1s", "--json"]).end();
    assert!(status.success(), "{said}");
    assert_eq!(events.last().unwrap()["status"], "finished");
    assert!(Record::of(&sandbox).lasting().is_superset(&before.lasting()));
}

#[test]
fn a_session_beside_a_pipe_in_its_repository_keeps_its_winners_in_the_store() {
    let sandbox = Sandbox::new();
    assert!(Command::new("mkfifo").arg(sandbox.path(".git/objects/info/alternates")).status().unwrap().success());
    let output = sandbox.session("6", &[]);
    let said = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("alternates` is a pipe or a device, which git would wait for: remove it"), "{said}");
}
