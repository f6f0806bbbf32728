//! A project that `optloop init` makes, without a clone of the repository, and what a shell gets.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::common::Sandbox;

/// Calls optloop in a project of its own folder, on no GPU, and returns its exit code, its output and its messages.
fn in_project(sandbox: &Sandbox, project: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = sandbox.command(arguments);
    let output = command.current_dir(project).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_project_is_made_anywhere_and_works() {
    let (sandbox, folder) = (Sandbox::new(), TempDir::new().unwrap());
    let project = folder.path().join("kernels of mine");
    let said = sandbox.succeeds(&["init", project.to_str().unwrap()]);
    assert!(said.contains("workloads and") && said.contains("in a new git repository"), "{said}");
    assert!(project.join(".git").is_dir() && project.join("templates/kernels/common").is_dir());

    let (code, _, said) = in_project(
        &sandbox,
        &project,
        &[
            "start",
            "--device",
            "virtual",
            "--iterations",
            "3",
            "--case",
            "b1h1s4d4",
            "--family",
            "attention-scalar",
            "--seed",
            "1",
        ],
    );
    assert_eq!(code, Some(0), "{said}");
    let (_, listed, _) = in_project(&sandbox, &project, &["history", "--json"]);
    assert!(listed.contains("attention-scalar"), "{listed}");
    let status =
        std::process::Command::new("git").args(["status", "--porcelain"]).current_dir(&project).output().unwrap();
    assert!(!String::from_utf8(status.stdout).unwrap().contains(".optloop"), "the database is no part of the project");
}

/// optloop knows the programs that it ships by their contents, wherever they lie.
#[test]
fn the_programs_of_a_new_project_need_no_consent_until_they_are_changed() {
    let (sandbox, folder) = (Sandbox::new(), TempDir::new().unwrap());
    sandbox.succeeds(&["init", folder.path().to_str().unwrap()]);
    let trust = |arguments: &[&str]| in_project(&sandbox, folder.path(), &[&["trust"], arguments].concat());
    assert_eq!(trust(&[]).1, "there is nothing to trust: this project runs only programs shipped with optloop\n");
    let baseline = folder.path().join("kernels/baselines/torch_sdpa.py");
    fs::write(&baseline, fs::read_to_string(&baseline).unwrap() + "\n# mine\n").unwrap();
    let (code, shown, said) = trust(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(shown.contains("torch_sdpa.py") && said.contains("nothing was trusted"), "{shown}{said}");
}

#[test]
fn nothing_is_overwritten() {
    let sandbox = Sandbox::new();
    let said = sandbox.fails(&["init"]);
    insta::assert_snapshot!(said, @"2 error: . has config.toml already, and nothing is overwritten: choose another folder");
    assert!(!sandbox.path("kernels/baselines").exists(), "nothing was written");
    sandbox.write("mine/kernels/workloads/gemm-fp16.toml", "mine");
    insta::assert_snapshot!(sandbox.fails(&["init", "mine"]), @"2 error: mine has kernels/workloads/gemm-fp16.toml already, and nothing is overwritten: choose another folder");

    // What git leaves alone is added to, since any repository has such a list.
    sandbox.write("below/.gitignore", "*.log");
    let said = sandbox.succeeds(&["init", "below"]);
    assert!(said.contains("in the git repository around it") && !sandbox.path("below/.git").exists(), "{said}");
    assert_eq!(fs::read_to_string(sandbox.path("below/.gitignore")).unwrap(), "*.log\n/.optloop/\n");
    assert_eq!(fs::read_to_string(sandbox.path("mine/kernels/workloads/gemm-fp16.toml")).unwrap(), "mine");
}

#[test]
fn shells_and_man_know_the_verbs() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.succeeds(&["completions", shell]);
        assert!(script.contains("history") && !script.contains("renderer"), "{shell}");
    }
    assert!(sandbox.succeeds(&["man"]).contains(".TH optloop 1"));
    let start = sandbox.succeeds(&["man", "start"]);
    assert!(start.contains(".TH optloop-start 1") && start.contains("optloop\\-start \\- Run a session"), "{start}");
    assert!(start.contains("\\fBoptloop start\\fR [\\fB\\-\\-budget\\fR \\fIBUDGET\\fR]"), "{start}");
    assert!(!sandbox.path("start").exists(), "the page of a verb is printed");
    sandbox.succeeds(&["man", "pages"]);
    let page = fs::read_to_string(sandbox.path("pages/optloop-history.1")).unwrap();
    assert!(page.contains("verdict") && page.contains("Examples"), "{page}");
    assert!(!sandbox.path("pages/optloop-renderer.1").exists());
    // Neither needs a project.
    let (code, ..) = in_project(&sandbox, Path::new("/"), &["completions", "bash"]);
    assert_eq!(code, Some(0));
}

/// Checking all families takes minutes.
#[test]
fn a_new_project_is_checked_in_no_time_because_nothing_of_it_has_changed() {
    let sandbox = Sandbox::without_repository();
    let made: serde_json::Value = serde_json::from_str(&sandbox.succeeds(&["init", "new", "--json"])).unwrap();
    assert!(made["families"].as_u64() > Some(10) && made["new_repository"] == true, "{made}");
    let said = sandbox.succeeds(&["--project", "new", "check", "--device", "fake"]);
    assert!(said.starts_with("nothing has changed: ") && said.contains("`optloop check --all`"), "{said}");

    // What is changed is checked until it is right, and then no more.
    sandbox.replace("new/templates/kernels/gemm-scalar/family.toml", "about = \"", "about = \"My own: ");
    let first = sandbox.succeeds(&["--project", "new", "check", "--device", "fake"]);
    assert!(first.contains("gemm-scalar on gemm-fp16: right on "), "{first}");
    assert!(!first.contains("attention"), "{first}");
    let again = sandbox.succeeds(&["--project", "new", "check", "--device", "fake"]);
    assert!(again.starts_with("nothing has changed: "), "{again}");
}
