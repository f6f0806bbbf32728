//! Nothing that a project chooses runs before the user has agreed to it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Sandbox, WORKLOAD};

const START: [&str; 7] = ["start", "--device", "fake", "--workload", "small", "--iterations", "1"];

/// A project whose baseline leaves a trace when it runs.
fn with_baseline(baseline: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    // A baseline may write to devices, but to no other files.
    sandbox.write("evil.sh", "echo it ran >\"$(cat trace)\"\n");
    sandbox.write("trace", &trace(&sandbox).display().to_string());
    let workload = WORKLOAD.replace("dtype =", &format!("baseline = {baseline}\ndtype ="));
    sandbox.write("kernels/workloads/small.toml", &workload);
    sandbox
}

/// Returns where the project's baseline leaves a trace.
fn trace(sandbox: &Sandbox) -> PathBuf {
    let folder = sandbox.path(".").canonicalize().unwrap();
    Path::new("/dev/shm").join(format!("optloop{}", folder.file_name().unwrap().display()))
}

/// Returns whether the trace was left since the last question.
fn ran(sandbox: &Sandbox) -> bool {
    fs::remove_file(trace(sandbox)).is_ok()
}

/// Runs a verb that succeeds, and returns its messages.
fn said(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.optloop(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// Shows the first digits of each hash.
fn short(text: &str) -> String {
    let word = |word: &str| if word.len() == 64 { word[..8].to_owned() } else { word.to_owned() };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_command_of_the_project_runs_when_it_is_trusted_and_until_it_changes() {
    let hidden = with_baseline(r#"["sh", "evil.sh", "\u202e\u001b[2J"]"#);
    insta::assert_snapshot!(hidden.fails(&START), @"2 error: PROJECT/kernels/workloads/small.toml: line 5: `baseline` has the control character U+202E: remove it");
    let sandbox = with_baseline(r#"["sh", "evil.sh", "a b"]"#);
    insta::assert_snapshot!(sandbox.fails(&START), @r#"2 error: this project chooses what you have not trusted: the baseline of workload `small`, `sh evil.sh "a b"`; `optloop trust` shows it and asks, `--trust` trusts it"#);
    let bench = ["bench", "toy", "--device", "fake", "--workload", "small", "--case", "s64"];
    insta::assert_snapshot!(sandbox.fails(&bench), @r#"2 error: this project chooses what you have not trusted: the baseline of workload `small`, `sh evil.sh "a b"`; `optloop trust` shows it and asks, `--trust` trusts it"#);
    assert!(!ran(&sandbox));
    assert!(sandbox.succeeds(&["doctor"]).contains("missing  trust: this project chooses what you have not trusted"));

    // No terminal to ask at.
    let output = sandbox.optloop(&["trust"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"error: nothing was trusted, because there is no terminal to ask at: give --yes to agree");
    insta::assert_snapshot!(short(&String::from_utf8(output.stdout).unwrap()), @r#"
    the baseline of workload `small`, `sh evil.sh "a b"`: new
      06aceaa2  evil.sh
    "#);
    assert!(!ran(&sandbox));

    sandbox.trust();
    assert!(said(&sandbox, &START).contains("no baseline: it exited without an error message"));
    assert!(ran(&sandbox));
    assert!(sandbox.succeeds(&["doctor"]).contains("ok       trust: you have trusted all that this project chooses"));
    assert!(sandbox.succeeds(&["trust"]).ends_with("all of it is trusted\n"));

    sandbox.replace("evil.sh", "it ran", "it ran again");
    insta::assert_snapshot!(sandbox.fails(&START), @r#"2 error: this project chooses what you have not trusted: the baseline of workload `small`, `sh evil.sh "a b"` (changed since you trusted it: evil.sh has changed); `optloop trust` shows it and asks, `--trust` trusts it"#);
    assert!(!ran(&sandbox));
    assert!(
        said(&sandbox, &[&START[..], &["--trust"]].concat()).starts_with("trusted: the baseline of workload `small`")
    );
    assert!(ran(&sandbox));
    said(&sandbox, &START);
    assert!(ran(&sandbox), "it is remembered");

    let listed = sandbox.succeeds(&["trust", "--list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    sandbox.succeeds(&["trust", "--revoke"]);
    assert_eq!(sandbox.succeeds(&["trust", "--list"]), "");
    assert!(sandbox.fails(&START).contains("`optloop trust` shows it and asks"));
    assert!(!ran(&sandbox));
}

#[test]
fn every_expression_of_a_baseline_needs_consent() {
    let sandbox = with_baseline("{ torch = 'v', quack = 'quack.attend(q, k, v)' }");
    insta::assert_snapshot!(sandbox.fails(&START), @r#"2 error: this project chooses what you have not trusted: the baseline of workload `small`, `python3 torch_expression.py v "quack=quack.attend(q, k, v)"`; `optloop trust` shows it and asks, `--trust` trusts it"#);
    sandbox.trust();
    assert!(sandbox.succeeds(&["trust"]).ends_with("all of it is trusted\n"));
    sandbox.replace("kernels/workloads/small.toml", "quack.attend(q, k, v)", "other.attend(q, k, v)");
    assert!(sandbox.fails(&START).contains("`optloop trust` shows it and asks"));
}

/// Python looks for modules beside a program first, and in the current folder where PYTHONPATH has an empty entry.
#[test]
fn shipped_programs_run_without_consent_and_import_nothing_of_the_project() {
    let sandbox = with_baseline("'torch_sdpa.py'");
    let baselines = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/baselines");
    for file in ["torch_sdpa.py", "graph_timing.py"] {
        sandbox.write(&format!("kernels/baselines/{file}"), &fs::read_to_string(baselines.join(file)).unwrap());
    }
    let trace = format!("open({:?}, 'w')\n", trace(&sandbox));
    for module in ["contextlib", "torch", "json", "pip", "zipfile", "site"] {
        sandbox.write(&format!("kernels/baselines/{module}.py"), &trace);
        sandbox.write(&format!("{module}.py"), &trace);
    }
    let output = sandbox.command(&START).env("PYTHONPATH", ":").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    // There may be a torch here, and no GPU.
    assert!(told.contains("no baseline: ") && told.contains("torch"), "{told}");
    assert!(!ran(&sandbox));
    // Where there is no toolkit, doctor looks for pip, and in any case for torch.
    let mut doctor = sandbox.command(&["doctor"]);
    doctor.env("XDG_CACHE_HOME", sandbox.path("cache")).env("PYTHONPATH", ":");
    let output = doctor.env_remove("CUDA_HOME").env_remove("CUDA_PATH").output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.contains("PyTorch: ")
            && told.contains("ok       trust: this project runs only programs shipped with optloop"),
        "{told}"
    );
    assert!(!ran(&sandbox));

    sandbox.write("kernels/baselines/graph_timing.py", &trace);
    insta::assert_snapshot!(sandbox.fails(&START), @"2 error: this project chooses what you have not trusted: the baseline of workload `small`, `python3 kernels/baselines/torch_sdpa.py`; `optloop trust` shows it and asks, `--trust` trusts it");
    assert!(!ran(&sandbox));
}

#[test]
fn an_interpreter_of_the_project_needs_trust_in_every_verb() {
    let sandbox = with_baseline("'mine.py'");
    sandbox.write("kernels/baselines/mine.py", "");
    let python = sandbox.path("python");
    fs::write(&python, format!("#!/bin/sh\necho it ran >{}\n", trace(&sandbox).display())).unwrap();
    fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    sandbox.write("config.toml", "[baseline]\npython = './python'\n");
    insta::assert_snapshot!(sandbox.fails(&START), @"2 error: this project chooses what you have not trusted: the interpreter `./python` (baseline.python in config.toml), and the baseline of workload `small`, `./python kernels/baselines/mine.py`; `optloop trust` shows it and asks, `--trust` trusts it");
    assert!(sandbox.succeeds(&["doctor"]).contains("missing  PyTorch: the interpreter in config.toml is not trusted"));
    assert!(!ran(&sandbox));
    assert!(sandbox.succeeds(&["doctor", "--trust"]).contains("ok       PyTorch: "));
    assert!(ran(&sandbox));
    said(&sandbox, &START);
    assert!(ran(&sandbox));
    // No baseline runs for modelled times.
    sandbox.succeeds(&["trust", "--revoke"]);
    let output = sandbox.optloop(&["start", "--device", "virtual", "--workload", "small", "--iterations", "1"]);
    assert!(!String::from_utf8(output.stderr).unwrap().contains("trust") && !ran(&sandbox));
}

#[test]
fn a_variable_of_the_environment_reaches_a_baseline_when_the_user_agrees() {
    let sandbox = with_baseline("['sh', 'evil.sh']");
    sandbox.write("evil.sh", "echo \"$HF_HOME, $OTHER\" >\"$(cat trace)\"\n");
    sandbox.write("config.toml", "[baseline]\nenv = ['HF_HOME']\n");
    let start = || {
        let mut start = sandbox.command(&START);
        assert!(start.env("HF_HOME", "/home").env("OTHER", "mine").status().unwrap().success());
        fs::read_to_string(trace(&sandbox)).unwrap()
    };
    insta::assert_snapshot!(sandbox.fails(&START), @"2 error: this project chooses what you have not trusted: your variables HF_HOME for baselines (baseline.env in config.toml), and the baseline of workload `small`, `sh evil.sh`; `optloop trust` shows it and asks, `--trust` trusts it");
    sandbox.trust();
    assert_eq!(start(), "/home, \n");
    sandbox.write("config.toml", "[baseline]\nenv = ['HF_HOME', 'OTHER']\n");
    insta::assert_snapshot!(sandbox.fails(&START), @"2 error: this project chooses what you have not trusted: your variables HF_HOME OTHER for baselines (baseline.env in config.toml) (changed since you trusted it: it was HF_HOME); `optloop trust` shows it and asks, `--trust` trusts it");
    sandbox.write("config.toml", "");
    assert_eq!(start(), ", \n");
}

#[test]
fn a_store_outside_the_project_needs_trust() {
    let (sandbox, outside) = (Sandbox::new(), tempfile::tempdir().unwrap());
    let store = outside.path().canonicalize().unwrap().join("deep/store.db");
    sandbox.write("config.toml", &format!("[store]\npath = '{}'\n", store.display()));
    let refused = sandbox.fails(&START).replace(&store.display().to_string(), "STORE");
    insta::assert_snapshot!(refused, @"2 error: this project chooses what you have not trusted: a store outside the project, STORE (store.path in config.toml); `optloop trust` shows it and asks, `--trust` trusts it");
    assert!(!store.parent().unwrap().exists() && !sandbox.path(".optloop").exists());
    said(&sandbox, &[&START[..], &["--trust"]].concat());
    assert!(store.is_file());
}

#[test]
fn edits_of_a_named_file_need_no_new_consent_until_head_changes() {
    let sandbox = with_baseline(r#"["sh", "evil.sh"]"#);
    let commit = |subject: &str| {
        sandbox.git(&["add", "--all"]);
        sandbox.git(&["commit", "--quiet", "--message", subject]);
    };
    let is_trusted = || {
        let output = sandbox.optloop(&["trust"]);
        String::from_utf8_lossy(&output.stdout).ends_with("all of it is trusted\n")
    };
    commit("a baseline");
    let edit = |text: &str| sandbox.write("evil.sh", text);
    sandbox.succeeds(&["trust", "--yes"]);
    edit("echo 1\n");
    assert!(!is_trusted(), "never the default");
    let file = sandbox.path("evil.sh").display().to_string();
    let shown = sandbox.succeeds(&["trust", "--yes", "--while-editing", &file]);
    assert!(shown.ends_with("trusted until HEAD changes, whatever it contains: evil.sh\n"), "{shown}");
    edit("echo 2\n");
    assert!(is_trusted());
    sandbox.write(
        "kernels/workloads/small.toml",
        &WORKLOAD.replace("dtype =", "baseline = [\"sh\", \"evil.sh\", \"b\"]\ndtype ="),
    );
    assert!(!is_trusted(), "the command is another one");
    sandbox.write(
        "kernels/workloads/small.toml",
        &WORKLOAD.replace("dtype =", "baseline = [\"sh\", \"evil.sh\"]\ndtype ="),
    );
    commit("other contents");
    assert!(!is_trusted());
    insta::assert_snapshot!(sandbox.fails(&["trust", "--while-editing", "/etc/passwd"]), @"2 error: --while-editing /etc/passwd: it is not in the project");
}
