//! The commands of docs/tutorial.md, run as they stand.

use std::path::Path;
use std::process::Command;

use super::numpy;
use crate::common::{Sandbox, VIRTUAL_WINNERS};

/// Returns the shell commands of the page, in order.
fn commands() -> String {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tutorial.md")).unwrap();
    let blocks = page.split("\n```sh\n").skip(1).map(|block| block.split_once("\n```").unwrap().0.to_owned());
    blocks.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_tutorial_leads_to_a_committed_winner() {
    let sandbox = Sandbox::without_repository();
    let program = Path::new(env!("CARGO_BIN_EXE_optloop")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    // The environment of the sandbox, without its project.
    let mut shell = Command::new("bash");
    shell.envs(sandbox.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let shell = shell.args(["-euo", "pipefail", "-c", &commands()]).current_dir(sandbox.path(""));
    for (name, value) in [("NAME", "a test"), ("EMAIL", "test@example.com")] {
        shell.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    let output = shell.env("PATH", path).env("PYTHONPATH", numpy()).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
    let sidecar = sandbox.json(&format!("tutorial/{}/r1024c1024.json", VIRTUAL_WINNERS.replace("small", "transpose")));
    let param = |name: &str| sidecar["variant"]["params"][name].as_i64().unwrap();
    assert!(param("PAD") > 0 || param("TILE") < 32, "the winner has fewer bank conflicts: {sidecar}");
    assert!(said.contains("bank-conflicts"), "the first cause of the kernel as it was: {said}");
}
